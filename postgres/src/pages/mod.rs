//! The engine's pages on the buffer manager: a hop is one buffer, pinned and share-locked while the
//! engine reads it.
//!
//! A query makes some thirty hops and a call into PostgreSQL costs about as much as scoring an
//! edge, so a hop makes two: read and lock, unlock and release. Counters and the page's address are
//! read from memory directly, without a call. Most of the cost of a hop is access to memory that is
//! not in the CPU's caches. [`recent_buffers`] fetches it early.
//!
//! | file | job |
//! |---|---|
//! | `mod.rs` | reading for the engine |
//! | `writer.rs`, `sink.rs` | changing an index; writing a new one |
//! | `header.rs`, `record.rs` | PostgreSQL's part of a page; the log record of a step |
//! | `open_indexes.rs` | the indexes that a session has open |
//! | `replaced.rs` | the dimensions of an index that became empty |
//! | `copied.rs` | a copy in memory, for threads |
//! | `prefetch.rs`, `async_reads.rs` | reading pages before they are needed |
//! | `waits.rs` | whether that is worth its cost |
//! | `recent_buffers.rs`, `heap_ahead.rs` | where pages are in memory; the table's pages |

#[cfg(feature = "pg18")]
mod async_reads;
pub(crate) mod copied;
mod header;
pub(crate) mod heap_ahead;
pub(crate) mod open_indexes;
mod prefetch;
mod recent_buffers;
mod record;
pub(crate) mod replaced;
pub(crate) mod sink;
pub(crate) mod waits;
pub(crate) mod writer;

use std::cell::Cell;
use std::ops::{Deref, Range};

use pagehop_engine::page::Reader;
use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId, Pages};
use pgrx::pg_sys;

#[cfg(feature = "pg18")]
use self::async_reads::AsyncReads;
use self::prefetch::{Begun, Prefetch};
use self::recent_buffers::{RecentBuffers, Then};
use self::waits::{Waits, blocks_read};

const _: () = assert!(pg_sys::BLCKSZ as usize == pagehop_engine::PAGE_BYTES);
const _: () = assert!(std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp) == HOST_HEADER_BYTES);

/// Consecutive hits after which a reader assumes that the index is cached, and uses remembered
/// buffers without a check.
const WARM_AFTER: u32 = 64;

/// Nodes that a writer reads until it gives its core away, about once in an insertion.
const NODES_PER_YIELD: u32 = 96;

/// Most blocks that wait to be read ahead.
const WAITING_MAX: usize = 8;

/// The pages of an index, kept as long as its model. Readers read from the relation that is
/// attached: every callback attaches its own before it uses the index.
pub(crate) struct RelationPages {
    relation: Cell<pg_sys::Relation>,
    /// Blocks that are known to exist. An index never shrinks.
    blocks: Cell<u32>,
    recent: RecentBuffers,
    waits: Waits,
    /// Nodes that this backend reads as a writer until it gives its core away.
    nodes_until_yield: Cell<u32>,
}

// SAFETY: `Pages` requires it so that threads may share an index. A backend has one thread that
// calls PostgreSQL: `pgrx` stops any other that tries, and nothing here gives the pages to another
// thread.
unsafe impl Sync for RelationPages {}

