//! Changes to an index: the writing half of the engine's page contract, on the buffer manager and
//! generic WAL. A step is one log record over up to four pages (`record.rs`), so replicas, backups
//! and recovery do not need this library.
//!
//! Backends insert rows beside each other, and beside a vacuum that takes dead nodes out of the
//! graph or trains: each holds the heavyweight lock of page 0 in share mode, for a few rows, nodes
//! or pages ([`beside_others`]). All other changes hold it alone, for a few dozen steps
//! ([`change`]). Of the backends that share it, one at a time may be in its section, for example to
//! write postings: it holds the heavyweight lock of page 1. The lock of page 0 comes before that of
//! page 1, and both before any buffer's, so no two backends wait for each other. Searches take no
//! part in these locks. They see each page before or after a step, and each step leaves a valid
//! index.

use std::cell::Cell;

use pagehop_engine::page::{ChangeStep, NumberedStep, PagesMut};
use pagehop_engine::{Change, Error, PageId, Pages, STEP_PAGES};
use pgrx::pg_sys;

use super::open_indexes::{self, OpenIndex};
use super::{BufferReader, record, sink};

/// The page whose lock a backend holds while it changes the index.
const INDEX_LOCK: u32 = 0;
/// The page whose lock a backend holds in its section.
const SECTION_LOCK: u32 = 1;

