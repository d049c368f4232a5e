//! Filter columns: the columns of an index behind its vector.
//!
//! The engine gets an integer for each value. Values of ordered types have the order of their
//! integers: NaN is above infinity, as PostgreSQL sorts it. Values of other types are hashed, by
//! PostgreSQL's own hash, which agrees with `=` under the collation of the column. A row that is
//! found by a hash is rechecked by the executor.
//!
//! An array is a set of tags: its elements, of all dimensions, each once and without NULL, as `&&`
//! and `@>` compare it. A tag is the text of the element's integer, so elements of text may have
//! any length. A row that is found by its tags is rechecked, too.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::mem::size_of;

use pagehop_engine::{COLUMNS_MAX, Column, ColumnKind, TAGS_MAX, Value};
use pgrx::prelude::*;
use pgrx::{PgRelation, pg_sys};

use crate::errors;

/// Elements of an array between two checks for interrupts.
const ELEMENTS_PER_LOOK: usize = 4096;

/// A type of filter columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Bool,
    Date,
    Timestamp,
    Text,
    Uuid,
    Int4Array,
    Int8Array,
    TextArray,
}

impl ValueType {
    /// The type with this number; `None` if it is not a type of filter columns.
    pub(crate) fn of(oid: pg_sys::Oid) -> Option<Self> {
        Some(match oid {
            pg_sys::INT2OID => Self::Int2,
            pg_sys::INT4OID => Self::Int4,
            pg_sys::INT8OID => Self::Int8,
            pg_sys::FLOAT4OID => Self::Float4,
            pg_sys::FLOAT8OID => Self::Float8,
            pg_sys::BOOLOID => Self::Bool,
            pg_sys::DATEOID => Self::Date,
            pg_sys::TIMESTAMPOID | pg_sys::TIMESTAMPTZOID => Self::Timestamp,
            pg_sys::TEXTOID | pg_sys::VARCHAROID => Self::Text,
            pg_sys::UUIDOID => Self::Uuid,
            pg_sys::INT4ARRAYOID => Self::Int4Array,
            pg_sys::INT8ARRAYOID => Self::Int8Array,
            pg_sys::TEXTARRAYOID => Self::TextArray,
            _ => return None,
        })
    }

    /// Whether the index may confuse two different values.
    pub(crate) fn is_hashed(self) -> bool {
        matches!(self, Self::Text | Self::Uuid) || self.element().is_some()
    }

    /// The type of the elements of an array; `None` if values are not arrays.
    pub(crate) fn element(self) -> Option<Self> {
        match self {
            Self::Int4Array => Some(Self::Int4),
            Self::Int8Array => Some(Self::Int8),
            Self::TextArray => Some(Self::Text),
            _ => None,
        }
    }

    /// The engine's kind for this type.
    fn kind(self) -> ColumnKind {
        if self.element().is_some() { ColumnKind::Tags } else { ColumnKind::Int }
    }

    /// The integer of a value, which is not an array.
    ///
    /// # Safety
    ///
    /// `value` is a Datum of the type, and not null.
    pub(crate) unsafe fn key(self, value: pg_sys::Datum, collation: pg_sys::Oid) -> i64 {
        let bits = value.value() as u64;
        match self {
            Self::Int2 => i64::from(bits as i16),
            Self::Int4 | Self::Date => i64::from(bits as i32),
            Self::Int8 | Self::Timestamp => bits as i64,
            Self::Float4 => float_key(f32::from_bits(bits as u32).into()),
            Self::Float8 => float_key(f64::from_bits(bits)),
            Self::Bool => (bits & 1) as i64,
            // SAFETY: the value is a text that is not null, and the function takes a text and a
            // seed.
            Self::Text => unsafe { hash(pg_sys::F_HASHTEXTEXTENDED, collation, value) },
            // SAFETY: the value is a uuid that is not null, and the function takes a uuid and a
            // seed.
            Self::Uuid => unsafe { hash(pg_sys::F_UUID_HASH_EXTENDED, collation, value) },
            Self::Int4Array | Self::Int8Array | Self::TextArray => unreachable!("an array has tags"),
        }
    }
}

