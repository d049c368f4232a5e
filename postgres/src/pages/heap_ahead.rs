//! Reads the rows of the table that the executor is about to fetch.
//!
//! A scan knows its next rows before the executor asks for them. Their pages are read if they are
//! in no buffer, and fetched into the CPU's caches if they are. Reads ahead begin with the second
//! row, so that a query for one row does not wait for more. The first row is read here, too, and
//! timed. Its time decides whether the others are read early ([`Waits`]).
//!
//! A read that was begun keeps its page pinned. VACUUM and the replay of a standby wait for such a
//! pin. So if the statement may pause between two rows, as a cursor does, the system is only
//! advised to read.
//!
//! If the buffer of the returned row's page is remembered, it is pinned here and put where the
//! executor's scan of the table looks first (`xs_cbuf`). This saves a lookup in the buffer pool's
//! hash table. From PostgreSQL 19 on, that scan does not compare the buffer's tag with its block,
//! so no buffer is passed to it.

use pgrx::pg_sys;

#[cfg(feature = "pg18")]
use super::async_reads::AsyncReads;
use super::prefetch::{Begun, Prefetch};
use super::recent_buffers::{self, RecentBuffers, Then};
use super::waits::Waits;

/// Bytes of a row that are fetched into the CPU's caches; the CPU itself prefetches the rest.
const ROW_BYTES: usize = 512;
/// The table access method whose scans this file supports: `heap`, as in `pg_am.dat`.
const HEAP_TABLE_AM_OID: u32 = 2;

/// Whether the executor's scan of the table checks itself which block the buffer has.
const IS_BUFFER_CHECKED: bool = pg_sys::PG_VERSION_NUM < 190_000;

/// Reads ahead for one search.
#[derive(Default)]
pub(crate) struct HeapAhead {
    /// Rows returned so far.
    returned: u32,
    last: u64,
    /// Reads begun before the row was needed, in all searches.
    begun: u64,
    #[cfg(feature = "pg18")]
    reads: AsyncReads,
    advised: Prefetch,
}

impl HeapAhead {
    /// Called when `row_id` is about to be returned; `ahead` are the row ids after it, as far as
    /// they are known. `may_pin` says whether they will be fetched at once.
    ///
    /// # Safety
    ///
    /// `scan` has its index and, if it has one, its table open.
    pub(crate) unsafe fn advance(
        &mut self,
        scan: pg_sys::IndexScanDesc,
        recent: &RecentBuffers,
        waits: &Waits,
        row_id: u64,
        ahead: impl Iterator<Item = u64> + Clone,
        may_pin: bool,
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
        unsafe { self.hand_over(fetch, table, recent, waits, block(row_id)) };
        match self.returned {
            1 => ahead.clone().for_each(|row_id| recent_buffers::fetch(recent.buffer(block(row_id)), 0..0)),
            2 if waits.reads_ahead() => {
                // SAFETY: the table is open, and has every block that its index knows.
                ahead.clone().for_each(|row_id| unsafe { self.begin(table, recent, block(row_id), may_pin) });
            }
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

    /// Reads begun before the row was needed, in all searches so far.
    pub(crate) fn pages_ahead(&self) -> u64 {
        self.begun
    }

    /// Begins to read a block that is in no buffer.
    ///
    /// # Safety
    ///
    /// `table` is open and has the block.
    unsafe fn begin(&mut self, table: pg_sys::Relation, recent: &RecentBuffers, block: u32, may_pin: bool) {
        // SAFETY: the caller keeps the table open.
        if recent_buffers::seems_to_hold(recent.buffer(block), unsafe { &(*table).rd_locator }, block) {
            return;
        }
        // SAFETY: the caller says that the table is open and has the block.
        let begun = unsafe {
            match may_pin {
                #[cfg(feature = "pg18")]
                true => self.reads.begin(table, block),
                _ => self.advised.begin(table, block),
            }
        };
        match begun {
            Begun::Present(buffer) => recent.remember(block, block, buffer),
            Begun::Not => {}
            _ => self.begun += 1,
        }
    }

    /// Gives the page of `block` to the executor's scan of the table, if the page is at hand.
    ///
    /// When the scan finds the page itself, it may also prune dead versions from it. A reader need
    /// not do that, and pruning still happens whenever the remembered buffer is not used.
    ///
    /// # Safety
    ///
    /// `fetch` is of the scan's `table`, which is open and has the block.
    unsafe fn hand_over(
        &self,
        fetch: *mut pg_sys::IndexFetchHeapData,
        table: pg_sys::Relation,
        recent: &RecentBuffers,
        waits: &Waits,
        block: u32,
    ) {
        #[cfg(feature = "pg18")]
        // SAFETY: the caller keeps the table open.
        let begun = unsafe { self.reads.take(block) };
        #[cfg(not(feature = "pg18"))]
        let begun: Option<pg_sys::Buffer> = None;
        if !IS_BUFFER_CHECKED {
            // SAFETY: a read that was begun left its buffer pinned.
            begun.into_iter().for_each(|buffer| unsafe { pg_sys::ReleaseBuffer(buffer) });
            return;
        }
        // SAFETY: the caller says that `fetch` is the table's.
        let held = unsafe { (*fetch).xs_cbuf };
        if begun.is_none() && held > 0 && held == recent.buffer(block) {
            return;
        }
        // SAFETY: the caller keeps the table open. The buffer in `xs_cbuf` is pinned. This function
        // replaces it, so it releases that pin.
        let recent = begun.is_none().then(|| unsafe { recent.pin(table, block, Then::Release(held)) }).flatten();
        // SAFETY: the caller keeps the table open, and says that it has the block.
        let first =
            || (self.returned == 1).then(|| waits.time(block, || unsafe { pg_sys::ReadBuffer(table, block) }));
        let Some(buffer) = recent.or(begun).or_else(first) else { return };
        if recent.is_none() && held != pg_sys::InvalidBuffer as pg_sys::Buffer {
            // SAFETY: the buffer in `xs_cbuf` is pinned, and the new one replaces it below.
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
