//! `build` and `create`: new index files.

use std::path::PathBuf;

use pagehop_engine::{BuildOptions, CreateOptions, Error, IdKind};
use pyo3::prelude::*;

use crate::columns::{self, PyColumn, PyPayloads};
use crate::errors;
use crate::ids;
use crate::source::PySource;
use crate::watch::Watch;

/// Builds an index over all rows of `source` at `path`. Returns the numbers of rows and pages.
///
/// `source.chunks()` yields pairs of uint64 ids and C-contiguous float32 vectors, the same pairs in
/// each call.
#[pyfunction]
#[pyo3(signature = (path, source, dim, *, texts, columns, payload, metric, vectors, memory_bytes, threads, seed, calibrate, overwrite, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of one private call")]
pub(crate) fn build(
    py: Python<'_>,
    path: PathBuf,
    source: Py<PyAny>,
    dim: usize,
    texts: Option<Vec<String>>,
    columns: Option<Vec<PyColumn<'_>>>,
    payload: Option<PyPayloads>,
    metric: &str,
    vectors: &str,
    memory_bytes: u64,
    threads: usize,
    seed: u64,
    calibrate: bool,
    overwrite: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u32)> {
    let metric = metric.parse().map_err(|error| errors::to_python(py, &error))?;
    let vectors = vectors.parse().map_err(|error| errors::to_python(py, &error))?;
    let id_kind = if texts.is_some() { IdKind::Text } else { IdKind::Int };
    let options = BuildOptions { metric, id_kind, vectors, memory_bytes, threads, seed, calibrate };
    let columns = columns::given(py, columns, payload)?;
    let rows = source.getattr(py, "rows")?.extract(py)?;
    let mut source = PySource::new(source, (rows, dim), texts, columns);
    let mut watch = Watch::new(progress);
    let built = py.detach(|| {
        pagehop_store::build(&path, &mut source, &options, overwrite, &mut |progress| watch.look(progress))
    });
    match built {
        Ok(report) => Ok((report.rows, report.pages)),
        Err(Error::Interrupted) => {
            let raised = source.take_raised().or(watch.take_raised());
            Err(raised.unwrap_or_else(|| errors::to_python(py, &Error::Interrupted)))
        }
        Err(error) => Err(errors::to_python(py, &error)),
    }
}

/// Creates an empty index at `path`.
#[pyfunction]
#[pyo3(signature = (path, dim, *, id_kind, columns, payload, metric, vectors, seed, overwrite))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of one private call")]
pub(crate) fn create(
    py: Python<'_>,
    path: PathBuf,
    dim: usize,
    id_kind: &str,
    columns: Vec<(String, String)>,
    payload: bool,
    metric: &str,
    vectors: &str,
    seed: u64,
    overwrite: bool,
) -> PyResult<()> {
    let columns = columns::of_kinds(py, columns)?;
    let metric = metric.parse().map_err(|error| errors::to_python(py, &error))?;
    let vectors = vectors.parse().map_err(|error| errors::to_python(py, &error))?;
    let options = CreateOptions { metric, id_kind: ids::kind(py, id_kind)?, vectors, columns, payload, seed };
    let created = py.detach(|| pagehop_store::create(&path, dim, &options, overwrite));
    created.map_err(|error| errors::to_python(py, &error))
}
