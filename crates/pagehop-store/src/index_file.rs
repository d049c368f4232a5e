//! An open index file: the engine's pages, and the writer's side if it was opened for writing.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagehop_engine::{Error, PAGE_BYTES, Pages};

use crate::checkpoint::checkpoint;
use crate::disk::storage::Storage;
use crate::log::found::Found;
use crate::log::versions::{News, Versions};
use crate::open::{Opened, open_file, open_storage, open_unfinished};
use crate::options::{Io, OpenOptions};
use crate::process::attach;
use crate::read_side::ReadSide;
use crate::reader::FileReader;
use crate::transaction::Transaction;
use crate::writer::{Turn, Writer};

/// The pages of one index file, behind a cache; shared by any number of threads.
///
/// Commits of the process that writes, this one or another, are seen as they come. If a new build
/// replaces the file, these pages stay those of the file that was opened.
///
/// Dropping it leaves commits in the log, for the next process that opens the index.
/// [`IndexFile::close`] brings them into the index.
pub struct IndexFile {
    pub(crate) read: ReadSide,
    writer: Option<Writer>,
}

// A panic elsewhere leaves pages whole: what a transaction changes is private until it commits.
impl std::panic::UnwindSafe for IndexFile {}
impl std::panic::RefUnwindSafe for IndexFile {}

/// Counts since the file was opened, over all readers and the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read from storage.
    pub reads: u64,
    /// Bytes read from storage.
    pub bytes: u64,
    /// Pages that had to leave the cache.
    pub evictions: u64,
    /// Pages among `reads` that the cache had no room for: it is too small for the number of
    /// readers.
    pub uncached_reads: u64,
    /// Transactions that were committed.
    pub commits: u64,
    /// Bytes that commits wrote to the log.
    pub log_bytes_written: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes of pages that checkpoints wrote into the index.
    pub page_bytes_written: u64,
}

