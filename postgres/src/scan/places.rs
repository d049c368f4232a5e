//! Orders rows before the executor gets them, in scans whose plan may read the place of a row in
//! the table (`ctid`).
//!
//! A row that the executor reorders (`xs_recheckorderby`) has an invalid `ctid`. A condition on it
//! is false, and `FOR UPDATE` and `WHERE CURRENT OF` fail or change the wrong row. So such a scan
//! computes the distances itself, from the table, and returns rows whose distances the executor
//! need not check again.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use pagehop_engine::Error;
use pgrx::pg_sys;

use super::limit;
use crate::whole_errors::{self, bare};

/// Rows that wait until no other row can come before them.
#[derive(Default)]
pub(super) struct InOrder {
    /// Whether the plan reads the places of the scan's rows; `None` before the first row.
    is_read: Option<bool>,
    /// Whether the rows of this search wait here; `None` before its first row.
    is_wanted: Option<bool>,
    rows: BinaryHeap<Reverse<Placed>>,
    /// The number of rows that were added. Rows at the same distance stay in the order in which
    /// they were added.
    count: usize,
    /// No row that comes later is nearer.
    least: f64,
    /// Whether no more rows come.
    has_all: bool,
    table: Option<Table>,
}

/// A row that waits.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) distance: f64,
    pub(super) tid: pg_sys::ItemPointerData,
    number: usize,
}

/// A row in the table.
pub(super) enum InTable {
    /// The true distance of the version that the scan sees.
    Seen(f64),
    /// The scan sees no version.
    Unseen {
        /// Whether no scan does.
        is_dead: bool,
    },
}

impl InOrder {
    /// Whether rows must wait here: if the plan reads their places, or `WHERE CURRENT OF` may,
    /// which is possible with every cursor.
    ///
    /// # Safety
    ///
    /// `scan` is about to return a row.
    pub(super) unsafe fn is_wanted(&mut self, scan: pg_sys::IndexScanDesc) -> bool {
        if let Some(is_wanted) = self.is_wanted {
            return is_wanted;
        }
        // SAFETY: the caller says that the scan is about to return a row.
        let mut is_read = || *self.is_read.get_or_insert_with(|| unsafe { limit::reads_places(scan) });
        let is_wanted = !limit::runs_to_end() || is_read();
        self.is_wanted = Some(is_wanted);
        is_wanted
    }

    /// Forgets the rows, for another search.
    pub(super) fn clear(&mut self) {
        self.is_wanted = None;
        self.rows.clear();
        (self.count, self.least, self.has_all) = (0, f64::NEG_INFINITY, false);
    }

    /// The number of rows that wait.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no more rows come.
    pub(super) fn has_all(&self) -> bool {
        self.has_all
    }

    /// Says that no row that comes later is nearer than `least`.
    pub(super) fn pass(&mut self, least: f64) {
        self.least = least;
    }

