//! The kind of an index: the metric of its operator class and the type of its vectors. Support
//! function 1 of the class returns both in one number.

use pagehop_engine::Metric;
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::columns::ValueType;
use crate::errors;
use crate::sql_function::sql_function;

/// Number of the support function.
pub(crate) const KIND_PROC: u16 = 1;
/// Number of the only operator of a class of vectors.
pub(crate) const ORDER_STRATEGY: u16 = 1;
/// Numbers of the operators of a class of filter columns, from `<` over `=` to `>`, as those of a
/// B-tree. Types without an order have `=` alone.
pub(crate) const STRATEGY_LESS: u16 = 1;
pub(crate) const STRATEGY_EQUAL: u16 = 3;
pub(crate) const STRATEGY_GREATER: u16 = 5;
/// Numbers of the operators of a class of arrays: `&&` and `@>`.
pub(crate) const STRATEGY_OVERLAPS: u16 = 6;
pub(crate) const STRATEGY_CONTAINS: u16 = 7;

/// How pgvector stores a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// `vector`: 32-bit floats.
    F32,
    /// `halfvec`: 16-bit floats.
    F16,
}

/// The metric and the type of vectors of an operator class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) metric: Metric,
    pub(crate) element: Element,
}

const fn code(metric: Metric, element: Element) -> usize {
    metric as usize + 16 * element as usize
}

sql_function!(pagehop_vector_l2, pg_finfo_pagehop_vector_l2, |_| code(Metric::L2, Element::F32).into());
sql_function!(pagehop_vector_ip, pg_finfo_pagehop_vector_ip, |_| code(Metric::InnerProduct, Element::F32).into());
sql_function!(pagehop_vector_cosine, pg_finfo_pagehop_vector_cosine, |_| code(Metric::Cosine, Element::F32).into());
sql_function!(pagehop_halfvec_l2, pg_finfo_pagehop_halfvec_l2, |_| code(Metric::L2, Element::F16).into());
sql_function!(pagehop_halfvec_ip, pg_finfo_pagehop_halfvec_ip, |_| code(Metric::InnerProduct, Element::F16).into());
sql_function!(pagehop_halfvec_cosine, pg_finfo_pagehop_halfvec_cosine, |_| code(Metric::Cosine, Element::F16)
    .into());

impl Kind {
    /// The kind of an index.
    ///
    /// # Safety
    ///
    /// `index` is open and of this access method.
    pub(crate) unsafe fn of(index: pg_sys::Relation) -> Self {
        // SAFETY: `amvalidate` refuses an operator class without the function, and the relation
        // cache keeps its `FmgrInfo` while the index is open, as the caller says it is.
        let number = unsafe {
            if ValueType::of(*(*index).rd_opcintype).is_some() {
                refuse_first();
            }
            let function = pg_sys::index_getprocinfo(index, 1, KIND_PROC);
            pg_sys::FunctionCall0Coll(function, pg_sys::InvalidOid).value()
        };
        let metrics = [Metric::L2, Metric::InnerProduct, Metric::Cosine];
        let kinds = [Element::F32, Element::F16]
            .into_iter()
            .flat_map(|element| metrics.map(|metric| Self { metric, element }));
        let found = kinds.into_iter().find(|kind| code(kind.metric, kind.element) == number & 0xFFFF_FFFF);
        found.unwrap_or_else(|| {
            let what = "support function 1 of the operator class is not one of this extension's";
            errors::report(PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION, what.into(), None)
        })
    }

    /// Whether the index can hold a vector. Under cosine it cannot hold the zero vector, as in
    /// pgvector, and no vector that is so short that pgvector's own operator finds no direction in
    /// it.
    pub(crate) fn has_place(self, vector: &[f32]) -> bool {
        self.metric != Metric::Cosine || pagehop_kernels::dot_f32(vector, vector) >= f32::MIN_POSITIVE
    }
}

fn refuse_first() -> ! {
    let what = "the first column of a pagehop index must be a vector".to_string();
    let hint = "Name the vector and its operator class first, as in (embedding vector_l2_ops, price).".to_string();
    errors::report(PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION, what, Some(hint));
}

/// Refuses a column whose dimensions are not known: its type does not declare them, and the table
/// has no row.
pub(crate) fn refuse_dimensions() -> ! {
    errors::report(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "column does not have dimensions".into(),
        Some("Declare it as vector(n), or index an expression such as (embedding::vector(n)).".into()),
    )
}

/// Dimensions of the indexed column or expression, if its type declares them. After `ALTER COLUMN
/// ... TYPE vector` it does not, and the index stays as it is.
///
/// # Safety
///
/// `index` is open and of this access method.
pub(crate) unsafe fn declared_dimensions(index: pg_sys::Relation) -> Option<usize> {
    let (mut kind, mut typmod, mut collation) = (pg_sys::InvalidOid, -1, pg_sys::InvalidOid);
    // SAFETY: the caller keeps the index open, which has a column; the rest is written to.
    unsafe { pg_sys::get_atttypetypmodcoll((*index).rd_id, 1, &mut kind, &mut typmod, &mut collation) };
    usize::try_from(typmod).ok()
}