impl IndexFile {
    /// Opens the file at `path`. Only page 0 is read, to see that this is an index, and its log if
    /// there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, or not be written if that is wanted;
    /// [`Error::Format`] if it is not an index, or of another version; [`Error::Corrupt`] if it is
    /// truncated or page 0 is damaged; [`Error::Busy`] if this process opens it for writing and
    /// another process is writing it.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        open_file(path, options).map(Self::of)
    }

    /// Opens the index in `storage`, which nothing else has open.
    ///
    /// # Errors
    ///
    /// The errors of [`IndexFile::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: &OpenOptions) -> Result<Self, Error> {
        open_storage(storage, options).map(Self::of)
    }

    /// Opens an index that was just written to `file`, which errors call `name`, to measure it.
    pub(crate) fn open_unfinished(file: &File, name: &Path, cache_bytes: u64) -> Result<Self, Error> {
        open_unfinished(file, name, cache_bytes).map(Self::of)
    }

    fn of(opened: Opened) -> Self {
        Self { read: opened.read, writer: opened.writer }
    }

    /// Whether rows can be added and deleted.
    pub fn is_writable(&self) -> bool {
        self.writer.is_some()
    }

    /// Bytes of commits in the log, which a checkpoint would bring into the index; 0 if this
    /// process does not write.
    pub fn log_used_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::log_used_bytes)
    }

    /// Begins a transaction; waits for one that another thread has begun. If the log is longer than
    /// [`OpenOptions::log_bytes`], a checkpoint comes first.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index was not opened for writing; [`Error::Forked`] if the parent
    /// of this process opened it; [`Error::Io`] if an earlier failure left the log in doubt; those
    /// of [`IndexFile::checkpoint`].
    pub fn begin(&self) -> Result<Transaction<'_>, Error> {
        Transaction::begin(self.turn()?)
    }

    /// Brings the pages of all commits into the index file, durably, and empties the log. Readers
    /// go on at the same time; a transaction waits. Without commits in the log it does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index was not opened for writing; [`Error::Full`] if the disk is
    /// full and [`Error::Io`] if the system refuses: the log is kept, nothing is lost, and a later
    /// checkpoint may succeed.
    pub fn checkpoint(&self) -> Result<(), Error> {
        checkpoint(&mut self.turn()?)
    }

    /// Ends the use of the index: a writer's commits are brought into it, and if no other process
    /// has it open, the files beside it are removed.
    ///
    /// # Errors
    ///
    /// The errors of [`IndexFile::checkpoint`]. The index is closed in any case, and its commits
    /// are safe in its log.
    pub fn close(self) -> Result<(), Error> {
        match &self.writer {
            Some(_) if !self.read.versions.shared.is_forked() => self.checkpoint(),
            _ => Ok(()),
        }
    }

    /// The share of dead rows from which on calls that write also vacuum; see
    /// [`OpenOptions::auto_vacuum`](crate::OpenOptions::auto_vacuum). With it, the number of dead
    /// rows when the last such vacuum found that all wait for readers.
    pub(crate) fn auto_vacuum(&self) -> Option<(f32, &AtomicU64)> {
        let writer = self.writer.as_ref()?;
        Some((writer.auto_vacuum?, &writer.waiting_rows))
    }

    /// The writer's turn, if this process may write.
    fn turn(&self) -> Result<Turn<'_>, Error> {
        let path = self.path().display();
        let refused =
            || Error::argument(format!("{path} was opened for reading; open it for writing to change it"));
        let writer = self.writer.as_ref().ok_or_else(refused)?;
        writer.check_process(&self.read)?;
        Ok(writer.turn(&self.read))
    }

    /// The counts so far.
    pub fn counters(&self) -> Counters {
        let reads = self.read.reads();
        let of_writer = |counter: fn(&Writer) -> &AtomicU64| {
            self.writer.as_ref().map_or(0, |writer| counter(writer).load(Ordering::Relaxed))
        };
        Counters {
            reads,
            bytes: reads * PAGE_BYTES as u64,
            evictions: self.read.pool.evictions(),
            uncached_reads: self.read.uncached_reads(),
            commits: of_writer(|writer| &writer.commits),
            log_bytes_written: of_writer(|writer| &writer.log_bytes_written),
            checkpoints: of_writer(|writer| &writer.checkpoints),
            page_bytes_written: of_writer(|writer| &writer.page_bytes_written),
        }
    }

    /// Bytes of pages that the cache can hold.
    pub fn cache_bytes(&self) -> u64 {
        self.read.cache_bytes()
    }

    /// Whether reads go past the system's page cache.
    pub fn is_direct(&self) -> bool {
        self.read.versions.base.is_direct()
    }

    /// The way of reading: [`Io::Uring`] until the system refuses it, or [`Io::Pread`].
    pub fn io(&self) -> Io {
        if self.read.uring.load(Ordering::Relaxed) { Io::Uring } else { Io::Pread }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.read.path()
    }
}

impl Pages for IndexFile {
    type Reader<'p> = FileReader<'p>;

    fn reader(&self) -> FileReader<'_> {
        FileReader::new(&self.read)
    }

    fn page_count(&self) -> u32 {
        self.read.page_count()
    }

    fn is_newest(&self, snapshot: u64) -> bool {
        self.read.versions.shared.begun() <= snapshot
    }
}

impl Drop for IndexFile {
    fn drop(&mut self) {
        if self.read.versions.news == News::Own && self.read.versions.log.is_removed() {
            // The log exists only as long as this process, so its commits are written into the
            // index, if possible.
            let _ = self.checkpoint();
        }
        let Versions { base, log, identity, news, shared } = &mut self.read.versions;
        attach::detach(shared, || {
            // The log stays if page 0 names it, or if it belongs to another index.
            let is_ours = matches!(log.read_header(), Ok(Some(header)) if header.identity == *identity);
            let is_done = matches!(Found::in_file(base), Ok(found) if found.position.is_some() && found.tag == 0);
            if is_ours && is_done && *news != News::None {
                // If the log cannot be removed, it does no harm.
                let _ = log.remove(base);
            }
        });
    }
}
