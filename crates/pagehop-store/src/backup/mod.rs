//! Backup: a copy of an index as of one commit, while other processes read and write it.
//!
//! No lock is taken and no transaction waits. Pages are copied in their order, each in the newest
//! version that is known then. At the end the records in the log bring each page that has changed
//! since then up to the newest commit. This is correct for the same reason as after a crash
//! (`log/versions.rs`): while a log lasts, the file has only versions of a page that the log made,
//! and the page as it was when the log began.
//!
//! So the log must not begin again at the same time. If a checkpoint ends during the copy, the
//! pages with records since the copy began, of which the shared table knows, are copied once more.

mod pages;

use std::collections::HashMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagehop_engine::{Error, Index, OnProgress, PAGE_BYTES, PageId, Progress};

use crate::backup::pages::PageCopy;
use crate::build::whole_file::WholeFile;
use crate::disk::base_file::{BaseFile, PageBuffer};
use crate::disk::location::{LOG, SHARED};
use crate::disk::storage::{StorageFile, beside, storage_file};
use crate::header;
use crate::index_file::IndexFile;
use crate::log::found::Found;
use crate::log::log_file::{Header, Log};
use crate::log::recover::{Recovered, recover};
use crate::log::versions::{News, Versions};
use crate::process::shared_words::Shared;
use crate::read_side::ReadSide;

/// Pages of the log's records between two reports of progress.
const REPORT_PAGES: usize = 128;

/// Largest number of passes over changed pages before the backup gives up. Each pass takes at most
/// as long as the writer took to change the pages.
const PASSES_MAX: u32 = 16;

/// The result of [`backup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Pages of the copy.
    pub pages: u32,
    /// Bytes of the copy.
    pub bytes: u64,
}

/// Copies `index` as of its newest commit to `target`, a file that needs no log and is durable when
/// this returns. It contains every commit that was reported before the call, and all later commits
/// up to some commit, each complete. Every page is verified. Transactions and checkpoints go on
/// during the copy. The copy has the identity of the index.
///
/// Reads and writes about as many bytes as the index and its log have, by at most four threads; 1
/// MiB of memory for each of them, and 32 bytes for each page with records in the log.
///
/// # Errors
///
/// [`Error::Argument`] if something is at `target` and may not be overwritten: without `overwrite`,
/// anything; with it, whatever is not a file, the index itself and the files beside it.
/// [`Error::Busy`] if another process is writing an index at `target`, or if checkpoints follow
/// each other faster than changed pages can be copied. [`Error::Corrupt`] for a page that neither
/// the file nor the log has. [`Error::Interrupted`] if `progress` says so; its phases are `copy`
/// and `log`. [`Error::Full`] and [`Error::Io`] if the system refuses. `target` is then unchanged.
pub fn backup(
    index: &Index<IndexFile>,
    target: &Path,
    overwrite: bool,
    progress: OnProgress<'_>,
) -> Result<BackupReport, Error> {
    let side = &index.pages().read;
    refuse_own_files(side, target, "write its backup to another file")?;
    let whole = WholeFile::create(target, overwrite)?;
    let report = Copy::new(side, &whole, progress)?.run()?;
    whole.finish()?;
    Ok(report)
}

/// A copy that is being made.
struct Copy<'a> {
    side: &'a ReadSide,
    /// The log, opened for this copy: it may be another file than the one that readers have open.
    log: Log,
    pages: PageCopy<'a>,
    whole: &'a WholeFile,
    copy: Arc<dyn StorageFile>,
    /// Pages that the copy has, from the front.
    copied: u32,
    /// Positions of the records that were applied to pages before they were written.
    applied: HashMap<u32, u64>,
    progress: OnProgress<'a>,
}

impl<'a> Copy<'a> {
    fn new(side: &'a ReadSide, whole: &'a WholeFile, progress: OnProgress<'a>) -> Result<Self, Error> {
        let copy = whole.file.try_clone().map_err(|error| whole.refused("creation", error))?;
        Ok(Self {
            side,
            log: side.versions.log.opened_apart(),
            pages: PageCopy::new(&side.versions, whole),
            whole,
            copy: storage_file(copy),
            copied: 0,
            applied: HashMap::new(),
            progress,
        })
    }

    fn run(mut self) -> Result<BackupReport, Error> {
        let versions = &self.side.versions;
        let mut changed_since = None;
        for _ in 0..PASSES_MAX {
            if versions.news == News::None {
                // Changes from before the log began again are not known.
                versions.catch_up()?;
                changed_since = None;
            }
            let start = versions.shared.log_start();
            let found = Found::in_file(&versions.base)?;
            self.copy_pages(found.length, changed_since)?;
            if let Some(report) = self.complete(start, &found)? {
                return Ok(report);
            }
            changed_since = Some(start);
        }
        Err(Error::busy(format!(
            "{} is changed faster than it can be copied: checkpoints ended during each of {PASSES_MAX} attempts; try \
             again when less is written, or let the writer open it with a larger log (`log=` in Python, `log_bytes` \
             in Rust)",
            self.side.path().display()
        )))
    }

