//! How Python's threads take turns at the interpreter around short searches.
//!
//! A thread that searches gives the interpreter away, and waits for it when it is done. The
//! interpreter wakes the next thread by a system call, which takes as long as half a search. In the
//! most frequent case, several threads with nothing but searches, the interpreter is free again
//! after a few microseconds. So a thread waits awake for so long, in a place of its own, before it
//! asks for the interpreter. The place is a hint: a thread never waits for it for long.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long a thread waits awake. Between two searches a thread needs 3 to 5 microseconds of the
/// interpreter.
const PATIENCE: Duration = Duration::from_micros(10);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When a thread took the interpreter after a search, in nanoseconds from the start on; 0 after it
/// has begun the next.
static TAKEN_AT: AtomicU64 = AtomicU64::new(0);

/// Does `work`, which is short, without the interpreter.
pub(crate) fn detach_briefly<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    TAKEN_AT.store(0, Ordering::Relaxed);
    py.detach(|| {
        let done = work();
        wait();
        done
    })
}

/// Waits until no other thread has just taken the interpreter.
fn wait() {
    let began = nanoseconds();
    let patience = PATIENCE.as_nanos() as u64;
    let mut now = began;
    while now - began < patience {
        let taken = TAKEN_AT.load(Ordering::Relaxed);
        let is_free = taken == 0 || now.saturating_sub(taken) > patience;
        if is_free && TAKEN_AT.compare_exchange(taken, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
        std::hint::spin_loop();
        now = nanoseconds();
    }
}

fn nanoseconds() -> u64 {
    // One more, so that no time is 0.
    START.elapsed().as_nanos() as u64 + 1
}
