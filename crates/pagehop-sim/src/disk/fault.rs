//! What a disk refuses, and when.

use std::io;

/// A call of the storage traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// A file is opened, or made.
    Open,
    /// A name is removed.
    Remove,
    /// Names are made durable.
    SyncDirectory,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is made durable.
    Sync,
    /// The length is asked for.
    Length,
    /// The length is set.
    SetLength,
    /// Space is reserved.
    Allocate,
}

/// All calls, in the order of their declaration.
pub const CALLS: [Call; 9] = [
    Call::Open,
    Call::Remove,
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
    /// EIO. Of a write, some whole sectors at the front may have happened.
    Io,
    /// ENOSPC. Of a write, some whole sectors at the front may have happened.
    NoSpace,
    /// EIO of a sync, after which what was not durable is forgotten: some of it reached the disk, the rest never
    /// will, and the next sync says that all is well.
    Forgotten,
    /// A read ends early, without an error.
    Short,
}

impl Refusal {
    pub(super) fn error(self) -> io::Error {
        let (eio, enospc) = (5, 28);
        io::Error::from_raw_os_error(if self == Self::NoSpace { enospc } else { eio })
    }
}

/// Some calls that fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kinds of call it is about.
    pub calls: Vec<Call>,
    /// Calls of these kinds that still succeed.
    pub after: u64,
    /// How they fail.
    pub refusal: Refusal,
    /// Whether only one call fails.
    pub once: bool,
}

/// A disk that says something was done which was not: a bug to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// An honest disk.
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
        /// The byte behind the last.
        to: u64,
    },
}
