//! How many rows a scan will return: the LIMIT above it, which PostgreSQL does not pass to an
//! access method.
//!
//! A search for k rows takes settings for k. So this file searches the running plan for the scan
//! and a LIMIT above it. All nodes in between must only pass rows on. If several scans are below a
//! merge, as for partitions, each may have to return the rows of the whole LIMIT. Without a LIMIT,
//! a FETCH from a cursor says how many rows it takes, as postgres_fdw does for a table of another
//! server. Otherwise, or with another node in between, k is not known.

use std::ffi::c_void;
use std::ptr;

use pgrx::pg_sys::NodeTag;
use pgrx::prelude::*;
use pgrx::{is_a, pg_sys};

use crate::lists::elements;
use crate::whole_errors::bare;

/// A statement that runs. It lies in the stack frame of [`run`].
#[derive(Clone, Copy)]
struct Running {
    query: *mut pg_sys::QueryDesc,
    /// Rows that the statement runs for, for example in a FETCH; 0 if it runs to its end.
    rows: u64,
}

/// Fewest rows that are assumed for a FETCH. A loop of PL/pgSQL, or one over a cursor, takes its
/// rows one by one.
const FETCH_AT_LEAST: u64 = 10;

/// Marks the entry of a statement that runs among PostgreSQL's callbacks for the context of errors.
static MARK: unsafe extern "C-unwind" fn(*mut c_void) = add_no_context;

static mut PREVIOUS: pg_sys::ExecutorRun_hook_type = None;

/// Installs the hook. Called once, before there are threads.
pub(crate) fn register() {
    // SAFETY: a backend has one thread when it loads the library, so no other reads or writes the
    // two statics.
    unsafe {
        PREVIOUS = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(run);
    }
}

/// A callback for the context of errors, which has nothing to add.
unsafe extern "C-unwind" fn add_no_context(_running: *mut c_void) {}

/// `ExecutorRun_hook`: marks the statement as the one that runs.
///
/// The mark is an entry of PostgreSQL's list of callbacks for the context of errors, which lie in
/// stack frames. Code that catches an error there resets the list, so the outer statement is then
/// the innermost marked one again. An error jumps over this frame, which owns nothing: see
/// `whole_errors.rs`.
unsafe extern "C-unwind" fn run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: pg_sys::uint64,
    #[cfg(feature = "pg17")] once: bool,
) {
    let running = Running { query, rows: count };
    // SAFETY: PostgreSQL passes a statement that was started; the hook before this one is another
    // extension's. The list is this backend's own, and the entry is taken out before the frame ends
    // or, after an error, before anything reads the list.
    unsafe {
        let mark = pg_sys::ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(MARK),
            arg: (&raw const running).cast_mut().cast(),
        };
        pg_sys::error_context_stack = (&raw const mark).cast_mut();
        #[cfg(feature = "pg18")]
        match PREVIOUS {
            Some(previous) => previous(query, direction, count),
            None => bare::standard_ExecutorRun(query, direction, count),
        }
        #[cfg(feature = "pg17")]
        match PREVIOUS {
            Some(previous) => previous(query, direction, count, once),
            None => bare::standard_ExecutorRun(query, direction, count, once),
        }
        pg_sys::error_context_stack = mark.previous;
    }
}

/// The innermost of nested statements that run.
fn running() -> Option<Running> {
    // SAFETY: the entries of the list lie in frames that have not ended. The argument of an entry
    // of ours is the `Running` beside it, which lives until the statement has run.
    unsafe {
        let mut entry = pg_sys::error_context_stack.as_ref();
        while let Some(callback) = entry {
            if callback.callback.is_some_and(|callback| ptr::fn_addr_eq(callback, MARK)) {
                return Some(*callback.arg.cast::<Running>());
            }
            entry = callback.previous.as_ref();
        }
        None
    }
}

/// The number of rows that `scan` must return, if it is known. The scan must return more if a
/// condition leaves some of them out.
///
/// # Safety
///
/// `scan` is a scan of the statement that runs, about to return its first row.
pub(crate) unsafe fn rows(scan: pg_sys::IndexScanDesc) -> Option<WantedRows> {
    // SAFETY: a statement that runs has its plan. The walker passes `search` on to `look`, which is
    // its type.
    unsafe {
        let running = running()?;
        let plan = running.query.as_ref()?.planstate.as_mut()?;
        let mut search = LimitSearch { scan, found: None };
        if !search.look(plan) && !pg_sys::planstate_tree_walker(plan, Some(look), (&raw mut search).cast()) {
            search.fetched(plan, running.rows);
        }
        search.found
    }
}