/// # Safety
///
/// `function` takes `value` and a seed, and returns an `int8`.
unsafe fn hash(function: u32, collation: pg_sys::Oid, value: pg_sys::Datum) -> i64 {
    // SAFETY: the caller says what the function takes.
    unsafe { pg_sys::OidFunctionCall2Coll(function.into(), collation, value, pg_sys::Datum::from(0)) }.value()
        as i64
}

/// An integer with the order of PostgreSQL's floats: -0.0 equals 0.0, and NaN equals NaN and is the
/// largest.
fn float_key(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = (value + 0.0).to_bits() as i64;
    // Negative floats are ordered the other way round by their bits.
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// A filter column of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterColumn {
    pub(crate) value_type: ValueType,
    pub(crate) collation: pg_sys::Oid,
}

impl FilterColumn {
    /// The filter columns of an index, in order.
    ///
    /// # Safety
    ///
    /// `index` is open and of this access method.
    pub(crate) unsafe fn of(index: pg_sys::Relation) -> Vec<Self> {
        // SAFETY: the caller keeps the index open: an open index has its row of pg_index, and a
        // type and a collation for each of its key columns.
        unsafe {
            let columns = usize::try_from((*(*index).rd_index).indnkeyatts).unwrap_or(0);
            if columns > 1 + COLUMNS_MAX {
                let what = format!("index has {} columns for filters", columns - 1);
                let hint = format!("An index takes up to {COLUMNS_MAX}, and the vector before them.");
                errors::report(PgSqlErrorCode::ERRCODE_TOO_MANY_COLUMNS, what, Some(hint));
            }
            let column = |at: usize| {
                let (oid, collation) = (*(*index).rd_opcintype.add(at), *(*index).rd_indcollation.add(at));
                let value_type = ValueType::of(oid).unwrap_or_else(|| refuse_type(at));
                Self { value_type, collation }
            };
            (1..columns).map(column).collect()
        }
    }

    /// The value of a Datum, as the engine keeps it.
    ///
    /// `None` for an array of more than [`TAGS_MAX`] different elements.
    ///
    /// # Safety
    ///
    /// `value` is of the column's type, unless it `is_null`.
    unsafe fn value(&self, value: pg_sys::Datum, is_null: bool) -> Option<Value> {
        // SAFETY: the caller says that the value is of the type.
        unsafe {
            match self.value_type.element() {
                _ if is_null => Some(Value::Null),
                Some(_) => Keys::of(value, self, TAGS_MAX).map(|keys| Value::Tags(keys.tags())),
                None => Some(Value::Int(self.value_type.key(value, self.collation))),
            }
        }
    }
}

/// The different elements of an array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// Their integers.
    pub(crate) keys: BTreeSet<i64>,
    pub(crate) has_null: bool,
}

impl Keys {
    /// The elements, of all dimensions, of an array of values or of arrays of `column`. `None` if
    /// there are more than `most` different ones.
    ///
    /// # Safety
    ///
    /// `value` is an array of elements that can be compared with the column's, or with those of its
    /// arrays.
    pub(crate) unsafe fn of(value: pg_sys::Datum, column: &FilterColumn, most: usize) -> Option<Self> {
        let mut found = Self::default();
        // SAFETY: the caller says what the value is. The elements lie in the array, which is freed
        // last if it is a copy.
        unsafe {
            let array = pg_sys::pg_detoast_datum(value.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let own = column.value_type.element().unwrap_or(column.value_type);
            let element = ValueType::of((*array).elemtype).unwrap_or(own);
            let iterator = pg_sys::array_create_iterator(array, 0, std::ptr::null_mut());
            let (mut one, mut is_null) = (pg_sys::Datum::from(0), false);
            for at in 0_usize.. {
                if !pg_sys::array_iterate(iterator, &raw mut one, &raw mut is_null) {
                    break;
                }
                if at % ELEMENTS_PER_LOOK == 0 {
                    pgrx::check_for_interrupts!();
                }
                if is_null {
                    found.has_null = true;
                } else {
                    found.keys.insert(element.key(one, column.collation));
                }
                if found.keys.len() > most {
                    break;
                }
            }
            pg_sys::array_free_iterator(iterator);
            if array.cast() != value.cast_mut_ptr::<pg_sys::varlena>() {
                pg_sys::pfree(array.cast());
            }
        }
        (found.keys.len() <= most).then_some(found)
    }

    /// The elements as tags.
    pub(crate) fn tags(&self) -> Vec<String> {
        self.keys.iter().map(i64::to_string).collect()
    }
}

fn refuse_type(at: usize) -> ! {
    let what = format!("column {} of the index cannot be a filter column", at + 1);
    let hint = "The vector is the first column. Those behind it have one of the types int2, int4, int8, float4, float8, \
                bool, date, timestamp, timestamptz, text, varchar, uuid, int4[], int8[] and text[].";
    errors::report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, what, Some(hint.into()))
}

