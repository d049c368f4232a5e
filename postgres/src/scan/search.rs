//! One search of a scan: the engine's cursor, and the table's rows read ahead of the executor.
//!
//! Searches of scans that have ended are kept for their buffers.

use std::cell::RefCell;
use std::rc::Rc;

use pagehop_engine::{Cursor, Effort, Error, Found, Index, SearchOptions, Stats};
use pgrx::{PgRelation, pg_sys};

use super::demand::{Demand, K_GROWN_MAX, K_UNKNOWN};
use super::keys::Conditions;
use super::limit;
use crate::options::{self, End, Limits};
use crate::pages::RelationPages;
use crate::pages::heap_ahead::HeapAhead;
use crate::pages::open_indexes::{self, OpenIndex, Opened};

/// Searches that are kept when their scans have ended.
const IDLE_MAX: usize = 4;

/// In boxes, so that a search is not copied to each scan and back.
#[allow(clippy::vec_box, reason = "they go to scans as they are")]
type Idle = Vec<Box<Search>>;

thread_local! {
    static IDLE: RefCell<Idle> = const { RefCell::new(Vec::new()) };
}

/// A search in progress. The cursor borrows from the index, so it is dropped first: fields are
/// dropped in the order in which they stand.
pub(super) struct Search {
    cursor: Cursor<'static, RelationPages>,
    index: OpenIndex,
    ahead: HeapAhead,
    /// Pages that were prefetched before this search.
    ahead_before: u64,
    pub(super) demand: Demand,
}

impl Search {
    /// Begins to search for `query`.
    ///
    /// # Safety
    ///
    /// `scan` keeps its index and table open for as long as this is used, or until [`Search::end`].
    pub(super) unsafe fn new(
        scan: pg_sys::IndexScanDesc,
        query: &[f32],
        (conditions, limits): (&Conditions, &Limits),
    ) -> Result<Box<Self>, Error> {
        // SAFETY: the caller says that the scan keeps its index open.
        let index = unsafe { open_indexes::open((*scan).indexRelation)? };
        let idle = IDLE.with_borrow_mut(|idle| {
            let at = idle.iter().position(|search| Rc::ptr_eq(&search.index, &index))?;
            Some(idle.swap_remove(at))
        });
        // SAFETY: the caller says that the scan keeps its index open, which is this search's. The
        // cursor is dropped before the index that it borrows from.
        unsafe {
            if let Some(mut search) = idle {
                search.begin(scan, query, (conditions, limits))?;
                return Ok(search);
            }
            // The cursor has read page 0, from which the options of the search follow.
            let cursor = cursor(&index, query, &SearchOptions::default())?;
            let (ahead, demand) = (HeapAhead::default(), Demand::default());
            let mut search = Box::new(Self { cursor, index, ahead, ahead_before: 0, demand });
            search.start(scan, query, (conditions, limits))?;
            Ok(search)
        }
    }

    /// Starts over with another query.
    ///
    /// # Safety
    ///
    /// `scan` keeps its index and table open for as long as this is used, or until [`Search::end`].
    /// Its index is the one that this search began with.
    pub(super) unsafe fn begin(
        &mut self,
        scan: pg_sys::IndexScanDesc,
        query: &[f32],
        with: (&Conditions, &Limits),
    ) -> Result<(), Error> {
        // SAFETY: the caller says that the scan keeps its index open, and that it is this one.
        unsafe {
            self.index.pages().attach((*scan).indexRelation);
            self.cursor.renew()?;
            self.start(scan, query, with)
        }
    }

    /// Starts in the state that the cursor has just read.
    ///
    /// # Safety
    ///
    /// As [`Search::begin`].
    unsafe fn start(
        &mut self,
        scan: pg_sys::IndexScanDesc,
        query: &[f32],
        (conditions, limits): (&Conditions, &Limits),
    ) -> Result<(), Error> {
        // It may renew that state, so it comes first.
        let filter = conditions.filter(&self.index.columns());
        let filter = filter.map(|filter| self.cursor.plan_filter(&filter)).transpose()?;
        // SAFETY: the caller says that the scan keeps its index open, and that it is this one.
        let (demand, options) = unsafe {
            count_scan(scan);
            let demand = demand_of(scan, &self.index);
            let plan = |k: usize, effort: &Effort| self.cursor.plan(k, effort);
            let options = options::search(plan, (*scan).indexRelation, demand.k)?;
            (demand, options)
        };
        self.demand = demand;
        self.ahead_before = self.all_pages_ahead();
        self.cursor.restart(query, &options)?;
        if let Some(filter) = filter {
            self.cursor.only(filter);
        }
        self.cursor.expect(self.demand.k);
        limits.set(&mut self.cursor);
        Ok(())
    }

