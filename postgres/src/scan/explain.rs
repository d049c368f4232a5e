//! What EXPLAIN (ANALYZE) shows of a scan, on PostgreSQL 18, which has a hook for it.

use std::ffi::{CStr, c_char};

use pgrx::prelude::*;
use pgrx::{is_a, pg_sys};

static mut PREVIOUS: pg_sys::explain_per_node_hook_type = None;

/// Installs the hook. Called once, before there are threads.
pub(crate) fn register() {
    // SAFETY: a backend has one thread when it loads the library, so no other reads or writes the
    // two statics.
    unsafe {
        PREVIOUS = pg_sys::explain_per_node_hook;
        pg_sys::explain_per_node_hook = Some(explain_node);
    }
}

/// `explain_per_node_hook`. An error of another extension's hook jumps over this frame, which owns
/// nothing (`whole_errors.rs`).
unsafe extern "C-unwind" fn explain_node(
    node: *mut pg_sys::PlanState,
    ancestors: *mut pg_sys::List,
    relationship: *const c_char,
    plan_name: *const c_char,
    explain: *mut pg_sys::ExplainState,
) {
    // SAFETY: a static that `register` set, before there were threads: another extension's hook,
    // with what PostgreSQL passed.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(node, ancestors, relationship, plan_name, explain);
        }
        show(node, explain);
    }
}

/// Shows the cost of a scan.
///
/// # Safety
///
/// `node` is a node of the plan that is explained.
#[pg_guard]
unsafe extern "C-unwind" fn show(node: *mut pg_sys::PlanState, explain: *mut pg_sys::ExplainState) {
    // SAFETY: the caller passes a node of a plan, and a node is of the type that its tag says.
    let scan = unsafe {
        if !(*explain).analyze || !is_a(node.cast(), pg_sys::NodeTag::T_IndexScanState) {
            return;
        }
        (*node.cast::<pg_sys::IndexScanState>()).iss_ScanDesc
    };
    // SAFETY: the scan of a plan is open until the plan is freed, or null.
    let Some(stats) = (unsafe { super::stats_of(scan) }) else { return };
    let counts: [(&CStr, u64); 5] = [
        (c"Hops", stats.stats.hops),
        (c"Distance Estimates", stats.stats.estimates),
        (c"Exact Distances", stats.stats.distances),
        (c"Rechecked Distances", stats.rechecks),
        (c"Late Rows", stats.late_rows),
    ];
    for (label, count) in counts {
        // SAFETY: the label is static, and null stands for a count without a unit.
        unsafe { pg_sys::ExplainPropertyUInteger(label.as_ptr(), std::ptr::null(), count, explain) };
    }
}
