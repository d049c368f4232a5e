//! The pages of a backup: read, verified, brought up to date and written, by a few threads.
//!
//! Each thread takes the next run of pages, so while one waits for the disk others read and check.
//! Writes go past the page cache where the file system allows it: a copy through the cache takes
//! memory that searches use, and all of it waits for the sync at the end. The copy then takes about
//! the time in which the disk writes that number of bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pagehop_engine::{Error, OnProgress, PAGE_BYTES, PageId, Progress};
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, fadvise};
use rustix::io::Errno;

use crate::build::whole_file::WholeFile;
use crate::disk::base_file::PageBuffer;
use crate::header;
use crate::log::versions::Versions;

/// Pages that are read and written at once: 1 MiB.
const RUN_PAGES: u32 = 128;

/// Threads that copy. While two of them wait for the disk, two read and check.
const THREADS_MAX: u32 = 4;

/// The source and the destination of pages.
pub(super) struct PageCopy<'a> {
    versions: &'a Versions,
    /// The index, read ahead through the system's cache, if that is possible.
    ahead: Option<File>,
    copy: &'a File,
    /// The name that the copy gets, for errors.
    target: &'a Path,
    /// The copy, opened for writes past the page cache, if that is possible.
    direct: Option<File>,
    /// Whether a direct write was refused: some file systems accept the flag and refuse the write.
    is_refused: AtomicBool,
}

/// The work on one copy, which its threads share.
struct CopyWork<'a> {
    pages: u32,
    is_wanted: &'a (dyn Fn(u32) -> bool + Sync),
    next: AtomicU32,
    has_failed: AtomicBool,
}

/// The memory of one thread.
struct CopyBuffers {
    run: Vec<PageBuffer>,
    /// A page that is brought up to date: a direct read needs its alignment.
    page: Box<PageBuffer>,
    /// Pages that records were applied to, and the position of the newest.
    applied: HashMap<u32, u64>,
}

