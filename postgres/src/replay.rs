//! Replay on a standby, which changes pages while they are read: apparent damage may then be a page
//! of a later state than the others.

use pagehop_engine::Error;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;

/// How far a standby has replayed the log; `None` on a primary.
pub(crate) fn position() -> Option<pg_sys::XLogRecPtr> {
    // SAFETY: reads of shared memory; null means that the timeline is not wanted.
    unsafe { pg_sys::RecoveryInProgress().then(|| pg_sys::GetXLogReplayRecPtr(std::ptr::null_mut())) }
}

/// Raises an error of `index`. If replay has moved since the reads began, at `before`, pages that
/// contradict each other are not reported as damage: the next statement would find real damage
/// again.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn raise(index: pg_sys::Relation, error: Error, before: Option<pg_sys::XLogRecPtr>) -> ! {
    // SAFETY: the caller keeps the index open.
    unsafe {
        if matches!(error, Error::Corrupt { .. }) && before != position() {
            let what = format!("recovery changed index \"{}\" during the scan", errors::name(index));
            let hint = "Run the statement again.".to_string();
            errors::report(PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, what, Some(hint));
        }
        errors::raise(index, error)
    }
}
