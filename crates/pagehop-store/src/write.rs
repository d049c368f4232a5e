//! The writer's side: what it knows about the log, how a commit gets into the log, and how it is
//! shown to all readers.
//!
//! The order of a commit: the log exists and page 0 of the index names it, durably; the block is
//! written and synced; the shared table and this process's cache get the new versions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagehop_engine::{Error, HOST_HEADER_BYTES, PageId, Reader};

use crate::disk::base_file::PageBuffer;
use crate::disk::storage::StorageFile;
use crate::header::{self, LogTag, POSITION_END, SECTOR_BYTES};
use crate::log::block::{self, BlockWriter, Entry, Written};
use crate::log::dirty::{Dirty, note};
use crate::log::log_file::Header;
use crate::log::record::{CHAIN_MAX, Records};
use crate::log::recover::Recovered;
use crate::options::{Durability, OpenOptions};
use crate::read_side::ReadSide;
use crate::reader::FileReader;

/// Pages whose records a thread makes at once.
const PAGES_AT_ONCE: usize = 256;
/// Frames that leave the table in one epoch of a commit.
const RETIRED_AT_ONCE: usize = 64;

/// What only the process that writes has.
pub(crate) struct Writer {
    /// The index file, for checkpoints.
    pub(crate) index: Arc<dyn StorageFile>,
    durability: Durability,
    pub(crate) log_bytes: u64,
    pub(crate) transaction_bytes: u64,
    pub(crate) auto_vacuum: Option<f32>,
    /// Dead rows when an automatic vacuum found that all wait for readers; 0 if the last did not.
    pub(crate) waiting_rows: AtomicU64,
    state: Mutex<State>,
    pub(crate) log_bytes_written: AtomicU64,
    pub(crate) page_bytes_written: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) commits: AtomicU64,
}

/// What one transaction or one checkpoint at a time has to itself.
pub(crate) struct Turn<'p> {
    pub(crate) read: &'p ReadSide,
    pub(crate) writer: &'p Writer,
    pub(crate) state: MutexGuard<'p, State>,
}

/// What page 0 in the index file says of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Commits in the log count.
    Named,
    /// No log counts.
    Unnamed,
    /// One of both: a write failed, and may have reached the file.
    Unknown,
}

/// What the writer knows about the log.
pub(crate) struct State {
    /// The log's header; `None` until the first commit makes the log.
    pub(crate) header: Option<Header>,
    /// Where the log begins and ends.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Of the last block.
    pub(crate) checksum: u32,
    /// Up to where the log file has space.
    pub(crate) reserved: u64,
    pub(crate) dirty: Dirty,
    /// Log position of page 0 in the index file.
    pub(crate) base_position: u64,
    /// Whether page 0 in the index file says that commits in the log count.
    pub(crate) naming: Naming,
    /// Why nothing can be committed any more.
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
        let state = State {
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

    /// Refuses the child of a fork: its parent has the turn.
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

    /// The writer's turn; waits until the one before has ended.
    pub(crate) fn turn<'p>(&'p self, read: &'p ReadSide) -> Turn<'p> {
        Turn { read, writer: self, state: self.state() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in the middle of a commit is in `broken`.
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

    /// Whether the log is longer than it should be.
    pub(crate) fn is_log_long(&self) -> bool {
        self.state.end - self.state.start > self.writer.log_bytes
    }

    /// The records of `pages`, with their new bodies.
    fn records<'b>(&self, pages: &[u32], body_of: impl Fn(u32) -> &'b [u8]) -> Result<Records, Error> {
        let mut records = Records::default();
        let mut reader = FileReader::new(self.read);
        let committed = self.read.pool.page_count();
        for &page in pages {
            let chain = self.state.dirty.get(&page).copied().unwrap_or(0);
            let old = if page < committed && chain < CHAIN_MAX - 1 {
                let old = reader.page(PageId(page))?;
                Some((&old[HOST_HEADER_BYTES..], header::log_position(old)))
            } else {
                None
            };
            records.push(page, old, body_of(page));
            reader.release();
        }
        Ok(records)
    }

    /// Writes the records of `changed`, made by up to `threads` threads while those before them are
    /// written.
    fn write_records<'b>(
        &self,
        block: &mut BlockWriter<'_>,
        changed: &[u32],
        threads: usize,
        body_of: impl Fn(u32) -> &'b [u8] + Copy + Send,
    ) -> Result<(), Error> {
        let mut parts = changed.chunks(PAGES_AT_ONCE);
        if threads == 1 || parts.len() == 1 {
            return parts.try_for_each(|part| block.append(self.records(part, body_of)?));
        }
        std::thread::scope(|scope| {
            let start = |part| scope.spawn(move || self.records(part, body_of));
            let mut under_way: VecDeque<_> = parts.by_ref().take(threads).map(start).collect();
            while let Some(first) = under_way.pop_front() {
                let records = first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                under_way.extend(parts.next().map(start));
                block.append(records)?;
            }
            Ok(())
        })
    }

    /// Writes one block with the new bodies of `changed`, and makes it durable if commits are to
    /// be. If that fails, nothing has happened. Records are made by up to `threads` threads.
    pub(crate) fn append<'b>(
        &mut self,
        changed: &[u32],
        page_count: u32,
        threads: usize,
        body_of: impl Fn(u32) -> &'b [u8] + Copy + Send,
    ) -> Result<Vec<Entry>, Error> {
        let versions = &self.read.versions;
        let header = self.header_or_new()?;
        let file = versions.log.existing()?;
        let offset = header.offset(self.state.end);
        let mut block =
            BlockWriter::new(&versions.log, Arc::clone(&file), self.state.end, offset, self.state.reserved);
        self.write_records(&mut block, changed, threads, body_of)?;
        let broken = "an earlier commit may or may not have reached the disk";
        self.state.broken = Some(broken.into());
        let written = block.finish(page_count, self.state.checksum);
        let synced = match (&written, self.writer.durability) {
            (Ok(_), Durability::Commit) => file.sync().map_err(|error| versions.log.refused("sync", error)),
            _ => Ok(()),
        };
        // After a sync that failed, it is unknown what the disk has, even after another that did
        // not.
        let is_in_doubt = synced.is_err();
        let (Written { length, checksum, reserved }, entries) = match synced.and(written) {
            Ok(written) => written,
            Err(error) => {
                let is_erased = block::erase(&*file, offset).is_ok();
                if is_erased && !is_in_doubt {
                    self.state.broken = None;
                }
                return Err(error);
            }
        };
        self.state.broken = None;
        (self.state.end, self.state.checksum, self.state.reserved) = (self.state.end + length, checksum, reserved);
        self.writer.log_bytes_written.fetch_add(length, Ordering::Relaxed);
        Ok(entries)
    }

