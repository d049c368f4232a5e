//! The rows of the table that the executor is about to fetch.
//!
//! A scan knows its next rows before they are asked for. Their pages are begun to be read if they are in no buffer, and brought
//! near the CPU if they are. From the second row on: who wants one row is not made to wait for more.
//!
//! The page of the row that is returned is pinned here if its buffer is remembered, and left where the executor's scan of the table
//! looks first (`xs_cbuf`): that saves it the way through the buffer pool's hash table.

use pgrx::pg_sys;

#[cfg(feature = "pg18")]
use crate::flight::{Begun, InFlight};
use crate::recent::{self, Recent};

/// Bytes of a row that are asked for; the CPU sees by itself that the rest follows.
const ROW_BYTES: usize = 512;
/// The table access method whose scans are known here: `heap`, as in `pg_am.dat`.
const HEAP_TABLE_AM_OID: u32 = 2;

/// Looks ahead for one search.
#[derive(Default)]
pub(crate) struct LookAhead {
    /// Row ids returned so far.
    returned: u32,
    last: u64,
    #[cfg(feature = "pg18")]
    in_flight: InFlight,
}

impl LookAhead {
    /// Called when `row_id` is about to be returned and `ahead` are the row ids after it, as far as they are known.
    ///
    /// # Safety
    ///
    /// `scan` has its index and, if it has one, its table open.
    pub(crate) unsafe fn advance(
        &mut self,
        scan: pg_sys::IndexScanDesc,
        recent: &Recent,
        row_id: u64,
        ahead: impl Iterator<Item = u64> + Clone,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let table = (*scan).heapRelation;
            let Some(fetch) = heap_fetch(scan) else { return };
            if self.returned > 0 {
                recent.remember(block(self.last), block(self.last), (*fetch).xs_cbuf);
            }
            (self.returned, self.last) = (self.returned.saturating_add(1), row_id);
            self.hand_over(fetch, table, recent, block(row_id));
            match self.returned {
                1 => ahead.clone().for_each(|row_id| recent::fetch(recent.buffer(block(row_id)), 0..0)),
                2 => ahead.clone().for_each(|row_id| self.begin(table, recent, block(row_id))),
                _ => {}
            }
            if self.returned > 1
                && let Some(next) = ahead.clone().next()
            {
                recent::fetch_item(recent.buffer(block(next)), next as u16, ROW_BYTES);
            }
        }
    }

    /// Gives up what was begun and not returned.
    ///
    /// # Safety
    ///
    /// The table is open.
    pub(crate) unsafe fn end(&mut self) {
        #[cfg(feature = "pg18")]
        // SAFETY: the caller's promise.
        unsafe {
            self.in_flight.settle();
        }
        self.returned = 0;
    }

    /// Begins to read a block that is in no buffer.
    ///
    /// # Safety
    ///
    /// `table` is open, and has every block that its index knows.
    unsafe fn begin(&self, table: pg_sys::Relation, recent: &Recent, block: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            if recent::seems_to_hold(recent.buffer(block), &(*table).rd_locator, block) {
                return;
            }
            #[cfg(feature = "pg18")]
            if let Begun::Present(buffer) = self.in_flight.begin(table, block) {
                recent.remember(block, block, buffer);
            }
            #[cfg(not(feature = "pg18"))]
            {
                let found = pg_sys::PrefetchBuffer(table, pg_sys::ForkNumber::MAIN_FORKNUM, block);
                recent.remember(block, block, found.recent_buffer);
            }
        }
    }

    /// Has the executor's scan hold the page of `block`, if it is at hand.
    ///
    /// Its own way there also prunes the page of dead versions, if it thinks it worth while. That is not the reader's duty, and
    /// happens still, whenever the remembered buffer is not used.
    ///
    /// # Safety
    ///
    /// `fetch` is of the scan's `table`, which is open.
    unsafe fn hand_over(
        &self,
        fetch: *mut pg_sys::IndexFetchHeapData,
        table: pg_sys::Relation,
        recent: &Recent,
        block: u32,
    ) {
        #[cfg(feature = "pg18")]
        // SAFETY: the table is open.
        let begun = unsafe { self.in_flight.take(block) };
        #[cfg(not(feature = "pg18"))]
        let begun: Option<pg_sys::Buffer> = None;
        // SAFETY: the table is open. What `xs_cbuf` holds is pinned, and whoever changes it gives that pin back.
        unsafe {
            let held = (*fetch).xs_cbuf;
            if begun.is_none() && held > 0 && held == recent.buffer(block) {
                return;
            }
            if let Some(buffer) = begun.or_else(|| recent.pin(table, block)) {
                if held != pg_sys::InvalidBuffer as pg_sys::Buffer {
                    pg_sys::ReleaseBuffer(held);
                }
                (*fetch).xs_cbuf = buffer;
            }
        }
    }
}

/// The executor's scan of the table by its index, if the table is one whose scans are known.
///
/// # Safety
///
/// `scan` has its index and, if it has one, its table open.
unsafe fn heap_fetch(scan: pg_sys::IndexScanDesc) -> Option<*mut pg_sys::IndexFetchHeapData> {
    // SAFETY: the caller's promise; the scan of a heap is of this type.
    unsafe {
        let (table, fetch) = ((*scan).heapRelation, (*scan).xs_heapfetch);
        let is_heap = !table.is_null() && (*(*table).rd_rel).relam.to_u32() == HEAP_TABLE_AM_OID;
        (is_heap && !fetch.is_null()).then_some(fetch.cast())
    }
}

fn block(row_id: u64) -> u32 {
    (row_id >> 16) as u32
}
