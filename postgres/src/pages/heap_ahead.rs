//! Reads the rows of the table that the executor is about to fetch.
//!
//! A scan knows its next rows before the executor asks for them. Their pages are read if they are
//! in no buffer, and fetched into the CPU's caches if they are. That begins with the second row: a
//! query for one row does not wait for more.
//!
//! The page of the row that is returned is pinned here if its buffer is remembered, and left where
//! the executor's scan of the table looks first (`xs_cbuf`): that saves a lookup in the buffer
//! pool's hash table.

use pgrx::pg_sys;

#[cfg(feature = "pg18")]
use super::async_reads::{AsyncReads, Begun};
use super::recent_buffers::{self, RecentBuffers};

/// Bytes of a row that are fetched into the CPU's caches; the CPU sees by itself that the rest
/// follows.
const ROW_BYTES: usize = 512;
/// The table access method whose scans are known here: `heap`, as in `pg_am.dat`.
const HEAP_TABLE_AM_OID: u32 = 2;

/// Reads ahead for one search.
#[derive(Default)]
pub(crate) struct HeapAhead {
    /// Rows returned so far.
    returned: u32,
    last: u64,
    #[cfg(feature = "pg18")]
    reads: AsyncReads,
}

impl HeapAhead {
    /// Called when `row_id` is about to be returned; `ahead` are the row ids after it, as far as
    /// they are known.
    ///
    /// # Safety
    ///
    /// `scan` has its index and, if it has one, its table open.
    pub(crate) unsafe fn advance(
        &mut self,
        scan: pg_sys::IndexScanDesc,
        recent: &RecentBuffers,
        row_id: u64,
        ahead: impl Iterator<Item = u64> + Clone,
    ) {
        // SAFETY: the caller says that the scan's relations are open.
        let Some((table, fetch)) = (unsafe { heap_fetch(scan) }) else { return };
        if self.returned > 0 {
            // SAFETY: `heap_fetch` returns the scan of a heap, which is there as long as the index
            // scan.
            recent.remember(block(self.last), block(self.last), unsafe { (*fetch).xs_cbuf });
        }
        (self.returned, self.last) = (self.returned.saturating_add(1), row_id);
        // SAFETY: `fetch` is of the scan's table, which is open.
        unsafe { self.hand_over(fetch, table, recent, block(row_id)) };
        match self.returned {
            1 => ahead.clone().for_each(|row_id| recent_buffers::fetch(recent.buffer(block(row_id)), 0..0)),
            // SAFETY: the table is open, and has every block that its index knows.
            2 => ahead.clone().for_each(|row_id| unsafe { self.begin(table, recent, block(row_id)) }),
            _ => {}
        }
        if self.returned > 1
            && let Some(next) = ahead.clone().next()
        {
            recent_buffers::fetch_item(recent.buffer(block(next)), next as u16, ROW_BYTES);
        }
    }

    /// Gives up reads that were begun and not used.
    ///
    /// # Safety
    ///
    /// The table is open.
    pub(crate) unsafe fn end(&mut self) {
        #[cfg(feature = "pg18")]
        // SAFETY: the caller keeps the table open, which all reads are of.
        unsafe {
            self.reads.settle();
        }
        self.returned = 0;
    }

    /// Begins to read a block that is in no buffer.
    ///
    /// # Safety
    ///
    /// `table` is open and has the block.
    unsafe fn begin(&self, table: pg_sys::Relation, recent: &RecentBuffers, block: u32) {
        // SAFETY: the caller keeps the table open.
        if recent_buffers::seems_to_hold(recent.buffer(block), unsafe { &(*table).rd_locator }, block) {
            return;
        }
        #[cfg(feature = "pg18")]
        // SAFETY: the caller says that the table is open and has the block.
        if let Begun::Present(buffer) = unsafe { self.reads.begin(table, block) } {
            recent.remember(block, block, buffer);
        }
        #[cfg(not(feature = "pg18"))]
        {
            // SAFETY: the caller says that the table is open and has the block.
            let found = unsafe { pg_sys::PrefetchBuffer(table, pg_sys::ForkNumber::MAIN_FORKNUM, block) };
            recent.remember(block, block, found.recent_buffer);
        }
    }

    /// Gives the page of `block` to the executor's scan of the table, if the page is at hand.
    ///
    /// The scan's own way to the page also prunes it of dead versions, if that seems worth while. A
    /// reader need not do that, and it still happens whenever the remembered buffer is not used.
    ///
    /// # Safety
    ///
    /// `fetch` is of the scan's `table`, which is open.
    unsafe fn hand_over(
        &self,
        fetch: *mut pg_sys::IndexFetchHeapData,
        table: pg_sys::Relation,
        recent: &RecentBuffers,
        block: u32,
    ) {
        #[cfg(feature = "pg18")]
        // SAFETY: the caller keeps the table open.
        let begun = unsafe { self.reads.take(block) };
        #[cfg(not(feature = "pg18"))]
        let begun: Option<pg_sys::Buffer> = None;
        // SAFETY: the caller says that `fetch` is the table's.
        let held = unsafe { (*fetch).xs_cbuf };
        if begun.is_none() && held > 0 && held == recent.buffer(block) {
            return;
        }
        // SAFETY: the caller keeps the table open.
        let Some(buffer) = begun.or_else(|| unsafe { recent.pin(table, block) }) else { return };
        if held != pg_sys::InvalidBuffer as pg_sys::Buffer {
            // SAFETY: what `xs_cbuf` holds is pinned, and who replaces it gives that pin back.
            unsafe { pg_sys::ReleaseBuffer(held) };
        }
        // SAFETY: `fetch` is the table's, and the new buffer is pinned.
        unsafe { (*fetch).xs_cbuf = buffer };
    }
}

/// The scan's table and the executor's scan of it, if it is a heap.
///
/// # Safety
///
/// `scan` has its index and, if it has one, its table open.
unsafe fn heap_fetch(scan: pg_sys::IndexScanDesc) -> Option<(pg_sys::Relation, *mut pg_sys::IndexFetchHeapData)> {
    // SAFETY: the caller passes a scan whose table, if there is one, is open and so has its row of
    // pg_class.
    let (table, fetch, is_heap) = unsafe {
        let (table, fetch) = ((*scan).heapRelation, (*scan).xs_heapfetch);
        (table, fetch, !table.is_null() && (*(*table).rd_rel).relam.to_u32() == HEAP_TABLE_AM_OID)
    };
    (is_heap && !fetch.is_null()).then(|| (table, fetch.cast()))
}

fn block(row_id: u64) -> u32 {
    (row_id >> 16) as u32
}
