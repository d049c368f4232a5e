//! What is measured of an index, and what was, as Python objects: dicts whose words are those of `pagehop/reports.py`.

use pagehop_engine::index::RECALLS;
use pagehop_engine::{Audit, Calibration, Error, Info, Measured, RecallReport, SearchOptions};
use pagehop_store::FilePages;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// How to search for `k` rows, by what the user gave: one of `recall` and the others, or none, which stands for the recall that a
/// calibrated index finds by itself.
pub(crate) fn options(
    index: &pagehop_engine::Index<FilePages>,
    k: usize,
    recall: Option<f32>,
    search_list: Option<usize>,
    slack: Option<f32>,
    beam_width: Option<usize>,
) -> Result<SearchOptions, Error> {
    let known = match (recall, SearchOptions::given(search_list, slack)) {
        (Some(recall), _) => index.tuned(k, recall)?,
        (None, Some(given)) => Some(given),
        (None, None) => Some(index.tuned_or_default(k)?),
    };
    match known {
        Some(known) => Ok(SearchOptions { beam_width: beam_width.unwrap_or(known.beam_width), ..known }),
        None => Err(Error::argument(
            "the index was never calibrated, so recall has no meaning for it: calibrate() measures what each recall takes; \
             it must be open for writing",
        )),
    }
}

/// Changes since the index was calibrated, if they are so many that it should be again.
pub(crate) fn outdated(info: &Info) -> Option<(u64, u64)> {
    let known = info.calibration.filter(Measured::is_outdated)?;
    Some((known.changes, known.rows))
}

/// What the index is calibrated to.
pub(crate) fn calibration<'py>(py: Python<'py>, known: &Calibration) -> PyResult<Bound<'py, PyDict>> {
    let settings = PyList::empty(py);
    for entry in &known.entries {
        for (recall, setting) in RECALLS.iter().zip(&entry.settings) {
            let (slack, list, interval) = match setting {
                Some(setting) => (Some(setting.slack), Some(setting.search_list), Some(setting.interval)),
                None => (None, None, None),
            };
            settings.append((entry.k, short(*recall), slack, list, interval, entry.best))?;
        }
    }
    let words = PyDict::new(py);
    words.set_item("rows", known.rows)?;
    words.set_item("samples", known.samples)?;
    words.set_item("by_queries", known.by_queries)?;
    words.set_item("settings", settings)?;
    Ok(words)
}

/// What has become of the index since it was calibrated.
pub(crate) fn measured<'py>(py: Python<'py>, known: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("rows", known.rows)?;
    words.set_item("samples", known.samples)?;
    words.set_item("by_queries", known.by_queries)?;
    words.set_item("changes", known.changes)?;
    words.set_item("outdated", known.is_outdated())?;
    Ok(words)
}

/// What the last audit that was stored found.
pub(crate) fn audit<'py>(py: Python<'py>, audit: &Audit, since: u64) -> PyResult<Bound<'py, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("k", audit.k)?;
    words.set_item("recall", audit.recall)?;
    words.set_item("interval", audit.interval)?;
    words.set_item("target", audit.target.map(short))?;
    words.set_item("samples", audit.samples)?;
    words.set_item("rows", audit.rows)?;
    words.set_item("changes", since)?;
    Ok(words)
}

/// What an audit found, and whether `target` is missed.
pub(crate) fn report<'py>(
    py: Python<'py>,
    k: usize,
    target: Option<f32>,
    report: &RecallReport,
) -> PyResult<(Bound<'py, PyDict>, bool)> {
    let words = PyDict::new(py);
    words.set_item("k", k)?;
    words.set_item("recall", report.recall)?;
    words.set_item("interval", report.interval)?;
    words.set_item("target", target.map(short))?;
    words.set_item("samples", report.samples)?;
    words.set_item("hops", report.hops)?;
    words.set_item("far", report.far)?;
    Ok((words, target.is_some_and(|target| report.misses(target))))
}

/// A recall as people write it: 0.9, and not the double nearest to the float nearest to it.
fn short(recall: f32) -> f64 {
    (f64::from(recall) * 1e6).round() / 1e6
}
