//! Temporary files of a build, in the directory of the file that it makes. They have no name, so
//! none is left behind, however the build ends. Where the file system has no unnamed files, they
//! have temporary names, as in `whole_file.rs`, and are removed by the next build of the same index
//! if this one is killed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagehop_engine::{EachWork, Error, Scratch, ScratchFile};

use crate::build::kept_work::KeptWork;
use crate::build::page_cache::{PageCache, stop_read_ahead};
use crate::build::whole_file::{WholeFile, open_temporary};

/// A temporary file. Dropping it removes it.
struct TemporaryFile {
    file: Arc<File>,
    cache: Arc<PageCache>,
    /// The name of the file, if it has one.
    name: Option<PathBuf>,
    written: u64,
    /// The file that is being made.
    target: PathBuf,
}

impl TemporaryFile {
    fn refused(&self, operation: &str, error: io::Error) -> Error {
        Error::io(format!("{operation} of a temporary file beside {}", self.target.display()), error)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

impl ScratchFile for TemporaryFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.cache.append(&self.file, bytes, self.written);
        written.map_err(|error| self.refused("write", error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.cache.read(&self.file, bytes, at).map_err(|error| self.refused("read", error))
    }
}

impl Scratch for WholeFile {
    fn limit_cache(&self, bytes: u64) {
        self.limit_page_cache(bytes);
    }

    fn file(&self) -> Result<Box<dyn ScratchFile>, Error> {
        let target = self.target().to_path_buf();
        let opened = open_temporary(&target, self.is_unnamed());
        let (file, name) = opened.map_err(|error| {
            Error::io(format!("creation of a temporary file beside {}", target.display()), error)
        })?;
        stop_read_ahead(&file);
        let (file, cache) = (Arc::new(file), self.page_cache().clone());
        Ok(Box::new(TemporaryFile { file, cache, name, written: 0, target }))
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(self.target().parent()?)
    }

    fn keeps_work(&self) -> bool {
        self.kept.is_some()
    }

    fn kept_bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, KeptWork::left_bytes)
    }

    fn resume(&self, key: u64, each: EachWork<'_>) -> Result<(), Error> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.resume(key, self.page_cache(), each))
    }

    fn keep(&self, work: &[u8]) -> Result<(), Error> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.keep(work, self.page_cache()))
    }
}

fn free_bytes(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_leaves_no_name_behind() {
        let directory = std::env::temp_dir().join(format!("pagehop-scratch-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let names = || std::fs::read_dir(&directory).unwrap().count();
        for unnamed in [true, false] {
            let whole = WholeFile::create_in(&directory.join("items.pagehop"), false, unnamed).unwrap();
            let [mut one, mut other] = [whole.file().unwrap(), whole.file().unwrap()];
            one.append(b"rows").unwrap();
            one.append(b" and more").unwrap();
            other.append(b"others").unwrap();
            let mut read = [0; 8];
            one.read(5, &mut read).unwrap();
            assert_eq!(&read, b"and more");
            assert!(matches!(one.read(9, &mut read), Err(Error::Io { .. })), "the file ends before");
            assert!(whole.free_bytes().is_some_and(|free| free > 0));
            drop((one, other, whole));
            assert_eq!(names(), 0);
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
