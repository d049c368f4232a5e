//! The writer's side: what it knows about the log, and how a commit gets into it and before everybody's eyes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId, Reader};

use crate::file::FilePages;
use crate::header;
use crate::log::Header;
use crate::log::block::{self, BlockWriter, Entry, Written};
use crate::log::record::CHAIN_MAX;
use crate::open::{Durability, OpenOptions};
use crate::reader::FileReader;
use crate::recover::{Recovered, note};
use crate::storage::StorageFile;

/// Frames that leave the table in one epoch of a commit.
const RETIRED_AT_ONCE: usize = 64;

/// Commit numbers are below this: rows keep 48 bits of them.
const COMMIT_END: u64 = 1 << 48;

pub(crate) static ZEROS: [u8; BODY_BYTES] = [0; BODY_BYTES];

/// Pages with records in the log, and how many since the last image.
pub(crate) type Dirty = HashMap<u32, u8, BuildHasherDefault<PageHasher>>;

/// A quick hash of page numbers.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, page: u32) {
        self.0 = (self.0 ^ u64::from(page)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What only the process that writes has.
pub(crate) struct Writer {
    /// The index file, for checkpoints.
    pub(crate) index: Arc<dyn StorageFile>,
    pub(crate) durability: Durability,
    pub(crate) log_bytes: u64,
    pub(crate) transaction_bytes: u64,
    state: Mutex<State>,
    pub(crate) log_bytes_written: AtomicU64,
    pub(crate) page_bytes_written: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) commits: AtomicU64,
}

/// What a transaction or a checkpoint has to itself.
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
            state: Mutex::new(state),
            log_bytes_written: AtomicU64::new(0),
            page_bytes_written: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        }
    }

    /// The state, when nobody else has it.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic while something was half done is in `broken`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// # Errors
    ///
    /// [`Error::Io`] if an earlier failure left the log in doubt.
    pub(crate) fn check(&self, pages: &FilePages) -> Result<(), Error> {
        let path = pages.path().display();
        if let Some(why) = &self.broken {
            let source = std::io::Error::other(format!("{why}; close the index and open it again"));
            return Err(Error::io(format!("change of {path}"), source));
        }
        if self.end >= COMMIT_END {
            return Err(Error::argument(format!("{path} has had too many commits; build it anew")));
        }
        Ok(())
    }

    /// Writes one block with the new bodies of `changed`, and makes it durable if commits are to be. If that
    /// fails, nothing has happened.
    pub(crate) fn append<'b>(
        &mut self,
        pages: &FilePages,
        changed: &[u32],
        page_count: u32,
        body_of: impl Fn(u32) -> &'b [u8],
    ) -> Result<Vec<Entry>, Error> {
        let writer = pages.writer.as_ref().expect("only a writer commits");
        let header = self.header_or_new(pages)?;
        let file = pages.log.existing()?;
        let offset = header.offset(self.end);
        let mut block = BlockWriter::new(&pages.log, Arc::clone(&file), self.end, offset, self.reserved);
        let mut reader = FileReader::new(pages);
        let committed = pages.pool.page_count();
        let mut entries = Vec::with_capacity(changed.len());
        for &page in changed {
            let records = self.dirty.get(&page).copied().unwrap_or(0);
            let old = if page < committed && records < CHAIN_MAX - 1 {
                let old = reader.page(PageId(page))?;
                Some((&old[HOST_HEADER_BYTES..], header::log_position(old)))
            } else {
                None
            };
            entries.push(block.record(page, old, body_of(page))?);
            reader.release();
        }
        let broken = "an earlier commit may or may not have reached the disk";
        self.broken = Some(broken.into());
        let written = block.finish(page_count, self.checksum);
        let synced = match (&written, writer.durability) {
            (Ok(_), Durability::Commit) => file.sync().map_err(|error| pages.log.refused("sync", error)),
            _ => Ok(()),
        };
        // After a sync that failed, nobody knows what the disk has, not even after another that did not.
        let is_in_doubt = synced.is_err();
        let Written { length, checksum, reserved } = match synced.and(written) {
            Ok(written) => written,
            Err(error) => {
                let is_erased = block::erase(&*file, offset).is_ok();
                if is_erased && !is_in_doubt {
                    self.broken = None;
                }
                return Err(error);
            }
        };
        self.broken = None;
        (self.end, self.checksum, self.reserved) = (self.end + length, checksum, reserved);
        writer.log_bytes_written.fetch_add(length, std::sync::atomic::Ordering::Relaxed);
        Ok(entries)
    }

    fn header_or_new(&mut self, pages: &FilePages) -> Result<Header, Error> {
        if let Some(header) = &self.header {
            return Ok(header.clone());
        }
        let header = Header {
            identity: pages.identity,
            sequence: 1,
            start: self.start,
            base_pages: pages.shared.base_pages(),
            base_position: self.base_position,
        };
        pages.log.create(&header)?;
        self.reserved = 0;
        self.header = Some(header.clone());
        Ok(header)
    }

    /// Shows everybody what [`State::append`] wrote.
    pub(crate) fn publish<'b>(
        &mut self,
        pages: &FilePages,
        entries: &[Entry],
        commit: u64,
        page_count: u32,
        body_of: impl Fn(u32) -> &'b [u8],
    ) {
        let (pool, shared) = (&pages.pool, &pages.shared);
        pool.grow(page_count);
        let mut left = Vec::with_capacity(RETIRED_AT_ONCE);
        // New pages come first, page 0 last: whoever sees a page finds all that it speaks of.
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
                header::stamp(PageId(entry.page), entry.lsn, pages.identity, bytes);
                frame
            });
            pool.replace(entry.page, frame, &mut left);
            if left.len() == RETIRED_AT_ONCE {
                pool.retire(left.drain(..));
            }
            note(&mut self.dirty, entry.page, entry.kind);
        }
        pool.retire(left);
        shared.publish(commit);
    }
}
