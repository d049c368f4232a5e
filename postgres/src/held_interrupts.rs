//! Interrupts that are held back while the engine trains. A cancel first ends the training, so that
//! insertions no longer write into the new graph, and then the statement.
//!
//! Interrupts are served between two parts of the work ([`HeldInterrupts::look`]), and while the
//! training waits for a lock of the index ([`HeldInterrupts::serve`]), which another session may
//! hold for long. The error of a cancel is kept until the engine has ended the training. No other
//! error can come from an interrupt there, and all other errors are raised at once.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

/// While this value lives, a cancel does not end the statement at once.
pub(crate) struct HeldInterrupts {
    /// The error that ends the statement.
    cause: RefCell<Option<CaughtError>>,
}

impl HeldInterrupts {
    pub(crate) fn hold() -> Self {
        // SAFETY: a number of this backend; an error sets it to 0.
        unsafe { pg_sys::InterruptHoldoffCount += 1 };
        Self { cause: RefCell::new(None) }
    }

    /// Whether the work may continue. Serves interrupts that do not end the session.
    pub(crate) fn look(&self) -> ControlFlow<()> {
        // SAFETY: a flag of this backend, read by value.
        if !self.is_ended() && unsafe { pg_sys::InterruptPending } != 0 {
            self.serve(|| {
                // SAFETY: `hold` has added to the number. No lock is held between two parts.
                unsafe { pg_sys::InterruptHoldoffCount -= 1 };
                pgrx::check_for_interrupts!();
                // SAFETY: a number of this backend. There was no error, which would have set it
                // to 0.
                unsafe { pg_sys::InterruptHoldoffCount += 1 };
            });
        }
        if self.is_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether the statement, or the session, is to end.
    pub(crate) fn is_ended(&self) -> bool {
        // SAFETY: a flag of this backend, read by value.
        self.cause.borrow().is_some() || unsafe { pg_sys::ProcDiePending } != 0
    }

    /// Runs `work`, which may serve interrupts; `None` if one of them is to end the statement.
    pub(crate) fn serve<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        // SAFETY: a number of this backend.
        let held = unsafe { pg_sys::InterruptHoldoffCount };
        let payload = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => return Some(done),
            Err(payload) => payload,
        };
        let cause = payload.downcast::<CaughtError>().unwrap_or_else(|other| resume_unwind(other));
        if !ends_statement(&cause) {
            cause.rethrow();
        }
        // SAFETY: the error has set it to 0.
        unsafe { pg_sys::InterruptHoldoffCount = held };
        self.cause.borrow_mut().get_or_insert(*cause);
        None
    }

    /// As [`HeldInterrupts::serve`]; a wait for a lock ends after `milliseconds`, or at once if the
    /// session is to end.
    pub(crate) fn serve_within<T>(&self, milliseconds: i32, work: impl FnOnce() -> T) -> Option<T> {
        // SAFETY: a flag of this backend, read by value.
        if unsafe { pg_sys::ProcDiePending } != 0 {
            return None;
        }
        let _limit = LockTimeout::set(milliseconds);
        self.serve(work)
    }

    /// Raises the kept error, which ends the statement, or ends the session if an interrupt asks
    /// for that.
    pub(crate) fn end_statement(&self) {
        // SAFETY: `hold` has added to the number, and the error that follows sets it to 0.
        unsafe { pg_sys::InterruptHoldoffCount -= 1 };
        if let Some(cause) = self.cause.take() {
            cause.rethrow();
        }
        pgrx::check_for_interrupts!();
        // SAFETY: a number of this backend. There was no error, which would have set it to 0.
        unsafe { pg_sys::InterruptHoldoffCount += 1 };
    }
}

impl Drop for HeldInterrupts {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: `hold` added it, and no error has set it to 0.
            unsafe { pg_sys::InterruptHoldoffCount -= 1 };
        }
    }
}

/// Sets another `lock_timeout` while it lives. Waits that begin in this time use it.
struct LockTimeout {
    before: i32,
}

impl LockTimeout {
    fn set(milliseconds: i32) -> Self {
        // SAFETY: a setting of this backend.
        unsafe {
            let before = pg_sys::LockTimeout;
            pg_sys::LockTimeout = milliseconds;
            Self { before }
        }
    }
}

impl Drop for LockTimeout {
    fn drop(&mut self) {
        // SAFETY: a setting of this backend.
        unsafe { pg_sys::LockTimeout = self.before };
    }
}

/// Whether an error comes from an interrupt: a cancel or a timeout.
fn ends_statement(error: &CaughtError) -> bool {
    let CaughtError::PostgresError(report) = error else { return false };
    let code = report.sql_error_code();
    code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED || code == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
}
