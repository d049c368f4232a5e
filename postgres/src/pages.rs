//! The engine's pages on the buffer manager: a hop is one buffer, pinned and share-locked while the engine looks at it.
//!
//! A query makes some thirty hops and each call into PostgreSQL costs about as much as the scoring of an edge, so a hop makes three:
//! read, lock, unlock and release. Counters and the page's address are read where they lie. Most of what a hop costs is memory
//! that is not in the CPU's caches: [`recent`](crate::recent) is there to ask for it early.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use pagehop_engine::page::Reader;
use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId, Pages};
use pgrx::pg_sys;

use crate::advice::Advice;
use crate::demand::NodesPerRow;
#[cfg(feature = "pg18")]
use crate::flight::{Begun, InFlight};
use crate::recent::{self, Recent};

const _: () = assert!(pg_sys::BLCKSZ as usize == pagehop_engine::PAGE_BYTES);
const _: () = assert!(std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp) == HOST_HEADER_BYTES);

/// Hits in a row after which a reader takes the index for cached, and trusts what it remembers.
const WARM_AFTER: u32 = 64;

/// The pages of an index, kept for as long as its model is. Readers read from the relation that is attached at that moment: every
/// callback attaches its own before it uses the index.
pub(crate) struct RelationPages {
    relation: Cell<pg_sys::Relation>,
    /// Blocks that are known to exist. An index never shrinks.
    blocks: Cell<u32>,
    recent: Recent,
    /// Of the table.
    pub(crate) heap: Recent,
    pub(crate) nodes_per_row: NodesPerRow,
}

// SAFETY: `Pages` asks for it so that threads may share an index. A backend has one thread that calls PostgreSQL, `pgrx` stops any
// other that tries, and nothing here hands the pages to another.
unsafe impl Sync for RelationPages {}

impl RelationPages {
    /// The pages of `relation`.
    ///
    /// # Safety
    ///
    /// As [`RelationPages::attach`].
    pub(crate) unsafe fn new(relation: pg_sys::Relation) -> Self {
        Self {
            relation: Cell::new(relation),
            blocks: Cell::new(0),
            recent: Recent::default(),
            heap: Recent::default(),
            nodes_per_row: NodesPerRow::default(),
        }
    }

    /// Says where readers read from now on.
    ///
    /// # Safety
    ///
    /// `relation` is the same index as before, and stays open until another is attached or no reader reads any more.
    pub(crate) unsafe fn attach(&self, relation: pg_sys::Relation) {
        self.relation.set(relation);
    }

    /// Whether `block` exists.
    #[inline]
    fn exists(&self, block: u32) -> bool {
        if block >= self.blocks.get() {
            let (relation, fork) = (self.relation.get(), pg_sys::ForkNumber::MAIN_FORKNUM);
            // SAFETY: whoever attached the relation keeps it open.
            let blocks = unsafe { pg_sys::RelationGetNumberOfBlocksInFork(relation, fork) };
            self.blocks.set(blocks);
        }
        block < self.blocks.get()
    }

    /// Pins the buffer of a block.
    ///
    /// # Safety
    ///
    /// `relation` is this index, and open; the block exists. An error unwinds from here with nothing of ours held.
    pub(crate) unsafe fn pin(&self, relation: pg_sys::Relation, block: u32) -> pg_sys::Buffer {
        // SAFETY: the caller's promise.
        unsafe {
            self.recent.pin(relation, block).unwrap_or_else(|| {
                let buffer = pg_sys::ReadBuffer(relation, block);
                self.recent.remember(block, self.blocks.get(), buffer);
                buffer
            })
        }
    }

    /// A reader that may be dropped at any time: it only advises the system of what it will read.
    pub(crate) fn advising_reader(&self) -> BufferReader<'_> {
        BufferReader {
            pages: self,
            missed: Cell::new(0),
            hits_in_a_row: Cell::new(WARM_AFTER),
            ahead: Ahead::Advice(Advice::default()),
        }
    }
}

impl Pages for RelationPages {
    type Reader<'p> = BufferReader<'p>;

    /// Whoever starts pages must pause before the transaction may end.
    fn reader(&self) -> BufferReader<'_> {
        #[cfg(feature = "pg18")]
        return BufferReader { ahead: Ahead::InFlight(InFlight::default()), ..self.advising_reader() };
        #[cfg(not(feature = "pg18"))]
        return self.advising_reader();
    }

    fn page_count(&self) -> u32 {
        self.exists(u32::MAX);
        self.blocks.get()
    }
}

/// One search's view of an index.
pub(crate) struct BufferReader<'p> {
    pages: &'p RelationPages,
    missed: Cell<u64>,
    hits_in_a_row: Cell<u32>,
    ahead: Ahead,
}

/// How pages that are in no buffer are read ahead.
enum Ahead {
    #[cfg(feature = "pg18")]
    InFlight(InFlight),
    Advice(Advice),
}