impl RelationPages {
    /// Bytes of memory that these remembered buffers take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.recent.memory_bytes()
    }

    /// The pages of `relation`.
    ///
    /// # Safety
    ///
    /// `relation` is an open index, which stays open until another relation is attached or no
    /// reader reads any more.
    pub(crate) unsafe fn new(relation: pg_sys::Relation) -> Self {
        Self {
            relation: Cell::new(relation),
            blocks: Cell::new(0),
            recent: RecentBuffers::default(),
            waits: Waits::default(),
            nodes_until_yield: Cell::new(NODES_PER_YIELD),
        }
    }

    /// Makes readers read from `relation` from now on.
    ///
    /// # Safety
    ///
    /// `relation` is the same index as before, and stays open until another is attached or no
    /// reader reads any more.
    pub(crate) unsafe fn attach(&self, relation: pg_sys::Relation) {
        self.relation.set(relation);
    }

    /// Whether `block` exists.
    #[inline]
    fn exists(&self, block: u32) -> bool {
        if block >= self.blocks.get() {
            let (relation, fork) = (self.relation.get(), pg_sys::ForkNumber::MAIN_FORKNUM);
            // SAFETY: the caller of `attach` keeps the relation open.
            let blocks = unsafe { pg_sys::RelationGetNumberOfBlocksInFork(relation, fork) };
            self.blocks.set(blocks);
        }
        block < self.blocks.get()
    }

    /// Pins the buffer of a block and locks it in `mode`. If an error unwinds from here, this code
    /// holds no pin and no lock. A read that `is_begun` is not timed.
    ///
    /// # Safety
    ///
    /// `relation` is this index, and open; the block exists, and this backend has no lock on it.
    unsafe fn lock(
        &self,
        relation: pg_sys::Relation,
        block: u32,
        mode: u32,
        is_begun: impl FnOnce() -> bool,
    ) -> pg_sys::Buffer {
        // SAFETY: the caller keeps the relation open, and says that the block is not locked.
        if let Some(buffer) = unsafe { self.recent.pin(relation, block, Then::Lock(mode)) } {
            return buffer;
        }
        // SAFETY: the caller says that the relation is open and has the block.
        let buffer = unsafe { self.read(relation, block, is_begun()) };
        // SAFETY: the buffer is pinned, and the caller says that it is not locked.
        unsafe { pg_sys::LockBuffer(buffer, mode as i32) };
        buffer
    }

    /// Pins the buffer of a block, as [`RelationPages::lock`] does, and does not lock it.
    ///
    /// # Safety
    ///
    /// `relation` is this index, and open; the block exists.
    unsafe fn pin(&self, relation: pg_sys::Relation, block: u32) -> pg_sys::Buffer {
        let nothing = Then::Release(pg_sys::InvalidBuffer as pg_sys::Buffer);
        // SAFETY: the caller keeps the relation open, and says that it has the block.
        unsafe {
            let found = self.recent.pin(relation, block, nothing);
            found.unwrap_or_else(|| self.read(relation, block, true))
        }
    }

    /// Pins the buffer of a block by its number, and remembers it. A read that `is_begun` is not
    /// timed.
    ///
    /// # Safety
    ///
    /// As [`RelationPages::pin`].
    unsafe fn read(&self, relation: pg_sys::Relation, block: u32, is_begun: bool) -> pg_sys::Buffer {
        // SAFETY: the caller says that the relation is open and has the block.
        let read = || unsafe { pg_sys::ReadBuffer(relation, block) };
        let buffer = if is_begun { read() } else { self.waits.time(block, read) };
        self.recent.remember(block, self.blocks.get(), buffer);
        buffer
    }

    /// Gives the core to another process that waits for one, once in [`NODES_PER_YIELD`] nodes. A
    /// search then waits for a part of an insertion, and not for whole insertions of several
    /// sessions. If no process waits, the call takes less than a microsecond.
    fn let_others_run(&self) {
        let nodes = self.nodes_until_yield.get() - 1;
        self.nodes_until_yield.set(if nodes == 0 { NODES_PER_YIELD } else { nodes });
        if nodes == 0 {
            // SAFETY: a system call that touches no memory.
            unsafe { libc::sched_yield() };
        }
    }

    /// A reader that may be dropped at any time: it prefetches through the operating system and
    /// holds no pins.
    fn prefetching_reader(&self) -> BufferReader<'_> {
        BufferReader {
            pages: self,
            missed: Cell::new(0),
            begun: Cell::new(0),
            hits_in_a_row: Cell::new(WARM_AFTER),
            ahead: Ahead::Prefetch(Prefetch::default()),
            may_yield: false,
            is_locked: Cell::new(false),
            waiting: Cell::new([0; WAITING_MAX]),
            waiting_count: Cell::new(0),
        }
    }
}

