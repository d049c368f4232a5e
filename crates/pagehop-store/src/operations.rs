//! Whole operations on an index file. Each, except `vacuum`, is one transaction: all of it takes
//! place, or nothing. Further work, such as vacuum or a calibration, follows in transactions of its
//! own. The operation has succeeded even if that work fails or is stopped.

use std::path::Path;

use pagehop_engine::{
    AddReport, Audit, Calibration, ColumnRows, CreateOptions, DeleteReport, Error, IdKind, Index, OnProgress,
    RecallReport, RowId, VacuumReport,
};

use crate::atomic_change::within;
use crate::build::new_file::NewIndexFile;
use crate::index_file::IndexFile;
use crate::options::OpenOptions;
// In braces, only the room is imported: the function below has the same name.
use crate::vacuum::{self};

/// Opens the index at `path`.
///
/// # Errors
///
/// Those of [`IndexFile::open`] and of [`Index::open`].
pub fn open(path: &Path, options: &OpenOptions) -> Result<Index<IndexFile>, Error> {
    Index::open(IndexFile::open(path, options)?)
}

/// Makes an index without rows at `path`, to be opened for writing.
///
/// # Errors
///
/// Those of [`NewIndexFile::create`] and of [`pagehop_engine::create`]; [`Error::Argument`] for
/// [`IdKind::HostOwned`]; [`Error::Io`] if the file cannot be written.
pub fn create(path: &Path, dim: usize, options: &CreateOptions, overwrite: bool) -> Result<(), Error> {
    if options.id_kind == IdKind::HostOwned {
        return Err(Error::argument("an index file has no host that owns its rows"));
    }
    let mut sink = NewIndexFile::create(path, overwrite)?;
    pagehop_engine::create(dim, options, &mut sink)?;
    sink.finish()
}

/// The options of an addition.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddOptions {
    /// The mark that the index then has ([`pagehop_engine::Info`]): an import that stores its
    /// progress there can resume after a crash.
    pub mark: Option<[u64; 2]>,
    /// Threads; 0 for as many as the process may use. With 1 the same rows always give the same
    /// pages ([`add_on_threads`](pagehop_engine::Change::add_on_threads)).
    pub threads: usize,
}

/// Adds rows, replacing those of the same ids; see [`add`](pagehop_engine::Change::add).
///
/// The index is then calibrated as at the end of a build, if the rows trained the model again or
/// made the index large enough, or if as many rows have changed since the last calibration as the
/// index had then ([`wants_calibration`](pagehop_engine::Change::wants_calibration)). This is a
/// transaction of its own. A failure there is ignored, and so is a stop by `progress`: the rows are
/// already committed. A calibration by a user's queries stays; [`pagehop_engine::Info`] says how
/// much has changed since.
///
/// # Errors
///
/// Those of [`IndexFile::begin`], of [`add`](pagehop_engine::Change::add) and of
/// [`commit`](crate::Transaction::commit). Nothing has changed then.
pub fn add<I: RowId>(
    index: &Index<IndexFile>,
    ids: &[I],
    vectors: &[f32],
    options: AddOptions,
    progress: OnProgress<'_>,
) -> Result<AddReport, Error> {
    add_with_columns(index, ids, vectors, None, options, progress)
}

/// [`add`] of rows with values of columns; see [`Change::add`](pagehop_engine::Change::add).
///
/// # Errors
///
/// Those of [`add`]. Nothing has changed then.
pub fn add_with_columns<I: RowId>(
    index: &Index<IndexFile>,
    ids: &[I],
    vectors: &[f32],
    columns: Option<&ColumnRows>,
    options: AddOptions,
    progress: OnProgress<'_>,
) -> Result<AddReport, Error> {
    let (report, wants_calibration) = within(index, |change| {
        if let Some(mark) = options.mark {
            change.set_mark(mark);
        }
        let report = change.add_on_threads(ids, vectors, columns, options.threads, progress)?;
        Ok((report, change.wants_calibration()))
    })?;
    vacuum::after(index, report.replaced, progress);
    if wants_calibration {
        // The rows are committed already.
        let _ = calibrate(index, None, 0, progress);
    }
    Ok(report)
}

/// Gives rows other values in some columns; returns how many changed. See
/// [`update_columns`](pagehop_engine::Change::update_columns). Each of these rows leaves a dead one
/// behind, whose space may then be freed as after [`delete`].
///
/// # Errors
///
/// Those of [`IndexFile::begin`], of [`update_columns`](pagehop_engine::Change::update_columns) and
/// of [`commit`](crate::Transaction::commit). Nothing has changed then.
pub fn update_columns<I: RowId>(
    index: &Index<IndexFile>,
    ids: &[I],
    columns: &ColumnRows,
    progress: OnProgress<'_>,
) -> Result<u64, Error> {
    let changed = within(index, |change| change.update_columns(ids, columns))?;
    vacuum::after(index, changed, progress);
    Ok(changed)
}

