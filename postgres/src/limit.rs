//! How many rows a scan will be asked for: its LIMIT, which PostgreSQL does not tell an access method.
//!
//! A search for k rows takes settings for k. So while a plan runs it is looked through for the scan and a LIMIT straight above it. Where
//! there is none, or something in between that may leave rows out or want more of them, nobody knows.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use pgrx::pg_sys::NodeTag;
use pgrx::prelude::*;
use pgrx::{is_a, pg_sys};

thread_local! {
    /// What runs, of nested statements the innermost.
    static RUNNING: Cell<*mut pg_sys::QueryDesc> = const { Cell::new(ptr::null_mut()) };
}

static mut PREVIOUS: pg_sys::ExecutorRun_hook_type = None;

/// Has statements pass by here. Called once, before there are threads.
pub(crate) fn register() {
    // SAFETY: a backend has one thread when it loads the library, and this is called once.
    unsafe {
        PREVIOUS = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(run);
    }
}

/// Puts back what ran before, however the statement ends.
struct Outer(*mut pg_sys::QueryDesc);

impl Drop for Outer {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// `ExecutorRun_hook`.
#[cfg(feature = "pg18")]
#[pg_guard]
unsafe extern "C-unwind" fn run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: pg_sys::uint64,
) {
    let _outer = Outer(RUNNING.replace(query));
    // SAFETY: PostgreSQL passes a statement that was started; the hook before this one is another extension's.
    unsafe {
        match PREVIOUS {
            Some(previous) => pg_sys::ffi::pg_guard_ffi_boundary(|| previous(query, direction, count)),
            None => pg_sys::standard_ExecutorRun(query, direction, count),
        }
    }
}

/// `ExecutorRun_hook`.
#[cfg(feature = "pg17")]
#[pg_guard]
unsafe extern "C-unwind" fn run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: pg_sys::uint64,
    once: bool,
) {
    let _outer = Outer(RUNNING.replace(query));
    // SAFETY: as on 18.
    unsafe {
        match PREVIOUS {
            Some(previous) => pg_sys::ffi::pg_guard_ffi_boundary(|| previous(query, direction, count, once)),
            None => pg_sys::standard_ExecutorRun(query, direction, count, once),
        }
    }
}

/// Rows that `scan` will be asked for, where that is known. With a condition that leaves rows out, at least so many.
///
/// # Safety
///
/// `scan` is a scan of the statement that runs, about to return its first row.
pub(crate) unsafe fn rows(scan: pg_sys::IndexScanDesc) -> Option<Rows> {
    // SAFETY: while a statement runs its plan is there.
    unsafe {
        let plan = RUNNING.get().as_ref()?.planstate.as_mut()?;
        let mut search = Search { scan, found: None };
        if !search.look(plan) {
            pg_sys::planstate_tree_walker(plan, Some(look), (&raw mut search).cast());
        }
        search.found
    }
}

/// Rows that are wanted of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    /// Whether some of those that the scan returns may be left out.
    pub(crate) is_filtered: bool,
}

struct Search {
    scan: pg_sys::IndexScanDesc,
    found: Option<Rows>,
}

/// Looks at a node of a plan and at those below it, until the scan is found.
#[pg_guard]
unsafe extern "C-unwind" fn look(node: *mut pg_sys::PlanState, search: *mut c_void) -> bool {
    // SAFETY: PostgreSQL passes nodes of the plan that `rows` began with, and what `rows` gave it.
    unsafe { (*search.cast::<Search>()).look(node) || pg_sys::planstate_tree_walker(node, Some(look), search) }
}

impl Search {
    /// Whether `node` is a LIMIT straight above the scan.
    ///
    /// # Safety
    ///
    /// `node` is of a plan that runs, or null.
    unsafe fn look(&mut self, node: *mut pg_sys::PlanState) -> bool {
        // SAFETY: the caller's promise; what begins with a tag is what the tag says.
        unsafe {
            if node.is_null() || !is_a(node.cast(), NodeTag::T_LimitState) {
                return false;
            }
            let Some(scan) = passed_on((*node).lefttree) else { return false };
            if (*scan).iss_ScanDesc != self.scan {
                return false;
            }
            let limit = &*node.cast::<pg_sys::LimitState>();
            if !limit.noCount && limit.count > 0 {
                // What an OFFSET skips is not counted: one page after the other is then of one search.
                let count = usize::try_from(limit.count).unwrap_or(usize::MAX);
                self.found = Some(Rows { count, is_filtered: !(*scan).ss.ps.qual.is_null() });
            }
            true
        }
    }
}

/// The scan of an index each row of which comes up to `node` as one row.
///
/// # Safety
///
/// As [`Search::look`].
unsafe fn passed_on(mut node: *mut pg_sys::PlanState) -> Option<*mut pg_sys::IndexScanState> {
    // SAFETY: as there.
    unsafe {
        while !node.is_null() {
            node = match (*node.cast::<pg_sys::Node>()).type_ {
                NodeTag::T_IndexScanState => return Some(node.cast()),
                NodeTag::T_LockRowsState => (*node).lefttree,
                NodeTag::T_ResultState if (*node).qual.is_null() => (*node).lefttree,
                NodeTag::T_SubqueryScanState if (*node).qual.is_null() => {
                    (*node.cast::<pg_sys::SubqueryScanState>()).subplan
                }
                _ => return None,
            };
        }
        None
    }
}
