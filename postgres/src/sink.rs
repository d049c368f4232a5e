//! New pages for an index, through the buffer manager.
//!
//! Block 0 is the meta page, which the engine writes last: it is reserved first, empty, so that blocks follow the engine's
//! numbers. Nothing is logged page by page; the finished fork is, at once.

use pagehop_engine::page::PageSink;
use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId};
use pgrx::pg_sys;

use crate::page;
use crate::signals::Signals;

/// Writes the pages of an index that is being built, block after block.
pub(crate) struct BufferSink<'s> {
    index: pg_sys::Relation,
    fork: pg_sys::ForkNumber::Type,
    signals: &'s Signals,
    /// Blocks so far.
    blocks: u32,
}

impl<'s> BufferSink<'s> {
    /// Writes to an empty fork, whose block 0 it reserves.
    ///
    /// # Safety
    ///
    /// `index` is open, locked against everybody else, and stays so; the fork exists and is empty.
    pub(crate) unsafe fn new(
        index: pg_sys::Relation,
        fork: pg_sys::ForkNumber::Type,
        signals: &'s Signals,
    ) -> Result<Self, Error> {
        let mut sink = Self { index, fork, signals, blocks: 0 };
        sink.append(PageId(0), &[0; BODY_BYTES])?;
        Ok(sink)
    }

    fn append(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let relation = pg_sys::BufferManagerRelation { rel: self.index, ..Default::default() };
        let flags =
            pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST | pg_sys::ExtendBufferedFlags::EB_SKIP_EXTENSION_LOCK;
        // SAFETY: the index is open and nobody else extends it: it is new, and locked. The buffer comes pinned and locked.
        let (buffer, block) = unsafe {
            let buffer = pg_sys::ExtendBufferedRel(relation, self.fork, std::ptr::null_mut(), flags);
            (buffer, pg_sys::BufferGetBlockNumber(buffer))
        };
        // SAFETY: the buffer is pinned and locked for us, and given back before anything can fail but by unwinding.
        unsafe {
            fill(buffer, body);
            pg_sys::UnlockReleaseBuffer(buffer);
        }
        self.blocks += 1;
        if block == page.0 {
            return Ok(());
        }
        Err(Error::corrupt(page, format!("it became block {block} of a fork that should have been empty")))
    }

    fn overwrite(&mut self, page: PageId, body: &[u8]) {
        // SAFETY: the index is open and the block exists: only reserved blocks are written again.
        unsafe {
            let (mode, strategy) = (pg_sys::ReadBufferMode::RBM_NORMAL, std::ptr::null_mut());
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
}

/// Makes a fork that was written without the log durable with the transaction, and known to replicas.
///
/// # Safety
///
/// `index` is open, locked against everybody else, and has the fork.
pub(crate) unsafe fn log(index: pg_sys::Relation, fork: pg_sys::ForkNumber::Type) {
    // SAFETY: the caller's promise. Pages have no hole, or are all hole: every byte is logged.
    unsafe {
        let blocks = pg_sys::RelationGetNumberOfBlocksInFork(index, fork);
        pg_sys::log_newpage_range(index, fork, 0, blocks, false);
    }
}

/// Makes `body` the page in `buffer`.
///
/// # Safety
///
/// The buffer is pinned and locked exclusively; `body` is [`BODY_BYTES`] long.
unsafe fn fill(buffer: pg_sys::Buffer, body: &[u8]) {
    // SAFETY: nobody else has the page, which is BLCKSZ long: header and body.
    unsafe {
        let page = pg_sys::BufferGetPage(buffer);
        page::init(page);
        let target = page.cast::<u8>().add(HOST_HEADER_BYTES);
        std::ptr::copy_nonoverlapping(body.as_ptr(), target, BODY_BYTES);
        page::fit_hole(page);
        pg_sys::MarkBufferDirty(buffer);
    }
}
