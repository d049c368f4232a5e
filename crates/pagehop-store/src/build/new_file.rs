//! A new index file: takes the pages of a build in order, and writes them into a file that appears
//! whole or not at all (`whole_file.rs`).

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pagehop_engine::{
    BODY_BYTES, Error, HOST_HEADER_BYTES, Index, OnProgress, PAGE_BYTES, PageId, PageSink, Pages, Scratch,
    calibration_memory_bytes,
};

use crate::build::freed_memory;
use crate::build::kept_work::KeptWork;
use crate::build::unfinished::UnfinishedPages;
use crate::build::whole_file::WholeFile;
use crate::header;
use crate::header::Identity;
use crate::index_file::IndexFile;
use crate::process::attach::Replacing;

/// Share of the memory beside a calibration that its estimate leaves out, as 1/n: stacks and
/// answers of threads, and the cache's table of pages. Of 12,000 rows of 1,536 dimensions they
/// take a twelfth.
const OTHERS_SHARE: u64 = 8;
/// Least share that the cache gets, as 1/n, however much the process still has from the build.
const CACHE_SHARE_MIN: u64 = 4;
/// Bytes collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Writes pages, in order, into a new index file.
pub struct NewIndexFile {
    whole: WholeFile,
    buffer: Vec<u8>,
    /// Bytes handed to the system.
    written: u64,
    next: u32,
    complete: bool,
    /// Identifies the index to its log.
    identity: Identity,
    /// Memory of the process before the build.
    held_bytes: u64,
}

impl NewIndexFile {
    /// Prepares to write the index file `target`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if something is at `target` and may not be overwritten: anything at all
    /// without `overwrite`, what is not a file in any case. [`Error::Io`] if the directory does not
    /// allow a new file.
    pub fn create(target: &Path, overwrite: bool) -> Result<Self, Error> {
        let whole = WholeFile::create(target, overwrite)?;
        let mut buffer = Vec::with_capacity(WRITE_BYTES + PAGE_BYTES);
        // Page 0 comes last. Until then zeros are in its place, which are not an index.
        buffer.resize(PAGE_BYTES, 0);
        let (written, next, complete, identity) = (0, 1, false, header::new_identity());
        Ok(Self { whole, buffer, written, next, complete, identity, held_bytes: freed_memory::held_bytes() })
    }

    /// Keeps the finished work of a build, so that the next build resumes after it if this one is
    /// killed.
    pub(crate) fn keep_work(mut self) -> Self {
        self.whole.kept = Some(KeptWork::of(self.whole.target()));
        self
    }

    /// Leaves the finished work of a build to the next one, as [`WholeFile::leave_work`].
    pub(crate) fn leave_work(&mut self, error: &Error) {
        self.whole.leave_work(error);
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if page 0 was not written, or if another process is writing the index at
    /// the target; [`Error::Io`] if the system refuses. What was at the target before is untouched
    /// then.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end()?;
        self.whole.finish()
    }

    /// [`NewIndexFile::finish`] for the file that this process has open at the target, and that
    /// `hold` keeps from others.
    ///
    /// # Errors
    ///
    /// Those of `hold`; [`Error::Io`] if the system refuses. What was at the target before is
    /// untouched then.
    pub(crate) fn finish_in_place(mut self, hold: impl FnOnce() -> Result<Replacing, Error>) -> Result<(), Error> {
        self.end()?;
        self.whole.finish_in_place(hold)
    }

    fn end(&mut self) -> Result<(), Error> {
        if !self.complete {
            return Err(Error::argument("an index needs a page 0"));
        }
        self.flush()
    }

    /// Measures what was written, rows of `dim` dimensions, and puts the calibration on page 0. A
    /// file that is larger than the cache for which `memory_bytes` have room is read through that
    /// cache, past the system's. A smaller one is in the system's cache.
    ///
    /// # Errors
    ///
    /// Those of [`Index::calibrate`]; [`Error::Io`] if the file cannot be read or written.
    pub(crate) fn calibrate(
        &mut self,
        (rows, dim): (u64, usize),
        threads: usize,
        memory_bytes: u64,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        self.flush()?;
        freed_memory::return_to_system();
        let left = memory_bytes.saturating_sub(calibration_memory_bytes(rows, dim));
        let held = freed_memory::held_bytes().saturating_sub(self.held_bytes);
        let cache_bytes = left.saturating_sub(left / OTHERS_SHARE + held).max(left / CACHE_SHARE_MIN);
        let body = if u64::from(self.next) * PAGE_BYTES as u64 > cache_bytes {
            self.whole.file.sync_data().map_err(|error| self.refused("sync", error))?;
            let pages = IndexFile::open_unfinished(&self.whole.file, self.whole.target(), cache_bytes)?;
            measured_meta_page(pages, threads, progress)?
        } else {
            let pages = UnfinishedPages::new(&self.whole.file, self.next);
            measured_meta_page(pages.map_err(|error| self.refused("mapping", error))?, threads, progress)?
        };
        let Some(body) = body else { return Ok(()) };
        self.complete = false;
        self.write(PageId(0), &body)
    }

    /// Writes what was collected; may be called again after it failed.
    fn flush(&mut self) -> Result<(), Error> {
        self.whole.append(&self.buffer, self.written).map_err(|error| {
            let page = self.written / PAGE_BYTES as u64;
            self.refused(&format!("write of pages from {page} on"), error)
        })?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn write_page_0(&mut self, bytes: &[u8; PAGE_BYTES]) -> Result<(), Error> {
        if self.written == 0 {
            self.buffer[..PAGE_BYTES].copy_from_slice(bytes);
            return Ok(());
        }
        self.whole.file.write_all_at(bytes, 0).map_err(|error| self.refused("write of page 0", error))
    }

    fn refused(&self, operation: &str, error: io::Error) -> Error {
        self.whole.refused(operation, error)
    }
}

/// The meta page of an index with its calibration; `None` if it has too few rows for one.
fn measured_meta_page<P: Pages>(
    pages: P,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let index = Index::open(pages)?;
    let calibration = index.calibrate(None, threads, progress)?;
    calibration.map(|calibration| index.calibrated_meta_page(calibration)).transpose()
}

impl PageSink for NewIndexFile {
    /// Pages come as 1, 2, 3 and so on, then 0.
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        assert_eq!(body.len(), BODY_BYTES, "a body is always of the same length");
        if self.complete || (page.0 != 0 && page.0 != self.next) {
            let expected = if self.complete { "none".into() } else { format!("{} or 0", self.next) };
            let what = format!("pages must be written in order: got {}, expected {expected}", page.0);
            return Err(Error::argument(what));
        }
        let mut bytes = [0; PAGE_BYTES];
        bytes[HOST_HEADER_BYTES..].copy_from_slice(body);
        header::seal(page, 0, self.identity, &mut bytes);
        if page.0 == 0 {
            self.complete = true;
            return self.write_page_0(&bytes);
        }
        self.next =
            self.next.checked_add(1).ok_or_else(|| Error::full("the index is full: page ids have 32 bits"))?;
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        Some(&self.whole)
    }
}
