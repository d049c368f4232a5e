//! Work on several threads. Results do not depend on the number of threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, ScopedJoinHandle};

use crate::Error;

/// Returns `f(0), f(1), ... f(count - 1)` in this order, computed by up to `threads` threads, or by
/// as many as the system gives.
pub(crate) fn map<R: Send>(threads: usize, count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if threads <= 1 || count <= 1 {
        return (0..count).map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    let work = || {
        let mut mine = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return mine;
            }
            mine.push((i, f(i)));
        }
    };
    std::thread::scope(|scope| {
        let spawn = |_| Builder::new().spawn_scoped(scope, work).ok();
        // This thread only waits: with its results between their large blocks of memory, a build of
        // 1,536 dimensions took a quarter more.
        let workers: Vec<_> = (0..threads.min(count)).map_while(spawn).collect();
        let mut keep = |mine: Vec<(usize, R)>| mine.into_iter().for_each(|(i, r)| results[i] = Some(r));
        if workers.is_empty() {
            keep(work());
        }
        for worker in workers {
            keep(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    results.into_iter().map(|r| r.expect("every index was taken by one worker")).collect()
}

/// Progress callback of one part of the work: each part calls it regularly with the amount of work
/// done. If it returns an error, the part must end.
pub(crate) type Look<'a> = &'a mut dyn FnMut(u64) -> Result<(), Error>;

/// Returns `f` of each of `parts`, in order. The first part runs on the calling thread and is the
/// only one that calls `go_on`; every other part has a thread of its own. If `go_on` breaks, a part
/// fails or the system gives no thread, all parts end.
pub(crate) fn each<T: Send, R: Send>(
    parts: impl IntoIterator<Item = T>,
    go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    f: impl Fn(T, Look<'_>) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let ended = AtomicBool::new(false);
    let run = |part: T, go_on: &mut dyn FnMut(u64) -> ControlFlow<()>| {
        let done = f(part, &mut |done| match ended.load(Ordering::Relaxed) || go_on(done).is_break() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        });
        ended.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Ok(Vec::new()) };
    let results = std::thread::scope(|scope| {
        let (run, ended) = (&run, &ended);
        let spawn = |part: T| {
            let work = move || run(part, &mut |_| ControlFlow::Continue(()));
            Builder::new().spawn_scoped(scope, work).map_err(|error| {
                ended.store(true, Ordering::Relaxed);
                Error::io("the system gives no further thread; use fewer threads", error)
            })
        };
        let others: Vec<_> = parts.map(spawn).collect();
        let mut results = vec![run(first, go_on)];
        let join =
            |other: ScopedJoinHandle<'_, _>| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        results.extend(others.into_iter().map(|other| other.and_then(join)));
        results
    });
    // Report the error that made a part fail, not the interruption of the others that followed.
    let cause = results.iter().position(|result| matches!(result, Err(e) if !matches!(e, Error::Interrupted)));
    match cause {
        Some(at) => results.into_iter().nth(at).into_iter().collect(),
        None => results.into_iter().collect(),
    }
}

/// `threads`, or if that is 0, the number of cores that the process may use.
pub fn available(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    }
}
