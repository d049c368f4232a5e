//! Memory that is asked for before it is needed.
//!
//! Where PostgreSQL has no memory the statement fails. Where Rust has none the process ends, and with it every session of the
//! server. So a large need is announced first: what the system refuses then is an error as any other.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;

/// `maintenance_work_mem` in bytes.
pub(crate) fn limit_bytes() -> u64 {
    // SAFETY: a setting of this backend, read by value.
    unsafe { pg_sys::maintenance_work_mem as u64 * 1024 }
}

/// Raises an error if the system would not give `bytes` now.
pub(crate) fn reserve(bytes: usize) {
    let mut probe = Vec::<u8>::new();
    let given = probe.try_reserve_exact(bytes);
    // What is not used might not be asked for at all.
    std::hint::black_box(&mut probe);
    if given.is_err() {
        refuse(bytes);
    }
}

/// Raises the error that `bytes` could not be had.
pub(crate) fn refuse(bytes: usize) -> ! {
    let what = format!("out of memory: the system does not give {} MB", bytes.div_ceil(1 << 20));
    let hint = "Lower maintenance_work_mem for builds of indexes, or look at the limits on the server's memory.";
    errors::report(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, what, Some(hint.into()))
}