    /// Copies the pages that have had records since the position `changed_since`, or all pages, of
    /// a file of `length` bytes. Each copy is a complete version of its page, not necessarily the
    /// newest.
    fn copy_pages(&mut self, length: u64, changed_since: Option<u64>) -> Result<(), Error> {
        let shared = &self.side.versions.shared;
        // A checkpoint that appends pages reports them only when the log begins again.
        let (base, committed) = (shared.base_pages(), shared.page_count());
        let in_file = u32::try_from(length / PAGE_BYTES as u64).unwrap_or(u32::MAX);
        let pages = base.max(in_file.min(committed));
        let cover = shared.cover(base.max(committed), false);
        cover.map_err(|error| self.whole.refused("memory for the backup", error))?;
        let is_wanted = |page: u32| changed_since.is_none_or(|since| shared.newest(page) >= since);
        self.applied.extend(self.pages.copy(pages, &is_wanted, self.progress)?);
        self.copied = pages;
        Ok(())
    }

    /// Brings the copy up to the newest commit. `None` if the log has begun again since the copy
    /// began, when it began at `start` and page 0 was as in `found`.
    fn complete(&mut self, start: u64, found: &Found) -> Result<Option<BackupReport>, Error> {
        let versions = &self.side.versions;
        let table = Shared::private().map_err(|error| self.whole.refused("memory for the backup", error))?;
        self.log.forget();
        let (now, recovered) = recover(|| Found::in_file(&versions.base), &self.log, &table)?;
        let is_of_this_log = match &recovered.header {
            Some(header) => header.start == start && versions.shared.log_start() == start,
            // All commits are in the file, and none was made at the same time.
            None => now == *found && now.position.is_some(),
        };
        let is_known = |page: &u32| recovered.dirty.contains_key(page);
        if !is_of_this_log || !(self.copied..recovered.page_count).all(|page| is_known(&page)) {
            return Ok(None);
        }
        recovered.show(&table);
        let applied = self.apply(&recovered, table);
        if let Some(header) = &recovered.header
            && !self.is_still(header)?
        {
            return Ok(None);
        }
        applied?;
        self.end(&recovered).map(Some)
    }

    /// Applies the records of the log, up to the newest in `table`, to the pages of the copy.
    fn apply(&mut self, recovered: &Recovered, table: Shared) -> Result<(), Error> {
        let name = self.whole.target().display().to_string();
        let versions = Versions {
            base: BaseFile::of_storage(Arc::clone(&self.copy), &name),
            log: self.side.versions.log.opened_apart(),
            identity: self.side.versions.identity,
            shared: Box::new(table),
            news: News::Own,
        };
        let mut pages: Vec<u32> = recovered.dirty.keys().copied().collect();
        pages.sort_unstable();
        let mut page_buffer = PageBuffer::new();
        let image = &mut page_buffer.0;
        for (at, &page) in pages.iter().enumerate() {
            if at.is_multiple_of(REPORT_PAGES) {
                self.report("log", at as u64, pages.len() as u64)?;
            }
            let newest = versions.shared.newest(page);
            if self.applied.get(&page).is_some_and(|applied| *applied >= newest) {
                continue;
            }
            versions.read_newest(page, image)?;
            header::seal(PageId(page), header::log_position(image), versions.identity, image);
            self.write(u64::from(page) * PAGE_BYTES as u64, image)?;
        }
        Ok(())
    }

    /// Whether the log with `header` has not begun again.
    fn is_still(&self, header: &Header) -> Result<bool, Error> {
        self.log.forget();
        Ok(self.log.read_header()?.as_ref() == Some(header))
    }

    /// Gives the copy its length, and a page 0 that names no log.
    fn end(&mut self, recovered: &Recovered) -> Result<BackupReport, Error> {
        let bytes = u64::from(recovered.page_count) * PAGE_BYTES as u64;
        self.copy.set_length(bytes).map_err(|error| self.whole.refused("write", error))?;
        let mut page_0 = PageBuffer::new();
        let read = self.whole.file.read_exact_at(&mut page_0.0, 0);
        read.map_err(|error| self.whole.refused("read of page 0", error))?;
        header::set_log_tag(&mut page_0.0, 0);
        self.write(0, &page_0.0)?;
        Ok(BackupReport { pages: recovered.page_count, bytes })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.copy.write_all_at(bytes, offset).map_err(|error| {
            let page = offset / PAGE_BYTES as u64;
            self.whole.refused(&format!("write of pages from {page} on"), error)
        })
    }

    fn report(&mut self, phase: &'static str, done: u64, total: u64) -> Result<(), Error> {
        match (self.progress)(Progress { phase, done, total }) {
            std::ops::ControlFlow::Continue(()) => Ok(()),
            std::ops::ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }
}

/// Refuses to write a copy over the files that it is made of; `instead` says what to do.
pub(crate) fn refuse_own_files(side: &ReadSide, target: &Path, instead: &str) -> Result<(), Error> {
    let Some(index) = side.versions.base.os() else { return Ok(()) };
    let is_index = match (std::fs::metadata(target), index.metadata()) {
        (Ok(named), Ok(mine)) => named.ino() == mine.ino() && named.dev() == mine.dev(),
        _ => false,
    };
    // These files may not exist yet: the log appears with the first commit.
    let resolved = std::fs::canonicalize(target).ok().or_else(|| resolved_in_folder(target));
    let is_beside = |ending: &&str| resolved.as_deref() == Some(beside(side.path(), ending).as_path());
    let is_beside = [LOG, SHARED].iter().any(is_beside);
    if is_index || is_beside {
        let (target, index) = (target.display(), side.path().display());
        return Err(Error::argument(format!("{target} belongs to the index {index} itself; {instead}")));
    }
    Ok(())
}

/// The path of a file that need not exist, in a folder that does.
fn resolved_in_folder(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
}
