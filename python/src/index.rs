//! An open index as a Python object.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pagehop_engine::{Effort, Error, IdKind, RowParts, THREADS_MAX};
use pagehop_store::AddOptions;
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList};

use crate::columns::{self, PyColumn, PyPayloads};
use crate::ids::{self, Ids, with_ids};
use crate::search::{Answers, Done, FileIndex, Queries};
use crate::turn::{Held, Turn};
use crate::watch::Watch;
use crate::{errors, info, recall};

/// What `search` returns: the buffer of answers, the number of rows that the first query found, the
/// warnings, and for each query the text ids and the payloads.
type Found<'py> = (
    Bound<'py, PyByteArray>,
    usize,
    Option<recall::Warnings>,
    Option<Vec<Vec<String>>>,
    Option<Vec<Bound<'py, PyList>>>,
);

/// An open index file. Every method may be called from any thread.
#[pyclass(frozen, module = "pagehop._pagehop")]
pub(crate) struct Index {
    /// `None` after `close`. A running search keeps the file open until it is done.
    open: RwLock<Option<Arc<FileIndex>>>,
    /// The path that it was opened with.
    path: PathBuf,
    dim: usize,
    id_kind: IdKind,
    /// The number of rows when they were last counted. A closed index still returns it.
    rows: AtomicU64,
    /// Used bytes of the log after the last change. The store could only tell its number after a
    /// running change ends.
    log_bytes: AtomicU64,
    turn: Turn,
    /// The process that opened the index. Only this process can change it and write its commits at
    /// `close`.
    process: u32,
}

impl Index {
    pub(crate) fn new(index: FileIndex, path: PathBuf) -> Result<Self, Error> {
        let info = index.info()?;
        Ok(Self {
            path,
            dim: info.dim,
            id_kind: info.id_kind,
            rows: AtomicU64::new(info.rows),
            log_bytes: AtomicU64::new(index.pages().log_used_bytes()),
            open: RwLock::new(Some(Arc::new(index))),
            turn: Turn::default(),
            process: std::process::id(),
        })
    }

    /// The exception for an error about this index.
    fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        errors::about(py, &self.path, error)
    }

    fn get(&self, py: Python<'_>) -> PyResult<Arc<FileIndex>> {
        self.get_if_open().ok_or_else(|| self.error(py, &Error::argument("the index is closed")))
    }

    fn get_if_open(&self) -> Option<Arc<FileIndex>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Option<Arc<FileIndex>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether this process is a fork of the one that opened the index.
    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// The index, and the lock of changes, which this thread holds then. The caller has asked
    /// `may_change`.
    fn begin(&self, py: Python<'_>) -> PyResult<(Held<'_>, Arc<FileIndex>)> {
        let held = self.turn.take(py)?;
        // Another thread may have closed it during the wait.
        Ok((held, self.get(py)?))
    }

    /// Changes the index by `work`, which runs without the GIL except in `watch`.
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
            Err(error) => Err(raised.unwrap_or_else(|| self.error(py, &error))),
            // Ctrl-C during the calibration or the vacuum that follows a change is raised too,
            // although the change took place.
            Ok(done) => raised.map_or(Ok(done), Err),
        }
    }
}

