//! What scans cost, for those who ask: `pagehop_last_scan()`, and on PostgreSQL 18 EXPLAIN (ANALYZE).

use std::cell::Cell;

use pagehop_engine::Stats;
use pgrx::pg_sys;

use crate::inspect::{self, bigint};

crate::sql_function!(pagehop_last_scan, pg_finfo_pagehop_last_scan, |call| {
    // SAFETY: PostgreSQL calls it as the extension's script declares it: a row from no arguments.
    unsafe { last_scan(call) }
});

thread_local! {
    static LAST: Cell<Option<ScanStats>> = const { Cell::new(None) };
}

/// Why a scan returned no more rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// The executor asked for no more.
    #[default]
    Executor,
    /// Every row that the index reaches was returned.
    Exhausted,
    /// `pagehop.max_scan_pages`.
    Pages,
    /// `pagehop.scan_mem_multiplier`.
    Memory,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Exhausted => "exhausted",
            Self::Pages => "max_scan_pages",
            Self::Memory => "scan_mem_multiplier",
        }
    }
}

/// What one scan has cost: all searches of it, of which a join makes many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanStats {
    pub(crate) index: pg_sys::Oid,
    pub(crate) searches: u64,
    pub(crate) rows: u64,
    /// Rows whose distance the executor was asked to compute.
    pub(crate) rechecks: u64,
    /// Of the last search.
    pub(crate) end: End,
    pub(crate) stats: Stats,
}

impl ScanStats {
    /// Adds a search.
    pub(crate) fn add(&mut self, search: &Stats) {
        self.stats.hops += search.hops;
        self.stats.pages_read += search.pages_read;
        self.stats.pages_missed += search.pages_missed;
        self.stats.estimates += search.estimates;
        self.stats.distances += search.distances;
    }

    /// Makes this what the session is told of its last scan.
    pub(crate) fn publish(self) {
        LAST.set(Some(self));
    }
}

/// `pagehop_last_scan()`.
///
/// # Safety
///
/// `call` is of a function without arguments, and a row as its result.
unsafe fn last_scan(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    use pgrx::IntoDatum;
    let Some(ScanStats { index, searches, rows, rechecks, end, stats }) = LAST.get() else {
        // SAFETY: the caller's promise.
        unsafe { (*call).isnull = true };
        return pg_sys::Datum::from(0);
    };
    let counts =
        [searches, rows, stats.hops, stats.pages_read, stats.pages_missed, stats.estimates, stats.distances];
    let [searches, rows, hops, pages_read, pages_missed, estimates, distances] = counts.map(bigint);
    let end = end.name().into_datum().expect("a text is no null");
    let index = pg_sys::Datum::from(index);
    let rechecks = bigint(rechecks);
    let values = [index, searches, rows, hops, pages_read, pages_missed, estimates, distances, rechecks, end];
    // SAFETY: the caller's promise; these are the types of its columns.
    unsafe { inspect::row(call, values) }
}
