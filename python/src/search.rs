//! Searches. Queries come from a buffer of Python's, and answers go into one buffer that Python
//! wraps.
//!
//! A buffer with the answers to `n` queries for `k` rows has, without gaps:
//!
//! ```text
//! n * k  int64    ids; -1 where fewer rows were found, and where ids are texts
//! n * 5  uint64   counters of each query: hops, pages read, pages missed, estimates, distances
//! n * k  float32  distances; infinity where fewer rows were found
//! ```
//!
//! The buffer is allocated once, as a Python object, and filled without the GIL.

use std::path::Path;

use pagehop_engine::{Batch, Effort, Error, Filter, Payloads, SearchPlan, SearchResult};
use pagehop_store::IndexFile;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::errors;
use crate::interpreter::detach_briefly;
use crate::watch::Watch;

/// An index in a file.
pub(crate) type FileIndex = pagehop_engine::Index<IndexFile>;

/// Number of counters of one query.
const COUNTERS: usize = 5;

/// Queries, and how to search for each.
pub(crate) struct Queries<'a> {
    /// Components of all queries, one query after the other.
    pub(crate) values: &'a [f32],
    pub(crate) dim: usize,
    pub(crate) k: usize,
    /// The filter of the rows that may be found; `None` if all may be.
    pub(crate) filter: Option<Filter>,
    pub(crate) effort: Effort,
    pub(crate) beam_width: Option<usize>,
    pub(crate) threads: usize,
    /// Whether ids are texts.
    pub(crate) texts: bool,
    /// Whether to return the payloads of the rows too.
    pub(crate) payload: bool,
}

/// The answers to all queries.
pub(crate) struct Answers<'py> {
    pub(crate) buffer: Bound<'py, PyByteArray>,
    pub(crate) done: Done,
}

/// The part of the answers that is not in the buffer.
pub(crate) struct Done {
    /// The number of rows that the first query found.
    pub(crate) found: usize,
    /// How the search was planned.
    pub(crate) plan: SearchPlan,
    /// The ids that each query found, if they are texts.
    pub(crate) texts: Vec<Vec<String>>,
    /// The payloads that each query found, if they were requested.
    pub(crate) payloads: Vec<Payloads>,
}

/// The parts of the buffer that the answer to one query is written to.
struct Place<'a> {
    query: &'a [f32],
    ids: &'a mut [u8],
    counters: &'a mut [u8],
    distances: &'a mut [u8],
    found: usize,
    texts: Vec<String>,
    payloads: Payloads,
}

/// Why a search ended early.
enum Stop {
    Index(Error),
    Query(usize, Error),
    Python(PyErr),
}

