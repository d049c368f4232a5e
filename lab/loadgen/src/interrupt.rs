//! Ctrl-C and requests to terminate: the first ends the measurement, the second the process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::Error;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on the first request is only noted.
pub(crate) fn listen() -> Result<(), Error> {
    let handler = || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::Failure(format!("cannot listen for Ctrl-C: {error}")))
}

/// Whether there was a request.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
