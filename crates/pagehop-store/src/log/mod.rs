//! The log: what commits changed, until a checkpoint has brought it into the index.
//!
//! One file: a header in two copies, then blocks, one per transaction (`docs/log.md` is exact to
//! the byte). Places in it are *log positions* (LSN): bytes of an endless log, of which the file
//! holds the part since the last checkpoint. A position is never used twice, so what a checkpoint
//! left behind is not taken for something new.
//!
//! - `log_file.rs`: the file and its header.
//! - `delta.rs`: what changed in a page, as runs of bytes.
//! - `record.rs`: one page's change, and how the changes of a page lead to each other.
//! - `block.rs`: one transaction, whole or not there.
//! - `dirty.rs`: which pages have records, and how many.
//! - `found.rs`: what the index file says about itself.
//! - `recover.rs`: what an index file and its log say together when they are opened.
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
