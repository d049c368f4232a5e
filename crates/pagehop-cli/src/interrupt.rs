//! Ctrl-C and requests to terminate. The first request stops the work in order, the second ends the
//! process.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::Error;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Starts to listen for Ctrl-C and for requests to terminate.
pub(crate) fn listen() -> Result<(), Error> {
    let handler = || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            // Files get their final names only when they are complete, so no incomplete file has
            // such a name.
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::Failure(format!("cannot listen for Ctrl-C: {error}")))
}

/// Whether the work should go on: `Break` after a request.
pub(crate) fn poll() -> ControlFlow<()> {
    if REQUESTED.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
