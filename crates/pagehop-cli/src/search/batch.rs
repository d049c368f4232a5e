//! Many queries at once, on several threads.

use std::thread;

use pagehop_engine::{Error, Index, Pages, SearchOptions, SearchResult};

use crate::interrupt;

/// Searches every query of `queries`, `dim` components each; results are in the order of the queries. An error comes with
/// the position of its query, the first among those that were met.
pub(super) fn search<P: Pages>(
    index: &Index<P>,
    queries: &[f32],
    dim: usize,
    k: usize,
    options: &SearchOptions,
    threads: usize,
) -> Result<Vec<SearchResult>, (usize, Error)> {
    let count = queries.len() / dim;
    let per_thread = count.div_ceil(threads).max(1);
    let mut results = vec![SearchResult::default(); count];
    let parts = queries.chunks(per_thread * dim).zip(results.chunks_mut(per_thread));
    let search_part = |queries: &[f32], results: &mut [SearchResult]| {
        let mut searcher = index.searcher();
        for (at, (query, result)) in queries.chunks_exact(dim).zip(results).enumerate() {
            if interrupt::poll().is_break() {
                return Err((at, Error::Interrupted));
            }
            *result = searcher.search(query, k, options).map_err(|error| (at, error))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> =
            parts.map(|(queries, results)| scope.spawn(move || search_part(queries, results))).collect();
        for (part, thread) in running.into_iter().enumerate() {
            let done = thread.join().expect("a search does not panic");
            done.map_err(|(at, error)| (part * per_thread + at, error))?;
        }
        Ok(())
    })?;
    Ok(results)
}