impl<'a> PageCopy<'a> {
    pub(super) fn new(versions: &'a Versions, whole: &'a WholeFile) -> Self {
        Self {
            versions,
            ahead: versions.base.os().and_then(read_ahead),
            copy: &whole.file,
            target: whole.target(),
            direct: reopened(&whole.file, OFlags::WRONLY | OFlags::DIRECT),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Copies those of the first `pages` pages that are wanted. Each copy is a complete version of
    /// its page, not necessarily the newest. Returns the log positions of the pages that records
    /// were applied to.
    pub(super) fn copy(
        &self,
        pages: u32,
        is_wanted: &(dyn Fn(u32) -> bool + Sync),
        progress: OnProgress<'_>,
    ) -> Result<HashMap<u32, u64>, Error> {
        self.reserve(pages)?;
        let work = CopyWork { pages, is_wanted, next: AtomicU32::new(0), has_failed: AtomicBool::new(false) };
        let others = pages.div_ceil(RUN_PAGES).min(THREADS_MAX).saturating_sub(1);
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..others).map(|_| scope.spawn(|| self.thread(&work, &mut go_on))).collect();
            let mut found = vec![self.thread(&work, progress)];
            found
                .extend(others.into_iter().map(|thread| thread.join().expect("a thread of a copy does not panic")));
            let mut applied = HashMap::new();
            for found in found {
                applied.extend(found?);
            }
            Ok(applied)
        })
    }

    /// Reserves space for the copy, so that a full disk is reported at once.
    fn reserve(&self, pages: u32) -> Result<(), Error> {
        let bytes = u64::from(pages) * PAGE_BYTES as u64;
        match rustix::fs::fallocate(self.copy, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) | Ok(()) => Ok(()),
            Err(error) => Err(self.refused("reservation of space", error.into())),
        }
    }

    /// Copies runs until there are none, or a thread failed.
    fn thread(&self, work: &CopyWork<'_>, progress: OnProgress<'_>) -> Result<HashMap<u32, u64>, Error> {
        let mut buffers = CopyBuffers {
            run: (0..RUN_PAGES.min(work.pages)).map(|_| *PageBuffer::new()).collect(),
            page: PageBuffer::new(),
            applied: HashMap::new(),
        };
        let result = self.runs(work, &mut buffers, progress);
        if result.is_err() {
            work.has_failed.store(true, Ordering::Relaxed);
        }
        result.map(|()| buffers.applied)
    }

    fn runs(&self, work: &CopyWork<'_>, buffers: &mut CopyBuffers, progress: OnProgress<'_>) -> Result<(), Error> {
        while !work.has_failed.load(Ordering::Relaxed) {
            let begin = work.next.fetch_add(RUN_PAGES, Ordering::Relaxed);
            if begin >= work.pages {
                break;
            }
            let end = work.pages.min(begin.saturating_add(RUN_PAGES));
            let mut next = begin;
            while let Some(first) = (next..end).find(|&page| (work.is_wanted)(page)) {
                next = (first..end).find(|&page| !(work.is_wanted)(page)).unwrap_or(end);
                self.copy_run(buffers, first, next)?;
            }
            let done = Progress { phase: "copy", done: end.into(), total: work.pages.into() };
            if progress(done) == ControlFlow::Break(()) {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Copies the pages from `first` to before `end`, at most [`RUN_PAGES`].
    fn copy_run(&self, buffers: &mut CopyBuffers, first: u32, end: u32) -> Result<(), Error> {
        let run = &mut buffers.run[..(end - first) as usize];
        let offset = u64::from(first) * PAGE_BYTES as u64;
        self.read(run, offset);
        for (page, image) in (first..end).zip(run.iter_mut()) {
            let is_whole = header::verify(PageId(page), &image.0).is_ok();
            if is_whole && header::log_position(&image.0) >= self.versions.shared.newest(page) {
                continue;
            }
            let newest = &mut buffers.page.0;
            if is_whole {
                newest.copy_from_slice(&image.0);
                self.versions.complete(page, newest, Ok(()))?;
            } else {
                // The page is damaged, or a checkpoint is writing it or left it torn.
                self.versions.read_newest(page, newest)?;
            }
            let position = header::log_position(newest);
            header::seal(PageId(page), position, self.versions.identity, newest);
            image.0.copy_from_slice(newest);
            buffers.applied.insert(page, position);
        }
        self.write(run, offset).map_err(|error| self.refused(&format!("write of pages from {first} on"), error))
    }

    /// Reads ahead the pages of the file that exist. Pages that could not be read are zeros, which
    /// are not a valid page.
    fn read(&self, run: &mut [PageBuffer], offset: u64) {
        let mut done = 0;
        while let Some(file) = &self.ahead
            && done < run.len()
        {
            let mut parts: Vec<_> = run[done..].iter_mut().map(|page| IoSliceMut::new(&mut page.0)).collect();
            let at = offset + (done * PAGE_BYTES) as u64;
            match rustix::io::preadv(file, &mut parts, at) {
                Err(Errno::INTR) => {}
                Ok(bytes) if bytes >= PAGE_BYTES => done += bytes / PAGE_BYTES,
                Ok(_) | Err(_) => break,
            }
        }
        run[done..].iter_mut().for_each(|page| page.0.fill(0));
    }

    /// Writes whole pages, past the page cache if possible.
    fn write(&self, run: &[PageBuffer], offset: u64) -> io::Result<()> {
        let direct = self.direct.as_ref().filter(|_| !self.is_refused.load(Ordering::Relaxed));
        if let Some(file) = direct {
            match self.write_to(file, run, offset) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                written => return written,
            }
        }
        self.write_to(self.copy, run, offset)
    }

    fn refused(&self, operation: &str, error: io::Error) -> Error {
        Error::io(format!("{operation} of {}", self.target.display()), error)
    }

    fn write_to(&self, file: &File, run: &[PageBuffer], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < run.len() {
            let at = offset + (done * PAGE_BYTES) as u64;
            let parts: Vec<_> = run[done..].iter().map(|page| IoSlice::new(&page.0)).collect();
            match rustix::io::pwritev(file, &parts, at) {
                Err(Errno::INTR) => {}
                // The rest of a page cannot be a direct write. An ordinary write of it reports the
                // error that ended this one.
                Ok(bytes) if bytes < PAGE_BYTES => {
                    self.copy.write_all_at(&run[done].0[bytes..], at + bytes as u64)?;
                    done += 1;
                }
                Ok(bytes) => done += bytes / PAGE_BYTES,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The same file, opened to be read from front to end. `None` if permissions or the file system do
/// not allow it.
fn read_ahead(file: &File) -> Option<File> {
    let file = reopened(file, OFlags::RDONLY)?;
    let _ = fadvise(&file, 0, None, Advice::Sequential);
    Some(file)
}

/// `file`, opened once more with `flags`, if the system allows that.
fn reopened(file: &File, flags: OFlags) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).ok().map(File::from)
}
