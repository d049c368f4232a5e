//! Changes to an index: the writing half of the engine's page contract, on the buffer manager and
//! generic WAL. A step is one log record over up to four pages, so replicas, backups and recovery
//! need nothing of ours.
//!
//! One backend at a time changes an index: it holds the heavyweight lock of page 0 for one
//! insertion, or for a few dozen steps of a vacuum ([`change`]). Searches take no part in that
//! lock. They see each page before or after a step, and each step leaves an index.

use pagehop_engine::page::{ChangeStep, PagesMut};
use pagehop_engine::{BODY_BYTES, Change, Error, HOST_HEADER_BYTES, PageId, Pages, STEP_PAGES};
use pgrx::pg_sys;

use super::open_indexes::{self, OpenIndex};
use super::{BufferReader, header};

const _: () = assert!(STEP_PAGES <= pg_sys::MAX_GENERIC_XLOG_PAGES as usize);

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
    /// Whether each step is logged. If not, the whole index is when it is done.
    is_logged: bool,
}

impl Writer {
    /// Waits for the right to change `relation`.
    ///
    /// # Safety
    ///
    /// `relation` is open, of this access method, and stays open while the writer lives.
    unsafe fn new(relation: pg_sys::Relation) -> Result<Self, Error> {
        // SAFETY: the caller keeps the relation open. If the index cannot be opened, the error ends
        // the transaction and with it the lock.
        let index = unsafe {
            pg_sys::LockPage(relation, 0, pg_sys::ExclusiveLock as i32);
            open_indexes::open(relation)?
        };
        let blocks = index.pages().page_count();
        Ok(Self { relation, index, blocks, is_logged: true })
    }

    /// Does `work` and finishes the change, then gives the right back.
    fn change<T>(mut self, work: impl FnOnce(&mut Change<'_, Self>) -> Result<T, Error>) -> Result<T, Error> {
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
        // SAFETY: the buffer came pinned and locked, and is given back here; the record has no
        // other page.
        unsafe {
            let record = Record::begin(self);
            header::init(record.page(buffer, pg_sys::GENERIC_XLOG_FULL_IMAGE));
            record.finish(&[buffer]);
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
        // SAFETY: the relation is open while the writer lives, and the record ends before this
        // function does.
        let record = unsafe { Record::begin(self) };
        let mut bodies: [&mut [u8]; STEP_PAGES] = Default::default();
        let mut changing = [std::ptr::null_mut(); STEP_PAGES];
        for ((buffer, body), page) in buffers.iter().zip(&mut bodies).zip(&mut changing) {
            // SAFETY: `lock` pinned and locked the buffers; a step names each page once, so the
            // pages are apart from each other, and they live until the record is finished or given
            // up.
            unsafe {
                *page = record.page(*buffer, image_flag(*buffer));
                *body = std::slice::from_raw_parts_mut(page.cast::<u8>().add(HOST_HEADER_BYTES), BODY_BYTES);
            }
        }
        let changed = change(&mut bodies[..pages.len()]);
        // SAFETY: the bodies are not used any more; the pages are the record's, of the buffers that
        // are locked.
        unsafe {
            match changed {
                Ok(()) => {
                    changing[..pages.len()].iter().for_each(|page| header::fit_hole(*page));
                    record.finish(buffers);
                }
                Err(_) => record.give_up(),
            }
        }
        for buffer in buffers {
            // SAFETY: `lock` pinned and locked it.
            unsafe { pg_sys::UnlockReleaseBuffer(*buffer) };
        }
        changed
    }
}

/// `GENERIC_XLOG_FULL_IMAGE` for a buffer whose page the log will get whole anyway, in its first
/// record after a checkpoint: then PostgreSQL need not compare the page to find what changed.
///
/// # Safety
///
/// The buffer is pinned and locked.
unsafe fn image_flag(buffer: pg_sys::Buffer) -> u32 {
    let (mut redo, mut writes_images) = (0, false);
    // SAFETY: the caller has the buffer pinned and locked; `redo` and `writes_images` are written
    // to. Both are this backend's copies, which may be old: then an image that comes is not
    // foreseen.
    let is_due = unsafe {
        pg_sys::GetFullPageWriteInfo(&raw mut redo, &raw mut writes_images);
        writes_images && pg_sys::PageGetLSN(pg_sys::BufferGetPage(buffer)) <= redo
    };
    if is_due { pg_sys::GENERIC_XLOG_FULL_IMAGE } else { 0 }
}

/// A log record in the making, which changes copies of pages. Where nothing is logged it changes
/// the pages themselves: an error then removes the whole index.
struct Record(*mut pg_sys::GenericXLogState);

impl Record {
    /// # Safety
    ///
    /// The writer's relation is open, and the record ends before another begins.
    unsafe fn begin(writer: &Writer) -> Self {
        if !writer.is_logged {
            return Self(std::ptr::null_mut());
        }
        // SAFETY: the caller keeps the relation open.
        Self(unsafe { pg_sys::GenericXLogStart(writer.relation) })
    }

    /// The page to change.
    ///
    /// # Safety
    ///
    /// The buffer is pinned and locked exclusively, and this was not called for it before.
    unsafe fn page(&self, buffer: pg_sys::Buffer, flags: u32) -> pg_sys::Page {
        if self.0.is_null() {
            // SAFETY: the caller has the buffer pinned and locked.
            return unsafe { pg_sys::BufferGetPage(buffer) };
        }
        // SAFETY: `begin` made the state; the caller has the buffer pinned and locked, and
        // registers it once.
        unsafe { pg_sys::GenericXLogRegisterBuffer(self.0, buffer, flags as i32) }
    }

    /// Writes the record, or marks the pages as changed where nothing is logged.
    ///
    /// # Safety
    ///
    /// `buffers` are those that [`Record::page`] was called for, still pinned and locked
    /// exclusively.
    unsafe fn finish(self, buffers: &[pg_sys::Buffer]) {
        if self.0.is_null() {
            // SAFETY: the caller has the buffers pinned and locked.
            buffers.iter().for_each(|buffer| unsafe { pg_sys::MarkBufferDirty(*buffer) });
        } else {
            // SAFETY: `begin` made the state, and the caller has its buffers pinned and locked.
            unsafe { pg_sys::GenericXLogFinish(self.0) };
        }
    }

    /// # Safety
    ///
    /// The pages are not used any more.
    unsafe fn give_up(self) {
        if !self.0.is_null() {
            // SAFETY: `begin` made the state.
            unsafe { pg_sys::GenericXLogAbort(self.0) };
        }
    }
}
