//! How an index file is opened.

use std::path::PathBuf;

use pagehop_store::{Durability, OpenOptions};
use pyo3::prelude::*;

use crate::errors;
use crate::index::Index;

/// Opens the index at `path`, with at most `cache_bytes` of its pages in memory.
#[pyfunction]
#[pyo3(signature = (path, cache_bytes, *, direct, write, durability, log_bytes, auto_vacuum))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of one private call")]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    cache_bytes: u64,
    direct: Option<bool>,
    write: bool,
    durability: &str,
    log_bytes: u64,
    auto_vacuum: Option<f32>,
) -> PyResult<Index> {
    let durability = match durability {
        "commit" => Durability::Commit,
        "checkpoint" => Durability::Checkpoint,
        other => {
            let what = format!("durability is '{other}', it must be 'commit' or 'checkpoint'");
            return Err(errors::argument(py, what));
        }
    };
    let options =
        OpenOptions { cache_bytes, direct, write, durability, log_bytes, auto_vacuum, ..OpenOptions::default() };
    let opened =
        py.detach(|| pagehop_store::open(&path, &options).and_then(|index| Index::new(index, path.clone())));
    opened.map_err(|error| errors::to_python(py, &error))
}

/// The bytes of a size such as `"256MiB"`.
#[pyfunction]
pub(crate) fn parse_bytes(py: Python<'_>, text: &str) -> PyResult<u64> {
    pagehop_store::parse_bytes(text).map_err(|error| errors::to_python(py, &error))
}