/// Deletes rows; ids that the index does not have are reported. With a `mark` as in [`AddOptions`].
/// Then the space of dead rows may be freed ([`OpenOptions::auto_vacuum`]), which `progress` is
/// called for and may stop.
///
/// # Errors
///
/// Those of [`IndexFile::begin`], of [`delete`](pagehop_engine::Change::delete) and of
/// [`commit`](crate::Transaction::commit). Nothing has changed then.
pub fn delete<I: RowId>(
    index: &Index<IndexFile>,
    ids: &[I],
    mark: Option<[u64; 2]>,
    progress: OnProgress<'_>,
) -> Result<DeleteReport<I>, Error> {
    let report = within(index, |change| {
        if let Some(mark) = mark {
            change.set_mark(mark);
        }
        change.delete(ids)
    })?;
    vacuum::after(index, report.deleted, progress);
    Ok(report)
}

/// Deletes rows and returns their vectors, in the order of `ids`; see
/// [`pop`](pagehop_engine::Change::pop). Then as [`delete`].
///
/// # Errors
///
/// Those of [`IndexFile::begin`], of [`pop`](pagehop_engine::Change::pop) and of
/// [`commit`](crate::Transaction::commit). Nothing has changed then.
pub fn pop<I: RowId>(index: &Index<IndexFile>, ids: &[I], progress: OnProgress<'_>) -> Result<Vec<f32>, Error> {
    let vectors = within(index, |change| change.pop(ids))?;
    vacuum::after(index, ids.len() as u64, progress);
    Ok(vectors)
}

/// Takes deleted and replaced rows that no reader can see any more out of the graph, and frees
/// their space for the rows to come. One transaction for every few hundred: if it is stopped, the
/// work done so far is kept.
///
/// The index is then calibrated, as at the end of a build, if its calibration is outdated
/// ([`is_outdated`](pagehop_engine::Measured::is_outdated)) and was not by a user's queries. A
/// failure there is ignored, and so is a stop by `progress`.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` says so; those of [`IndexFile::begin`], of
/// [`vacuum`](pagehop_engine::Change::vacuum) and of [`commit`](crate::Transaction::commit).
pub fn vacuum(index: &Index<IndexFile>, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
    let report = vacuum::all(index, progress)?;
    let known = index.info().ok().and_then(|info| info.calibrated);
    if known.is_some_and(|known| known.is_outdated() && !known.by_queries) {
        let _ = calibrate(index, None, 0, progress);
    }
    Ok(report)
}

/// Trains the model again, with the rows that the index has, and builds the graph again. For an
/// index whose rows have become unlike those that trained it: a model is trained again by itself
/// only while the index is small. Readers go on at the same time. The space of the old graph
/// becomes free in later calls.
///
/// Unless it was calibrated by a user's queries, the index is then calibrated as at the end of a
/// build. That is a transaction of its own. A failure there is ignored, and so is a stop by
/// `progress`: the new graph is already committed, and the settings of the last calibration, if
/// there was one, stay.
///
/// It costs as much as a build, and holds all vectors in memory, what a build of them needs, and
/// the new pages, up to [`OpenOptions::transaction_bytes`]. [`compact`](crate::compact) trains,
/// too, in a file of its own and within a budget of memory, while no other process has the index
/// open.
///
/// # Errors
///
/// Those of [`IndexFile::begin`], of [`train`](pagehop_engine::Change::train) and of
/// [`commit`](crate::Transaction::commit); [`Error::Argument`] for an index without rows, and
/// [`Error::Full`], mostly before a row is read, for one whose pages are too many. Nothing has
/// changed then.
pub fn retrain(index: &Index<IndexFile>, progress: OnProgress<'_>) -> Result<(), Error> {
    if index.info()?.rows == 0 {
        return Err(Error::argument(format!("{} has no rows to train with", index.pages().path().display())));
    }
    within(index, |change| change.train(progress))?;
    if index.calibration().is_ok_and(|known| known.is_none_or(|known| !known.by_queries)) {
        // The new graph is committed already.
        let _ = calibrate(index, None, 0, progress);
    }
    Ok(())
}

/// Measures which settings reach which recall, for `queries` or, if there are none, for vectors of
/// the index, and stores it; see [`Index::calibrate`]. `None` for an index of too few rows, in
/// which nothing is stored.
///
/// # Errors
///
/// Those of [`Index::calibrate`], of [`IndexFile::begin`] and of
/// [`commit`](crate::Transaction::commit). Nothing has changed then.
pub fn calibrate(
    index: &Index<IndexFile>,
    queries: Option<&[f32]>,
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
/// Those of [`IndexFile::begin`] and of [`commit`](crate::Transaction::commit). Nothing has changed
/// then.
pub fn set_calibration(index: &Index<IndexFile>, calibration: &Calibration) -> Result<(), Error> {
    within(index, |change| change.set_calibration(calibration.clone()))
}

/// Stores the result of [`Index::recall`] for searches for `k` rows with the recall `target`.
///
/// # Errors
///
/// Those of [`IndexFile::begin`] and of [`commit`](crate::Transaction::commit). Nothing has changed
/// then.
pub fn set_audit(
    index: &Index<IndexFile>,
    k: usize,
    target: Option<f32>,
    report: &RecallReport,
) -> Result<(), Error> {
    let audit = Audit::of(&index.info()?, k, target, report);
    within(index, |change| change.set_audit(audit))
}
