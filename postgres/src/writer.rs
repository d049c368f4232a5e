//! The writing half of the engine's page contract, on the buffer manager and generic WAL: a step is one log record over up to four
//! pages, so replicas, backups and recovery need nothing of ours.
//!
//! One backend at a time changes an index: it holds the heavyweight lock of page 0 for one insertion, or a few dozen steps of
//! vacuum. Searches take no part in it; they see each page before or after a step, and each step leaves an index.

use pagehop_engine::page::{ChangeStep, PagesMut};
use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId, Pages, STEP_PAGES};
use pgrx::pg_sys;

use crate::models::OpenIndex;
use crate::page;
use crate::pages::BufferReader;

const _: () = assert!(STEP_PAGES <= pg_sys::MAX_GENERIC_XLOG_PAGES as usize);

/// The right to change an index. Nobody else has it while this lives.
pub(crate) struct Writer {
    relation: pg_sys::Relation,
    index: OpenIndex,
    /// Blocks that exist: only who has the right adds some.
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
    pub(crate) unsafe fn new(relation: pg_sys::Relation) -> Result<Self, Error> {
        // SAFETY: the relation is open. If opening the index fails, the error ends the transaction and with it the lock.
        unsafe {
            pg_sys::LockPage(relation, 0, pg_sys::ExclusiveLock as i32);
            let index = crate::models::open(relation)?;
            let blocks = index.pages().page_count();
            Ok(Self { relation, index, blocks, is_logged: true })
        }
    }

    /// The right to change an index that is being built: steps are not logged, and nobody reads.
    ///
    /// # Safety
    ///
    /// As [`Writer::new`]. An error ends the transaction that made the index, and before that commits all of it is logged.
    pub(crate) unsafe fn unlogged(relation: pg_sys::Relation) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let mut writer = unsafe { Self::new(relation)? };
        writer.is_logged = false;
        Ok(writer)
    }

    /// The index, whose model is known.
    pub(crate) fn index(&self) -> OpenIndex {
        self.index.clone()
    }

    /// Pins and locks the pages of a step, in the order of their blocks: so two steps cannot wait for each other.
    fn lock(&self, pages: &[PageId]) -> Result<[pg_sys::Buffer; STEP_PAGES], Error> {
        if let Some(page) = pages.iter().find(|page| page.0 >= self.blocks) {
            return Err(Error::corrupt(*page, format!("the index has {} blocks", self.blocks)));
        }
        let mut buffers = [pg_sys::InvalidBuffer as pg_sys::Buffer; STEP_PAGES];
        let mut order = [0, 1, 2, 3];
        let order = &mut order[..pages.len()];
        order.sort_unstable_by_key(|at| pages[*at].0);
        for at in order {
            // SAFETY: the relation is open and the block exists. An error unwinds to the end of the transaction, which gives back
            // pins and locks.
            unsafe {
                buffers[*at] = self.index.pages().pin(self.relation, pages[*at].0);
                pg_sys::LockBuffer(buffers[*at], pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            }
        }
        Ok(buffers)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The end of a transaction that failed gives the lock back by itself.
        if !std::thread::panicking() {
            // SAFETY: the relation is open, and the lock was taken in `new`.
            unsafe { pg_sys::UnlockPage(self.relation, 0, pg_sys::ExclusiveLock as i32) };
        }
    }
}

impl PagesMut for Writer {
    type Reader<'w> = BufferReader<'w>;

