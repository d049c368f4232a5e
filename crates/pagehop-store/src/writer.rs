//! The writer's side: its state of the log, and the turns of its threads.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagehop_engine::{Error, PageId};

use crate::disk::base_file::PageBuffer;
use crate::disk::storage::StorageFile;
use crate::header::{self, LogTag, POSITION_END, SECTOR_BYTES};
use crate::log::dirty::Dirty;
use crate::log::log_file::Header;
use crate::log::recover::Recovered;
use crate::options::{Durability, OpenOptions};
use crate::read_side::ReadSide;

/// State that only the process that writes has.
pub(crate) struct Writer {
    /// The index file, for checkpoints.
    pub(crate) index: Arc<dyn StorageFile>,
    pub(crate) durability: Durability,
    pub(crate) log_bytes: u64,
    pub(crate) transaction_bytes: u64,
    pub(crate) auto_vacuum: Option<f32>,
    /// Dead rows when an automatic vacuum found that all wait for readers; 0 if the last did not.
    pub(crate) waiting_rows: AtomicU64,
    state: Mutex<LogState>,
    pub(crate) log_bytes_written: AtomicU64,
    pub(crate) page_bytes_written: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) commits: AtomicU64,
}

/// The state that one transaction or one checkpoint at a time owns.
pub(crate) struct Turn<'p> {
    pub(crate) read: &'p ReadSide,
    pub(crate) writer: &'p Writer,
    pub(crate) state: MutexGuard<'p, LogState>,
}

/// What page 0 of the index file implies for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Commits in the log count.
    Named,
    /// No log counts.
    Unnamed,
    /// One of these two: a write failed, and may have reached the file.
    Unknown,
}

/// The state of the log, as the writer knows it.
pub(crate) struct LogState {
    /// The log's header; `None` until the first commit makes the log.
    pub(crate) header: Option<Header>,
    /// Where the log begins and ends.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Checksum of the last block.
    pub(crate) checksum: u32,
    /// Offset up to which the log file has space.
    pub(crate) reserved: u64,
    pub(crate) dirty: Dirty,
    /// Log position of page 0 in the index file.
    pub(crate) base_position: u64,
    /// Whether commits in the log count according to page 0 in the index file.
    pub(crate) naming: Naming,
    /// The reason why no commit is possible until the index is opened again.
    pub(crate) broken: Option<String>,
}

impl Writer {
    pub(crate) fn new(
        index: Arc<dyn StorageFile>,
        recovered: Recovered,
        base_position: u64,
        options: &OpenOptions,
    ) -> Self {
        let start = recovered.end_start();
        let header = recovered.header;
        let reserved = header.as_ref().map_or(0, |header| header.offset(recovered.end.lsn));
        let state = LogState {
            naming: if header.is_some() { Naming::Named } else { Naming::Unnamed },
            header,
            start,
            end: recovered.end.lsn,
            checksum: recovered.end.checksum,
            reserved,
            dirty: recovered.dirty,
            base_position,
            broken: None,
        };
        Self {
            index,
            durability: options.durability,
            log_bytes: options.log_bytes,
            transaction_bytes: options.transaction_bytes,
            auto_vacuum: options.auto_vacuum,
            waiting_rows: AtomicU64::new(0),
            state: Mutex::new(state),
            log_bytes_written: AtomicU64::new(0),
            page_bytes_written: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        }
    }

    /// Refuses the child of a fork: its parent is the writer.
    pub(crate) fn check_process(&self, read: &ReadSide) -> Result<(), Error> {
        if !read.versions.shared.is_forked() {
            return Ok(());
        }
        let what = format!(
            "{} was opened for writing before this process was forked, and its parent may be writing; \
             open it again in this process",
            read.path().display()
        );
        Err(Error::Forked { what })
    }

    /// The writer's turn; waits until the turn before has ended.
    pub(crate) fn turn<'p>(&'p self, read: &'p ReadSide) -> Turn<'p> {
        Turn { read, writer: self, state: self.state() }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        // A panic in the middle of a commit was recorded in `broken`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of commits in the log.
    pub(crate) fn log_used_bytes(&self) -> u64 {
        let state = self.state();
        state.end - state.start
    }
}

impl Turn<'_> {
    /// # Errors
    ///
    /// [`Error::Io`] if an earlier failure left the log in doubt.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let path = self.read.path().display();
        if let Some(why) = &self.state.broken {
            let source = std::io::Error::other(format!("{why}; close the index and open it again"));
            return Err(Error::io(format!("change of {path}"), source));
        }
        if self.state.end >= POSITION_END {
            return Err(Error::full(format!("{path} has had too many commits; build it again")));
        }
        Ok(())
    }

    /// Whether the log is longer than the options allow.
    pub(crate) fn is_log_long(&self) -> bool {
        self.state.end - self.state.start > self.writer.log_bytes
    }

    /// Notes on page 0 of the index file, durably, that the commits in the log with this `tag`
    /// count; 0 for no log. Only the first sector is written, which a disk writes whole or not at
    /// all.
    pub(crate) fn name_log(&mut self, tag: LogTag) -> Result<(), Error> {
        let mut buffer = PageBuffer::new();
        self.state.naming = Naming::Unknown;
        match self.read.versions.base.read(PageId(0), &mut buffer.0) {
            Ok(()) => {
                header::set_log_tag(&mut buffer.0, tag);
                let index = &self.writer.index;
                let written = index.write_all_at(&buffer.0[..SECTOR_BYTES], 0).and_then(|()| index.sync());
                written.map_err(|error| {
                    let path = self.read.path().display();
                    Error::io(format!("write of the header of page 0 of {path}"), error)
                })?;
            }
            // A checkpoint tore page 0: the log counts until another checkpoint has made the page
            // whole.
            Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        self.state.naming = if tag == 0 { Naming::Unnamed } else { Naming::Named };
        Ok(())
    }
}
