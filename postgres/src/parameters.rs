//! Storage parameters of an index: the recall of its searches if the session sets none.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;

/// Only a session can set a recall of 1, because it requires a plan without the index.
const RECALL_MAX: f64 = 0.9999;

/// The number of the kind of parameters, which PostgreSQL assigns when the library is loaded.
static KIND: AtomicU32 = AtomicU32::new(0);

/// The parameters as PostgreSQL keeps them with an open index. The first four bytes are their
/// length.
#[repr(C)]
struct Parameters {
    length: i32,
    /// The recall; 0 if it is not set.
    recall: f64,
}

/// Defines the parameters. Called once.
pub(crate) fn register() {
    // SAFETY: the strings are static. The lock lets searches go on while a parameter is changed.
    unsafe {
        let kind = pg_sys::add_reloption_kind();
        KIND.store(kind, Ordering::Relaxed);
        pg_sys::add_real_reloption(
            kind,
            c"recall".as_ptr(),
            c"Share of the true nearest rows that a scan should find, where pagehop.recall is not set.".as_ptr(),
            0.0,
            0.0,
            RECALL_MAX,
            pg_sys::ShareUpdateExclusiveLock as i32,
        );
    }
}

/// The recall that was set for an index, if any.
///
/// # Safety
///
/// `index` is open, and of this access method.
pub(crate) unsafe fn recall(index: pg_sys::Relation) -> Option<f32> {
    // SAFETY: the caller says that the index is open. `amoptions` made the options that it keeps.
    let recall = unsafe { (*index).rd_options.cast::<Parameters>().as_ref()?.recall };
    (recall > 0.0).then_some(recall as f32)
}

/// `amoptions`. Degree and effort of a build follow from the dimension, so there are no other
/// parameters. Other parameters are refused, not ignored: users often try those of pgvector first.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amoptions(given: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    if validate && !given.is_null() {
        // SAFETY: PostgreSQL passes a `text[]` of `name=value`.
        unsafe { refuse_unknown(given) };
    }
    let mut recall = pg_sys::relopt_parse_elt::default();
    recall.optname = c"recall".as_ptr();
    recall.opttype = pg_sys::relopt_type::RELOPT_TYPE_REAL;
    recall.offset = std::mem::offset_of!(Parameters, recall) as i32;
    // SAFETY: the element says where the parameter is in the struct, which has the size that is
    // given and begins with its length.
    unsafe {
        let kind = KIND.load(Ordering::Relaxed);
        pg_sys::build_reloptions(given, validate, kind, size_of::<Parameters>(), &raw const recall, 1).cast()
    }
}

/// Refuses a parameter that is not `recall`, with a hint that PostgreSQL would not give.
///
/// # Safety
///
/// `given` is a `text[]` of `name=value`.
unsafe fn refuse_unknown(given: pg_sys::Datum) {
    // SAFETY: the caller says what it is; PostgreSQL makes a list of `DefElem` of it.
    let names: Vec<&CStr> = unsafe {
        let options = pg_sys::untransformRelOptions(given);
        let count = if options.is_null() { 0 } else { (*options).length };
        let element = |at: i32| (*(*options).elements.add(at as usize)).ptr_value.cast::<pg_sys::DefElem>();
        (0..count).map(|at| CStr::from_ptr((*element(at)).defname)).collect()
    };
    if let Some(name) = names.into_iter().find(|name| *name != c"recall") {
        errors::report(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("unrecognized parameter \"{}\"", name.to_string_lossy()),
            Some("The only storage parameter is recall: what a build needs follows from the data.".into()),
        );
    }
}
