//! `pagehop_last_scan`: what the last scan of this session cost.

use pgrx::pg_sys;

use super::datum::{bigint, row, text};
use crate::scan::stats::{self, ScanStats};
use crate::sql_function::sql_function;

sql_function!(pagehop_last_scan, pg_finfo_pagehop_last_scan, |call| {
    // SAFETY: the extension's script declares it: a row from no arguments.
    unsafe { last_scan(call) }
});

/// `pagehop_last_scan()`.
///
/// # Safety
///
/// `call` is a call of a function without arguments, which returns a row.
unsafe fn last_scan(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let Some(ScanStats { index, searches, rows, late_rows, rechecks, pages_ahead, end, stats }) = stats::last()
    else {
        // SAFETY: the caller passes a call in progress.
        unsafe { (*call).isnull = true };
        return pg_sys::Datum::from(0);
    };
    let counts = [searches, rows, stats.hops, stats.pages_read, stats.pages_missed, pages_ahead, stats.estimates];
    let [searches, rows, hops, pages_read, pages_missed, pages_ahead, estimates] = counts.map(bigint);
    let (index, distances, rechecks) = (pg_sys::Datum::from(index), bigint(stats.distances), bigint(rechecks));
    let (late_rows, end) = (bigint(late_rows), text(end.name()));
    let values = [
        index,
        searches,
        rows,
        late_rows,
        hops,
        pages_read,
        pages_missed,
        pages_ahead,
        estimates,
        distances,
        rechecks,
        end,
    ];
    // SAFETY: the script's columns are these, in this order and of these types.
    unsafe { row(call, values) }
}