    /// Says that no more rows come.
    pub(super) fn end(&mut self) {
        self.has_all = true;
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system refuses the memory; the server must not end because of it.
    pub(super) fn push(&mut self, tid: pg_sys::ItemPointerData, distance: f64) -> Result<(), Error> {
        self.rows.try_reserve(1).map_err(|_| {
            let needed_bytes = ((self.rows.len() + 1) * size_of::<Placed>()) as u64;
            let what = format!("the system does not give the memory to order {} rows", self.rows.len() + 1);
            Error::Memory { what, needed_bytes }
        })?;
        self.rows.push(Reverse(Placed { distance, tid, number: self.count }));
        self.count += 1;
        Ok(())
    }

    /// The nearest row that waits, if no other can come before it.
    pub(super) fn pop(&mut self) -> Option<Placed> {
        let Reverse(nearest) = self.rows.peek()?;
        if !self.has_all && nearest.distance > self.least {
            return None;
        }
        self.rows.pop().map(|Reverse(row)| row)
    }

    /// The version of the row at `tid` in the table.
    ///
    /// # Safety
    ///
    /// `scan` is about to return a row, and has one order key, which is not NULL.
    pub(super) unsafe fn look(&mut self, scan: pg_sys::IndexScanDesc, tid: pg_sys::ItemPointerData) -> InTable {
        // SAFETY: PostgreSQL began the scan, which has its index and table open and one order key
        // that is not NULL, as the caller ensures.
        unsafe { self.table.get_or_insert_with(|| Table::new(scan)).look(scan, tid) }
    }

    /// Frees the state in which distances were computed.
    ///
    /// # Safety
    ///
    /// The scan that it was read for has not ended yet.
    pub(super) unsafe fn close(&mut self) {
        if let Some(table) = self.table.take() {
            // SAFETY: both were made by `new`, in a context that is there until the scan has ended.
            unsafe {
                pg_sys::ExecDropSingleTupleTableSlot(table.slot);
                pg_sys::FreeExecutorState(table.state);
            }
        }
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Placed {}

/// The state in which distances are computed. After an error, the end of the transaction frees it.
struct Table {
    slot: *mut pg_sys::TupleTableSlot,
    state: *mut pg_sys::EState,
    /// The first column of the index. The expressions of the other columns are not part of the
    /// query, and the user need not have the right to call their functions.
    info: *mut pg_sys::IndexInfo,
}

impl Table {
    /// # Safety
    ///
    /// `scan` is a scan that PostgreSQL began, with its index and table open.
    unsafe fn new(scan: pg_sys::IndexScanDesc) -> Self {
        // SAFETY: the caller says that both are open. What is made lives in the context of the
        // scan.
        unsafe {
            let callers = pg_sys::MemoryContextSwitchTo(pg_sys::GetMemoryChunkContext(scan.cast()));
            let made = Self {
                slot: pg_sys::table_slot_create((*scan).heapRelation, std::ptr::null_mut()),
                state: pg_sys::CreateExecutorState(),
                info: pg_sys::BuildIndexInfo((*scan).indexRelation),
            };
            let info = &mut *made.info;
            let expressions = i32::from(info.ii_IndexAttrNumbers[0] == 0);
            (info.ii_NumIndexAttrs, info.ii_NumIndexKeyAttrs) = (1, 1);
            info.ii_Expressions = pg_sys::list_truncate(info.ii_Expressions, expressions);
            pg_sys::MemoryContextSwitchTo(callers);
            made
        }
    }

    /// # Safety
    ///
    /// As [`InOrder::look`].
    unsafe fn look(&self, scan: pg_sys::IndexScanDesc, mut tid: pg_sys::ItemPointerData) -> InTable {
        let (mut is_more, mut is_dead) = (false, false);
        // SAFETY: the scan has its table open and one order key, as the caller ensures. The slot is
        // for that table. PostgreSQL fetches the row that the scan returns next with the same
        // `xs_heapfetch`, so this call may use it, too.
        unsafe {
            let (fetch, snapshot) = ((*scan).xs_heapfetch, (*scan).xs_snapshot);
            let (more, dead) = (&raw mut is_more, &raw mut is_dead);
            if !pg_sys::table_index_fetch_tuple(fetch, &raw mut tid, snapshot, self.slot, more, dead) {
                return InTable::Unseen { is_dead };
            }
            let distance = self.distance(&mut *(*scan).orderByData);
            pg_sys::ExecClearTuple(self.slot);
            InTable::Seen(distance)
        }
    }

    /// The distance of the row in the slot.
    ///
    /// # Safety
    ///
    /// There is one, `key` is the order key of the scan, and the caller is `amgettuple`, which
    /// guards (`whole_errors.rs`).
    unsafe fn distance(&self, key: &mut pg_sys::ScanKeyData) -> f64 {
        let (mut value, mut is_null) = (pg_sys::Datum::from(0), false);
        // SAFETY: the caller says that there is a row. `new` left one column, which is of the type
        // that the operator of the key takes.
        unsafe {
            let mut context = (*self.state).es_per_tuple_exprcontext;
            if context.is_null() {
                context = pg_sys::MakePerTupleExprContext(self.state);
            }
            (*context).ecxt_scantuple = self.slot;
            let callers = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
            let (operator, collation) = (&raw mut key.sk_func, key.sk_collation);
            // An error of the expression is raised unchanged. This frame has nothing to drop.
            let distance = whole_errors::pass(|| {
                bare::FormIndexDatum(self.info, self.slot, self.state, &raw mut value, &raw mut is_null);
                // Only a damaged index has a row without a vector.
                (!is_null).then(|| bare::FunctionCall2Coll(operator, collation, value, key.sk_argument))
            });
            pg_sys::MemoryContextSwitchTo(callers);
            pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
            distance.map_or(f64::INFINITY, |distance| f64::from_bits(distance.value() as u64))
        }
    }
}
