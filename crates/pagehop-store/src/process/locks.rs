//! Locks on bytes of the index file itself.
//!
//! They belong to the file, under any name and mount, and do not need the files beside it. They are
//! read and write locks of *open file descriptions* (`mapping.rs`), on bytes far beyond any page.
//!
//! - `WRITER`: the process that writes holds it alone.
//! - `PRESENT`: every process that shares `X-shared` holds it in share mode. A process that finds
//!   no other in `X-shared`, but one here, knows that the others share another `X-shared`.

use std::fs::File;
use std::io;

use crate::process::mapping;

const WRITER: u64 = 1 << 62;
const PRESENT: u64 = WRITER + 1;

/// An opening of the index file, with its locks.
pub(crate) struct IndexLocks(File);

impl IndexLocks {
    /// Locks of `index`, which must be open for writing to be locked by a writer.
    pub(crate) fn on(index: File) -> Self {
        Self(index)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Becomes the writer; `false` if there is a writer.
    pub(crate) fn become_writer(&self) -> io::Result<bool> {
        mapping::lock(&self.0, WRITER, false)
    }

    /// Whether another opening of the file is for writing.
    pub(crate) fn has_writer(&self) -> io::Result<bool> {
        mapping::is_locked(&self.0, WRITER, 1)
    }

    /// Takes part in the file's use.
    pub(crate) fn become_present(&self) -> io::Result<()> {
        mapping::lock_shared(&self.0, PRESENT)
    }

    /// Whether other openings take part in the file's use.
    pub(crate) fn others_are_present(&self) -> io::Result<bool> {
        mapping::is_locked(&self.0, PRESENT, 1)
    }

    /// Releases the writer's lock. Closing the file would do so, too, but the child of a fork keeps
    /// it open.
    pub(crate) fn end_writing(&self) {
        mapping::unlock(&self.0, WRITER);
    }

    pub(crate) fn end_presence(&self) {
        mapping::unlock(&self.0, PRESENT);
    }
}
