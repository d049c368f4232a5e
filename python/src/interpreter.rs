//! How Python's threads take turns at the GIL around short searches.
//!
//! A thread releases the GIL while it searches, and waits for it afterwards. The interpreter wakes
//! the next thread by a system call, which takes as long as half a search. In the most frequent
//! case, several threads only search, and the GIL is free again after a few microseconds. So a
//! thread first spins for up to [`PATIENCE`], until no other thread has just taken the GIL. Which
//! thread has taken it is only a hint, so that no thread waits for it longer than that.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The longest time that a thread spins. Between two searches a thread holds the GIL for 3 to 5
/// microseconds.
const PATIENCE: Duration = Duration::from_micros(10);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When a thread last went on to take the GIL after a search, in nanoseconds since [`START`]; 0
/// after a thread has begun its next search.
static TAKEN_AT: AtomicU64 = AtomicU64::new(0);

/// Does `work`, which is short, without the GIL.
pub(crate) fn detach_briefly<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    TAKEN_AT.store(0, Ordering::Relaxed);
    py.detach(|| {
        let done = work();
        wait();
        done
    })
}

/// Spins until no other thread has just taken the GIL.
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
    // 1 is added because 0 means that no thread has taken the GIL.
    START.elapsed().as_nanos() as u64 + 1
}
