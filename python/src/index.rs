//! An open index as a Python object.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use pagehop_engine::{Error, SearchOptions};
use pagehop_store::{FilePages, OpenOptions};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::search::{self, COUNTERS, Stop};

type FileIndex = pagehop_engine::Index<FilePages>;

/// An open index file. Every method may be called from any thread.
#[pyclass(frozen, module = "pagehop._pagehop")]
pub(crate) struct Index {
    /// `None` once closed. A search under way keeps the file open until it is done.
    open: RwLock<Option<Arc<FileIndex>>>,
}

/// Opens the index at `path`, keeping at most `cache_bytes` of it in memory.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, path: PathBuf, cache_bytes: u64) -> PyResult<Index> {
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    let index =
        py.detach(|| pagehop_store::open(&path, &options)).map_err(|error| errors::to_python(py, &error))?;
    Ok(Index { open: RwLock::new(Some(Arc::new(index))) })
}

/// Bytes meant by a size such as `"256MiB"`.
#[pyfunction]
pub(crate) fn parse_bytes(py: Python<'_>, text: &str) -> PyResult<u64> {
    pagehop_store::parse_bytes(text).map_err(|error| errors::to_python(py, &error))
}

impl Index {
    fn get(&self, py: Python<'_>) -> PyResult<Arc<FileIndex>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| errors::argument(py, "the index is closed"))
    }
}

#[pymethods]
impl Index {
    /// Answers every row of `queries` into the rows of the three output arrays.
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
        threads: usize,
    ) -> PyResult<()> {
        let index = self.get(py)?;
        let (&[rows, dim], &[_, k]) = (queries.shape(), ids.shape()) else {
            return Err(errors::argument(py, "queries and ids must be two-dimensional"));
        };
        if [ids.shape(), distances.shape(), counters.shape()] != [[rows, k], [rows, k], [rows, COUNTERS]] {
            return Err(errors::argument(py, "an output array has another shape than the queries ask for"));
        }
        let expected = index.info().dim;
        if dim != expected {
            return Err(errors::to_python(py, &Error::Dimension { expected, got: dim }));
        }
        let options = SearchOptions::choose(search_list, slack, beam_width);
        if k == 0 {
            return Err(errors::argument(py, "k is 0, it must be at least 1"));
        }
        let components = queries.to_vec(py)?;
        let found = py.detach(|| search::batch(&index, &components, dim, k, &options, threads));
        match found {
            Ok(batch) => {
                ids.copy_from_slice(py, &batch.ids)?;
                distances.copy_from_slice(py, &batch.distances)?;
                counters.copy_from_slice(py, &batch.counters)
            }
            Err(Stop::Python(error)) => Err(error),
            Err(Stop::Engine { row, error: Error::Argument { what } }) if rows > 1 => {
                Err(errors::argument(py, format!("query {row}: {what}")))
            }
            Err(Stop::Engine { error, .. }) => Err(errors::to_python(py, &error)),
        }
    }

    /// Reads every page and proves the structure: pages, nodes, edges and reachable nodes.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let index = self.get(py)?;
        let mut raised = None;
        let checked = py.detach(|| {
            index.check(&mut |_| match Python::attach(|py| py.check_signals()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            })
        });
        let report = checked.map_err(|error| raised.unwrap_or_else(|| errors::to_python(py, &error)))?;
        let words = PyDict::new(py);
        words.set_item("pages", report.pages)?;
        words.set_item("nodes", report.nodes)?;
        words.set_item("edges", report.edges)?;
        words.set_item("reachable", report.reachable)?;
        Ok(words)
    }

    /// What the index says of itself.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.get(py)?.info();
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
        Ok(words)
    }

    /// Closes the file once the searches under way are done; closing twice does nothing.
    fn close(&self) {
        drop(self.open.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.open.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}
