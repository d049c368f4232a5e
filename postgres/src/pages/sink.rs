//! New pages for an index, through the buffer manager.
//!
//! Block 0 is the meta page, which the engine writes last. It is reserved first, empty, so that
//! blocks have the engine's numbers. Pages are not logged one by one: the finished fork is logged
//! as a whole.

use pagehop_engine::page::PageSink;
use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId, Scratch};
use pgrx::pg_sys;

use super::header;
use crate::signals::Signals;
use crate::temp_files::TempFiles;

/// Writes the pages of an index that is being built, block after block.
pub(crate) struct BufferSink<'s> {
    index: pg_sys::Relation,
    fork: pg_sys::ForkNumber::Type,
    signals: &'s Signals,
    /// Number of blocks so far.
    blocks: u32,
    temp_files: TempFiles,
}

impl<'s> BufferSink<'s> {
    /// Writes to an empty fork, whose block 0 it reserves.
    ///
    /// # Safety
    ///
    /// `index` is open, locked against all other backends, and stays so; the fork exists and is
    /// empty.
    pub(crate) unsafe fn new(
        index: pg_sys::Relation,
        fork: pg_sys::ForkNumber::Type,
        signals: &'s Signals,
    ) -> Result<Self, Error> {
        // SAFETY: the caller says that the index is open.
        let temp_files = unsafe { TempFiles::of(index) };
        let mut sink = Self { index, fork, signals, blocks: 0, temp_files };
        sink.append(PageId(0), &[0; BODY_BYTES])?;
        Ok(sink)
    }

    fn append(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let relation = pg_sys::BufferManagerRelation { rel: self.index, ..Default::default() };
        let flags =
            pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST | pg_sys::ExtendBufferedFlags::EB_SKIP_EXTENSION_LOCK;
        // SAFETY: `new` was promised that the index is open and locked, so no other backend extends
        // it.
        let buffer = unsafe { pg_sys::ExtendBufferedRel(relation, self.fork, std::ptr::null_mut(), flags) };
        // SAFETY: the buffer came pinned and locked, and is given back here.
        let block = unsafe {
            fill(buffer, body);
            let block = pg_sys::BufferGetBlockNumber(buffer);
            pg_sys::UnlockReleaseBuffer(buffer);
            block
        };
        self.blocks += 1;
        if block == page.0 {
            return Ok(());
        }
        Err(Error::corrupt(page, format!("it became block {block} of a fork that should have been empty")))
    }

    fn overwrite(&mut self, page: PageId, body: &[u8]) {
        let (mode, strategy) = (pg_sys::ReadBufferMode::RBM_NORMAL, std::ptr::null_mut());
        // SAFETY: `new` was promised that the index is open, and reserved the block, the only one
        // that is overwritten.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(self.index, self.fork, page.0, mode, strategy);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            fill(buffer, body);
            pg_sys::UnlockReleaseBuffer(buffer);
        }
    }
}

impl PageSink for BufferSink<'_> {
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        assert_eq!(body.len(), BODY_BYTES, "a body has this length");
        let signals = self.signals;
        signals.delivered(|| match page {
            PageId(0) => {
                self.overwrite(page, body);
                Ok(())
            }
            _ => self.append(page, body),
        })
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        Some(&self.temp_files)
    }
}

/// Adds `count` blocks of zeros to the index at once and returns the first of them. Only the last
/// block is written, and logged if `is_logged`. The blocks before it are a hole in the file, as in
/// a hash index that grows. So this takes microseconds, in which no other backend adds a block.
///
/// # Safety
///
/// `index` is open, and its main fork exists.
pub(crate) unsafe fn reserve(index: pg_sys::Relation, count: u32, is_logged: bool) -> Result<u32, Error> {
    /// Aligned as direct reads and writes need it.
    #[repr(C, align(4096))]
    struct Block([u8; pg_sys::BLCKSZ as usize]);
    let mut block = Block([0; pg_sys::BLCKSZ as usize]);
    let page: pg_sys::Page = block.0.as_mut_ptr().cast();
    let (fork, mode) = (pg_sys::ForkNumber::MAIN_FORKNUM, pg_sys::ExclusiveLock as i32);
    // SAFETY: the caller keeps the index open. The lock keeps other backends from adding blocks.
    // The page is a whole one, and only used here. The log has it before the file.
    unsafe {
        pg_sys::LockRelationForExtension(index, mode);
        let file = pg_sys::smgropen((*index).rd_locator, (*index).rd_backend);
        let first = pg_sys::smgrnblocks(file, fork);
        let last = first.checked_add(count).filter(|end| *end < pg_sys::InvalidBlockNumber);
        if let Some(end) = last {
            header::init(page);
            if is_logged {
                pg_sys::log_newpage(&raw mut (*index).rd_locator, fork, end - 1, page, true);
            }
            pg_sys::PageSetChecksumInplace(page, end - 1);
            pg_sys::smgrextend(file, fork, end - 1, page.cast(), false);
        }
        pg_sys::UnlockRelationForExtension(index, mode);
        last.map(|_| first).ok_or_else(|| Error::full("the index has as many blocks as a relation can have"))
    }
}

/// Logs a fork that was written without the log, so that it is durable with the transaction and
/// known to replicas.
///
/// # Safety
///
/// `index` is open, locked against all other backends, and has the fork.
pub(crate) unsafe fn log(index: pg_sys::Relation, fork: pg_sys::ForkNumber::Type) {
    // SAFETY: the caller says that the index is open, locked, and has the fork. `fill` and `put`
    // have noted what pages do not use, which the log leaves out.
    unsafe {
        let blocks = pg_sys::RelationGetNumberOfBlocksInFork(index, fork);
        pg_sys::log_newpage_range(index, fork, 0, blocks, true);
    }
}

/// Whether a change to `relation`'s main fork must be written to the log: `RelationNeedsWAL` of
/// `utils/rel.h`.
///
/// # Safety
///
/// `relation` is open.
pub(crate) unsafe fn needs_wal(relation: pg_sys::Relation) -> bool {
    // SAFETY: the caller keeps the relation open, so it has its row of pg_class; the other is a
    // setting, read by value.
    unsafe {
        let persistence = (*(*relation).rd_rel).relpersistence as u8;
        let minimal = pg_sys::wal_level < pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32;
        let new = (*relation).rd_createSubid != 0 || (*relation).rd_firstRelfilelocatorSubid != 0;
        persistence == pg_sys::RELPERSISTENCE_PERMANENT && !(minimal && new)
    }
}

/// Replaces the page in `buffer` by `body`.
///
/// # Safety
///
/// The buffer is pinned and locked exclusively; `body` is [`BODY_BYTES`] long.
unsafe fn fill(buffer: pg_sys::Buffer, body: &[u8]) {
    // SAFETY: the caller has the page to itself. It is BLCKSZ long: header and body.
    unsafe {
        let page = pg_sys::BufferGetPage(buffer);
        header::init(page);
        let target = page.cast::<u8>().add(HOST_HEADER_BYTES);
        std::ptr::copy_nonoverlapping(body.as_ptr(), target, BODY_BYTES);
        header::fit_hole(page);
        pg_sys::MarkBufferDirty(buffer);
    }
}
