//! Ctrl-C and requests to terminate. The first one ends the measurement, the second ends the
//! process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::Error;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. From then on, the first request only sets a flag.
pub(crate) fn listen() -> Result<(), Error> {
    let handler = || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::Failure(format!("cannot listen for Ctrl-C: {error}")))
}

/// Whether a request to end was received.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
