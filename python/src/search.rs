//! Many queries over one index, on as many threads as asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagehop_engine::{Error, Index, SearchOptions, SearchResult};
use pagehop_store::FilePages;
use pyo3::prelude::*;

use crate::watch::Watch;

/// Counters of one query: hops, pages read, pages missed, estimates, distances.
pub(crate) const COUNTERS: usize = 5;

/// Time between two looks at signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Results of `rows` queries, row after row; short rows end in id -1 and distance infinity.
pub(crate) struct Batch {
    pub(crate) ids: Vec<i64>,
    pub(crate) distances: Vec<f32>,
    pub(crate) counters: Vec<u64>,
}

impl Batch {
    fn new(rows: usize, k: usize) -> Self {
        Self {
            ids: vec![-1; rows * k],
            distances: vec![f32::INFINITY; rows * k],
            counters: vec![0; rows * COUNTERS],
        }
    }

    /// Where the results of each of `queries`, `dim` components long, go.
    fn rows<'a>(&'a mut self, queries: &'a [f32], dim: usize, k: usize) -> impl Iterator<Item = Row<'a>> {
        queries
            .chunks_exact(dim)
            .zip(self.ids.chunks_exact_mut(k))
            .zip(self.distances.chunks_exact_mut(k))
            .zip(self.counters.chunks_exact_mut(COUNTERS))
            .enumerate()
            .map(|(row, (((query, ids), distances), counters))| Row { row, query, ids, distances, counters })
    }

    /// Rows found, over all queries.
    pub(crate) fn found(&self) -> usize {
        self.ids.iter().filter(|id| **id >= 0).count()
    }
}

/// Answers `queries` by a look at every row, with `threads` threads (0: one per core).
///
/// Must be called without the interpreter; the calling thread takes part and looks at signals.
pub(crate) fn exactly(
    index: &Index<FilePages>,
    queries: &[f32],
    dim: usize,
    k: usize,
    threads: usize,
) -> Result<Batch, Stop> {
    let mut watch = Watch::new(None);
    let results = index.search_exactly(queries, k, threads, &mut |progress| watch.look(progress));
    let results = results.map_err(|error| match watch.take_raised() {
        Some(raised) => Stop::Python(raised),
        None => Stop::Engine { row: 0, error },
    })?;
    let mut batch = Batch::new(queries.len() / dim, k);
    batch
        .rows(queries, dim, k)
        .zip(&results)
        .try_for_each(|(mut row, result)| row.fill(result).map_err(|error| Stop::Engine { row: row.row, error }))?;
    Ok(batch)
}

/// Why a batch ended early.
pub(crate) enum Stop {
    Engine {
        row: usize,
        error: Error,
    },
    /// Before any query was asked.
    Index {
        error: Error,
    },
    Python(PyErr),
}

/// Where one query's results go.
struct Row<'a> {
    row: usize,
    query: &'a [f32],
    ids: &'a mut [i64],
    distances: &'a mut [f32],
    counters: &'a mut [u64],
}

impl Row<'_> {
    fn fill(&mut self, result: &SearchResult) -> Result<(), Error> {
        for ((id, distance), hit) in self.ids.iter_mut().zip(&mut *self.distances).zip(&result.hits) {
            *id = i64::try_from(hit.row_id).map_err(|_| {
                Error::argument(format!("row id {} was found; Python holds ids below 2**63 only", hit.row_id))
            })?;
            *distance = hit.distance;
        }
        let stats = &result.stats;
        self.counters.copy_from_slice(&[
            stats.hops,
            stats.pages_read,
            stats.pages_missed,
            stats.estimates,
            stats.distances,
        ]);
        Ok(())
    }
}

/// Answers `queries`, `dim` components each, with `threads` threads (0: one per core).
///
/// Must be called without the interpreter; the calling thread takes part and looks at signals.
pub(crate) fn batch(
    index: &Index<FilePages>,
    queries: &[f32],
    dim: usize,
    k: usize,
    options: &SearchOptions,
    threads: usize,
) -> Result<Batch, Stop> {
    let rows = queries.len() / dim;
    let mut batch = Batch::new(rows, k);
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores() } else { threads }.min(rows);

    let work = Mutex::new(batch.rows(queries, dim, k));
    let stopped = AtomicBool::new(false);
    let next = || work.lock().expect("no worker panics while it takes a row").next();

    let answer = |look: &mut dyn FnMut() -> PyResult<()>| -> Result<(), Stop> {
        let mut searcher = index.searcher();
        while !stopped.load(Ordering::Relaxed) {
            look().map_err(Stop::Python)?;
            let Some(mut row) = next() else { break };
            let filled = searcher.search(row.query, k, options).and_then(|result| row.fill(&result));
            filled.map_err(|error| Stop::Engine { row: row.row, error })?;
        }
        Ok(())
    };
    let answer = |look: &mut dyn FnMut() -> PyResult<()>| {
        let answered = answer(look);
        if answered.is_err() {
            stopped.store(true, Ordering::Relaxed);
        }
        answered
    };

    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(|| answer(&mut || Ok(())))).collect();
        let mut looked = Instant::now();
        let mut answered = answer(&mut || {
            if looked.elapsed() < LOOK_EVERY {
                return Ok(());
            }
            looked = Instant::now();
            Python::attach(|py| py.check_signals())
        });
        for helper in helpers {
            answered = answered.and(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        answered
    })?;
    drop(work);
    Ok(batch)
}
