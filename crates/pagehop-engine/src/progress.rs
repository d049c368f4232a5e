//! Progress of long operations, and how to stop them.

use std::ops::ControlFlow;

use crate::Error;

/// The progress of a long operation.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The current phase: `records`, `read`, `train`, `encode`, `spread`, `resume`, `partition`,
    /// `connect`, `prune`, `refine`, `merge`, `reach`, `anchor`, `write`, `vectors`, `columns`,
    /// `check`, `add`, `vacuum`, `scan`, `search`, `copy`, `log`, `list rows`, `catch up`.
    pub phase: &'static str,
    /// Steps of the phase that are done.
    pub done: u64,
    /// Steps of the phase; 0 while unknown.
    pub total: u64,
}

/// Called regularly by long operations. `Break` stops them with
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Reports progress, and turns a `Break` into an error.
///
/// # Errors
///
/// [`Error::Interrupted`].
pub(crate) fn report(progress: OnProgress<'_>, phase: &'static str, done: u64, total: u64) -> Result<(), Error> {
    match progress(Progress { phase, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Interrupted),
    }
}
