//! Rows of a table as an index holds them: row id, vector, values of the filter columns.

use std::ffi::c_void;

use pagehop_engine::Value;
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::columns::{self, FilterColumn};
use super::opclass::Kind;
use super::vector;
use crate::whole_errors;

/// "To the end" as a number of blocks.
const ALL_BLOCKS: u32 = pg_sys::InvalidBlockNumber;

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
/// that the index cannot hold are left out.
///
/// # Safety
///
/// `index` is open, `heap` is its table, open, and `info` says what is to be indexed. The caller is
/// below a guard of `whole_errors.rs`.
pub(crate) unsafe fn read(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    each: EachRow<'_>,
) -> f64 {
    // The scan begins at the first block and does not join other scans, so that the same table
    // gives the same index.
    let scan = Scan { heap, index, info, blocks: (0, ALL_BLOCKS), any_visible: false, progress: true };
    // SAFETY: the caller keeps index and table open, and is below a guard.
    unsafe { scan.read(&|_| true, each) }
}

/// Reads the wanted rows of some blocks while other sessions change the table. It reads at least
/// the rows that any snapshot sees. A row that is being changed may come in several versions with
/// the same row id.
///
/// The values of a row that is not wanted are not read: another session may have inserted it, and
/// the index may refuse its values.
///
/// # Safety
///
/// As [`read`].
pub(crate) unsafe fn read_blocks(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    blocks: (u32, u32),
    is_wanted: IsWanted<'_>,
    each: EachRow<'_>,
) {
    let scan = Scan { heap, index, info, blocks, any_visible: true, progress: false };
    // SAFETY: the caller keeps index and table open, and is below a guard.
    unsafe { scan.read(is_wanted, each) };
}

/// A scan of a table for the rows of an index.
struct Scan {
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    /// The first block, and how many.
    blocks: (u32, u32),
    /// Whether rows that any snapshot sees are read, or those of an index that is built.
    any_visible: bool,
    /// Whether progress is shown.
    progress: bool,
}

impl Scan {
    /// Reads the wanted rows, and returns how many rows there are. An error of an expression of the
    /// index is raised unchanged.
    ///
    /// # Safety
    ///
    /// As [`read`], below a guard of `whole_errors.rs`.
    unsafe fn read(&self, is_wanted: IsWanted<'_>, each: EachRow<'_>) -> f64 {
        let Self { heap, index, info, blocks: (first, count), any_visible, progress } = *self;
        // SAFETY: the current context is there; an error leaves the new one to it. The caller keeps
        // index and table open.
        let (context, kind, columns, table) = unsafe {
            let context = pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"pagehop row".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            (context, Kind::of(index), FilterColumn::of(index), &*(*heap).rd_tableam)
        };
        let scan = table.index_build_range_scan.expect("every table access method has it");
        let mut reading = Reading { kind, columns, vector: Vec::new(), context, is_wanted, each };
        let (call, state): (_, *mut c_void) = (Some(read_row as _), (&raw mut reading).cast());
        let (sync, null) = (false, std::ptr::null_mut());
        // SAFETY: the caller's relations are open, and the state is what the callback expects. The
        // closure has nothing to drop, and the callback catches what unwinds in it.
        let rows = unsafe {
            whole_errors::pass(|| {
                scan(heap, index, info, sync, any_visible, progress, first, count, call, state, null)
            })
        };
        // SAFETY: it was made above, and nothing in it is used any more.
        unsafe { pg_sys::MemoryContextDelete(context) };
        rows
    }
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
    // SAFETY: `Scan::read` passed its `Reading` as the state, and nothing else uses it during the
    // scan.
    let Reading { kind, columns, vector, context, is_wanted, each } = unsafe { &mut *state.cast::<Reading<'_>>() };
    // SAFETY: PostgreSQL passes the values of the index's columns, and the place of the row.
    let (is_null_vector, row_id) = unsafe { (*is_null, vector::row_id(*tid)) };
    if is_null_vector || !is_wanted(row_id) {
        return;
    }
    vector.clear();
    // SAFETY: PostgreSQL passes a value of the column's type; the context is of `Scan::read`.
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
