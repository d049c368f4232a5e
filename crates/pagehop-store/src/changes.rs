//! Whole operations on an index file. Each is one transaction: it takes place altogether, or not at all.

use std::ops::ControlFlow;
use std::path::Path;

use pagehop_engine::index::OnProgress;
use pagehop_engine::{AddReport, Change, DeleteReport, Error, Index, Metric, Progress, RowIds, VacuumReport};

use crate::file::FilePages;
use crate::measure::calibrate;
use crate::sink::FileSink;
use crate::transaction::Transaction;

/// Dead nodes that one transaction of a vacuum takes out: few enough that its pages fit in memory, and that
/// little is lost if it is stopped.
const VACUUM_NODES: u64 = 256;

/// Makes an index without rows at `path`, to be opened for writing.
///
/// # Errors
///
/// Those of [`FileSink::create`]; [`Error::Argument`] for a number of dimensions that no index has;
/// [`Error::Io`] if the file cannot be written.
pub fn create(path: &Path, dim: usize, metric: Metric, seed: u64, overwrite: bool) -> Result<(), Error> {
    let mut sink = FileSink::create(path, overwrite)?;
    pagehop_engine::create(dim, metric, seed, RowIds::Mapped, &mut sink)?;
    sink.finish()
}

/// Adds rows, replacing those of the same ids; see [`Change::add`]. With a `mark`, the index carries it from then
/// on ([`pagehop_engine::Info`]): an import that notes how far it is can go on after a crash where it was.
///
/// Where the rows trained the model anew, made an index large enough for it, or doubled it, it is calibrated as at the end of a build, once they
/// are in: that is a transaction of its own, and nobody's loss if it does not come to be, because `progress` says so or for any
/// other reason. A calibration by a user's queries stays, for vectors of the data are no substitute for them;
/// [`pagehop_engine::Info`] says how much has changed since.
///
/// # Errors
///
/// Those of [`FilePages::begin`], of [`Change::add`] and of [`Transaction::commit`]. Nothing has changed then.
pub fn add(
    index: &Index<FilePages>,
    ids: &[u64],
    vectors: &[f32],
    mark: Option<[u64; 2]>,
    progress: OnProgress<'_>,
) -> Result<AddReport, Error> {
    let (report, wants_calibration) = within(index, |change| {
        if let Some(mark) = mark {
            change.set_mark(mark);
        }
        let report = change.add(ids, vectors, progress)?;
        Ok((report, change.wants_calibration()))
    })?;
    if wants_calibration {
        // The rows are in. Whatever keeps them from being measured is for the next search to meet.
        let _ = calibrate(index, &[], 0, progress);
    }
    Ok(report)
}

/// Deletes rows; ids that the index does not have are reported. With a `mark` as in [`add`].
///
/// # Errors
///
/// Those of [`FilePages::begin`], of [`Change::delete`] and of [`Transaction::commit`]. Nothing has changed then.
pub fn delete(index: &Index<FilePages>, ids: &[u64], mark: Option<[u64; 2]>) -> Result<DeleteReport, Error> {
    within(index, |change| {
        if let Some(mark) = mark {
            change.set_mark(mark);
        }
        change.delete(ids)
    })
}

/// Takes deleted and replaced rows that no reader can see any more out of the graph, and frees their space for
/// the rows to come. One transaction for every few hundred: what was done stays done if it is stopped.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` says so; those of [`FilePages::begin`], of [`Change::vacuum`] and of
/// [`Transaction::commit`].
pub fn vacuum(index: &Index<FilePages>, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
    let total = index.info()?.dead_rows;
    let mut report = VacuumReport::default();
    loop {
        let freed = report.freed;
        let mut whole = |part: Progress| -> ControlFlow<()> {
            progress(Progress { done: freed + part.done, total: total.max(freed + part.done), ..part })
        };
        let part = within(index, |change| change.vacuum(VACUUM_NODES, &mut whole))?;
        report.add(&part);
        if part.steps() == 0 {
            return Ok(report);
        }
    }
}

/// Changes an index by `work`, in one transaction.
pub(crate) fn within<T>(
    index: &Index<FilePages>,
    work: impl FnOnce(&mut Change<'_, Transaction<'_>>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut transaction = index.pages().begin()?;
    let mut change = index.change(&mut transaction)?;
    let report = work(&mut change)?;
    change.finish()?;
    transaction.commit()?;
    Ok(report)
}
