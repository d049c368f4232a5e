//! Recent buffers: where blocks of a relation were in shared memory when this backend last read
//! them.
//!
//! Looking up a block in the buffer pool costs PostgreSQL an access to a hash table that is larger
//! than the CPU's caches. A backend that remembers the buffer of a block pins that buffer and
//! checks its tag (`ReadRecentBuffer`). It can also fetch a page into the CPU's caches long before
//! it pins it. A remembered buffer may be out of date: it is a hint.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ops::Range;

use pagehop_engine::HOST_HEADER_BYTES;
use pgrx::pg_sys;

/// Most entries, of 4 bytes each. In a larger relation, blocks share entries.
const PLACES_MAX: usize = 1 << 20;
/// One in this many pins goes through the buffer pool: only such pins count as use of the buffer
/// when buffers are evicted.
const PINS_PER_LOOKUP: u32 = 16;

/// Buffers by block; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct RecentBuffers {
    buffers: RefCell<Vec<pg_sys::Buffer>>,
    pins: Cell<u32>,
}

impl RecentBuffers {
    /// The buffer that `block` was in.
    #[inline]
    pub(super) fn buffer(&self, block: u32) -> pg_sys::Buffer {
        let buffers = self.buffers.borrow();
        buffers.get(block as usize % PLACES_MAX).copied().unwrap_or(0)
    }

    /// Remembers the buffer of a block, in a relation of `blocks`. Local buffers, which are
    /// negative, are not kept.
    pub(super) fn remember(&self, block: u32, blocks: u32, buffer: pg_sys::Buffer) {
        let mut buffers = self.buffers.borrow_mut();
        let place = block as usize % PLACES_MAX;
        if place >= buffers.len() {
            buffers.resize((blocks as usize).clamp(place + 1, PLACES_MAX), 0);
        }
        buffers[place] = buffer.max(0);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buffers.borrow().capacity() * size_of::<pg_sys::Buffer>()
    }

    /// Pins the buffer that `block` was in, if it still is, and then does `then`.
    ///
    /// # Safety
    ///
    /// `relation` is open, and this backend has no lock on the buffer, and a pin on that of
    /// [`Then::Release`].
    #[inline]
    pub(super) unsafe fn pin(&self, relation: pg_sys::Relation, block: u32, then: Then) -> Option<pg_sys::Buffer> {
        let buffer = self.buffer(block);
        self.pins.set(self.pins.get().wrapping_add(1));
        if buffer == 0 || self.pins.get().is_multiple_of(PINS_PER_LOOKUP) {
            return None;
        }
        // SAFETY: the caller keeps the relation open, and says what is pinned and locked. Its
        // statistics are this backend's, and null if it keeps none. `ReadBuffer` counts there, too.
        unsafe {
            if !pin_if_held((*relation).rd_locator, block, buffer, then) {
                return None;
            }
            if let Some(statistics) = (*relation).pgstat_info.as_mut() {
                statistics.counts.blocks_fetched += 1;
                statistics.counts.blocks_hit += 1;
            }
            // `ReadBuffer` adds this, too: a vacuum sleeps for pages that it finds in memory.
            if pg_sys::VacuumCostActive {
                pg_sys::VacuumCostBalance += pg_sys::VacuumCostPageHit;
            }
        }
        Some(buffer)
    }
}

/// An action that follows a pin in the same call.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// The buffer is locked, in this mode.
    Lock(u32),
    /// This buffer is released, unless it is invalid.
    Release(pg_sys::Buffer),
}

/// PostgreSQL's functions, without the code that `pgrx` adds to each call to catch an error. That
/// code is a third of the cost of reading a page from memory.
mod bare {
    use std::ffi::c_int;

    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        pub(super) fn ReadRecentBuffer(
            locator: pg_sys::RelFileLocator,
            fork: pg_sys::ForkNumber::Type,
            block: pg_sys::BlockNumber,
            buffer: pg_sys::Buffer,
        ) -> bool;
        pub(super) fn LockBuffer(buffer: pg_sys::Buffer, mode: c_int);
        pub(super) fn ReleaseBuffer(buffer: pg_sys::Buffer);
        pub(super) fn UnlockReleaseBuffer(buffer: pg_sys::Buffer);
    }
}

