//! The description of an index, as a Python dict.

use pagehop_engine::{Column, Info};
use pagehop_store::Counters;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::recall;

/// The description of an index, and what was written since it was opened.
pub(crate) fn words(py: Python<'_>, info: Info, counters: Counters, log_bytes: u64) -> PyResult<Bound<'_, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("format_version", info.format_version)?;
    words.set_item("metric", info.metric.name())?;
    words.set_item("dim", info.dim)?;
    words.set_item("vectors", info.vectors.name())?;
    words.set_item("id_kind", info.id_kind.name())?;
    words.set_item("payload", info.payload)?;
    words.set_item("columns", columns(py, &info.columns)?)?;
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
    words.set_item("default_recall", info.default_recall.map(recall::short))?;
    words.set_item("calibrated", info.calibrated.map(|known| recall::measured(py, &known)).transpose()?)?;
    let audit = info.audit.zip(info.audited);
    let audit = audit.map(|(audit, since)| recall::audit(py, &audit, since.changes)).transpose()?;
    words.set_item("audit", audit)?;
    words.set_item("log_bytes", log_bytes)?;
    words.set_item("log_bytes_written", counters.log_bytes_written)?;
    words.set_item("page_bytes_written", counters.page_bytes_written)?;
    words.set_item("commits", counters.commits)?;
    words.set_item("checkpoints", counters.checkpoints)?;
    Ok(words)
}

/// Columns as a dict of names and kinds.
pub(crate) fn columns<'py>(py: Python<'py>, columns: &[Column]) -> PyResult<Bound<'py, PyDict>> {
    let words = PyDict::new(py);
    columns.iter().try_for_each(|column| words.set_item(&column.name, column.kind.name()))?;
    Ok(words)
}