impl Reader for BufferReader<'_> {
    type Guard<'r>
        = BodyGuard<'r>
    where
        Self: 'r;

    #[inline]
    fn start(&self, page: PageId, bytes: Range<usize>) {
        let buffer = self.pages.recent.buffer(page.0);
        let is_warm = self.hits_in_a_row.get() >= WARM_AFTER;
        // SAFETY: whoever attached the relation keeps it open.
        let locator = unsafe { &(*self.pages.relation.get()).rd_locator };
        if buffer > 0 && (is_warm || recent::seems_to_hold(buffer, locator, page.0)) {
            recent::fetch(buffer, bytes);
        } else {
            self.ask_for(page.0);
        }
    }

    fn finish(&self, page: PageId) -> Result<BodyGuard<'_>, Error> {
        pgrx::check_for_interrupts!();
        if !self.pages.exists(page.0) {
            return Err(Error::corrupt(page, format!("the index has {} blocks", self.pages.blocks.get())));
        }
        let before = blocks_read();
        let buffer = self.pin(page.0);
        // SAFETY: the buffer is pinned, and this search holds no other.
        unsafe { pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32) };
        if blocks_read() == before {
            self.hits_in_a_row.set(self.hits_in_a_row.get().saturating_add(1));
        } else {
            self.count_miss();
        }
        // SAFETY: the buffer is pinned: its page stays where it is.
        let body = unsafe { pg_sys::BufferGetPage(buffer).cast::<u8>().add(HOST_HEADER_BYTES) };
        Ok(BodyGuard { buffer, body, reader: PhantomData })
    }

    fn release(&mut self) {}

    fn pause(&mut self) {
        #[cfg(feature = "pg18")]
        if let Ahead::InFlight(in_flight) = &self.ahead {
            // SAFETY: whoever attached the relation keeps it open.
            unsafe { in_flight.settle() };
        }
    }

    fn pages_missed(&self) -> u64 {
        self.missed.get()
    }
}

impl BufferReader<'_> {
    /// Begins to read a block that seems to be in no buffer; remembers the buffer if it is in one.
    fn ask_for(&self, block: u32) {
        if !self.pages.exists(block) {
            return;
        }
        let relation = self.pages.relation.get();
        let remember = |buffer| self.pages.recent.remember(block, self.pages.blocks.get(), buffer);
        match &self.ahead {
            // SAFETY: the relation is open and the block exists.
            Ahead::Advice(advice) => unsafe { advice.ask_for(relation, block) }.into_iter().for_each(remember),
            #[cfg(feature = "pg18")]
            // SAFETY: as above.
            Ahead::InFlight(in_flight) => match unsafe { in_flight.begin(relation, block) } {
                Begun::Reading => self.count_miss(),
                Begun::Present(buffer) => remember(buffer),
                Begun::Not => {}
            },
        }
    }

    /// Pins the buffer of a block that exists.
    #[inline]
    fn pin(&self, block: u32) -> pg_sys::Buffer {
        let relation = self.pages.relation.get();
        #[cfg(feature = "pg18")]
        if let Ahead::InFlight(in_flight) = &self.ahead
            // SAFETY: the relation is open.
            && let Some(buffer) = unsafe { in_flight.take(block) }
        {
            self.pages.recent.remember(block, self.pages.blocks.get(), buffer);
            return buffer;
        }
        // SAFETY: the relation is open and the block exists.
        unsafe { self.pages.pin(relation, block) }
    }

    fn count_miss(&self) {
        self.missed.set(self.missed.get() + 1);
        self.hits_in_a_row.set(0);
    }
}

/// Blocks that this backend had to read so far.
fn blocks_read() -> i64 {
    // SAFETY: a counter of this backend, which has one thread that calls PostgreSQL; read by value.
    unsafe { pg_sys::pgBufferUsage.shared_blks_read + pg_sys::pgBufferUsage.local_blks_read }
}

/// The body of a page in a buffer that is pinned and share-locked.
pub(crate) struct BodyGuard<'r> {
    buffer: pg_sys::Buffer,
    body: *const u8,
    reader: PhantomData<&'r ()>,
}

impl Deref for BodyGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the pin keeps the page in place and the lock keeps writers away until the guard is dropped; a page has this many
        // bytes behind its header.
        unsafe { std::slice::from_raw_parts(self.body, BODY_BYTES) }
    }
}

impl Drop for BodyGuard<'_> {
    fn drop(&mut self) {
        // While an error unwinds no call into PostgreSQL is safe, and none is needed: the end of the (sub)transaction gives back
        // all pins and locks.
        if !std::thread::panicking() {
            // SAFETY: this guard pinned and locked the buffer.
            unsafe { pg_sys::UnlockReleaseBuffer(self.buffer) };
        }
    }
}