/// Waits for the right to change an index alone, and changes it.
///
/// # Safety
///
/// `relation` is open, of this access method, and this backend is not its writer.
pub(crate) unsafe fn change<T>(
    relation: pg_sys::Relation,
    work: impl FnOnce(&mut Change<'_, Writer>) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller keeps the relation open.
    unsafe { Writer::new(relation, pg_sys::ExclusiveLock)? }.change(work)
}

/// Waits for the right to change an index: alone, or beside others, to insert rows or to take dead
/// nodes out of the graph.
///
/// # Safety
///
/// As [`change`]; `relation` stays open while the writer lives.
pub(crate) unsafe fn turn(relation: pg_sys::Relation, is_alone: bool) -> Result<Writer, Error> {
    // SAFETY: the caller keeps the relation open.
    unsafe { Writer::new(relation, mode(is_alone)) }
}

/// As [`turn`], without a wait: `None` if another backend holds the lock of the index in a mode
/// that conflicts, or waits for such a mode.
///
/// # Safety
///
/// As [`turn`].
pub(crate) unsafe fn turn_if_free(relation: pg_sys::Relation, is_alone: bool) -> Result<Option<Writer>, Error> {
    let lock = mode(is_alone);
    // SAFETY: the caller keeps the relation open.
    let is_free = unsafe { pg_sys::ConditionalLockPage(relation, INDEX_LOCK, lock as i32) };
    // SAFETY: the caller keeps the relation open, and this backend has the lock.
    is_free.then(|| unsafe { Writer::with_lock(relation, lock) }).transpose()
}

/// The mode of the lock of an index.
fn mode(is_alone: bool) -> u32 {
    if is_alone { pg_sys::ExclusiveLock } else { pg_sys::ShareLock }
}

/// [`turn`] beside others.
///
/// # Safety
///
/// As [`turn`].
pub(crate) unsafe fn beside_others(relation: pg_sys::Relation) -> Result<Writer, Error> {
    // SAFETY: the caller keeps the relation open while the writer lives.
    unsafe { turn(relation, false) }
}

/// [`turn_if_free`] beside others.
///
/// # Safety
///
/// As [`turn`].
pub(crate) unsafe fn beside_others_if_free(relation: pg_sys::Relation) -> Result<Option<Writer>, Error> {
    // SAFETY: the caller keeps the relation open while the writer lives.
    unsafe { turn_if_free(relation, false) }
}

/// Changes an index that is being built: steps are not logged, and no other backend reads it.
///
/// # Safety
///
/// `relation` is open, of this access method, and new. An error ends the transaction that made it,
/// and before that commits all of the index is logged.
pub(crate) unsafe fn change_unlogged<T>(
    relation: pg_sys::Relation,
    work: impl FnOnce(&mut Change<'_, Writer>) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller keeps the relation open.
    let mut writer = unsafe { Writer::new(relation, pg_sys::ExclusiveLock)? };
    writer.is_logged = false;
    writer.change(work)
}

/// Reads an index while no backend changes it.
///
/// # Safety
///
/// `relation` is open, of this access method, and this backend is not its writer.
pub(crate) unsafe fn while_unchanged<T>(
    relation: pg_sys::Relation,
    work: impl FnOnce(&OpenIndex) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller keeps the relation open.
    let writer = unsafe { Writer::new(relation, pg_sys::ExclusiveLock)? };
    work(&writer.index)
}

/// Waits for a lock of the index. A cancel ends the wait even while a training holds interrupts,
/// because the lock may come late or never.
///
/// # Safety
///
/// `relation` is open, and this backend has no lock of a buffer.
unsafe fn wait_for(relation: pg_sys::Relation, page: u32, lock: u32) {
    // SAFETY: a number of this backend. Only a training has added to it, because the caller has no
    // lock of a buffer, which would add, too. An error sets it to 0.
    unsafe {
        let held = pg_sys::InterruptHoldoffCount;
        pg_sys::InterruptHoldoffCount = 0;
        pg_sys::LockPage(relation, page, lock as i32);
        pg_sys::InterruptHoldoffCount = held;
    }
}

fn next_transaction() -> u64 {
    // SAFETY: a read of shared memory.
    unsafe { pg_sys::ReadNextFullTransactionId().value }
}

/// The newest transaction before the horizon of a table. No snapshot of this server sees rows that
/// this transaction, or an earlier one, deleted.
///
/// # Safety
///
/// `table` is open, or null for the horizon of all tables.
pub(crate) unsafe fn before_horizon(table: pg_sys::Relation) -> u64 {
    // SAFETY: `table` is open, or null for the horizon of all tables.
    let horizon = unsafe { pg_sys::GetOldestNonRemovableTransactionId(table) };
    let next = next_transaction();
    // The horizon is at most 2^31 transactions behind the next one.
    let behind = (next as u32).wrapping_sub(u32::from(horizon));
    next.saturating_sub(u64::from(behind)).saturating_sub(1)
}

/// The right to change an index, alone or beside others.
pub(crate) struct Writer {
    relation: pg_sys::Relation,
    index: OpenIndex,
    /// The mode in which the lock of the index is held.
    lock: u32,
    /// Blocks that exist, as far as is known: other backends may add some.
    blocks: Cell<u32>,
    /// Whether each step is logged. If not, the log has no change of this file, or it gets the
    /// whole index at the end.
    is_logged: bool,
    is_in_section: bool,
    /// The buffers that whole pages are written through; null for any.
    ring: pg_sys::BufferAccessStrategy,
}

impl Writer {
    /// Waits for the right to change `relation`.
    ///
    /// # Safety
    ///
    /// `relation` is open, of this access method, and stays open while the writer lives. `lock` is
    /// `ExclusiveLock` or `ShareLock`.
    unsafe fn new(relation: pg_sys::Relation, lock: u32) -> Result<Self, Error> {
        // SAFETY: the caller keeps the relation open, and waits with no buffer locked.
        unsafe {
            wait_for(relation, INDEX_LOCK, lock);
            Self::with_lock(relation, lock)
        }
    }

    /// # Safety
    ///
    /// As [`Writer::new`], and this backend has the lock.
    unsafe fn with_lock(relation: pg_sys::Relation, lock: u32) -> Result<Self, Error> {
        // SAFETY: the caller keeps the relation open. If the index cannot be opened, the error ends
        // the transaction and with it the lock.
        let index = unsafe { open_indexes::open(relation)? };
        let blocks = Cell::new(index.pages().page_count());
        // SAFETY: the caller keeps the relation open.
        let is_logged = unsafe { sink::needs_wal(relation) };
        Ok(Self { relation, index, lock, blocks, is_logged, is_in_section: false, ring: std::ptr::null_mut() })
    }

    /// Writes whole pages through the buffers of `ring`, so that they do not evict other pages.
    ///
    /// # Safety
    ///
    /// `ring` lives as long as the writer.
    pub(crate) unsafe fn through(mut self, ring: pg_sys::BufferAccessStrategy) -> Self {
        self.ring = ring;
        self
    }

    /// Runs `work` and finishes the change, then gives the right back.
    pub(crate) fn change<T>(
        mut self,
        work: impl FnOnce(&mut Change<'_, Self>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let open = self.index.clone();
        let mut change = open.change(&mut self)?;
        let done = work(&mut change)?;
        change.finish()?;
        Ok(done)
    }

    fn exists(&self, page: PageId) -> bool {
        if page.0 >= self.blocks.get() {
            self.blocks.set(self.index.pages().page_count());
        }
        page.0 < self.blocks.get()
    }

    /// Pins the pages of a step, and then locks them in the order of their blocks: so two steps
    /// cannot wait for each other, and no backend waits for a locked page while another one of the
    /// step is read.
    fn lock(&self, pages: &[PageId]) -> Result<[pg_sys::Buffer; STEP_PAGES], Error> {
        if let Some(page) = pages.iter().find(|page| !self.exists(**page)) {
            return Err(Error::corrupt(*page, format!("the index has {} blocks", self.blocks.get())));
        }
        let mut buffers = [pg_sys::InvalidBuffer as pg_sys::Buffer; STEP_PAGES];
        let mut order = [0, 1, 2, 3];
        let order = &mut order[..pages.len()];
        order.sort_unstable_by_key(|at| pages[*at].0);
        for at in &*order {
            // SAFETY: the relation is open while the writer lives, and the block exists. After an
            // error the end of the transaction gives back pins and locks.
            buffers[*at] = unsafe { self.index.pages().pin(self.relation, pages[*at].0) };
        }
        for at in order {
            // SAFETY: the buffer is pinned, and a step names each page once.
            unsafe {
                pg_sys::LockBuffer(buffers[*at], pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
                if record::is_new(buffers[*at]) {
                    // The block was reserved, and never written.
                    record::init(buffers[*at], self.is_logged);
                }
            }
        }
        Ok(buffers)
    }

    /// Adds an empty page to the index and returns its number. It is logged with a hole for a body,
    /// in some forty bytes; the step that fills the page closes the hole.
    fn extend(&self) -> u32 {
        let relation = pg_sys::BufferManagerRelation { rel: self.relation, ..Default::default() };
        let (fork, flags) = (pg_sys::ForkNumber::MAIN_FORKNUM, pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST);
        // SAFETY: the relation is open while the writer lives.
        let buffer = unsafe { pg_sys::ExtendBufferedRel(relation, fork, std::ptr::null_mut(), flags) };
        // SAFETY: the buffer came pinned and locked, and is given back here.
        unsafe {
            record::init(buffer, self.is_logged);
            let block = pg_sys::BufferGetBlockNumber(buffer);
            pg_sys::UnlockReleaseBuffer(buffer);
            block
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The end of a transaction that failed gives the lock back by itself.
        if !std::thread::panicking() {
            // SAFETY: the relation is open while the writer lives, and `new` took the lock.
            unsafe { pg_sys::UnlockPage(self.relation, INDEX_LOCK, self.lock as i32) };
        }
    }
}

impl PagesMut for Writer {
    type Reader<'w> = BufferReader<'w>;

    /// Lets other processes run now and then, but not while other writers wait for this one.
    fn reader(&self) -> BufferReader<'_> {
        let may_yield = self.is_shared() && !self.is_in_section;
        BufferReader { may_yield, ..self.index.pages().prefetching_reader() }
    }

    fn page_count(&self) -> u32 {
        self.blocks.get()
    }

    /// The next transaction id: a scan that has a snapshot already began before it.
    fn commit_number(&self) -> u64 {
        next_transaction()
    }

    /// The horizon of the index's table: transactions of other databases do not hold it back.
    fn oldest_snapshot(&self) -> u64 {
        // SAFETY: the index is open, so it has its row of pg_index, and its table is locked by
        // the caller of the writer. The table is closed again after shared memory was read.
        unsafe {
            let table = pg_sys::RelationIdGetRelation((*(*self.relation).rd_index).indrelid);
            let oldest = before_horizon(table);
            if !table.is_null() {
                pg_sys::RelationClose(table);
            }
            oldest
        }
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        let first = self.extend();
        for expected in first + 1..first + count {
            let block = self.extend();
            if block != expected {
                return Err(Error::corrupt(PageId(expected), format!("it became block {block}")));
            }
        }
        self.blocks.set(self.blocks.get().max(first + count));
        Ok(PageId(first))
    }

    fn reserve(&mut self, count: u32) -> Result<PageId, Error> {
        // SAFETY: the relation is open while the writer lives.
        let first = unsafe { sink::reserve(self.relation, count, self.is_logged)? };
        self.blocks.set(self.blocks.get().max(first + count));
        Ok(PageId(first))
    }

    /// An allocated page has a header. A page of zeros was never written, or was lost.
    fn is_allocated(&self, page: PageId) -> Result<bool, Error> {
        if !self.exists(page) {
            return Ok(false);
        }
        // SAFETY: the relation is open while the writer lives, and has the block. The buffer is
        // given back at once.
        unsafe {
            let buffer = self.index.pages().lock(self.relation, page.0, pg_sys::BUFFER_LOCK_SHARE, || true);
            let is_new = record::is_new(buffer);
            pg_sys::UnlockReleaseBuffer(buffer);
            Ok(!is_new)
        }
    }

    fn put(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        if !self.exists(page) {
            return Err(Error::corrupt(page, format!("the index has {} blocks", self.blocks.get())));
        }
        let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
        // SAFETY: the relation is open while the writer lives, and has the block. The buffer comes
        // pinned and locked, and is given back here.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                self.relation,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                page.0,
                mode,
                self.ring,
            );
            record::put(buffer, body, self.is_logged);
            pg_sys::UnlockReleaseBuffer(buffer);
        }
        Ok(())
    }

    fn step_numbered(&mut self, pages: &[PageId], change: NumberedStep<'_>) -> Result<(), Error> {
        // The pages are locked when the closure runs.
        self.step(pages, &mut |bodies| change(bodies, next_transaction()))
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        let buffers = self.lock(pages)?;
        let buffers = &buffers[..pages.len()];
        // SAFETY: `lock` pinned and locked the buffers of this relation; a step names each page
        // once.
        let changed = unsafe { record::step(buffers, self.is_logged, change) };
        for buffer in buffers {
            // SAFETY: `lock` pinned and locked it.
            unsafe { pg_sys::UnlockReleaseBuffer(*buffer) };
        }
        changed
    }

    /// Standbys cancel the queries that still read those pages, or wait for them, before they
    /// replay later records.
    fn reuse(&mut self, commit: u64) -> Result<(), Error> {
        // SAFETY: the relation is open while the writer lives; the setting is read by value.
        let is_replayed =
            self.is_logged && unsafe { pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32 };
        if is_replayed {
            // SAFETY: the relation is open while the writer lives.
            record::log_conflict(unsafe { &(*self.relation).rd_locator }, commit);
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        self.lock == pg_sys::ShareLock
    }

    fn begin_section(&mut self) -> Result<(), Error> {
        if self.is_shared() {
            // SAFETY: the relation is open while the writer lives, and no buffer is locked between
            // two steps. After an error the end of the transaction gives the lock back.
            unsafe { wait_for(self.relation, SECTION_LOCK, pg_sys::ExclusiveLock) };
            self.blocks.set(self.index.pages().page_count());
            self.is_in_section = true;
        }
        Ok(())
    }

    fn end_section(&mut self) {
        if self.is_shared() {
            self.is_in_section = false;
            // SAFETY: the relation is open while the writer lives, and `begin_section` took the
            // lock.
            unsafe { pg_sys::UnlockPage(self.relation, SECTION_LOCK, pg_sys::ExclusiveLock as i32) };
        }
    }
}