#[pymethods]
impl Index {
    /// Finds the `k` rows nearest to a query, or to each row of a matrix. Returns the buffer of
    /// answers (see search.rs), the number of rows that the first query found, the warnings, and
    /// for each query the ids that it found, if they are texts, and the payloads, if `payload` is
    /// true.
    #[expect(clippy::too_many_arguments, reason = "arguments of one private call")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: PyBuffer<f32>,
        k: usize,
        only: Option<Bound<'py, PyAny>>,
        recall: Option<f32>,
        search_list: Option<usize>,
        slack: Option<f32>,
        beam_width: Option<usize>,
        threads: usize,
        payload: bool,
    ) -> PyResult<Found<'py>> {
        let index = self.get(py)?;
        let dim = match *queries.shape() {
            [dim] | [_, dim] => dim,
            ref shape => {
                let what = format!("query has {} dimensions, it must have one or two", shape.len());
                return Err(errors::argument(py, what));
            }
        };
        if dim != self.dim {
            return Err(self.error(py, &Error::Dimension { expected: self.dim, got: dim }));
        }
        if threads > THREADS_MAX {
            let what = format!("threads is {threads}, it must be between 0 and {THREADS_MAX}");
            return Err(errors::argument(py, what));
        }
        let effort = Effort::of(recall, search_list, slack).map_err(|error| self.error(py, &error))?;
        let filter = only.map(|only| columns::filter(py, &only, 0)).transpose()?;
        let values = queries.to_vec(py)?;
        let texts = self.id_kind == IdKind::Text;
        let parts = RowParts { text_ids: texts, payloads: payload };
        let queries = Queries { values: &values, dim, k, filter, effort, beam_width, threads, parts };
        let Answers { buffer, done: Done { found, plan, texts: of_hits, payloads } } =
            queries.answer(py, &index, &self.path)?;
        let payloads = payload.then(|| {
            let lists = payloads.iter().map(|payloads| columns::payload_list(py, payloads));
            lists.collect::<PyResult<Vec<_>>>()
        });
        Ok((buffer, found, recall::warnings(&plan), texts.then_some(of_hits), payloads.transpose()?))
    }

    /// Measures which settings reach which recall, with `queries` or else with vectors of the
    /// index. Stores and returns the result. Returns `None` if the index has too few rows.
    #[pyo3(signature = (queries, threads, *, progress))]
    fn calibrate<'py>(
        &self,
        py: Python<'py>,
        queries: Option<PyBuffer<f32>>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let index = self.get(py)?;
        let queries = queries.map(|queries| queries.to_vec(py)).transpose()?;
        let mut watch = Watch::new(progress);
        let known =
            py.detach(|| index.calibrate(queries.as_deref(), threads, &mut |progress| watch.look(progress)));
        let known = known.map_err(|error| watch.take_raised().unwrap_or_else(|| self.error(py, &error)))?;
        let Some(known) = known else { return Ok(None) };
        // Changes by other threads wait while the result is stored, but not while it is measured.
        self.change(py, Watch::new(None), |index, _| pagehop_store::set_calibration(index, &known))?;
        recall::calibration(py, &known).map(Some)
    }

    /// Reads a code of each row into memory. Returns their bytes.
    fn load_row_codes(&self, py: Python<'_>, threads: usize, progress: Option<Py<PyAny>>) -> PyResult<usize> {
        let (index, mut watch) = (self.get(py)?, Watch::new(progress));
        let loaded =
            py.detach(|| pagehop_engine::load_row_codes(&index, threads, &mut |progress| watch.look(progress)));
        loaded.map_err(|error| watch.take_raised().unwrap_or_else(|| self.error(py, &error)))
    }

    /// The last calibration, if there was one.
    fn calibration<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let index = self.get(py)?;
        let known = py.detach(|| index.calibration()).map_err(|error| self.error(py, &error))?;
        known.map(|known| recall::calibration(py, &known)).transpose()
    }

    /// Measures the recall of searches for `k` rows, with `queries` or else with `samples` vectors
    /// of the index. Stores the result if the index is open for writing. Returns the result,
    /// whether it is below `recall`, and other warnings.
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
    ) -> PyResult<(Bound<'py, PyDict>, bool, Option<recall::Warnings>)> {
        let index = self.get(py)?;
        let effort = Effort::of(recall, search_list, slack).map_err(|error| self.error(py, &error))?;
        let queries = queries.map(|queries| queries.to_vec(py)).transpose()?;
        let mut watch = Watch::new(progress);
        let measured = py.detach(|| {
            let plan = index.options(k, &effort)?;
            let warnings = recall::warnings(&plan);
            let options = plan.options;
            let options = options.ok_or_else(|| Error::argument("searches with a recall of 1 find every row"))?;
            let mut look = |progress| watch.look(progress);
            Ok((index.recall(k, samples, queries.as_deref(), &options, threads, &mut look)?, warnings))
        });
        let (report, warnings) =
            measured.map_err(|error| watch.take_raised().unwrap_or_else(|| self.error(py, &error)))?;
        if index.pages().is_writable() && !self.is_forked() {
            self.change(py, Watch::new(None), |index, _| pagehop_store::set_audit(index, k, recall, &report))?;
        }
        let (words, is_missed) = recall::report(py, k, recall, &report)?;
        Ok((words, is_missed, warnings))
    }

    /// Adds rows, or replaces rows with the same ids. Returns the numbers of rows that were added,
    /// replaced and unchanged.
    #[pyo3(signature = (ids, vectors, *, columns, payload, threads, progress))]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python's")]
    fn add(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        vectors: PyBuffer<f32>,
        columns: Option<Vec<PyColumn<'_>>>,
        payload: Option<PyPayloads>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, u64)> {
        let (ids, vectors) = (Ids::of(ids)?, vectors.to_vec(py)?);
        let columns = columns::given(py, columns, payload)?;
        let report = self.change(py, Watch::new(progress), |index, watch| {
            let (columns, options) = (columns.as_ref(), AddOptions { threads, ..AddOptions::default() });
            let progress = &mut |progress| watch.look(progress);
            with_ids!(&ids, |ids| pagehop_store::add_with_columns(index, ids, &vectors, columns, options, progress))
        })?;
        Ok((report.added, report.replaced, report.unchanged))
    }

    /// Changes the values of rows in some columns, or their payloads. Returns how many rows
    /// changed.
    fn update_columns(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        columns: Vec<PyColumn<'_>>,
        payload: Option<PyPayloads>,
    ) -> PyResult<u64> {
        let ids = Ids::of(ids)?;
        let columns = columns::given(py, Some(columns), payload)?.unwrap_or_default();
        self.change(py, Watch::new(None), |index, watch| {
            let progress = &mut |progress| watch.look(progress);
            with_ids!(&ids, |ids| pagehop_store::update_columns(index, ids, &columns, progress))
        })
    }

    /// Deletes rows. Returns how many were deleted, and the ids that are not in the index.
    fn delete<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<(u64, Bound<'py, PyAny>)> {
        with_ids!(&Ids::of(ids)?, |ids| {
            let report = self.change(py, Watch::new(None), |index, watch| {
                pagehop_store::delete(index, ids, None, &mut |progress| watch.look(progress))
            })?;
            Ok((report.deleted, report.unknown.into_bound_py_any(py)?))
        })
    }

    /// Removes dead rows. Returns how many were freed, how many have to wait, and how many nodes
    /// were repaired.
    #[pyo3(signature = (*, progress))]
    fn vacuum(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(u64, u64, u64)> {
        let report = self.change(py, Watch::new(progress), |index, watch| {
            pagehop_store::vacuum(index, &mut |progress| watch.look(progress))
        })?;
        Ok((report.freed, report.waiting, report.repaired))
    }

    /// Up to `count` ids from `first` on, in order, as bytes of uint64.
    fn ids<'py>(&self, py: Python<'py>, first: u64, count: usize) -> PyResult<Bound<'py, PyByteArray>> {
        let index = self.get(py)?;
        let ids = py.detach(|| index.ids(first, count)).map_err(|error| self.error(py, &error))?;
        numbers(py, ids.len() * 8, ids.iter().flat_map(|id| id.to_le_bytes()))
    }

    /// Some text ids, about `count`, and where the next call must begin, which is `None` at the
    /// end.
    fn text_ids(&self, py: Python<'_>, first: u64, count: usize) -> PyResult<(Vec<String>, Option<u64>)> {
        let index = self.get(py)?;
        py.detach(|| index.text_ids(first, count)).map_err(|error| self.error(py, &error))
    }

    /// Whether each of these ids has a row.
    fn contains(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (index, ids) = (self.get(py)?, Ids::of(ids)?);
        let found = py.detach(|| with_ids!(&ids, |ids| ids::contains(&index, ids)));
        found.map_err(|error| self.error(py, &error))
    }

    /// The vectors of rows, in the order of `ids`, as bytes of float32.
    fn vectors<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyByteArray>> {
        let (index, ids) = (self.get(py)?, Ids::of(ids)?);
        let vectors = py.detach(|| with_ids!(&ids, |ids| index.vectors(ids)));
        let vectors = vectors.map_err(|error| self.error(py, &error))?;
        numbers(py, vectors.len() * 4, vectors.iter().flat_map(|x| x.to_le_bytes()))
    }

    /// The payloads of rows, in the order of `ids`.
    fn payloads<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (index, ids) = (self.get(py)?, Ids::of(ids)?);
        let payloads = py.detach(|| with_ids!(&ids, |ids| index.payloads(ids)));
        let payloads = payloads.map_err(|error| self.error(py, &error))?;
        columns::payload_list(py, &payloads)
    }

    /// Trains the model again and builds the graph again.
    #[pyo3(signature = (*, progress))]
    fn retrain(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.change(py, Watch::new(progress), |index, watch| {
            pagehop_store::retrain(index, &mut |progress| watch.look(progress))
        })
    }

    /// Deletes rows and returns their vectors, in the order of `ids`, as bytes of float32.
    fn pop<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyByteArray>> {
        let ids = Ids::of(ids)?;
        let vectors = self.change(py, Watch::new(None), |index, watch| {
            with_ids!(&ids, |ids| pagehop_store::pop(index, ids, &mut |progress| watch.look(progress)))
        })?;
        numbers(py, vectors.len() * 4, vectors.iter().flat_map(|x| x.to_le_bytes()))
    }

    /// Copies the index to `target`. Returns the numbers of pages and bytes.
    #[pyo3(signature = (target, *, overwrite, progress))]
    fn backup(
        &self,
        py: Python<'_>,
        target: PathBuf,
        overwrite: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u32, u64)> {
        let index = self.get(py)?;
        let mut watch = Watch::new(progress);
        let done =
            py.detach(|| pagehop_store::backup(&index, &target, overwrite, &mut |progress| watch.look(progress)));
        let done = done.map_err(|error| watch.take_raised().unwrap_or_else(|| self.error(py, &error)))?;
        Ok((done.pages, done.bytes))
    }

    /// The file that is open: an absolute path without links.
    fn file(&self, py: Python<'_>) -> PyResult<PathBuf> {
        Ok(self.get(py)?.pages().path().to_path_buf())
    }

    /// Writes every commit into the index file.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, Watch::new(None), |index, _| index.pages().checkpoint())
    }

    /// Refuses an index that is closed, that is not open for writing, or that was opened before a
    /// fork. Each method of Python's that changes the index calls it first, because this error
    /// comes before those of arguments, which Python checks.
    fn may_change(&self, py: Python<'_>) -> PyResult<()> {
        let index = self.get(py)?;
        let path = index.pages().path().display();
        if !index.pages().is_writable() {
            let what = format!("{path} is open for reading; pagehop.open(path, write=True) opens it for writing");
            return Err(errors::argument(py, what));
        }
        if self.is_forked() {
            let what = format!("{path} was opened for writing before this process was forked; open it again");
            return Err(errors::to_python(py, &Error::Forked { what }));
        }
        Ok(())
    }

    /// Reads every page and proves the structure of the index. Returns the counts.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let index = self.get(py)?;
        // A check must not read some pages from before a commit and others from after it.
        let alone = index.pages().is_writable() && !self.is_forked();
        let _held = if alone { Some(self.turn.take(py)?) } else { None };
        let mut watch = Watch::new(None);
        let checked = py.detach(|| pagehop_store::check(&index, &mut |progress| watch.look(progress)));
        let report = checked.map_err(|error| watch.take_raised().unwrap_or_else(|| self.error(py, &error)))?;
        let words = PyDict::new(py);
        words.set_item("pages", report.pages)?;
        words.set_item("nodes", report.nodes)?;
        words.set_item("dead_nodes", report.dead_nodes)?;
        words.set_item("free_slots", report.free_slots)?;
        words.set_item("edges", report.edges)?;
        words.set_item("stale_edges", report.stale_edges)?;
        words.set_item("reachable", report.reachable)?;
        words.set_item("anchored", report.anchored)?;
        Ok(words)
    }

    /// The description of the index as of its newest commit, and what was written since it was
    /// opened.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let index = self.get(py)?;
        let info = py.detach(|| index.info()).map_err(|error| self.error(py, &error))?;
        info::words(py, info, index.pages().counters(), self.log_bytes.load(Ordering::Relaxed))
    }

    /// The number of rows as of the newest commit. A closed index returns the number at `close`.
    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        let Some(index) = self.get_if_open() else {
            return Ok(self.rows.load(Ordering::Relaxed));
        };
        let info = py.detach(|| index.info()).map_err(|error| self.error(py, &error))?;
        self.rows.store(info.rows, Ordering::Relaxed);
        Ok(info.rows)
    }

    /// Closes the file when the running searches are done. If it is open for writing, the commits
    /// are written into it first. Closing twice does nothing.
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
        closed.map_err(|error| self.error(py, &error))
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.get_if_open().is_none()
    }

    /// Whether rows can be added and deleted. False after `close`.
    #[getter]
    fn writable(&self) -> bool {
        self.get_if_open().is_some_and(|index| index.pages().is_writable())
    }

    /// Whether ids are texts.
    #[getter]
    fn has_text_ids(&self) -> bool {
        self.id_kind == IdKind::Text
    }

    /// The names and kinds of the columns.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::columns(py, &self.get(py)?.columns())
    }

    /// Components of each vector.
    #[getter]
    fn dim(&self) -> usize {
        self.dim
    }
}

/// `length` bytes of numbers in an object that Python wraps as an array.
fn numbers<'py>(
    py: Python<'py>,
    length: usize,
    bytes: impl Iterator<Item = u8>,
) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, length, |buffer| {
        buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Ok(())
    })
}
