//! An open index as a Python object.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pagehop_engine::index::OnProgress;
use pagehop_engine::{CheckReport, Error};
use pagehop_store::{Durability, FilePages, OpenOptions};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::search::{self, COUNTERS, Stop};
use crate::turn::{Held, Turn};
use crate::watch::{LOOK_EVERY, Watch};
use crate::{errors, recall};

/// How often to look whether a commit comes that explains what looks like damage.
const LOOKS: u32 = 20;

type FileIndex = pagehop_engine::Index<FilePages>;

/// An open index file. Every method may be called from any thread.
#[pyclass(frozen, module = "pagehop._pagehop")]
pub(crate) struct Index {
    /// `None` once closed. A search under way keeps the file open until it is done.
    open: RwLock<Option<Arc<FileIndex>>>,
    dim: usize,
    /// As of the last look; what a closed index answers.
    rows: AtomicU64,
    /// As of the last change: to ask the store would be to wait for a change under way.
    log_bytes: AtomicU64,
    turn: Turn,
    /// The process that opened it, in which alone it can be changed and has something to close.
    process: u32,
}

/// Opens the index at `path`, keeping at most `cache_bytes` of it in memory.
#[pyfunction]
#[pyo3(signature = (path, cache_bytes, *, write, durability, log_bytes))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    cache_bytes: u64,
    write: bool,
    durability: &str,
    log_bytes: u64,
) -> PyResult<Index> {
    let durability = match durability {
        "commit" => Durability::Commit,
        "checkpoint" => Durability::Checkpoint,
        other => {
            let what = format!("durability is '{other}', it must be 'commit' or 'checkpoint'");
            return Err(errors::argument(py, what));
        }
    };
    let options = OpenOptions { cache_bytes, write, durability, log_bytes, ..OpenOptions::default() };
    let opened = py.detach(|| {
        let index = pagehop_store::open(&path, &options)?;
        let info = index.info()?;
        Ok(Index {
            dim: info.dim,
            rows: AtomicU64::new(info.rows),
            log_bytes: AtomicU64::new(index.pages().log_used_bytes()),
            open: RwLock::new(Some(Arc::new(index))),
            turn: Turn::default(),
            process: std::process::id(),
        })
    });
    opened.map_err(|error| errors::to_python(py, &error))
}

/// Bytes meant by a size such as `"256MiB"`.
#[pyfunction]
pub(crate) fn parse_bytes(py: Python<'_>, text: &str) -> PyResult<u64> {
    pagehop_store::parse_bytes(text).map_err(|error| errors::to_python(py, &error))
}

impl Index {
    fn get(&self, py: Python<'_>) -> PyResult<Arc<FileIndex>> {
        self.get_if_open().ok_or_else(|| errors::argument(py, "the index is closed"))
    }

    fn get_if_open(&self) -> Option<Arc<FileIndex>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Option<Arc<FileIndex>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether this is another process than the one that opened it: the child of a fork.
    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// The index, once it is this thread's turn to change it.
    fn begin(&self, py: Python<'_>) -> PyResult<(Held<'_>, Arc<FileIndex>)> {
        self.may_change(py)?;
        let held = self.turn.take(py)?;
        // It may have been closed meanwhile.
        Ok((held, self.get(py)?))
    }

    /// Changes the index by `work`, without the interpreter but for what `watch` asks of it.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        mut watch: Watch,
        work: impl FnOnce(&FileIndex, &mut Watch) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let (_held, index) = self.begin(py)?;
        let done = py.detach(|| {
            let done = work(&index, &mut watch);
            self.log_bytes.store(index.pages().log_used_bytes(), Ordering::Relaxed);
            done
        });
        let raised = watch.take_raised();
        match done {
            Err(error) => Err(raised.unwrap_or_else(|| errors::to_python(py, &error))),
            // Ctrl-C in what comes after a change is no less meant.
            Ok(done) => raised.map_or(Ok(done), Err),
        }
    }
}

