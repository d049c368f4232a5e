//! Temporary files for rows that a build puts aside; the host provides them.

use crate::Error;

/// Takes kept work; returns `false` to refuse it.
pub type EachWork<'a> = &'a mut dyn FnMut(&[u8]) -> Result<bool, Error>;

/// Where a build that is larger than its memory puts rows aside.
pub trait Scratch {
    /// Sets the most bytes that the files, kept work and pages of the build may take in caches of
    /// the system from now on. They are part of the memory of the build.
    fn limit_cache(&self, bytes: u64) {
        let _ = bytes;
    }

    /// A new, empty file. Nothing is left of it when it is dropped, nor after a crash.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] or [`Error::Io`] if the system refuses.
    fn file(&self) -> Result<Box<dyn ScratchFile>, Error>;

    /// Bytes that new files can take in all; `None` if the host does not know.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether the pages of the index share this space.
    fn has_pages(&self) -> bool {
        true
    }

    /// Bytes of space for pages, if they do not share that of files; `None` if the host does not
    /// know.
    fn free_page_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether finished work outlives a build that is killed.
    fn keeps_work(&self) -> bool {
        false
    }

    /// Bytes that a killed build has kept. New kept work replaces them.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// Passes to `each` the work that a killed build with the same `key` kept, in its order, until
    /// `each` refuses. The rest is forgotten, as is work of another key. More may be kept then.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] or [`Error::Io`] if the system refuses; those of `each`.
    fn resume(&self, key: u64, each: EachWork<'_>) -> Result<(), Error> {
        let _ = (key, each);
        Ok(())
    }

    /// Keeps finished work until the build ends by itself. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] or [`Error::Io`] if the system refuses.
    fn keep(&self, work: &[u8]) -> Result<(), Error> {
        let _ = work;
        Ok(())
    }
}

/// A file that is written from its beginning to its end, then read.
pub trait ScratchFile {
    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] or [`Error::Io`] if the system refuses.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Fills `bytes` with the bytes from `at` on.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system refuses, or the file ends before.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error>;
}
