//! Ctrl-C and requests to terminate: the first asks the work to stop, the second ends the process.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::Error;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on the work is asked before it is killed.
pub(crate) fn listen() -> Result<(), Error> {
    let handler = || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            // Nothing has the name of a finished file until it is one, so this leaves no half file.
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::Failure(format!("cannot listen for Ctrl-C: {error}")))
}

/// Whether to go on.
pub(crate) fn poll() -> ControlFlow<()> {
    if REQUESTED.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