    /// The next row.
    ///
    /// # Safety
    ///
    /// `scan` keeps its index and table open, and its index is the one that this search began with.
    pub(super) unsafe fn next(&mut self, scan: pg_sys::IndexScanDesc) -> Result<Option<Found>, Error> {
        // SAFETY: the caller says that the scan keeps its index open, and that it is this one.
        unsafe {
            self.index.pages().attach((*scan).indexRelation);
            if let Some(k) = self.demand.more() {
                let plan = |k: usize, effort: &Effort| self.cursor.plan(k, effort);
                if k > K_GROWN_MAX {
                    let options = options::search(plan, (*scan).indexRelation, K_UNKNOWN)?;
                    self.cursor.expect_any(&options)?;
                } else {
                    let options = options::search(plan, (*scan).indexRelation, k)?;
                    self.cursor.expect_more(k, &options)?;
                }
            }
        }
        let Some(found) = self.cursor.next_hit()? else { return Ok(None) };
        let ahead = self.cursor.ahead();
        // SAFETY: the caller says that the scan keeps its index and table open.
        unsafe {
            let Opened { table_buffers, table_waits, .. } = &*self.index;
            self.ahead.advance(scan, table_buffers, table_waits, found.row_id, ahead, limit::runs_to_end());
        }
        Ok(Some(found))
    }

    /// The rows that come next, as far as they are known.
    #[inline]
    pub(super) fn upcoming(&self) -> impl Iterator<Item = Found> {
        self.cursor.upcoming()
    }

    /// The limit that the search has reached.
    #[inline]
    pub(super) fn reached(&self, limits: &Limits) -> Option<End> {
        limits.reached(&self.cursor)
    }

    /// Why the search has no next row.
    pub(super) fn end_of_rows(&self) -> End {
        match (self.cursor.is_cut(), self.cursor.is_full()) {
            (true, _) => End::Pages,
            (false, true) => End::Memory,
            (false, false) => End::Exhausted,
        }
    }

    /// The cost of the search so far.
    pub(super) fn stats(&self) -> Stats {
        self.cursor.stats()
    }

    /// Reads of this search, of the index and the table, that were begun before they were needed.
    pub(super) fn pages_ahead(&self) -> u64 {
        self.all_pages_ahead() - self.ahead_before
    }

    /// The same for all searches that used this state.
    fn all_pages_ahead(&self) -> u64 {
        self.cursor.reader().pages_ahead() + self.ahead.pages_ahead()
    }

    /// Ends the search: the scan needs no more rows.
    ///
    /// # Safety
    ///
    /// The table, if there is one, is open.
    pub(super) unsafe fn end(&mut self) {
        self.demand.teach(&self.index.nodes_per_row, self.cursor.taken());
        self.demand = Demand::default();
        // SAFETY: the caller keeps the table open.
        unsafe { self.ahead.end() };
    }

    /// Keeps the search for the next scan, unless it has grown large.
    pub(super) fn retire(self: Box<Self>) {
        if self.cursor.is_small() {
            IDLE.with_borrow_mut(|idle| {
                idle.truncate(IDLE_MAX - 1);
                idle.insert(0, self);
            });
        }
    }
}

/// The number of rows that a scan must return.
///
/// # Safety
///
/// `scan` is about to return its first row.
unsafe fn demand_of(scan: pg_sys::IndexScanDesc, index: &OpenIndex) -> Demand {
    // SAFETY: the caller passes a scan that is about to return its first row.
    Demand::new(unsafe { limit::rows(scan) }, index.nodes_per_row.get())
}

/// A cursor whose type hides the lifetime of the index that it borrows from.
///
/// # Safety
///
/// It is dropped before `index` is.
unsafe fn cursor(
    index: &OpenIndex,
    query: &[f32],
    options: &SearchOptions,
) -> Result<Cursor<'static, RelationPages>, Error> {
    let index: *const Index<RelationPages> = &raw const ***index;
    // SAFETY: the index stays where it is while a reference to it is counted, and the caller keeps
    // one longer than the cursor.
    unsafe { &*index }.cursor(query, options)
}

/// Counts a search for `pg_stat_user_indexes` and `EXPLAIN`.
///
/// # Safety
///
/// `scan` has its index open.
unsafe fn count_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the caller says that the index is open; the wrapper closes nothing.
    unsafe { PgRelation::from_pg((*scan).indexRelation) }.count_index_scan();
    #[cfg(feature = "pg18")]
    // SAFETY: the instrumentation is the scan's, or null.
    if let Some(instrument) = unsafe { (*scan).instrument.as_mut() } {
        instrument.nsearches += 1;
    }
}