impl Queries<'_> {
    /// Searches the index, which was opened at `path`, for all queries.
    pub(crate) fn answer<'py>(&self, py: Python<'py>, index: &FileIndex, path: &Path) -> PyResult<Answers<'py>> {
        let count = self.values.len() / self.dim;
        let bytes = self.k.checked_mul(12).and_then(|bytes| count.checked_mul(bytes + 8 * COUNTERS));
        let bytes = bytes
            .ok_or_else(|| errors::argument(py, format!("{count} answers of {} rows are too many", self.k)))?;
        let mut planned = None;
        let buffer = PyByteArray::new_with(py, bytes, |bytes| {
            let search = || self.search(index, count, bytes);
            let done = if count == 1 { detach_briefly(py, search) } else { py.detach(search) };
            planned = Some(done.map_err(|stop| stop.raise(py, count, path))?);
            Ok(())
        })?;
        let done = planned.expect("a buffer that was made was filled");
        Ok(Answers { buffer, done })
    }

    /// Fills the buffer. Runs without the GIL. With several queries, the calling thread checks
    /// signals.
    fn search(&self, index: &FileIndex, count: usize, bytes: &mut [u8]) -> Result<Done, Stop> {
        let mut searcher = index.searcher();
        let plan = searcher.options(self.k, &self.effort).map_err(Stop::Index)?.with_beam_width(self.beam_width);
        let filter = self.filter.as_ref().map(|filter| searcher.plan_filter(filter)).transpose();
        let filter = filter.map_err(Stop::Index)?;
        // A look at every row takes long enough for several threads, and for Ctrl-C.
        if count == 1 && plan.options.is_some() {
            let mut place = self.places(count, bytes).next().expect("there is one query");
            let mut search = || searcher.answer(self.values, self.k, &plan, filter.as_ref());
            let found = if self.texts || self.payload {
                self.fill_with(index, &mut place, &mut search)
            } else {
                search().and_then(|found| place.fill(&found, false))
            };
            found.map_err(|error| Stop::Query(0, error))?;
            return Ok(self.done(vec![place], plan));
        }
        drop(searcher);
        let mut places: Vec<Place<'_>> = self.places(count, bytes).collect();
        let (k, threads) = (self.k, self.threads);
        let batch = Batch { queries: self.values, k, plan: &plan, filter: filter.as_ref(), threads };
        let mut watch = Watch::new(None);
        let searched =
            index.search_batch(&batch, &mut |progress| watch.look(progress), &mut places, |place, result| {
                if !self.texts && !self.payload {
                    return place.fill(&result, false);
                }
                let (mut first, query) = (Some(result), place.query);
                self.fill_with(index, place, &mut || match first.take() {
                    Some(result) => Ok(result),
                    // Its rows were replaced before their ids or payloads were read.
                    None => index.searcher().answer(query, self.k, &plan, filter.as_ref()),
                })
            });
        searched.map_err(|(at, error)| watch.take_raised().map_or(Stop::Query(at, error), Stop::Python))?;
        Ok(self.done(places, plan))
    }

    fn done(&self, places: Vec<Place<'_>>, plan: SearchPlan) -> Done {
        let mut done = Done {
            found: places.first().map_or(0, |place| place.found),
            plan,
            texts: Vec::new(),
            payloads: Vec::new(),
        };
        for place in places {
            if self.texts {
                done.texts.push(place.texts);
            }
            if self.payload {
                done.payloads.push(place.payloads);
            }
        }
        done
    }

    /// Fills a place with what `search` finds, and keeps the text ids and payloads of these rows.
    fn fill_with(
        &self,
        index: &FileIndex,
        place: &mut Place<'_>,
        search: &mut dyn FnMut() -> Result<SearchResult, Error>,
    ) -> Result<(), Error> {
        let (result, (texts, payloads)) = index.search_and(search, |result| {
            let texts = if self.texts { index.text_ids_of(result)? } else { Some(Vec::new()) };
            let payloads = if self.payload { index.payloads_of(result)? } else { Some(Payloads::new()) };
            Ok(texts.zip(payloads))
        })?;
        (place.texts, place.payloads) = (texts, payloads);
        place.fill(&result, self.texts)
    }

    fn places<'b>(&'b self, count: usize, bytes: &'b mut [u8]) -> impl Iterator<Item = Place<'b>> {
        let (ids, rest) = bytes.split_at_mut(8 * self.k * count);
        let (counters, distances) = rest.split_at_mut(8 * COUNTERS * count);
        let counters = counters.chunks_exact_mut(8 * COUNTERS);
        let rows = ids.chunks_exact_mut(8 * self.k).zip(distances.chunks_exact_mut(4 * self.k));
        rows.zip(counters).zip(self.values.chunks_exact(self.dim)).map(|(((ids, distances), counters), query)| {
            Place { query, ids, counters, distances, found: 0, texts: Vec::new(), payloads: Payloads::new() }
        })
    }
}

impl Place<'_> {
    /// Fills the place with a result. If ids are texts, the ids in the buffer are -1.
    fn fill(&mut self, result: &SearchResult, are_texts: bool) -> Result<(), Error> {
        let rows = self.ids.as_chunks_mut().0.iter_mut().zip(self.distances.as_chunks_mut().0);
        let mut hits = result.hits.iter();
        for (id_bytes, distance_bytes) in rows {
            let (id, distance) = match hits.next() {
                Some(hit) if are_texts => (-1, hit.distance),
                Some(hit) => (as_python_id(hit.row_id)?, hit.distance),
                None => (-1, f32::INFINITY),
            };
            *id_bytes = id.to_le_bytes();
            *distance_bytes = distance.to_le_bytes();
        }
        let stats = &result.stats;
        let counters = [stats.hops, stats.pages_read, stats.pages_missed, stats.estimates, stats.distances];
        for (bytes, counter) in self.counters.as_chunks_mut().0.iter_mut().zip(counters) {
            *bytes = counter.to_le_bytes();
        }
        self.found = result.hits.len();
        Ok(())
    }
}

fn as_python_id(row_id: u64) -> Result<i64, Error> {
    i64::try_from(row_id)
        .map_err(|_| Error::argument(format!("row id {row_id} was found; Python holds ids below 2**63 only")))
}

impl Stop {
    /// The exception for the error. It names the query if there are several.
    fn raise(self, py: Python<'_>, count: usize, path: &Path) -> PyErr {
        match self {
            Self::Python(error) => error,
            Self::Query(at, Error::Argument { what }) if count > 1 => {
                errors::about(py, path, &Error::argument(format!("query {at}: {what}")))
            }
            Self::Query(_, error) | Self::Index(error) => errors::about(py, path, &error),
        }
    }
}
