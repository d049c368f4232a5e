//! Asynchronous reads of PostgreSQL 18: several blocks are read while the engine scores the pages
//! in memory. `io_method` decides which process reads.
//!
//! The buffer of a read stays pinned until it is taken. The caller that begins reads must
//! [`settle`](AsyncReads::settle) them before the transaction ends. After an error this is not
//! necessary: the end of the transaction gives the pins back.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use pgrx::pg_sys;

use super::prefetch::Begun;

/// Most reads of one scan at the same time.
const READS_MAX: usize = 16;

/// Each read has a place of its own in memory: the server writes to it until the read is complete.
#[allow(clippy::vec_box, reason = "they must not move")]
type Reads = Vec<Box<Read>>;

/// Reads that were begun and not taken, the oldest first.
#[derive(Default)]
pub(super) struct AsyncReads {
    reads: RefCell<Reads>,
}

struct Read {
    operation: pg_sys::ReadBuffersOperation,
    buffer: pg_sys::Buffer,
    block: u32,
    /// Whether the page must be waited for before it is used.
    is_pending: bool,
}

impl AsyncReads {
    /// Begins to read `block`, within the limits of the tablespace (`effective_io_concurrency`) and
    /// of pinned buffers.
    ///
    /// # Safety
    ///
    /// `relation` is open and has the block.
    pub(super) unsafe fn begin(&self, relation: pg_sys::Relation, block: u32) -> Begun {
        let mut reads = self.reads.borrow_mut();
        // SAFETY: the caller keeps the relation open.
        if reads.iter().any(|read| read.block == block) || !unsafe { has_room(&mut reads, relation) } {
            return Begun::Not;
        }
        // SAFETY: an open relation has a storage manager and its row of pg_class.
        let (smgr, persistence) =
            unsafe { (pg_sys::RelationGetSmgr(relation), (*(*relation).rd_rel).relpersistence) };
        let mut read = ManuallyDrop::new(Box::new(Read {
            operation: pg_sys::ReadBuffersOperation {
                rel: relation,
                smgr,
                persistence,
                forknum: pg_sys::ForkNumber::MAIN_FORKNUM,
                ..Default::default()
            },
            buffer: pg_sys::InvalidBuffer as pg_sys::Buffer,
            block,
            is_pending: false,
        }));
        let (operation, buffer) = (&raw mut read.operation, &raw mut read.buffer);
        let advice = pg_sys::READ_BUFFERS_ISSUE_ADVICE as i32;
        // SAFETY: the caller says that the block exists. The operation stays where it is until the
        // read is complete: its box is leaked if an error unwinds, here or later.
        read.is_pending = unsafe { pg_sys::StartReadBuffer(operation, buffer, block, advice) };
        let begun = if read.is_pending { Begun::Reading } else { Begun::Present(read.buffer) };
        reads.push(ManuallyDrop::into_inner(read));
        begun
    }

    /// Whether a read of `block` was begun and not taken.
    pub(super) fn has_begun(&self, block: u32) -> bool {
        self.reads.borrow().iter().any(|read| read.block == block)
    }

    /// The buffer of `block`, pinned, if a read of it was begun; waits until the read is complete.
    ///
    /// # Safety
    ///
    /// The relation of the read is open.
    pub(super) unsafe fn take(&self, block: u32) -> Option<pg_sys::Buffer> {
        let mut reads = self.reads.borrow_mut();
        let at = reads.iter().position(|read| read.block == block)?;
        let read = reads.remove(at);
        // SAFETY: `begin` began it, and the caller keeps the relation open.
        Some(unsafe { complete(read) })
    }

    /// Waits for all reads and gives their pins back.
    ///
    /// # Safety
    ///
    /// The relations of the reads are open.
    pub(super) unsafe fn settle(&self) {
        let mut reads = self.reads.borrow_mut();
        while let Some(read) = reads.pop() {
            // SAFETY: `begin` began it, the caller keeps the relation open, and the pin is the
            // read's own.
            unsafe { pg_sys::ReleaseBuffer(complete(read)) };
        }
    }
}

impl Drop for AsyncReads {
    /// Reads are left only after an error, when no call into PostgreSQL is safe. The server may
    /// still write to them, so they are leaked.
    fn drop(&mut self) {
        self.reads.get_mut().drain(..).for_each(|read| {
            Box::leak(read);
        });
    }
}

/// Waits for a read and returns its buffer.
///
/// # Safety
///
/// The read was begun, and its relation is open.
unsafe fn complete(read: Box<Read>) -> pg_sys::Buffer {
    // An error while waiting leaks the operation, to which the server may still write.
    let mut read = ManuallyDrop::new(read);
    if read.is_pending {
        // SAFETY: the caller says that the read was begun and its relation is open.
        unsafe { pg_sys::WaitReadBuffers(&raw mut read.operation) };
    }
    ManuallyDrop::into_inner(read).buffer
}

/// Whether one more read may begin. Gives up reads of pages that were in memory, if that is needed.
///
/// # Safety
///
/// `relation` is open.
unsafe fn has_room(reads: &mut Reads, relation: pg_sys::Relation) -> bool {
    // SAFETY: the caller keeps the relation open, so it has its row of pg_class; the rest are calls
    // by value.
    let (concurrency, pins) = unsafe {
        let class = &*(*relation).rd_rel;
        let is_local = class.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        let pins = if is_local { pg_sys::GetAdditionalLocalPinLimit() } else { pg_sys::GetAdditionalPinLimit() };
        (pg_sys::get_tablespace_io_concurrency(class.reltablespace), pins)
    };
    let most = usize::try_from(concurrency).unwrap_or(0).min(READS_MAX);
    if reads.len() >= most
        && let Some(at) = reads.iter().position(|read| !read.is_pending)
    {
        // SAFETY: the pin is the read's own, and the read is complete.
        unsafe { pg_sys::ReleaseBuffer(reads.remove(at).buffer) };
    }
    reads.len() < most && pins > 0
}
