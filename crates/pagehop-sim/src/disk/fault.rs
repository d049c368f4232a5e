//! Faults of a disk: which calls fail, how, and when.

use std::io;

/// A call of the storage traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// A file is opened or created.
    Open,
    /// A file is removed.
    Remove,
    /// A file takes the name of another.
    Rename,
    /// The directory is synced: creations, removals and new names of files become durable.
    SyncDirectory,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is synced: its bytes and its length become durable.
    Sync,
    /// The length is read.
    Length,
    /// The length is set.
    SetLength,
    /// Space is reserved.
    Allocate,
}

/// All calls, in the order of their declaration.
pub const CALLS: [Call; 10] = [
    Call::Open,
    Call::Remove,
    Call::Rename,
    Call::SyncDirectory,
    Call::Read,
    Call::Write,
    Call::Sync,
    Call::Length,
    Call::SetLength,
    Call::Allocate,
];

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// EIO. A write may have written some whole sectors at its start.
    Io,
    /// ENOSPC. A write may have written some whole sectors at its start.
    NoSpace,
    /// EIO of a sync that drops the pending changes: some of them reach the disk, the others never
    /// will, and the next sync succeeds.
    Forgotten,
    /// A short read: it returns fewer bytes than the buffer holds, without an error.
    Short,
}

impl Refusal {
    pub(super) fn error(self) -> io::Error {
        let (eio, enospc) = (5, 28);
        io::Error::from_raw_os_error(if self == Self::NoSpace { enospc } else { eio })
    }
}

/// A rule that makes calls fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kinds of call that fail.
    pub calls: Vec<Call>,
    /// The number of calls of these kinds that succeed first.
    pub after: u64,
    /// How they fail.
    pub refusal: Refusal,
    /// Whether only one call fails.
    pub once: bool,
}

/// A bug of the disk: it reports success for something that it did not do. With these, tests check
/// that the simulation finds bugs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// No bug.
    #[default]
    None,
    /// A sync of the log does nothing.
    LogSync,
    /// A sync of the index does nothing.
    IndexSync,
    /// Writes to this part of the log do nothing.
    LogWrites {
        /// The first byte.
        from: u64,
        /// The end of the part, exclusive.
        to: u64,
    },
}
