//! Hooks that add the rows that wait before their statement ends, or forget them.

use std::ffi::c_void;

use pgrx::pg_sys;
use pgrx::pg_sys::{SubXactEvent, XactEvent};
use pgrx::prelude::*;

use super::{flush, waiting};
use crate::whole_errors::bare;

static mut PREVIOUS: pg_sys::ExecutorStart_hook_type = None;
static mut PREVIOUS_RUN: pg_sys::ExecutorRun_hook_type = None;

/// Installs the hooks. Called once, before there are threads.
pub(crate) fn register() {
    // SAFETY: a backend has one thread when it loads the library, so no other reads or writes the
    // statics. The callbacks are functions, which stay.
    unsafe {
        PREVIOUS = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(start);
        PREVIOUS_RUN = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(run);
        pg_sys::RegisterXactCallback(Some(end), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(end_within), std::ptr::null_mut());
    }
}

/// Adds the rows that wait. Only its own errors are caught here. Errors of a statement jump over
/// the frames of the hooks, which own nothing (`whole_errors.rs`).
#[pg_guard]
extern "C-unwind" fn add_waiting() {
    flush::flush_all();
}

/// `ExecutorStart_hook`. A nested statement, for example of a trigger or a function, sees the rows
/// that the outer one has inserted so far, and a worker process may read them. So these rows are
/// added.
unsafe extern "C-unwind" fn start(query: *mut pg_sys::QueryDesc, flags: i32) {
    add_waiting();
    // SAFETY: PostgreSQL passes a statement that is to be started; the hook before this one is
    // another extension's.
    unsafe {
        match PREVIOUS {
            Some(previous) => previous(query, flags),
            None => bare::standard_ExecutorStart(query, flags),
        }
    }
}

/// `ExecutorRun_hook`. A cursor that was opened before, as by a function of the statement, may see
/// its rows, too.
unsafe extern "C-unwind" fn run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: pg_sys::uint64,
    #[cfg(feature = "pg17")] once: bool,
) {
    add_waiting();
    // SAFETY: PostgreSQL passes a statement that was started; the hook before this one is another
    // extension's, or of `scan`.
    unsafe {
        #[cfg(feature = "pg18")]
        match PREVIOUS_RUN {
            Some(previous) => previous(query, direction, count),
            None => bare::standard_ExecutorRun(query, direction, count),
        }
        #[cfg(feature = "pg17")]
        match PREVIOUS_RUN {
            Some(previous) => previous(query, direction, count, once),
            None => bare::standard_ExecutorRun(query, direction, count, once),
        }
    }
}

/// A transaction is about to end, or has ended.
#[pg_guard]
unsafe extern "C-unwind" fn end(event: XactEvent::Type, _data: *mut c_void) {
    match event {
        XactEvent::XACT_EVENT_PRE_COMMIT | XactEvent::XACT_EVENT_PRE_PREPARE => flush::flush_all(),
        _ => waiting::forget_all(),
    }
}

/// A subtransaction has begun, is about to end, or has ended.
#[pg_guard]
unsafe extern "C-unwind" fn end_within(
    event: SubXactEvent::Type,
    subtransaction: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _data: *mut c_void,
) {
    if event == SubXactEvent::SUBXACT_EVENT_ABORT_SUB {
        waiting::forget_since(subtransaction);
    }
}
