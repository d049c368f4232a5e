//! Compaction of an index file.

use std::path::PathBuf;

use pagehop_store::{CompactOptions, OpenOptions};
use pyo3::prelude::*;

use crate::errors;
use crate::watch::Watch;

/// Writes the live rows of the index at `path` again, in its place or `into` a new file. Returns
/// the number of rows, and the numbers of pages after and before.
#[pyfunction]
#[pyo3(signature = (path, *, into, overwrite, memory_bytes, threads, progress))]
pub(crate) fn compact(
    py: Python<'_>,
    path: PathBuf,
    into: Option<PathBuf>,
    overwrite: bool,
    memory_bytes: u64,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u32, u32)> {
    let options = CompactOptions { memory_bytes, threads };
    let mut watch = Watch::new(progress);
    let done = py.detach(|| {
        let mut look = |progress| watch.look(progress);
        let Some(target) = into else { return pagehop_store::compact(&path, &options, &mut look) };
        let index = pagehop_store::open(&path, &OpenOptions::default())?;
        pagehop_store::compact_into(&index, &target, overwrite, &options, &mut look)
    });
    let done = done.map_err(|error| watch.take_raised().unwrap_or_else(|| errors::to_python(py, &error)))?;
    Ok((done.rows, done.pages, done.pages_before))
}
