//! The log: the changes of commits, until a checkpoint has written them into the index.
//!
//! One file: a header in two copies, then blocks, one per transaction (`docs/log.md` is exact to
//! the byte). Places in it are *log positions* (LSN): bytes of an endless log, of which the file
//! holds the part since the last checkpoint. A position is never used twice, so old blocks that a
//! checkpoint left are not taken for new ones.
//!
//! - `log_file.rs`: the file and its header.
//! - `delta.rs`: the changes of a page, as runs of bytes.
//! - `record.rs`: one change of a page, and the chain of a page's changes.
//! - `block.rs`: one transaction, whole or absent.
//! - `dirty.rs`: which pages have records, and how many.
//! - `found.rs`: the state of the index file on disk.
//! - `recover.rs`: recovery: the state of an index from its file and its log, when they are opened.
//! - `versions.rs`: the newest version of a page, from the index file and the log.

pub(crate) mod block;
mod delta;
pub(crate) mod dirty;
pub(crate) mod found;
pub(crate) mod log_file;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod versions;

#[cfg(test)]
pub(crate) mod tests;
