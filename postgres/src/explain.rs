//! What EXPLAIN (ANALYZE) says of a scan, on PostgreSQL 18, which asks extensions.

use std::ffi::{CStr, c_char};

use pgrx::prelude::*;
use pgrx::{is_a, pg_sys};

use crate::scan;

static mut PREVIOUS: pg_sys::explain_per_node_hook_type = None;

/// Has EXPLAIN ask. Called once, before there are threads.
pub(crate) fn register() {
    // SAFETY: a backend has one thread when it loads the library, and this is called once.
    unsafe {
        PREVIOUS = pg_sys::explain_per_node_hook;
        pg_sys::explain_per_node_hook = Some(explain_node);
    }
}

/// `explain_per_node_hook`.
#[pg_guard]
unsafe extern "C-unwind" fn explain_node(
    node: *mut pg_sys::PlanState,
    ancestors: *mut pg_sys::List,
    relationship: *const c_char,
    plan_name: *const c_char,
    explain: *mut pg_sys::ExplainState,
) {
    // SAFETY: PostgreSQL passes a node of a plan that ran if it is to be analyzed; the hook before this one is another extension's.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(node, ancestors, relationship, plan_name, explain);
        }
        if !(*explain).analyze || !is_a(node.cast(), pg_sys::NodeTag::T_IndexScanState) {
            return;
        }
        let scan = (*node.cast::<pg_sys::IndexScanState>()).iss_ScanDesc;
        let Some(stats) = scan::stats(scan) else { return };
        let counts: [(&CStr, u64); 4] = [
            (c"Hops", stats.stats.hops),
            (c"Distance Estimates", stats.stats.estimates),
            (c"Exact Distances", stats.stats.distances),
            (c"Rechecked Distances", stats.rechecks),
        ];
        for (label, count) in counts {
            pg_sys::ExplainPropertyUInteger(label.as_ptr(), std::ptr::null(), count, explain);
        }
    }
}
