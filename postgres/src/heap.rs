//! The rows of the table that the executor is about to fetch.
//!
//! A scan knows its next rows before they are asked for. Their pages are begun to be read if they are in no buffer, and brought
//! near the CPU if they are. From the second row on: who wants one row is not made to wait for more.

use pgrx::pg_sys;

use crate::pages::RelationPages;
use crate::recent;

/// Bytes of a row that are asked for; the CPU sees by itself that the rest follows.
const ROW_BYTES: usize = 512;

/// Looks ahead for one search.
#[derive(Debug, Default)]
pub(crate) struct LookAhead {
    /// Row ids returned so far.
    returned: u32,
    last: u64,
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
        pages: &RelationPages,
        row_id: u64,
        mut ahead: impl Iterator<Item = u64>,
    ) {
        // SAFETY: the caller's promise.
        let table = unsafe { (*scan).heapRelation };
        if table.is_null() {
            return;
        }
        // SAFETY: as above.
        unsafe { self.learn(scan, pages) };
        (self.returned, self.last) = (self.returned.saturating_add(1), row_id);
        if self.returned < 2 {
            return;
        }
        let Some(next) = ahead.next() else { return };
        let next_buffer = pages.heap.buffer(block(next));
        if self.returned == 2 {
            for row_id in ahead {
                let buffer = pages.heap.buffer(block(row_id));
                if buffer > 0 {
                    recent::fetch(buffer, 0..0);
                } else {
                    // SAFETY: the table is open, and has every block that its index knows.
                    let found =
                        unsafe { pg_sys::PrefetchBuffer(table, pg_sys::ForkNumber::MAIN_FORKNUM, block(row_id)) };
                    pages.heap.remember(block(row_id), block(row_id), found.recent_buffer);
                }
            }
        }
        recent::fetch_item(next_buffer, next as u16, ROW_BYTES);
    }

    /// Remembers in which buffer the executor found the last row: its scan of the table keeps that pinned.
    ///
    /// # Safety
    ///
    /// As [`LookAhead::advance`].
    unsafe fn learn(&self, scan: pg_sys::IndexScanDesc, pages: &RelationPages) {
        // SAFETY: the scan of a table by its index is of this type if the table is a heap.
        unsafe {
            let fetch = (*scan).xs_heapfetch;
            let is_heap = (*(*scan).heapRelation).rd_tableam == pg_sys::GetHeapamTableAmRoutine();
            if self.returned > 0 && is_heap && !fetch.is_null() {
                let buffer = (*fetch.cast::<pg_sys::IndexFetchHeapData>()).xs_cbuf;
                pages.heap.remember(block(self.last), block(self.last), buffer);
            }
        }
    }
}

fn block(row_id: u64) -> u32 {
    (row_id >> 16) as u32
}