/// Whether the plan that runs reads the places of rows in the table (`ctid`) from `scan`: in a
/// column of its result, as FOR UPDATE has one, or in a condition. Also true if the scan is not
/// found, for example in a plan that is run again for a row that has changed.
///
/// # Safety
///
/// `scan` is a scan of the statement that runs, about to return a row.
pub(crate) unsafe fn reads_places(scan: pg_sys::IndexScanDesc) -> bool {
    // SAFETY: a statement that runs has its plan. The walker passes the search on to `find`, which
    // is its type.
    unsafe {
        let query = running().and_then(|running| running.query.as_ref());
        let plan = query.map_or(ptr::null_mut(), |query| query.planstate);
        let mut search = ScanSearch { scan, found: ptr::null_mut() };
        find(plan, (&raw mut search).cast());
        let Some(state) = search.found.as_ref() else { return true };
        let scan = &*state.ss.ps.plan.cast::<pg_sys::Scan>();
        let mut columns: *mut pg_sys::Bitmapset = ptr::null_mut();
        for expressions in [scan.plan.targetlist, scan.plan.qual] {
            pg_sys::pull_varattnos(expressions.cast(), scan.scanrelid, &raw mut columns);
        }
        let place = pg_sys::SelfItemPointerAttributeNumber - pg_sys::FirstLowInvalidHeapAttributeNumber;
        let reads = pg_sys::bms_is_member(place, columns);
        pg_sys::bms_free(columns);
        reads
    }
}

struct ScanSearch {
    scan: pg_sys::IndexScanDesc,
    found: *const pg_sys::IndexScanState,
}

/// Looks at a node of a plan and at the nodes below it, until the scan is found.
#[pg_guard]
unsafe extern "C-unwind" fn find(node: *mut pg_sys::PlanState, search: *mut c_void) -> bool {
    // SAFETY: `reads_places` passes the first node of a plan that runs, or null, and its
    // `ScanSearch`; PostgreSQL passes the nodes below. A node is of the type that its tag says.
    unsafe {
        if node.is_null() {
            return false;
        }
        let (state, wanted) = (node.cast::<pg_sys::IndexScanState>(), &mut *search.cast::<ScanSearch>());
        if is_a(node.cast(), NodeTag::T_IndexScanState) && (*state).iss_ScanDesc == wanted.scan {
            wanted.found = state;
            return true;
        }
        pg_sys::planstate_tree_walker(node, Some(find), search)
    }
}

/// Whether the running statement runs until it has all of its rows. A cursor may pause between two
/// rows until its transaction ends.
pub(crate) fn runs_to_end() -> bool {
    running().is_none_or(|running| running.rows == 0)
}

/// Rows that are wanted of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedRows {
    pub(crate) count: usize,
    /// Whether a condition, or SKIP LOCKED, may leave some of the scan's rows out.
    pub(crate) is_filtered: bool,
    /// The place where the rows that the condition lets through can be counted.
    pub(crate) passage: Option<Passage>,
}

/// The way of rows from a scan to the LIMIT straight above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    limit: *mut pg_sys::LimitState,
    scan: *mut pg_sys::IndexScanState,
}

impl Passage {
    /// The number of rows that have reached the LIMIT, those that an OFFSET skips included.
    ///
    /// # Safety
    ///
    /// The plan runs.
    pub(crate) unsafe fn arrived(&self) -> usize {
        // SAFETY: the caller says that the plan, which the node belongs to, runs.
        usize::try_from(unsafe { (*self.limit).position }).unwrap_or(0)
    }

    /// The number of rows that the executor holds back to reorder them. It tests the condition when
    /// it releases them.
    ///
    /// # Safety
    ///
    /// The plan runs.
    pub(crate) unsafe fn held_back(&self) -> usize {
        // SAFETY: the caller says that the plan, which the node belongs to, runs; the nodes of a
        // heap are in it until they are taken out.
        unsafe { (*self.scan).iss_ReorderQueue.as_ref().map_or(0, |queue| nodes(queue.ph_root)) }
    }
}

/// The number of nodes of a pairing heap from `first` on: its siblings, and all below them.
///
/// # Safety
///
/// `first` is of a heap, or null.
unsafe fn nodes(first: *mut pg_sys::pairingheap_node) -> usize {
    let (mut count, mut open) = (0, vec![first]);
    while let Some(node) = open.pop() {
        // SAFETY: the caller says that the node is of a heap, or null, and so are those that it
        // leads to.
        if let Some(node) = unsafe { node.as_ref() } {
            count += 1;
            open.extend([node.first_child, node.next_sibling]);
        }
    }
    count
}

