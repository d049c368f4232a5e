//! The files of one index, as the write path needs them.
//!
//! Everything durable goes through [`Storage`]: the operating system's files, or those of a
//! simulation that loses and tears what was not synced. Both run the same code above it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::disk::location::{LOG, Location, SHARED, is_one_file};

/// A file of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// The index itself.
    Index,
    /// Its log.
    Log,
}

/// The files an index lives in, as the write path needs them: the operating system's, or a
/// simulation's.
pub trait Storage: Send + Sync {
    /// Opens the file of that name. If it is absent, it is created, empty, if `create` is set;
    /// otherwise the result is `None`.
    fn open(&self, name: Name, create: bool) -> io::Result<Option<Arc<dyn StorageFile>>>;

    /// Removes a name; not an error if it is absent. A process that has the file open keeps it.
    fn remove(&self, name: Name) -> io::Result<()>;

    /// Makes new and removed names durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// One file. Offsets and lengths are in bytes.
pub trait StorageFile: Send + Sync {
    /// Reads what is at `offset`; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`; a gap before it reads as zeros.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes everything written before, and the length, durable: fdatasync.
    fn sync(&self) -> io::Result<()>;

    /// Where the file ends.
    fn length(&self) -> io::Result<u64>;

    /// Cuts the file, or extends it with zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Reserves space up to `length`, which may extend the file. May do nothing.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Whether the file's name was removed: bytes that are written to it are lost with its last
    /// user.
    fn is_removed(&self) -> io::Result<bool> {
        Ok(false)
    }
}

/// No files: an index that has no name yet has no files beside it.
pub(crate) struct NoFiles;

impl Storage for NoFiles {
    fn open(&self, _: Name, _: bool) -> io::Result<Option<Arc<dyn StorageFile>>> {
        Ok(None)
    }

    fn remove(&self, _: Name) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

/// An index file of the operating system and the log beside it.
pub(crate) struct OsStorage {
    location: Arc<Location>,
    index: File,
    /// Whether `index` is open for writing.
    writes: bool,
}

impl OsStorage {
    /// The files at `location`, of which `index` is the index, as it was opened, for writing if
    /// `writes`.
    pub(crate) fn new(location: Arc<Location>, index: File, writes: bool) -> Self {
        Self { location, index, writes }
    }

    /// The index, open for writing. A reader needs that only if it is the last process to close the
    /// index.
    fn open_index(&self) -> io::Result<File> {
        if self.writes {
            return self.index.try_clone();
        }
        let named = self.location.open("", OFlags::RDWR)?;
        if is_one_file(&named, &self.index)? { Ok(named) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn open_log(&self, create: bool) -> io::Result<File> {
        if create {
            let log = self.location.open(LOG, OFlags::RDWR | OFlags::CREATE)?;
            if let Ok(index) = self.index.metadata() {
                // A process that may use the index may also use its log.
                let _ = log.set_permissions(index.permissions());
            }
            return Ok(log);
        }
        match self.location.open(LOG, OFlags::RDWR) {
            Err(error) if is_refusal(&error) => self.location.open(LOG, OFlags::RDONLY),
            opened => opened,
        }
    }
}

impl Storage for OsStorage {
    fn open(&self, name: Name, create: bool) -> io::Result<Option<Arc<dyn StorageFile>>> {
        let opened = match name {
            Name::Index => self.open_index(),
            Name::Log => self.open_log(create),
        };
        match opened {
            Ok(file) => Ok(Some(storage_file(file))),
            Err(error) if !create && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, name: Name) -> io::Result<()> {
        self.location.remove(match name {
            Name::Index => "",
            Name::Log => LOG,
        })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.location.sync_directory()
    }
}

/// The paths of the log and of the shared file of the index at `path`. They may exist while a
/// process has the index open, and after a writer was killed.
pub fn files_beside(path: &Path) -> [PathBuf; 2] {
    [LOG, SHARED].map(|ending| beside(path, ending))
}

/// `path` with `ending` behind its name.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether the system does not let this process write a file or directory.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// A file of the operating system, as the write path has them.
pub(crate) fn storage_file(file: File) -> Arc<dyn StorageFile> {
    Arc::new(OsFile(file))
}

struct OsFile(File);

impl StorageFile for OsFile {
    fn is_removed(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.nlink() == 0)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            match self.0.read_at(&mut buffer[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            // A file system without reservations: the write itself finds out whether there is
            // space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            result => Ok(result?),
        }
    }
}