/// Pins `buffer` if it holds the block, and then does `then`: errors of both are caught once.
///
/// # Safety
///
/// The number is that of a shared buffer. The rest is as for [`RecentBuffers::pin`].
#[inline]
unsafe fn pin_if_held(locator: pg_sys::RelFileLocator, block: u32, buffer: pg_sys::Buffer, then: Then) -> bool {
    let pin = || {
        // SAFETY: there is such a buffer, and the caller says what is pinned and locked.
        unsafe {
            let is_held = bare::ReadRecentBuffer(locator, pg_sys::ForkNumber::MAIN_FORKNUM, block, buffer);
            match then {
                _ if !is_held => {}
                Then::Lock(mode) => bare::LockBuffer(buffer, mode as c_int),
                Then::Release(other) if other != pg_sys::InvalidBuffer as pg_sys::Buffer => {
                    bare::ReleaseBuffer(other)
                }
                Then::Release(_) => {}
            }
            is_held
        }
    };
    // SAFETY: this is the backend's one thread that calls PostgreSQL, and nothing in `pin` is to be
    // dropped, so that an error may jump out of it.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(pin) }
}

/// Gives back a lock and a pin.
///
/// # Safety
///
/// This backend has locked and pinned the buffer, and the pin is of the current resource owner.
#[inline]
pub(super) unsafe fn unlock_and_release(buffer: pg_sys::Buffer) {
    // SAFETY: PostgreSQL raises an error only for a buffer that is not locked and pinned here, and
    // the caller says that it is. So no error has to be caught.
    unsafe { bare::UnlockReleaseBuffer(buffer) };
}

/// Whether `buffer` seems to hold `block` of the relation. It takes no lock, so the buffer may hold
/// another block when this returns.
pub(super) fn seems_to_hold(buffer: pg_sys::Buffer, locator: &pg_sys::RelFileLocator, block: u32) -> bool {
    let Some(at) = place(buffer) else { return false };
    // SAFETY: `place` says that there is such a buffer, and its descriptor lives as long as the
    // server. Another backend may be changing the tag: only plain numbers are read, and they are
    // used as a hint.
    let tag = unsafe { (&raw const (*pg_sys::BufferDescriptors.add(at)).bufferdesc.tag).read_volatile() };
    tag.blockNum == block && tag.relNumber == locator.relNumber && tag.dbOid == locator.dbOid
}

/// Prefetches `bytes` of the body of the page in `buffer`, or its header if there are none, and
/// what is needed to pin it, into the CPU's caches.
#[inline]
pub(super) fn fetch(buffer: pg_sys::Buffer, bytes: Range<usize>) {
    let Some(at) = place(buffer) else { return };
    // SAFETY: `place` says that there is such a buffer, so the addresses lie in shared memory. They
    // are not read: another backend may be writing there.
    unsafe {
        let descriptor = pg_sys::BufferDescriptors.add(at).cast::<u8>();
        pagehop_kernels::prefetch_at(descriptor, 1);
        let page = pg_sys::BufferBlocks.cast::<u8>().add(at * pg_sys::BLCKSZ as usize);
        if bytes.is_empty() {
            pagehop_kernels::prefetch_at(page, 1);
        }
        pagehop_kernels::prefetch_at(page.add(HOST_HEADER_BYTES + bytes.start), bytes.len());
    }
}

/// [`fetch`] for the first `bytes` of item `offset` of a page of a table, if there seems to be one.
pub(super) fn fetch_item(buffer: pg_sys::Buffer, offset: u16, bytes: usize) {
    let Some(at) = place(buffer) else { return };
    let line_pointer = HOST_HEADER_BYTES + 4 * usize::from(offset.max(1) - 1);
    if line_pointer + 4 > pg_sys::BLCKSZ as usize {
        return;
    }
    // SAFETY: `place` says that there is such a buffer, and the line pointer lies on its page.
    // Another backend may be writing there: only a number is read, and it is used as a hint. The
    // address that follows from it is on the page, and is not read.
    unsafe {
        let page = pg_sys::BufferBlocks.cast::<u8>().add(at * pg_sys::BLCKSZ as usize);
        let item = page.add(line_pointer).cast::<u32>().read_volatile();
        let start = (item & 0x7FFF) as usize % pg_sys::BLCKSZ as usize;
        pagehop_kernels::prefetch_at(page.add(start), bytes.min(pg_sys::BLCKSZ as usize - start));
    }
}

/// Position of a shared buffer in the server's arrays.
fn place(buffer: pg_sys::Buffer) -> Option<usize> {
    // SAFETY: a number that the server set when it started, read by value.
    let count = unsafe { pg_sys::NBuffers };
    (1..=count).contains(&buffer).then(|| buffer as usize - 1)
}