    /// The header of a log whose commits count: a new log if there is none, named by page 0 of the
    /// index.
    fn header_or_new(&mut self) -> Result<Header, Error> {
        let versions = &self.read.versions;
        if self.state.header.is_some() && versions.log.is_removed() {
            // What is written to it would be lost with this process. What it holds still goes into
            // the index.
            self.checkpoint()?;
        }
        let header = match &self.state.header {
            Some(header) => header.clone(),
            None => self.new_log()?,
        };
        if self.state.naming != Naming::Named {
            // The log is on the disk already, and the commit not yet: a loss of power finds both or
            // neither.
            self.name_log(header.tag)?;
        }
        Ok(header)
    }

    fn new_log(&mut self) -> Result<Header, Error> {
        let versions = &self.read.versions;
        let header = Header {
            identity: versions.identity,
            tag: header::new_log_tag(0),
            sequence: 1,
            start: self.state.start,
            base_pages: versions.shared.base_pages(),
            base_position: self.state.base_position,
        };
        versions.log.create(&header)?;
        self.state.reserved = 0;
        self.state.header = Some(header.clone());
        Ok(header)
    }

    /// Says on page 0 of the index file, durably, that the commits in the log with this `tag`
    /// count; 0 for none. Only the first sector is written, which a disk writes whole or not at
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
            // A checkpoint tore it: the log counts until another has made it whole.
            Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        self.state.naming = if tag == 0 { Naming::Unnamed } else { Naming::Named };
        Ok(())
    }

    /// Shows all readers what [`Turn::append`] wrote.
    pub(crate) fn publish<'b>(
        &mut self,
        entries: &[Entry],
        commit: u64,
        page_count: u32,
        body_of: impl Fn(u32) -> &'b [u8],
    ) {
        let (pool, versions) = (&self.read.pool, &self.read.versions);
        let shared = &versions.shared;
        shared.begin(commit);
        pool.grow(page_count);
        let mut left = Vec::with_capacity(RETIRED_AT_ONCE);
        // New pages come first, page 0 last: a reader that sees a page finds all pages that it
        // names.
        let committed = shared.page_count();
        let (new, old): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.page >= committed);
        for (at, entry) in new.iter().chain(&old).enumerate() {
            if at == new.len() {
                shared.set_page_count(page_count);
            }
            shared.set_newest(entry.page, entry.lsn);
            let frame = pool.take().map(|mut frame| {
                let bytes = pool.frames().bytes_mut(&mut frame);
                bytes[HOST_HEADER_BYTES..].copy_from_slice(body_of(entry.page));
                header::stamp(PageId(entry.page), entry.lsn, versions.identity, bytes);
                frame
            });
            pool.replace(entry.page, frame, &mut left);
            if left.len() == RETIRED_AT_ONCE {
                pool.retire(left.drain(..));
            }
            note(&mut self.state.dirty, entry.page, entry.kind);
        }
        pool.retire(left);
        shared.publish(commit);
        self.writer.commits.fetch_add(1, Ordering::Relaxed);
    }
}
