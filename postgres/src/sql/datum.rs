//! Values and rows as SQL functions return them.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;

/// An `int8`.
pub(super) fn bigint(value: u64) -> pg_sys::Datum {
    pg_sys::Datum::from(value as i64)
}

/// An `int4`.
pub(super) fn integer(value: usize) -> pg_sys::Datum {
    pg_sys::Datum::from(value as i32)
}

/// A `float4`.
pub(super) fn real(value: f32) -> pg_sys::Datum {
    pg_sys::Datum::from(value.to_bits())
}

/// A `text`, in the current memory context.
pub(super) fn text(value: &str) -> pg_sys::Datum {
    value.into_datum().expect("a text is not NULL")
}

/// A row of the result type that `call` expects.
///
/// # Safety
///
/// `call` is a call of a function that returns a row, and `values` are of the types of its columns.
pub(super) unsafe fn row<const N: usize>(
    call: pg_sys::FunctionCallInfo,
    values: [impl Into<Option<pg_sys::Datum>>; N],
) -> pg_sys::Datum {
    let mut columns = std::ptr::null_mut();
    // SAFETY: the caller passes a call in progress; `columns` is written to.
    let class = unsafe { pg_sys::get_call_result_type(call, std::ptr::null_mut(), &raw mut columns) };
    // SAFETY: the result is a row, so the call above has set `columns`.
    let agrees = class == pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE && unsafe { (*columns).natts } as usize == N;
    if !agrees {
        let what = format!("the function should have {N} columns of output");
        let hint = "ALTER EXTENSION pagehop UPDATE; installs the functions of the loaded library.".to_string();
        errors::report(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, what, Some(hint));
    }
    let values = values.map(Into::into);
    let mut nulls = values.map(|value| value.is_none());
    let mut values = values.map(|value| value.unwrap_or(pg_sys::Datum::from(0)));
    // SAFETY: there are as many values as columns, and the caller says that their types agree.
    // PostgreSQL copies them.
    unsafe {
        let columns = pg_sys::BlessTupleDesc(columns);
        let tuple = pg_sys::heap_form_tuple(columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
    }
}
