//! What scans cost: for `pagehop_last_scan()`, and on PostgreSQL 18 for EXPLAIN (ANALYZE).

use std::cell::Cell;

use pagehop_engine::Stats;
use pgrx::pg_sys;

use crate::options::End;

thread_local! {
    static LAST: Cell<Option<ScanStats>> = const { Cell::new(None) };
}

/// The cost of one scan: of all its searches, of which a join makes many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanStats {
    pub(crate) index: pg_sys::Oid,
    pub(crate) searches: u64,
    pub(crate) rows: u64,
    /// Rows that were found after farther ones were returned, and left out for the order.
    pub(crate) late_rows: u64,
    /// Rows whose distance the executor had to compute.
    pub(crate) rechecks: u64,
    /// Reads of the index and the table that were begun before they were needed.
    pub(crate) pages_ahead: u64,
    /// The end of the last search.
    pub(crate) end: End,
    pub(crate) stats: Stats,
}

impl ScanStats {
    /// Adds a search.
    pub(super) fn add(&mut self, search: &Stats, pages_ahead: u64) {
        self.pages_ahead += pages_ahead;
        self.stats.hops += search.hops;
        self.stats.pages_read += search.pages_read;
        self.stats.pages_missed += search.pages_missed;
        self.stats.estimates += search.estimates;
        self.stats.distances += search.distances;
    }

    /// Makes these the statistics of the session's last scan.
    pub(super) fn publish(self) {
        LAST.set(Some(self));
    }
}

/// The statistics of the session's last scan, if there was one.
pub(crate) fn last() -> Option<ScanStats> {
    LAST.get()
}