    fn reader(&self) -> BufferReader<'_> {
        self.index.pages().advising_reader()
    }

    fn page_count(&self) -> u32 {
        self.blocks
    }

    /// The next transaction id: a scan that has a snapshot already began before it.
    fn commit_number(&self) -> u64 {
        // SAFETY: a read of shared memory.
        unsafe { pg_sys::ReadNextFullTransactionId().value }
    }

    fn oldest_snapshot(&self) -> u64 {
        // SAFETY: no relation stands for every database's horizon, which is at most 2^31 transactions behind the next id.
        unsafe {
            let next = pg_sys::ReadNextFullTransactionId().value;
            let horizon = pg_sys::GetOldestNonRemovableTransactionId(std::ptr::null_mut());
            let behind = (next as u32).wrapping_sub(u32::from(horizon));
            next.saturating_sub(u64::from(behind)).saturating_sub(1)
        }
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        let first = self.blocks;
        for _ in 0..count {
            let relation = pg_sys::BufferManagerRelation { rel: self.relation, ..Default::default() };
            let (fork, flags) = (pg_sys::ForkNumber::MAIN_FORKNUM, pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST);
            // SAFETY: the relation is open; the buffer comes pinned and locked. The page is logged with a hole for a body: some
            // forty bytes. The step that fills it closes the hole.
            unsafe {
                let buffer = pg_sys::ExtendBufferedRel(relation, fork, std::ptr::null_mut(), flags);
                let record = Record::begin(self);
                page::init(record.page(buffer, pg_sys::GENERIC_XLOG_FULL_IMAGE));
                record.finish(&[buffer]);
                let block = pg_sys::BufferGetBlockNumber(buffer);
                pg_sys::UnlockReleaseBuffer(buffer);
                if block != self.blocks {
                    return Err(Error::corrupt(PageId(self.blocks), format!("it became block {block}")));
                }
            }
            self.blocks += 1;
        }
        Ok(PageId(first))
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        let buffers = self.lock(pages)?;
        let buffers = &buffers[..pages.len()];
        // SAFETY: the relation is open and the buffers are pinned and locked. The pages of a record are apart from each other and
        // live until it is finished or given up; a step names each page once.
        let changed = unsafe {
            let record = Record::begin(self);
            let mut bodies: [&mut [u8]; STEP_PAGES] = Default::default();
            let mut changing = [std::ptr::null_mut(); STEP_PAGES];
            for ((buffer, body), page) in buffers.iter().zip(&mut bodies).zip(&mut changing) {
                *page = record.page(*buffer, image_flag(*buffer));
                *body = std::slice::from_raw_parts_mut(page.cast::<u8>().add(HOST_HEADER_BYTES), BODY_BYTES);
            }
            let changed = change(&mut bodies[..pages.len()]);
            match changed {
                Ok(()) => {
                    changing[..pages.len()].iter().for_each(|page| page::fit_hole(*page));
                    record.finish(buffers);
                }
                Err(_) => record.give_up(),
            }
            changed
        };
        for buffer in buffers {
            // SAFETY: pinned and locked above.
            unsafe { pg_sys::UnlockReleaseBuffer(*buffer) };
        }
        changed
    }
}

/// Says to log the page of a buffer whole, if the first record after a checkpoint does so anyway: then nobody needs to look for what
/// changed in it.
///
/// # Safety
///
/// The buffer is pinned and locked.
unsafe fn image_flag(buffer: pg_sys::Buffer) -> u32 {
    let (mut redo, mut writes_images) = (0, false);
    // SAFETY: the caller's promise; both are written to. They are this backend's, which may be behind: then an image that comes is
    // not foreseen.
    let is_due = unsafe {
        pg_sys::GetFullPageWriteInfo(&raw mut redo, &raw mut writes_images);
        writes_images && pg_sys::PageGetLSN(pg_sys::BufferGetPage(buffer)) <= redo
    };
    if is_due { pg_sys::GENERIC_XLOG_FULL_IMAGE } else { 0 }
}

/// A record of the log in the making, which changes copies of pages; or, where nothing is logged, the pages themselves: what
/// is given up half done goes with the whole index.
struct Record(*mut pg_sys::GenericXLogState);

impl Record {
    /// # Safety
    ///
    /// The writer's relation is open, and the record ends before another begins.
    unsafe fn begin(writer: &Writer) -> Self {
        if !writer.is_logged {
            return Self(std::ptr::null_mut());
        }
        // SAFETY: the caller's promise.
        Self(unsafe { pg_sys::GenericXLogStart(writer.relation) })
    }

    /// The page to change.
    ///
    /// # Safety
    ///
    /// The buffer is pinned and locked exclusively, and was not asked for before.
    unsafe fn page(&self, buffer: pg_sys::Buffer, flags: u32) -> pg_sys::Page {
        // SAFETY: the caller's promise; `begin` made the state, if there is one.
        unsafe {
            match self.0.is_null() {
                true => pg_sys::BufferGetPage(buffer),
                false => pg_sys::GenericXLogRegisterBuffer(self.0, buffer, flags as i32),
            }
        }
    }

    /// # Safety
    ///
    /// `buffers` are those whose pages were asked for.
    unsafe fn finish(self, buffers: &[pg_sys::Buffer]) {
        // SAFETY: the buffers are still pinned and locked exclusively: the caller of `page` has them.
        unsafe {
            match self.0.is_null() {
                true => buffers.iter().for_each(|buffer| pg_sys::MarkBufferDirty(*buffer)),
                false => {
                    pg_sys::GenericXLogFinish(self.0);
                }
            }
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