/// Checks `index`. The engine begins anew if a commit of another process came meanwhile, but cannot know of one that
/// is just becoming visible, page by page: what looks like damage then is none.
fn check_still(index: &FileIndex, progress: OnProgress<'_>) -> Result<CheckReport, Error> {
    let path = index.pages().path();
    let mut log = path.as_os_str().to_owned();
    log.push("-log");
    let before = index.info()?.commit;
    let checked = index.check(progress);
    if !matches!(checked, Err(Error::Corrupt { .. })) || !Path::new(&log).exists() {
        return checked;
    }
    for _ in 0..LOOKS {
        if index.info()?.commit != before {
            let what = "the index changed while it was checked; check it when nobody writes";
            return Err(Error::argument(what));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    checked
}

#[pymethods]
impl Index {
    /// Answers every row of `queries` into the rows of the three output arrays; gives how many rows were found
    /// by all of them. What they leave of the arrays is id -1 and distance infinity. If `recall` is given and much has changed since the
    /// index was calibrated, it also gives how many rows, and of how many then.
    #[expect(clippy::too_many_arguments, reason = "arrays in and arrays out of one private call")]
    fn search(
        &self,
        py: Python<'_>,
        queries: PyBuffer<f32>,
        ids: PyBuffer<i64>,
        distances: PyBuffer<f32>,
        counters: PyBuffer<u64>,
        search_list: Option<usize>,
        slack: Option<f32>,
        beam_width: Option<usize>,
        recall: Option<f32>,
        threads: usize,
    ) -> PyResult<(usize, Option<(u64, u64)>)> {
        let index = self.get(py)?;
        let (&[rows, dim], &[_, k]) = (queries.shape(), ids.shape()) else {
            return Err(errors::argument(py, "queries and ids must be two-dimensional"));
        };
        if [ids.shape(), distances.shape(), counters.shape()] != [[rows, k], [rows, k], [rows, COUNTERS]] {
            return Err(errors::argument(py, "an output array has another shape than the queries ask for"));
        }
        let expected = self.dim;
        if dim != expected {
            return Err(errors::to_python(py, &Error::Dimension { expected, got: dim }));
        }
        if k == 0 {
            return Err(errors::argument(py, "k is 0, it must be at least 1"));
        }
        let components = queries.to_vec(py)?;
        let found = py.detach(|| {
            if recall.is_some_and(|recall| recall >= 1.0) {
                return search::exactly(&index, &components, dim, k, threads).map(|batch| (batch, None));
            }
            let failed = |error| Stop::Index { error };
            let options = recall::options(&index, k, recall, search_list, slack, beam_width).map_err(failed)?;
            let outdated = match recall {
                Some(_) => recall::outdated(&index.info().map_err(failed)?),
                None => None,
            };
            Ok((search::batch(&index, &components, dim, k, &options, threads)?, outdated))
        });
        match found {
            Ok((batch, outdated)) => {
                ids.copy_from_slice(py, &batch.ids)?;
                distances.copy_from_slice(py, &batch.distances)?;
                counters.copy_from_slice(py, &batch.counters)?;
                Ok((batch.found(), outdated))
            }
            Err(Stop::Python(error)) => Err(error),
            Err(Stop::Engine { row, error: Error::Argument { what } }) if rows > 1 => {
                Err(errors::argument(py, format!("query {row}: {what}")))
            }
            Err(Stop::Engine { error, .. } | Stop::Index { error }) => Err(errors::to_python(py, &error)),
        }
    }

    /// Measures which settings reach which recall, by `queries` or, if there are none, by vectors of the index, and stores it; gives
    /// that, or nothing for an index of too few rows.
    #[pyo3(signature = (queries, threads, *, progress))]
    fn calibrate<'py>(
        &self,
        py: Python<'py>,
        queries: Option<PyBuffer<f32>>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.may_change(py)?;
        let index = self.get(py)?;
        let queries = queries.map_or(Ok(Vec::new()), |queries| queries.to_vec(py))?;
        let mut watch = Watch::new(progress);
        let known = py.detach(|| index.calibrate(&queries, threads, &mut |progress| watch.look(progress)));
        let known = known.map_err(|error| watch.take_raised().unwrap_or_else(|| errors::to_python(py, &error)))?;
        let Some(known) = known else { return Ok(None) };
        // Changes by other threads wait for this only.
        self.change(py, Watch::new(None), |index, _| pagehop_store::set_calibration(index, &known))?;
        recall::calibration(py, &known).map(Some)
    }

    /// What the index is calibrated to, if it is.
    fn calibration<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let index = self.get(py)?;
        let known = py.detach(|| index.calibration()).map_err(|error| errors::to_python(py, &error))?;
        known.map(|known| recall::calibration(py, &known)).transpose()
    }

    /// Measures what searches for `k` rows find, for `queries` or, if there are none, for `samples` vectors of the index, and stores it
    /// if the index may be changed; gives that, and whether `recall` is missed.
    #[pyo3(signature = (k, samples, queries, *, recall, search_list, slack, threads, progress))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of one private call")]
    fn recall<'py>(
        &self,
        py: Python<'py>,
        k: usize,
        samples: usize,
        queries: Option<PyBuffer<f32>>,
        recall: Option<f32>,
        search_list: Option<usize>,
        slack: Option<f32>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, bool)> {
        let index = self.get(py)?;
        let queries = queries.map_or(Ok(Vec::new()), |queries| queries.to_vec(py))?;
        let mut watch = Watch::new(progress);
        let measured = py.detach(|| {
            let options = recall::options(&index, k, recall, search_list, slack, None)?;
            index.recall(k, samples, &queries, &options, threads, &mut |progress| watch.look(progress))
        });
        let report =
            measured.map_err(|error| watch.take_raised().unwrap_or_else(|| errors::to_python(py, &error)))?;
        if index.pages().is_writable() && !self.is_forked() {
            self.change(py, Watch::new(None), |index, _| pagehop_store::set_audit(index, k, recall, &report))?;
        }
        recall::report(py, k, recall, &report)
    }

    /// Adds rows, or replaces those whose ids the index has; gives how many were added, replaced and unchanged.
    #[pyo3(signature = (ids, vectors, *, progress))]
    fn add(
        &self,
        py: Python<'_>,
        ids: PyBuffer<u64>,
        vectors: PyBuffer<f32>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, u64)> {
        let (ids, vectors) = (ids.to_vec(py)?, vectors.to_vec(py)?);
        let report = self.change(py, Watch::new(progress), |index, watch| {
            pagehop_store::add(index, &ids, &vectors, None, &mut |progress| watch.look(progress))
        })?;
        Ok((report.added, report.replaced, report.unchanged))
    }

    /// Deletes rows; gives how many, and the ids that the index did not have.
    fn delete(&self, py: Python<'_>, ids: PyBuffer<u64>) -> PyResult<(u64, Vec<u64>)> {
        let ids = ids.to_vec(py)?;
        let report = self.change(py, Watch::new(None), |index, _| pagehop_store::delete(index, &ids, None))?;
        Ok((report.deleted, report.unknown))
    }

    /// Takes dead rows out; gives how many were freed, how many wait, and how many nodes were repaired.
    #[pyo3(signature = (*, progress))]
    fn vacuum(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(u64, u64, u64)> {
        let report = self.change(py, Watch::new(progress), |index, watch| {
            pagehop_store::vacuum(index, &mut |progress| watch.look(progress))
        })?;
        Ok((report.freed, report.waiting, report.repaired))
    }

    /// Brings every commit into the index file.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, Watch::new(None), |index, _| index.pages().checkpoint())
    }

    /// Refuses what is closed, or was not opened for writing, or by the parent of this process.
    fn may_change(&self, py: Python<'_>) -> PyResult<()> {
        let index = self.get(py)?;
        let path = index.pages().path().display();
        if !index.pages().is_writable() {
            let what = format!("{path} is open for reading; pagehop.open(path, write=True) opens it for writing");
            return Err(errors::argument(py, what));
        }
        if self.is_forked() {
            let what = format!("{path} was opened for writing before this process was forked; open it anew");
            return Err(errors::argument(py, what));
        }
        Ok(())
    }

    /// Reads every page and proves the structure, and says what was found.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let index = self.get(py)?;
        // Pages from before and after a commit contradict each other.
        let alone = index.pages().is_writable() && !self.is_forked();
        let _held = if alone { Some(self.turn.take(py)?) } else { None };
        let mut watch = Watch::new(None);
        let checked = py.detach(|| check_still(&index, &mut |progress| watch.look(progress)));
        let report =
            checked.map_err(|error| watch.take_raised().unwrap_or_else(|| errors::to_python(py, &error)))?;
        let words = PyDict::new(py);
        words.set_item("pages", report.pages)?;
        words.set_item("nodes", report.nodes)?;
        words.set_item("dead_nodes", report.dead_nodes)?;
        words.set_item("free_slots", report.free_slots)?;
        words.set_item("edges", report.edges)?;
        words.set_item("stale_edges", report.stale_edges)?;
        words.set_item("reachable", report.reachable)?;
        Ok(words)
    }

    /// What the index says of itself as of its newest commit, and what was written since it was opened.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let index = self.get(py)?;
        let info = py.detach(|| index.info()).map_err(|error| errors::to_python(py, &error))?;
        let counters = index.pages().counters();
        let words = PyDict::new(py);
        words.set_item("format_version", info.format_version)?;
        words.set_item("metric", info.metric.name())?;
        words.set_item("dim", info.dim)?;
        words.set_item("rows", info.rows)?;
        words.set_item("pages", info.pages)?;
        words.set_item("max_degree", info.max_degree)?;
        words.set_item("nodes_per_page", info.nodes_per_page)?;
        words.set_item("edge_bits", info.edge_bits)?;
        words.set_item("edge_dims", info.edge_dims)?;
        words.set_item("own_bits", info.own_bits)?;
        words.set_item("seed", info.seed)?;
        words.set_item("commit", info.commit)?;
        words.set_item("dead_rows", info.dead_rows)?;
        words.set_item("free_slots", info.free_slots)?;
        words.set_item("trained_rows", info.trained_rows)?;
        words.set_item("added_rows", info.added_rows)?;
        words.set_item("deleted_rows", info.deleted_rows)?;
        words.set_item("mark", (info.mark[0], info.mark[1]))?;
        words.set_item("calibration", info.calibration.map(|known| recall::measured(py, &known)).transpose()?)?;
        let audit = info.audit.zip(info.audited);
        let audit = audit.map(|(audit, since)| recall::audit(py, &audit, since.changes)).transpose()?;
        words.set_item("audit", audit)?;
        words.set_item("log_bytes", self.log_bytes.load(Ordering::Relaxed))?;
        words.set_item("log_bytes_written", counters.log_bytes_written)?;
        words.set_item("page_bytes_written", counters.page_bytes_written)?;
        words.set_item("commits", counters.commits)?;
        words.set_item("checkpoints", counters.checkpoints)?;
        Ok(words)
    }

    /// Rows as of the newest commit; of a closed index, as of its end.
    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        let Some(index) = self.get_if_open() else {
            return Ok(self.rows.load(Ordering::Relaxed));
        };
        let info = py.detach(|| index.info()).map_err(|error| errors::to_python(py, &error))?;
        self.rows.store(info.rows, Ordering::Relaxed);
        Ok(info.rows)
    }

    /// Closes the file once the searches under way are done, a writer's commits brought into it; closing twice
    /// does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let writes = self.get_if_open().is_some_and(|index| index.pages().is_writable());
        let held = if writes && !self.is_forked() { Some(self.turn.take(py)?) } else { None };
        let Some(index) = self.take() else { return Ok(()) };
        let closed = py.detach(|| {
            if let Ok(info) = index.info() {
                self.rows.store(info.rows, Ordering::Relaxed);
            }
            let closed = if held.is_some() { index.pages().checkpoint() } else { Ok(()) };
            drop(index);
            closed
        });
        closed.map_err(|error| errors::to_python(py, &error))
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.get_if_open().is_none()
    }

    /// Whether rows can be added and deleted; not once it is closed.
    #[getter]
    fn writable(&self) -> bool {
        self.get_if_open().is_some_and(|index| index.pages().is_writable())
    }

    /// Components of each vector.
    #[getter]
    fn dim(&self) -> usize {
        self.dim
    }
}
