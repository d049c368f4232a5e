//! Compaction: an index written again into a new file, which has only live rows.
//!
//! The new file is built from the rows, beside the old one, and gets its name when it is complete
//! and on disk. The new file can replace the old one only if no other process has the old file
//! open: such a process would continue with the old file, and never see a later change.

use std::path::Path;

use pagehop_engine::{Error, Index, OnProgress};

use crate::backup::refuse_own_files;
use crate::build::new_file::NewIndexFile;
use crate::index_file::IndexFile;
use crate::operations::open;
use crate::options::OpenOptions;
use crate::process::attach;

/// The options of a compaction.
#[derive(Clone, Debug)]
pub struct CompactOptions {
    /// Memory the build may use, in bytes, as in [`BuildOptions`](pagehop_engine::BuildOptions).
    pub memory_bytes: u64,
    /// Worker threads; 0 means one per core.
    pub threads: usize,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { memory_bytes: 2 << 30, threads: 0 }
    }
}

/// The result of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactReport {
    /// Rows of the index.
    pub rows: u64,
    /// Pages of the new file.
    pub pages: u32,
    /// Pages of the old file.
    pub pages_before: u32,
}

/// Writes the live rows of `index`, as of its newest commit, into a new index at `target`: without
/// dead rows and free space, calibrated as the index is. Other processes may read and write the
/// index at the same time; later commits are not in the new index.
///
/// Costs as much as a build of its rows ([`Index::rebuild`]): mostly processor time, and the space
/// of the new file. An index that keeps no vectors is built from its codes: vectors are then off by
/// the error of two codes instead of one.
///
/// # Errors
///
/// Those of [`NewIndexFile::create`] and [`Index::rebuild`]; [`Error::Argument`] if `target`
/// belongs to the index itself; [`Error::Full`] and [`Error::Io`] if the system refuses. `target`
/// is then unchanged.
pub fn compact_into(
    index: &Index<IndexFile>,
    target: &Path,
    overwrite: bool,
    options: &CompactOptions,
    progress: OnProgress<'_>,
) -> Result<CompactReport, Error> {
    refuse_own_files(&index.pages().read, target, "write the new index to another file, or compact it")?;
    let mut sink = NewIndexFile::create(target, overwrite)?;
    let report = write(index, &mut sink, options, progress)?;
    sink.finish()?;
    Ok(report)
}

/// Replaces the index at `path` by one with only its live rows: [`compact_into`] a new file that
/// then takes the name of the old one. A process that is killed, and a loss of power, leave either
/// file whole.
///
/// # Errors
///
/// Those of [`open`] for writing and of [`compact_into`]; [`Error::Busy`] if it is open elsewhere,
/// in this process or in another. The index is then as it was.
pub fn compact(path: &Path, options: &CompactOptions, progress: OnProgress<'_>) -> Result<CompactReport, Error> {
    let index = open(path, &OpenOptions { write: true, ..OpenOptions::default() })?;
    let shared = &index.pages().read.versions.shared;
    // This is also tested before the build.
    attach::replace_alone(shared, index.pages().path())?.cancel();
    // After this checkpoint the old file needs no work when it is closed.
    index.pages().checkpoint()?;
    let mut sink = NewIndexFile::create(index.pages().path(), true)?;
    let report = write(&index, &mut sink, options, progress)?;
    sink.finish_in_place(|| attach::replace_alone(shared, index.pages().path()))?;
    Ok(report)
}

fn write(
    index: &Index<IndexFile>,
    sink: &mut NewIndexFile,
    options: &CompactOptions,
    progress: OnProgress<'_>,
) -> Result<CompactReport, Error> {
    let (info, calibration) = (index.info()?, index.calibration()?);
    let built = index.rebuild(options.memory_bytes, options.threads, sink, progress)?;
    // A calibration by a user's queries stays.
    if calibration.is_some_and(|known| !known.by_queries) {
        sink.calibrate((built.rows, info.dim), options.threads, options.memory_bytes, progress)?;
    }
    Ok(CompactReport { rows: built.rows, pages: built.pages, pages_before: info.pages })
}
