//! Changes to an index: the writing half of the engine's page contract, on the buffer manager and
//! generic WAL. A step is one log record over up to four pages (`record.rs`), so replicas, backups
//! and recovery need nothing of ours.
//!
//! One backend at a time changes an index: it holds the heavyweight lock of page 0 for one
//! insertion, or for a few dozen steps of a vacuum ([`change`]). Searches take no part in that
//! lock. They see each page before or after a step, and each step leaves an index.

use pagehop_engine::page::{ChangeStep, PagesMut};
use pagehop_engine::{Change, Error, PageId, Pages, STEP_PAGES};
use pgrx::pg_sys;

use super::open_indexes::{self, OpenIndex};
use super::{BufferReader, record, sink};

/// Changes an index under the writer's lock, for which it waits.
///
/// # Safety
///
/// `relation` is open, of this access method, and this backend is not its writer.
pub(crate) unsafe fn change<T>(
    relation: pg_sys::Relation,
    work: impl FnOnce(&mut Change<'_, Writer>) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller keeps the relation open.
    unsafe { Writer::new(relation)? }.change(work)
}

/// The right to change an index, for which it waits.
///
/// # Safety
///
/// As [`change`]; `relation` stays open while the writer lives.
pub(crate) unsafe fn when_free(relation: pg_sys::Relation) -> Result<Writer, Error> {
    // SAFETY: the caller keeps the relation open.
    unsafe { Writer::new(relation) }
}

/// The right to change an index; `None` if another backend has it, or waits for it.
///
/// # Safety
///
/// As [`change`]; `relation` stays open while the writer lives.
pub(crate) unsafe fn if_free(relation: pg_sys::Relation) -> Result<Option<Writer>, Error> {
    // SAFETY: the caller keeps the relation open.
    let is_free = unsafe { pg_sys::ConditionalLockPage(relation, 0, pg_sys::ExclusiveLock as i32) };
    // SAFETY: the caller keeps the relation open, and the lock was got.
    is_free.then(|| unsafe { Writer::with_lock(relation) }).transpose()
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
    let mut writer = unsafe { Writer::new(relation)? };
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
    let writer = unsafe { Writer::new(relation)? };
    work(&writer.index)
}

/// The right to change an index. No other backend has it while this lives.
pub(crate) struct Writer {
    relation: pg_sys::Relation,
    index: OpenIndex,
    /// Blocks that exist: only the writer adds some.
    blocks: u32,
    /// Whether each step is logged. If not, the log has no change of this file at all, or the whole
    /// index when it is done.
    is_logged: bool,
}

impl Writer {
    /// Waits for the right to change `relation`.
    ///
    /// # Safety
    ///
    /// `relation` is open, of this access method, and stays open while the writer lives.
    unsafe fn new(relation: pg_sys::Relation) -> Result<Self, Error> {
        // SAFETY: the caller keeps the relation open.
        unsafe {
            pg_sys::LockPage(relation, 0, pg_sys::ExclusiveLock as i32);
            Self::with_lock(relation)
        }
    }

    /// # Safety
    ///
    /// As [`Writer::new`], and this backend has the lock.
    unsafe fn with_lock(relation: pg_sys::Relation) -> Result<Self, Error> {
        // SAFETY: the caller keeps the relation open. If the index cannot be opened, the error ends
        // the transaction and with it the lock.
        let index = unsafe { open_indexes::open(relation)? };
        let blocks = index.pages().page_count();
        // SAFETY: the caller keeps the relation open.
        let is_logged = unsafe { sink::needs_wal(relation) };
        Ok(Self { relation, index, blocks, is_logged })
    }

    /// Does `work` and finishes the change, then gives the right back.
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

    /// Pins and locks the pages of a step, in the order of their blocks: so two steps cannot wait
    /// for each other.
    fn lock(&self, pages: &[PageId]) -> Result<[pg_sys::Buffer; STEP_PAGES], Error> {
        if let Some(page) = pages.iter().find(|page| page.0 >= self.blocks) {
            return Err(Error::corrupt(*page, format!("the index has {} blocks", self.blocks)));
        }
        let mut buffers = [pg_sys::InvalidBuffer as pg_sys::Buffer; STEP_PAGES];
        let mut order = [0, 1, 2, 3];
        let order = &mut order[..pages.len()];
        order.sort_unstable_by_key(|at| pages[*at].0);
        for at in order {
            // SAFETY: the relation is open while the writer lives, and the block exists. After an
            // error the end of the transaction gives back pins and locks.
            unsafe {
                buffers[*at] = self.index.pages().pin(self.relation, pages[*at].0, true);
                pg_sys::LockBuffer(buffers[*at], pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
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
            unsafe { pg_sys::UnlockPage(self.relation, 0, pg_sys::ExclusiveLock as i32) };
        }
    }
}

impl PagesMut for Writer {
    type Reader<'w> = BufferReader<'w>;

    fn reader(&self) -> BufferReader<'_> {
        self.index.pages().prefetching_reader()
    }

    fn page_count(&self) -> u32 {
        self.blocks
    }

    /// The next transaction id: a scan that has a snapshot already began before it.
    fn commit_number(&self) -> u64 {
        // SAFETY: a read of shared memory.
        unsafe { pg_sys::ReadNextFullTransactionId().value }
    }

    /// The horizon of the index's table: transactions of other databases do not hold it back.
    fn oldest_snapshot(&self) -> u64 {
        // SAFETY: the index is open, so it has its row of pg_index, and its table is locked by
        // the caller of the writer. The table is closed again after shared memory was read.
        let (next, horizon) = unsafe {
            let table = pg_sys::RelationIdGetRelation((*(*self.relation).rd_index).indrelid);
            let horizon = pg_sys::GetOldestNonRemovableTransactionId(table);
            let next = pg_sys::ReadNextFullTransactionId().value;
            if !table.is_null() {
                pg_sys::RelationClose(table);
            }
            (next, horizon)
        };
        // The horizon is at most 2^31 transactions behind the next one.
        let behind = (next as u32).wrapping_sub(u32::from(horizon));
        next.saturating_sub(u64::from(behind)).saturating_sub(1)
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        let first = self.blocks;
        for _ in 0..count {
            let block = self.extend();
            if block != self.blocks {
                return Err(Error::corrupt(PageId(self.blocks), format!("it became block {block}")));
            }
            self.blocks += 1;
        }
        Ok(PageId(first))
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
}
