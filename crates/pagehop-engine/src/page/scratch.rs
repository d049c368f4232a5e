//! Temporary files for what a build puts aside, which the host provides.

use crate::Error;

/// Where a build that is larger than its memory puts rows aside.
pub trait Scratch {
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

    /// Whether the pages of the index take from these bytes, too.
    fn has_pages(&self) -> bool {
        true
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

    /// Fills `bytes` with what was written from byte `at` on.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system refuses, or the file ends before.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error>;
}
