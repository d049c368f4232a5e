//! What is measured of an index file, stored in it. Searches and changes go on meanwhile: only to store it takes a transaction, and
//! it is one that changes no row.

use pagehop_engine::index::OnProgress;
use pagehop_engine::{Audit, Calibration, Error, Index, RecallReport};

use crate::changes::within;
use crate::file::FilePages;

/// Measures which settings reach which recall, for vectors of the index or, if there are any, for `queries`, and stores it; see
/// [`Index::calibrate`]. `None` for an index of too few rows, in which nothing is stored.
///
/// # Errors
///
/// Those of [`Index::calibrate`], of [`FilePages::begin`] and of [`Transaction::commit`](crate::Transaction::commit). Nothing has
/// changed then.
pub fn calibrate(
    index: &Index<FilePages>,
    queries: &[f32],
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<Option<Calibration>, Error> {
    let calibration = index.calibrate(queries, threads, progress)?;
    calibration.iter().try_for_each(|known| set_calibration(index, known))?;
    Ok(calibration)
}

/// Stores what [`Index::calibrate`] measured.
///
/// # Errors
///
/// Those of [`FilePages::begin`] and of [`Transaction::commit`](crate::Transaction::commit). Nothing has changed then.
pub fn set_calibration(index: &Index<FilePages>, calibration: &Calibration) -> Result<(), Error> {
    within(index, |change| change.set_calibration(calibration.clone()))
}

/// Stores what [`Index::recall`] found of searches for `k` rows, of which `target` were to be found.
///
/// # Errors
///
/// Those of [`FilePages::begin`] and of [`Transaction::commit`](crate::Transaction::commit). Nothing has changed then.
pub fn set_audit(
    index: &Index<FilePages>,
    k: usize,
    target: Option<f32>,
    report: &RecallReport,
) -> Result<(), Error> {
    let audit = Audit::of(&index.info()?, k, target, report);
    within(index, |change| change.set_audit(audit))
}