/// The values of the filter columns of a row, from all values of the index's columns.
///
/// # Safety
///
/// `index` is open. `values` and `is_null` have as many entries as there are filter columns, and
/// one before them; values are of the types of `columns`.
pub(crate) unsafe fn values(
    index: pg_sys::Relation,
    columns: &[FilterColumn],
    values: *const pg_sys::Datum,
    is_null: *const bool,
) -> Vec<Value> {
    let value = |(at, column): (usize, &FilterColumn)| {
        // SAFETY: the caller says how many there are, and of which types.
        unsafe { column.value(*values.add(1 + at), *is_null.add(1 + at)) }
    };
    let values: Option<Vec<Value>> = columns.iter().enumerate().map(value).collect();
    let tags = |value: &Value| if let Value::Tags(tags) = value { tags.len() } else { 0 };
    values.filter(|values| values.iter().map(tags).sum::<usize>() <= TAGS_MAX).unwrap_or_else(|| {
        // SAFETY: the caller keeps the index open.
        let name = unsafe { errors::name(index) };
        let what = format!("index \"{name}\": a row has more than {TAGS_MAX} different elements in its arrays");
        let hint = format!("An index takes up to {TAGS_MAX} in a row, in all its columns of arrays together.");
        errors::report(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, what, Some(hint))
    })
}

/// The filter columns as the engine keeps them, with their current names.
///
/// # Safety
///
/// `index` is open and of this access method.
pub(crate) unsafe fn for_engine(index: pg_sys::Relation) -> Vec<Column> {
    // SAFETY: the caller keeps the index open; the wrapper closes nothing.
    let (columns, relation) = unsafe { (FilterColumn::of(index), PgRelation::from_pg(index)) };
    let names = relation.tuple_desc().iter().map(|attribute| name(&attribute.attname)).collect::<Vec<_>>();
    let column = |(name, column): (String, FilterColumn)| Column { name, kind: column.value_type.kind() };
    names.into_iter().skip(1).zip(columns).map(column).collect()
}

/// The name of a column for the engine. Different names must stay different; the name need not be
/// readable. In a database of another encoding than UTF-8, a byte becomes one character.
fn name(name: &pg_sys::NameData) -> String {
    // SAFETY: a name ends in a zero byte.
    let bytes = unsafe { CStr::from_ptr(name.data.as_ptr()) };
    bytes.to_str().map_or_else(|_| bytes.to_bytes().iter().copied().map(char::from).collect(), str::to_string)
}

/// Bytes of a row's filter columns in a build.
pub(crate) fn build_bytes(columns: usize) -> u64 {
    (columns * (size_of::<Value>() + 8) + if columns > 0 { 8 } else { 0 }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_order_of_their_integers() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e300, f64::INFINITY, f64::NAN];
        assert!(floats.map(float_key).is_sorted_by(|a, b| a < b));
        assert_eq!(float_key(-0.0), float_key(0.0));
        assert_eq!(float_key(-f64::NAN), float_key(f64::NAN));
        assert_eq!(float_key(0.1f32.into()), float_key(f64::from(0.1f32)));
    }
}