impl Pages for RelationPages {
    type Reader<'p> = BufferReader<'p>;

    /// A reader that must be paused before the transaction may end, if it has started pages.
    fn reader(&self) -> BufferReader<'_> {
        #[cfg(feature = "pg18")]
        return BufferReader { ahead: Ahead::Async(AsyncReads::default()), ..self.prefetching_reader() };
        #[cfg(not(feature = "pg18"))]
        return self.prefetching_reader();
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
    begun: Cell<u64>,
    hits_in_a_row: Cell<u32>,
    ahead: Ahead,
    /// Whether this backend gives its core away now and then.
    may_yield: bool,
    /// Whether a guard has a page locked.
    is_locked: Cell<bool>,
    /// Blocks to read ahead once no page is locked: a read may have to write another page out
    /// first, and writers of the locked page would wait for that.
    waiting: Cell<[u32; WAITING_MAX]>,
    waiting_count: Cell<usize>,
}

/// How pages that are in no buffer are prefetched.
enum Ahead {
    #[cfg(feature = "pg18")]
    Async(AsyncReads),
    Prefetch(Prefetch),
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
        // SAFETY: the caller of `attach` keeps the relation open.
        let locator = unsafe { &(*self.pages.relation.get()).rd_locator };
        if buffer > 0 && (is_warm || recent_buffers::seems_to_hold(buffer, locator, page.0)) {
            recent_buffers::fetch(buffer, bytes);
        } else if !self.pages.waits.reads_ahead() {
            // The block is read when it is needed.
        } else if self.is_locked.get() {
            self.read_ahead_later(page.0);
        } else {
            self.read_ahead(page.0);
        }
    }

    fn finish(&self, page: PageId) -> Result<BodyGuard<'_>, Error> {
        pgrx::check_for_interrupts!();
        if !self.pages.exists(page.0) {
            return Err(Error::corrupt(page, format!("the index has {} blocks", self.pages.blocks.get())));
        }
        self.begin_waiting();
        let before = blocks_read();
        let buffer = self.lock(page.0);
        if blocks_read() == before {
            self.hits_in_a_row.set(self.hits_in_a_row.get().saturating_add(1));
        } else {
            self.count_miss();
        }
        // SAFETY: the buffer is pinned, so its page stays where it is, and a page is longer than
        // its header.
        let body = unsafe { pg_sys::BufferGetPage(buffer).cast::<u8>().add(HOST_HEADER_BYTES) };
        self.is_locked.set(true);
        Ok(BodyGuard { buffer, body, is_locked: &self.is_locked })
    }

    fn release(&mut self) {
        self.begin_waiting();
        if self.may_yield {
            self.pages.let_others_run();
        }
    }

    fn pause(&mut self) {
        self.waiting_count.set(0);
        self.pages.waits.pause();
        #[cfg(feature = "pg18")]
        if let Ahead::Async(reads) = &self.ahead {
            // SAFETY: the caller of `attach` keeps the relation open.
            unsafe { reads.settle() };
        }
    }

    fn pages_missed(&self) -> u64 {
        self.missed.get()
    }
}

