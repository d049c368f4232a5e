//! The lock of threads that change an index. One thread holds it, and the others wait without the
//! GIL.
//!
//! The store has a lock of its own. But a wait for that lock cannot be interrupted, and a progress
//! callback that changes its own index would wait for itself forever.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use pagehop_engine::Error;
use pyo3::prelude::*;

use crate::errors;
use crate::watch::LOOK_EVERY;

/// The lock; one thread holds it at a time.
#[derive(Default)]
pub(crate) struct Turn {
    holder: Mutex<Option<ThreadId>>,
    ended: Condvar,
}

/// The lock, which the thread holds until this is dropped.
pub(crate) struct Held<'a>(&'a Turn);

enum Attempt {
    Taken,
    TimedOut,
    /// This thread holds it already.
    Nested,
}

impl Turn {
    /// Waits until this thread holds the lock; Ctrl-C ends the wait.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Held<'_>> {
        loop {
            match py.detach(|| self.attempt()) {
                Attempt::Taken => return Ok(Held(self)),
                Attempt::TimedOut => py.check_signals()?,
                Attempt::Nested => {
                    let what = "this thread is changing the index already: a progress callback may search it, \
                                but not change, check or close it";
                    return Err(errors::to_python(py, &Error::busy(what)));
                }
            }
        }
    }

    fn attempt(&self) -> Attempt {
        let me = std::thread::current().id();
        let mut holder = self.holder();
        if *holder == Some(me) {
            return Attempt::Nested;
        }
        if holder.is_some() {
            let waited = self.ended.wait_timeout(holder, LOOK_EVERY);
            holder = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if holder.is_some() {
            return Attempt::TimedOut;
        }
        *holder = Some(me);
        Attempt::Taken
    }

    fn holder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.0.holder() = None;
        self.0.ended.notify_one();
    }
}
