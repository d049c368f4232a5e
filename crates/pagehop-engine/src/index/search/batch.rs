//! Many queries at once: on several threads, and several at once on each thread.

use std::sync::{Mutex, PoisonError};

use crate::index::open::Index;
use crate::index::payloads::{ReadParts, RowParts};
use crate::index::search::answer::{Way, answer_watched};
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::together::{Query, Together};
use crate::index::search::visit::Probe;
use crate::index::state::State;
use crate::page::Pages;
use crate::progress::OnProgress;
use crate::{Error, Progress, SearchPlan, SearchResult, threads};

/// Fewest queries per thread: starting a thread takes as long as a query or two.
const QUERIES_PER_THREAD: usize = 8;

/// Queries, and how to search for each of them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Components of the queries, one query after the other.
    pub queries: &'a [f32],
    /// Rows to find for each.
    pub k: usize,
    /// From [`Index::options`].
    pub plan: &'a SearchPlan,
    /// The rows that may be found, if not all; from [`Index::plan_filter`].
    pub filter: Option<&'a FilterPlan>,
    /// Most threads; 0 means one per core. Few queries take fewer.
    pub threads: usize,
    /// What is read of the rows that are found.
    pub parts: RowParts,
}

impl<P: Pages> Index<P> {
    /// Answers the queries of a batch. `write` puts the result of each, and what was read of its
    /// rows, into its place in `results`, which has one place per query. The calling thread takes
    /// part and calls `progress`.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`], of [`Index::search_and_read`] and of `write`, with the
    /// position of the query; [`Error::Interrupted`] if `progress` says so.
    ///
    /// # Panics
    ///
    /// If `results` has another length than the batch has queries.
    pub fn search_batch<T: Send>(
        &self,
        batch: &Batch<'_>,
        progress: OnProgress<'_>,
        results: &mut [T],
        write: impl Fn(&mut T, SearchResult, ReadParts) -> Result<(), Error> + Sync,
    ) -> Result<(), (usize, Error)> {
        let dim = self.newest().known().meta.dim;
        assert_eq!(batch.queries.len(), results.len() * dim, "there is one place per query");
        let write = |query: &[f32], place: &mut T, result| {
            let mut first = Some(result);
            let search = || match first.take() {
                Some(result) => Ok(result),
                // Its rows were replaced before parts of them were read.
                None => self.searcher().answer(query, batch.k, batch.plan, batch.filter),
            };
            let (result, read) = self.search_and_read(batch.parts, search)?;
            write(place, result, read)
        };
        let way = Way::of(batch.plan, batch.filter);
        if matches!(way, Way::Scan) {
            let answers = self.search_exactly(batch.queries, batch.k, batch.threads, progress);
            let answers =
                answers.map_err(|error| (first_unplaced(&self.newest().known(), batch.queries, dim), error))?;
            let places = batch.queries.chunks_exact(dim).zip(results).zip(answers);
            return places.enumerate().try_for_each(|(at, ((query, place), answer))| {
                write(query, place, answer).map_err(|error| (at, error))
            });
        }
        let count = results.len();
        let threads = threads::available(batch.threads).min(count / QUERIES_PER_THREAD).max(1);
        let work = Mutex::new(batch.queries.chunks_exact(dim).zip(results).enumerate());
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let failed = Mutex::new(None);
        let mut go_on = |done| progress(Progress { phase: "search", done, total: count as u64 });
        let searched = threads::each(0..threads, &mut go_on, |_, look| {
            let wrote = |at, (query, place): (&[f32], &mut T), found: Result<SearchResult, Error>| {
                found.and_then(|result| write(query, place, result)).map_err(|error| {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((at, error));
                    Error::Interrupted
                })
            };
            let Way::Walk(options) = way else {
                let (mut searcher, Batch { k, plan, filter, .. }) = (self.searcher(), *batch);
                while let Some((at, (query, place))) = next() {
                    let found = answer_watched(&mut searcher, query, (k, plan), filter, &mut || look(at as u64));
                    look(at as u64)?;
                    wrote(at, (query, place), found)?;
                }
                return Ok(());
            };
            let answered = |at, place: (&[f32], &mut T), found| {
                look(at as u64)?;
                wrote(at, place, found)
            };
            let next = || next().map(|(at, (vector, place))| Query { at, vector, place: (vector, place) });
            Together::new(self.pages(), self.newest(), batch.k, options, answered).run(next)
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failed) => Err(failed),
            None => searched.map(drop).map_err(|error| (0, error)),
        }
    }
}

/// The first query that the metric cannot place.
fn first_unplaced(state: &State, queries: &[f32], dim: usize) -> usize {
    let mut probe = Probe::default();
    let mut prepared = queries.chunks_exact(dim).map(|query| probe.prepare(&state.meta, &state.model, query));
    prepared.position(|placed| placed.is_err()).unwrap_or(0)
}
