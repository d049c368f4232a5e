//! The index file, and reads of one page at a time.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagehop_engine::{Error, PAGE_BYTES, PageId};
use rustix::fs::{Advice, Mode, OFlags, fadvise};

use crate::disk::location::Location;
use crate::disk::storage::StorageFile;
use crate::header::{self, Fault};

/// Memory for one page, aligned for direct reads.
#[repr(C, align(4096))]
pub(crate) struct PageBuffer(pub(crate) [u8; PAGE_BYTES]);

impl PageBuffer {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self([0; PAGE_BYTES]))
    }
}

/// The source of pages.
pub(crate) enum Source {
    /// A file of the operating system, which rings can read, too.
    Os(File),
    /// A file of a simulation.
    Storage(Arc<dyn StorageFile>),
}

/// A file of pages, open for reading.
pub(crate) struct BaseFile {
    pub(crate) source: Source,
    path: PathBuf,
    direct: bool,
}

impl BaseFile {
    /// Opens the index at `location`, past the page cache if `direct` and the file system allows
    /// it.
    pub(crate) fn open(location: &Location, direct: bool) -> io::Result<Self> {
        let path = location.path().into();
        if direct {
            match Self::open_direct(location) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
                Ok(file) => return Ok(Self { source: Source::Os(file), path, direct: true }),
            }
        }
        let file = location.open("", OFlags::RDONLY)?;
        // Neighbors of a page are rarely read, so there is no read-ahead. A refusal of the advice
        // does no harm.
        let _ = fadvise(&file, 0, None, Advice::Random);
        Ok(Self { source: Source::Os(file), path, direct: false })
    }

    /// A file that this process has open and that may have no name, which errors call `name`. Reads
    /// go past the page cache if the file system allows it.
    pub(crate) fn reopened(file: &File, name: &Path) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty());
        let direct = opened.ok().map(File::from);
        let direct = direct.filter(|direct| direct.read_at(&mut PageBuffer::new().0, 0).is_ok());
        let is_direct = direct.is_some();
        let file = direct.map_or_else(|| file.try_clone(), Ok)?;
        Ok(Self { source: Source::Os(file), path: name.into(), direct: is_direct })
    }

    /// A simulation's `file`, which errors call `name`.
    pub(crate) fn of_storage(file: Arc<dyn StorageFile>, name: &str) -> Self {
        Self { source: Source::Storage(file), path: name.into(), direct: false }
    }

    /// The operating system's file, if it is one.
    pub(crate) fn os(&self) -> Option<&File> {
        match &self.source {
            Source::Os(file) => Some(file),
            Source::Storage(_) => None,
        }
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match &self.source {
            Source::Os(file) => Ok(file.metadata()?.len()),
            Source::Storage(file) => file.length(),
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.source {
            Source::Os(file) => file.read_at(bytes, offset),
            Source::Storage(file) => file.read_at(bytes, offset),
        }
    }

    fn open_direct(location: &Location) -> io::Result<File> {
        let file = location.open("", OFlags::RDONLY | OFlags::DIRECT)?;
        // Some file systems accept the flag and refuse the read.
        file.read_at(&mut PageBuffer::new().0, 0)?;
        Ok(file)
    }

    /// Whether reads go past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the system to read `page` into its cache; does nothing if reads go past the cache.
    pub(crate) fn advise(&self, page: PageId) {
        if !self.direct
            && let Some(file) = self.os()
        {
            let length = std::num::NonZeroU64::new(PAGE_BYTES as u64);
            let _ = fadvise(file, offset(page), length, Advice::WillNeed);
        }
    }

    /// Reads and verifies `page`.
    pub(crate) fn read(&self, page: PageId, bytes: &mut [u8; PAGE_BYTES]) -> Result<(), Error> {
        self.read_unverified(page, bytes)?;
        self.verify(page, bytes)
    }

    /// Reads the bytes at the place of `page`, without a test.
    pub(crate) fn read_unverified(&self, page: PageId, bytes: &mut [u8; PAGE_BYTES]) -> Result<(), Error> {
        let mut have = 0;
        while have < PAGE_BYTES {
            match self.read_at(&mut bytes[have..], offset(page) + have as u64) {
                Ok(0) => return Err(self.truncated(page, have)),
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // If the end of a truncated file ended a direct read at an unaligned offset, no
                // direct read can continue there.
                Err(_) if have % 512 != 0 => return Err(self.truncated(page, have)),
                Err(error) => return Err(self.refused(page, error)),
            }
        }
        Ok(())
    }

    /// Handles a read of `page` into `bytes` that ended with `result`.
    pub(crate) fn settle(
        &self,
        page: PageId,
        bytes: &mut [u8; PAGE_BYTES],
        result: io::Result<usize>,
    ) -> Result<(), Error> {
        use io::ErrorKind::{Interrupted, WouldBlock};
        match result {
            Ok(PAGE_BYTES) => self.verify(page, bytes),
            // The read was cut short, by the end of the file or by chance: a plain read tells
            // which.
            Ok(_) => self.read(page, bytes),
            // The thread that submitted the read ended, or memory was short.
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => self.read(page, bytes),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => {
                self.read(page, bytes)
            }
            Err(error) => Err(self.refused(page, error)),
        }
    }

    /// Proves that `bytes`, which were read, are those that were written as `page`.
    pub(crate) fn verify(&self, page: PageId, bytes: &[u8; PAGE_BYTES]) -> Result<(), Error> {
        header::verify(page, bytes).map_err(|fault| self.corrupt(page, &fault))
    }

    pub(crate) fn corrupt(&self, page: PageId, fault: &Fault) -> Error {
        Error::corrupt(page, format!("{fault}, in {}", self.path.display()))
    }

    fn truncated(&self, page: PageId, have: usize) -> Error {
        let path = self.path.display();
        let what = format!("file is truncated: {have} of its {PAGE_BYTES} bytes are left in {path}");
        Error::corrupt(page, what)
    }

    fn refused(&self, page: PageId, error: io::Error) -> Error {
        Error::io(format!("read of page {} in {}", page.0, self.path.display()), error)
    }
}

fn offset(page: PageId) -> u64 {
    u64::from(page.0) * PAGE_BYTES as u64
}
