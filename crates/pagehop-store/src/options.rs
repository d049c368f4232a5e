//! The options of opening an index file.

/// For [`OpenOptions::cache_bytes`]: a quarter of the memory that this process may still use, by
/// the machine and by its control groups, when the index is opened. All indexes that are opened so
/// share it. Memory is taken when pages are read, so a cache is never larger than the part of its
/// file that was read.
pub const CACHE_AUTO: u64 = u64::MAX;

/// How to open an index file.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes for pages kept in memory and the table that finds them, 4 bytes for each page of the
    /// file. Pages get at least half, and at least 64 are kept: a larger table comes on top.
    /// [`CACHE_AUTO`] is a quarter of the memory that this process may still use.
    pub cache_bytes: u64,
    /// Whether to read past the system's page cache, where the file system allows it. `None`: yes,
    /// except in two cases. If the file is larger than the cache, and the memory that is free
    /// beside the cache has room for it, the page cache keeps the pages that the cache does not,
    /// and gives the memory back when the system needs it. If io_uring is refused or not wanted,
    /// the system reads ahead, into its page cache; past it, pages would be read one by one.
    pub direct: Option<bool>,
    /// The way of reading.
    pub io: Io,
    /// Whether rows may be added and deleted. One process at a time may write; others may read.
    pub write: bool,
    /// When a commit is safe from a loss of power.
    pub durability: Durability,
    /// Bytes of log beyond which the next transaction starts with a checkpoint.
    pub log_bytes: u64,
    /// Most bytes of changed pages that one transaction holds in memory.
    pub transaction_bytes: u64,
    /// Dead rows, as a share of the rows. When there are that many plus 256, a call that deletes,
    /// replaces or updates rows also frees the space of dead ones, after its own change: about as
    /// many as it wrote, at most some thousands. With `None`, only [`vacuum`](crate::vacuum()) does
    /// so.
    pub auto_vacuum: Option<f32>,
}

impl Default for OpenOptions {
    /// For reading, with a quarter of free memory and the best available ways to read; a log and
    /// transactions of up to 1 GiB; vacuum when the dead rows are a fifth of the rows plus 256.
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_AUTO,
            direct: None,
            io: Io::Auto,
            write: false,
            durability: Durability::Commit,
            log_bytes: 1 << 30,
            transaction_bytes: 1 << 30,
            auto_vacuum: Some(0.2),
        }
    }
}

/// When a commit is safe from a loss of power. It is safe from the end of the process in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it returns.
    Commit,
    /// At the next checkpoint: a loss of power may take the last commits, whole and from the end.
    Checkpoint,
}

/// A way to read pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// [`Io::Uring`] where the system allows it and `PAGEHOP_IO` is not `pread`, else
    /// [`Io::Pread`].
    Auto,
    /// io_uring: look-ahead keeps many reads in flight. Refused by some containers.
    Uring,
    /// One read at a time, as it is needed. The system is told of the next ones, unless reads go
    /// past its page cache.
    Pread,
}
