//! Signals and progress callbacks during work that runs without the GIL.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pagehop_engine::Progress;
use pyo3::prelude::*;

/// Time between two checks of signals, and between two calls of the user's callback within a phase.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Calls the user's progress callback and checks for Ctrl-C.
pub(crate) struct Watch {
    callback: Option<Py<PyAny>>,
    phase: &'static str,
    looked: Instant,
    raised: Option<PyErr>,
}

impl Watch {
    /// Calls `callback`, if there is one, with the phase, the number of steps done and the number
    /// of all steps. If it returns a false value other than `None`, the work ends.
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, phase: "", looked: Instant::now(), raised: None }
    }

    /// The exception that ended the work.
    pub(crate) fn take_raised(&mut self) -> Option<PyErr> {
        self.raised.take()
    }

    /// Whether the work should go on: `Break` after Ctrl-C, or if the callback raises an exception
    /// or returns a false value.
    pub(crate) fn look(&mut self, progress: Progress) -> ControlFlow<()> {
        // Without a callback, the GIL is taken only to check signals.
        let milestone =
            self.callback.is_some() && (progress.phase != self.phase || progress.done == progress.total);
        if !milestone && self.looked.elapsed() < LOOK_EVERY {
            return ControlFlow::Continue(());
        }
        self.phase = progress.phase;
        let answer = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else {
                return Ok(true);
            };
            let answer = callback.bind(py).call1((progress.phase, progress.done, progress.total))?;
            Ok(answer.is_none() || answer.is_truthy()?)
        });
        self.looked = Instant::now();
        match answer {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
