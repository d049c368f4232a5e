//! Work spread over a fixed number of threads, with results that do not depend on how many.

use std::sync::atomic::{AtomicUsize, Ordering};

/// `f(0), f(1), ... f(count - 1)` in order, computed by up to `threads` threads.
pub(crate) fn map<R: Send>(threads: usize, count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if threads <= 1 || count <= 1 {
        return (0..count).map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count))
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= count {
                            return mine;
                        }
                        mine.push((i, f(i)));
                    }
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(mine) => mine.into_iter().for_each(|(i, r)| results[i] = Some(r)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    results.into_iter().map(|r| r.expect("every index was taken by one worker")).collect()
}

/// Cores the process may use, for a thread count of 0.
pub(crate) fn available(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    }
}
