//! Where blocks of an index lately were in shared memory.
//!
//! To find a block in the buffer pool costs PostgreSQL a look into a hash table larger than the CPU's caches. A backend that
//! remembers where it saw the block asks for that buffer, which is checked by its tag (`ReadRecentBuffer`), and knows where to
//! begin fetching a page that is scored next, long before it is pinned. What is remembered may be out of date: it is a hint.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use pagehop_engine::HOST_HEADER_BYTES;
use pgrx::pg_sys;

/// Most blocks remembered, 4 bytes each; beyond, blocks share a place.
const PLACES_MAX: usize = 1 << 20;
/// Of so many reads of remembered buffers one goes the long way, which alone counts as use when buffers are evicted.
const LONG_WAY: u32 = 16;

/// Buffers by block; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    buffers: RefCell<Vec<pg_sys::Buffer>>,
    pins: Cell<u32>,
}

impl Recent {
    /// The buffer that `block` was in.
    #[inline]
    pub(crate) fn buffer(&self, block: u32) -> pg_sys::Buffer {
        let buffers = self.buffers.borrow();
        buffers.get(block as usize % PLACES_MAX).copied().unwrap_or(0)
    }

    /// Remembers where a block of an index of `blocks` is. Buffers of this backend alone, which are negative, are not kept.
    pub(crate) fn remember(&self, block: u32, blocks: u32, buffer: pg_sys::Buffer) {
        let mut buffers = self.buffers.borrow_mut();
        let place = block as usize % PLACES_MAX;
        if place >= buffers.len() {
            buffers.resize((blocks as usize).clamp(place + 1, PLACES_MAX), 0);
        }
        buffers[place] = buffer.max(0);
    }

    /// Pins the buffer that `block` was in, if it still is.
    ///
    /// # Safety
    ///
    /// `relation` is open.
    #[inline]
    pub(crate) unsafe fn pin(&self, relation: pg_sys::Relation, block: u32) -> Option<pg_sys::Buffer> {
        let buffer = self.buffer(block);
        self.pins.set(self.pins.get().wrapping_add(1));
        if buffer == 0 || self.pins.get().is_multiple_of(LONG_WAY) {
            return None;
        }
        // SAFETY: the caller's promise. Its statistics are this backend's, and there if it keeps any; reading the long way counts there, too.
        unsafe {
            let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
            if !pg_sys::ReadRecentBuffer((*relation).rd_locator, fork, block, buffer) {
                return None;
            }
            if let Some(statistics) = (*relation).pgstat_info.as_mut() {
                statistics.counts.blocks_fetched += 1;
                statistics.counts.blocks_hit += 1;
            }
        }
        Some(buffer)
    }
}

/// Whether `buffer` seems to hold `block` of the relation. Nothing is locked: it may by now hold another.
pub(crate) fn seems_to_hold(buffer: pg_sys::Buffer, locator: &pg_sys::RelFileLocator, block: u32) -> bool {
    let Some(at) = place(buffer) else { return false };
    // SAFETY: there are so many buffers, each with its descriptor, for the life of the server. Another backend may be changing the
    // tag: whatever is read is plain numbers, and taken for a hint.
    let tag = unsafe { (&raw const (*pg_sys::BufferDescriptors.add(at)).bufferdesc.tag).read_volatile() };
    tag.blockNum == block && tag.relNumber == locator.relNumber && tag.dbOid == locator.dbOid
}

/// Begins to fetch `bytes` of the body of the page in `buffer`, and what is needed to pin it, into the CPU's caches.
#[inline]
pub(crate) fn fetch(buffer: pg_sys::Buffer, bytes: Range<usize>) {
    let Some(at) = place(buffer) else { return };
    // SAFETY: there are so many buffers. The addresses are not read: another backend may be writing there.
    unsafe {
        let descriptor = pg_sys::BufferDescriptors.add(at).cast::<u8>();
        pagehop_kernels::prefetch_at(descriptor, 1);
        let page = pg_sys::BufferBlocks.cast::<u8>().add(at * pg_sys::BLCKSZ as usize);
        pagehop_kernels::prefetch_at(page, 1);
        pagehop_kernels::prefetch_at(page.add(HOST_HEADER_BYTES + bytes.start), bytes.len());
    }
}

/// [`fetch`] for the front of item `offset` of a page of a table, if there seems to be one.
pub(crate) fn fetch_item(buffer: pg_sys::Buffer, offset: u16, bytes: usize) {
    let Some(at) = place(buffer) else { return };
    let line_pointer = HOST_HEADER_BYTES + 4 * usize::from(offset.max(1) - 1);
    if line_pointer + 4 > pg_sys::BLCKSZ as usize {
        return;
    }
    // SAFETY: there are so many buffers. Another backend may be writing there: what is read is a number, and a hint; where it leads
    // lies on the page, and is not read.
    unsafe {
        let page = pg_sys::BufferBlocks.cast::<u8>().add(at * pg_sys::BLCKSZ as usize);
        let item = page.add(line_pointer).cast::<u32>().read_volatile();
        let start = (item & 0x7FFF) as usize % pg_sys::BLCKSZ as usize;
        pagehop_kernels::prefetch_at(page.add(start), bytes.min(pg_sys::BLCKSZ as usize - start));
    }
}

fn place(buffer: pg_sys::Buffer) -> Option<usize> {
    // SAFETY: a number that the server set when it started.
    let count = unsafe { pg_sys::NBuffers };
    (1..=count).contains(&buffer).then(|| buffer as usize - 1)
}