/// Whether rows that others have locked are left out (SKIP LOCKED).
///
/// # Safety
///
/// `node` is of a plan that runs.
unsafe fn may_skip(node: *mut pg_sys::LockRowsState) -> bool {
    // SAFETY: the caller says that the node is of a plan that runs: it has a list of the tables
    // whose rows it locks, each with how.
    unsafe {
        let locks = elements::<pg_sys::ExecAuxRowMark>((*node).lr_arowMarks);
        locks.iter().any(|lock| (*(**lock).rowmark).waitPolicy == pg_sys::LockWaitPolicy::LockWaitSkip)
    }
}

/// The way of rows from a scan to a node above it.
struct Way {
    scan: *mut pg_sys::IndexScanState,
    /// Whether each row reaches the node before the next one is taken from the scan.
    is_direct: bool,
    /// Whether some may be left out: by a condition, or because others have locked them.
    is_filtered: bool,
}

struct LimitSearch {
    scan: pg_sys::IndexScanDesc,
    found: Option<WantedRows>,
}

/// Searches a node of a plan and the nodes below it until the scan is found.
#[pg_guard]
unsafe extern "C-unwind" fn look(node: *mut pg_sys::PlanState, search: *mut c_void) -> bool {
    // SAFETY: PostgreSQL passes nodes of the plan that `rows` began with, and the `LimitSearch`
    // that `rows` gave it.
    unsafe { (*search.cast::<LimitSearch>()).look(node) || pg_sys::planstate_tree_walker(node, Some(look), search) }
}

impl LimitSearch {
    /// Whether `node` is a LIMIT straight above the scan.
    ///
    /// # Safety
    ///
    /// `node` is of a plan that runs, or null.
    unsafe fn look(&mut self, node: *mut pg_sys::PlanState) -> bool {
        // SAFETY: the caller says that the node is of a plan that runs, or null; a node is of the
        // type that its tag says.
        unsafe {
            if node.is_null() || !is_a(node.cast(), NodeTag::T_LimitState) {
                return false;
            }
            let Some(way) = self.passed_on((*node).lefttree) else { return false };
            let limit = &*node.cast::<pg_sys::LimitState>();
            if !limit.noCount && limit.count > 0 {
                // The rows that an OFFSET skips are not counted: consecutive pages are then parts
                // of one search.
                let count = usize::try_from(limit.count).unwrap_or(usize::MAX);
                let passage = way.is_direct.then_some(Passage { limit: node.cast(), scan: way.scan });
                self.found = Some(WantedRows { count, is_filtered: way.is_filtered, passage });
            }
            true
        }
    }

    /// The rows that a FETCH of `rows` rows needs from the scan, if all nodes above the scan only
    /// pass its rows on.
    ///
    /// # Safety
    ///
    /// `plan` is the plan that runs.
    unsafe fn fetched(&mut self, plan: *mut pg_sys::PlanState, rows: u64) {
        // SAFETY: the caller says that the plan runs.
        unsafe {
            if let Some(way) = self.passed_on(plan).filter(|_| rows > 0) {
                let count = usize::try_from(rows.max(FETCH_AT_LEAST)).unwrap_or(usize::MAX);
                self.found = Some(WantedRows { count, is_filtered: way.is_filtered, passage: None });
            }
        }
    }

    /// The way from the scan to `node`, if the scan is below it and its rows reach it as long as
    /// `node` wants rows. A merge also has rows of other scans, and a sort waits for rows.
    ///
    /// # Safety
    ///
    /// `node` is of a plan that runs, or null.
    unsafe fn passed_on(&self, mut node: *mut pg_sys::PlanState) -> Option<Way> {
        let (mut is_direct, mut skips_locked) = (true, false);
        // SAFETY: the caller says that the node is of a plan that runs, or null; a node is of the
        // type that its tag says.
        unsafe {
            while !node.is_null() {
                node = match (*node.cast::<pg_sys::Node>()).type_ {
                    NodeTag::T_IndexScanState => {
                        let scan = node.cast::<pg_sys::IndexScanState>();
                        let is_filtered = skips_locked || !(*scan).ss.ps.qual.is_null();
                        return ((*scan).iss_ScanDesc == self.scan).then_some(Way { scan, is_direct, is_filtered });
                    }
                    NodeTag::T_MergeAppendState => {
                        let merge = &*node.cast::<pg_sys::MergeAppendState>();
                        let count = usize::try_from(merge.ms_nplans).unwrap_or(0);
                        let below = (0..count).find_map(|at| self.passed_on(*merge.mergeplans.add(at)))?;
                        let is_filtered = skips_locked || below.is_filtered;
                        return Some(Way { is_direct: false, is_filtered, ..below });
                    }
                    // It sorts only rows of equal distance.
                    NodeTag::T_IncrementalSortState => {
                        is_direct = false;
                        (*node).lefttree
                    }
                    NodeTag::T_LockRowsState => {
                        skips_locked |= may_skip(node.cast());
                        (*node).lefttree
                    }
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
}
