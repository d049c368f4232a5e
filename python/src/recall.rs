//! Calibrations and audits as Python dicts, with the names of `pagehop/reports.py`.

use pagehop_engine::{Audit, Calibration, Measured, RECALLS, Reach, RecallReport, SearchPlan};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The warnings, in the order of `RecallWarnings.of_plan` in `pagehop/recall_warnings.py`: whether
/// the index was never calibrated; the highest recall that was measured, if the given one is
/// higher; if the calibration is outdated, the rows that changed since, the rows that the index had
/// then, and whether longer rows were added; and the number of the calibration.
pub(crate) type Warnings = (bool, Option<f32>, Option<(u64, u64, bool)>, u64);

/// The warnings of a plan; `None` if there are none.
pub(crate) fn warnings(plan: &SearchPlan) -> Option<Warnings> {
    let outdated = plan.outdated.map(|known| (known.changes, known.rows, known.longer_rows));
    match plan.reach {
        Reach::Within => outdated.map(|outdated| (false, None, Some(outdated), plan.calibration)),
        Reach::Beyond { best } => Some((false, Some(best), outdated, plan.calibration)),
        Reach::Uncalibrated => Some((true, None, outdated, plan.calibration)),
    }
}

/// A calibration: its settings and how they were measured.
pub(crate) fn calibration<'py>(py: Python<'py>, known: &Calibration) -> PyResult<Bound<'py, PyDict>> {
    let settings = PyList::empty(py);
    for entry in &known.entries {
        for (recall, setting) in RECALLS.iter().zip(&entry.settings) {
            let (list, slack, half_interval) = match setting {
                Some(setting) => (Some(setting.search_list), Some(setting.slack), Some(setting.half_interval)),
                None => (None, None, None),
            };
            settings.append((entry.k, short(*recall), list, slack, half_interval, entry.best))?;
        }
    }
    let words = PyDict::new(py);
    words.set_item("rows", known.rows)?;
    words.set_item("samples", known.samples)?;
    words.set_item("by_queries", known.by_queries)?;
    words.set_item("settings", settings)?;
    Ok(words)
}

/// The last calibration, and the changes since.
pub(crate) fn measured<'py>(py: Python<'py>, known: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("rows", known.rows)?;
    words.set_item("samples", known.samples)?;
    words.set_item("by_queries", known.by_queries)?;
    words.set_item("changes", known.changes)?;
    words.set_item("longer_rows", known.longer_rows)?;
    words.set_item("outdated", known.is_outdated())?;
    Ok(words)
}

/// The last audit that was stored. `since` is the number of rows that changed after it.
pub(crate) fn audit<'py>(py: Python<'py>, audit: &Audit, since: u64) -> PyResult<Bound<'py, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("k", audit.k)?;
    words.set_item("recall", audit.recall)?;
    words.set_item("half_interval", audit.half_interval)?;
    words.set_item("target", audit.target.map(short))?;
    words.set_item("samples", audit.samples)?;
    words.set_item("rows", audit.rows)?;
    words.set_item("changes", since)?;
    Ok(words)
}

/// The result of an audit, and whether it is below `target`.
pub(crate) fn report<'py>(
    py: Python<'py>,
    k: usize,
    target: Option<f32>,
    report: &RecallReport,
) -> PyResult<(Bound<'py, PyDict>, bool)> {
    let words = PyDict::new(py);
    words.set_item("k", k)?;
    words.set_item("recall", report.recall)?;
    words.set_item("half_interval", report.half_interval)?;
    words.set_item("target", target.map(short))?;
    words.set_item("samples", report.samples)?;
    words.set_item("hops", report.hops)?;
    words.set_item("far", report.far)?;
    Ok((words, target.is_some_and(|target| report.misses(target))))
}

/// A recall with at most six decimals: 0.9, not 0.8999999761581421.
pub(crate) fn short(recall: f32) -> f64 {
    (f64::from(recall) * 1e6).round() / 1e6
}
