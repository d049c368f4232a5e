//! Rows of a table with the data that an index has of them: row id, vector, values of the filter
//! columns.

use std::ffi::c_void;

use pagehop_engine::Value;
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::columns::{self, FilterColumn};
use super::opclass::Kind;
use super::vector;

/// Called with each row.
pub(crate) type EachRow<'r> = &'r mut dyn FnMut(u64, &[f32], &[Value]);

/// Whether a row is wanted, by its id.
pub(crate) type IsWanted<'r> = &'r dyn Fn(u64) -> bool;

/// State of the callback of a scan.
struct Reading<'r> {
    kind: Kind,
    columns: Vec<FilterColumn>,
    vector: Vec<f32>,
    /// Memory of one row.
    context: pg_sys::MemoryContext,
    is_wanted: IsWanted<'r>,
    each: EachRow<'r>,
}

/// Reads the rows of a table that is locked against changes, and returns how many there are. Rows
/// without a place in the index are left out.
///
/// # Safety
///
/// `index` is open, `heap` is its table, open, and `info` says what is to be indexed.
pub(crate) unsafe fn read(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    each: EachRow<'_>,
) -> f64 {
    // Without `allow_sync` the scan begins at the first block, wherever other scans are: the same
    // table gives the same index.
    let (allow_sync, progress, scan) = (false, true, std::ptr::null_mut());
    // SAFETY: the caller's relations are open, and `scanned` passes what the callback expects.
    unsafe {
        scanned(index, &|_| true, each, |state| {
            let call = Some(read_row as _);
            pg_sys::table_index_build_scan(heap, index, info, allow_sync, progress, call, state, scan)
        })
    }
}

/// Reads the wanted rows of some blocks while others change the table: at least those that any
/// snapshot sees. A row that is being changed may come in several versions with the same row id.
///
/// Nothing of a row that is not wanted is looked at: it may be one of another session whose values
/// the index will refuse.
///
/// # Safety
///
/// As [`read`].
pub(crate) unsafe fn read_blocks(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    (first, count): (u32, u32),
    is_wanted: IsWanted<'_>,
    each: EachRow<'_>,
) {
    let (allow_sync, any_visible, progress) = (false, true, false);
    // SAFETY: the caller's relations are open, and `scanned` passes what the callback expects.
    unsafe {
        scanned(index, is_wanted, each, |state| {
            let (call, scan) = (Some(read_row as _), std::ptr::null_mut());
            pg_sys::table_index_build_range_scan(
                heap,
                index,
                info,
                allow_sync,
                any_visible,
                progress,
                first,
                count,
                call,
                state,
                scan,
            )
        });
    }
}

/// Runs `scan` with the state of its callback.
///
/// # Safety
///
/// `index` is open, and `scan` gives its argument to [`read_row`] alone.
unsafe fn scanned(
    index: pg_sys::Relation,
    is_wanted: IsWanted<'_>,
    each: EachRow<'_>,
    scan: impl FnOnce(*mut c_void) -> f64,
) -> f64 {
    // SAFETY: the current context is there; an error leaves the new one to it. The caller keeps the
    // index open.
    let (context, kind, columns) = unsafe {
        let context = pg_sys::AllocSetContextCreateInternal(
            pg_sys::CurrentMemoryContext,
            c"pagehop row".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        (context, Kind::of(index), FilterColumn::of(index))
    };
    let mut reading = Reading { kind, columns, vector: Vec::new(), context, is_wanted, each };
    let rows = scan((&raw mut reading).cast());
    // SAFETY: it was made above, and nothing in it is used any more.
    unsafe { pg_sys::MemoryContextDelete(context) };
    rows
}

#[pg_guard]
unsafe extern "C-unwind" fn read_row(
    index: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    is_null: *mut bool,
    _tuple_is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: `scanned` passed its `Reading` as the state, and nothing else uses it during the
    // scan.
    let Reading { kind, columns, vector, context, is_wanted, each } = unsafe { &mut *state.cast::<Reading<'_>>() };
    // SAFETY: PostgreSQL passes the values of the index's columns, and the place of the row.
    let (is_null_vector, row_id) = unsafe { (*is_null, vector::row_id(*tid)) };
    if is_null_vector || !is_wanted(row_id) {
        return;
    }
    vector.clear();
    // SAFETY: PostgreSQL passes a value of the column's type; the context is `scanned`'s.
    let filters = unsafe {
        let callers = pg_sys::MemoryContextSwitchTo(*context);
        vector::append(*values, kind.element, vector);
        let filters = columns::values(index, columns, values, is_null);
        pg_sys::MemoryContextSwitchTo(callers);
        pg_sys::MemoryContextReset(*context);
        filters
    };
    if kind.has_place(vector) {
        each(row_id, vector, &filters);
    }
}