impl BufferReader<'_> {
    /// Reads that this reader began before the page was needed.
    pub(crate) fn pages_ahead(&self) -> u64 {
        self.begun.get()
    }

    /// Remembers a block for [`BufferReader::begin_waiting`]; without room it is read when it is
    /// needed.
    fn read_ahead_later(&self, block: u32) {
        let (mut waiting, count) = (self.waiting.get(), self.waiting_count.get());
        if count < WAITING_MAX {
            waiting[count] = block;
            self.waiting.set(waiting);
            self.waiting_count.set(count + 1);
        }
    }

    /// Begins the reads that waited until no page was locked.
    #[inline]
    fn begin_waiting(&self) {
        let count = self.waiting_count.get();
        if count > 0 && !self.is_locked.get() {
            self.waiting_count.set(0);
            self.waiting.get()[..count].iter().for_each(|block| self.read_ahead(*block));
        }
    }

    /// Begins to read a block that seems to be in no buffer; remembers the buffer if it is in one.
    fn read_ahead(&self, block: u32) {
        // It may take locks of the buffer manager, and wait for storage.
        assert!(!self.is_locked.get(), "reads are begun while no page is locked");
        let (relation, waits) = (self.pages.relation.get(), &self.pages.waits);
        if !self.pages.exists(block) || waits.leaves(block, || self.has_begun(block)) {
            return;
        }
        let begun = match &self.ahead {
            // SAFETY: the caller of `attach` keeps the relation open, and the block exists.
            Ahead::Prefetch(prefetch) => unsafe { prefetch.begin(relation, block) },
            #[cfg(feature = "pg18")]
            // SAFETY: the caller of `attach` keeps the relation open, and the block exists.
            Ahead::Async(reads) => unsafe { reads.begin(relation, block) },
        };
        match begun {
            Begun::Present(buffer) => self.pages.recent.remember(block, self.pages.blocks.get(), buffer),
            Begun::Not => return,
            #[cfg(feature = "pg18")]
            Begun::Reading => self.count_miss(),
            Begun::Advised => {}
        }
        if !matches!(begun, Begun::Present(_)) {
            waits.count();
            self.begun.set(self.begun.get() + 1);
        }
    }

    /// Whether a read of `block` was begun by this reader, and not taken.
    fn has_begun(&self, block: u32) -> bool {
        match &self.ahead {
            Ahead::Prefetch(prefetch) => prefetch.has_begun(block),
            #[cfg(feature = "pg18")]
            Ahead::Async(reads) => reads.has_begun(block),
        }
    }

    /// Pins the buffer of a block that exists, and locks it in share mode. This search holds no
    /// other lock.
    #[inline]
    fn lock(&self, block: u32) -> pg_sys::Buffer {
        let relation = self.pages.relation.get();
        #[cfg(feature = "pg18")]
        if let Ahead::Async(reads) = &self.ahead
            // SAFETY: the caller of `attach` keeps the relation open.
            && let Some(buffer) = unsafe { reads.take(block) }
        {
            self.pages.recent.remember(block, self.pages.blocks.get(), buffer);
            // SAFETY: the buffer is pinned, and this search holds no lock.
            unsafe { pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32) };
            return buffer;
        }
        // SAFETY: the caller of `attach` keeps the relation open, and `finish` has looked whether
        // the block exists.
        unsafe { self.pages.lock(relation, block, pg_sys::BUFFER_LOCK_SHARE, || self.has_begun(block)) }
    }

    fn count_miss(&self) {
        self.missed.set(self.missed.get() + 1);
        self.hits_in_a_row.set(0);
    }
}

/// The body of a page in a buffer that is pinned and share-locked.
pub(crate) struct BodyGuard<'r> {
    buffer: pg_sys::Buffer,
    body: *const u8,
    is_locked: &'r Cell<bool>,
}

impl Deref for BodyGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: until the guard is dropped, the pin keeps the page in place and the lock keeps
        // writers away; a page has this many bytes behind its header.
        unsafe { std::slice::from_raw_parts(self.body, BODY_BYTES) }
    }
}

impl Drop for BodyGuard<'_> {
    fn drop(&mut self) {
        // While an error unwinds no call into PostgreSQL is safe, and none is needed: the end of
        // the (sub)transaction gives back all pins and locks.
        if !std::thread::panicking() {
            // SAFETY: `finish` pinned and locked the buffer for this guard alone, which no scan
            // keeps for longer than a visit.
            unsafe { recent_buffers::unlock_and_release(self.buffer) };
        }
        self.is_locked.set(false);
    }
}
