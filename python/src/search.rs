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

use pagehop_engine::{Batch, Effort, Error, Filter, Payloads, ReadParts, RowParts, SearchPlan, SearchResult};
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
    /// What to return of the rows, too.
    pub(crate) parts: RowParts,
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
    ids: &'a mut [u8],
    counters: &'a mut [u8],
    distances: &'a mut [u8],
    found: usize,
    read: ReadParts,
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
            let search = || searcher.answer(self.values, self.k, &plan, filter.as_ref());
            let found = index.search_and_read(self.parts, search);
            found.and_then(|(result, read)| place.fill(&result, read)).map_err(|error| Stop::Query(0, error))?;
            return Ok(Done::of(vec![place], plan));
        }
        drop(searcher);
        let mut places: Vec<Place<'_>> = self.places(count, bytes).collect();
        let (k, parts, threads) = (self.k, self.parts, self.threads);
        let batch = Batch { queries: self.values, k, plan: &plan, filter: filter.as_ref(), threads, parts };
        let mut watch = Watch::new(None);
        let searched =
            index.search_batch(&batch, &mut |progress| watch.look(progress), &mut places, |place, result, read| {
                place.fill(&result, read)
            });
        searched.map_err(|(at, error)| watch.take_raised().map_or(Stop::Query(at, error), Stop::Python))?;
        Ok(Done::of(places, plan))
    }

    fn places<'b>(&self, count: usize, bytes: &'b mut [u8]) -> impl Iterator<Item = Place<'b>> + use<'b> {
        let (ids, rest) = bytes.split_at_mut(8 * self.k * count);
        let (counters, distances) = rest.split_at_mut(8 * COUNTERS * count);
        let counters = counters.chunks_exact_mut(8 * COUNTERS);
        let rows = ids.chunks_exact_mut(8 * self.k).zip(distances.chunks_exact_mut(4 * self.k));
        rows.zip(counters).map(|((ids, distances), counters)| {
            let read = ReadParts::default();
            Place { ids, counters, distances, found: 0, read }
        })
    }
}

impl Done {
    fn of(places: Vec<Place<'_>>, plan: SearchPlan) -> Self {
        let mut done = Self {
            found: places.first().map_or(0, |place| place.found),
            plan,
            texts: Vec::new(),
            payloads: Vec::new(),
        };
        for place in places {
            done.texts.extend(place.read.text_ids);
            done.payloads.extend(place.read.payloads);
        }
        done
    }
}

impl Place<'_> {
    /// Fills the place with a result, and keeps what was read of its rows. If ids are texts, the
    /// ids in the buffer are -1.
    fn fill(&mut self, result: &SearchResult, read: ReadParts) -> Result<(), Error> {
        let are_texts = read.text_ids.is_some();
        self.read = read;
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
            Self::Query(at, error) if count > 1 => errors::about_query(py, path, at, error),
            Self::Query(_, error) | Self::Index(error) => errors::about(py, path, &error),
        }
    }
}
