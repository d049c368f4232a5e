//! `aminsert` and `aminsertcleanup`: the rows of a statement wait and are added many at a time.
//!
//! A new index adds the first rows of a COPY in one training. Rows that are added one by one would
//! train it at 8, 64 and 512 rows (`docs/postgres.md`, *Training*). In any index eight rows share a
//! turn at the lock of the index. A row must be in the index before a snapshot can show it. So the
//! rows that wait are added
//!
//! - when the statement is done with the index (`aminsertcleanup`), or enough of them wait,
//! - before this session starts another statement, such as one of a trigger, or goes on with one
//!   (`hooks.rs`),
//! - before the transaction commits, if a caller in C forgot the cleanup.
//!
//! Rows of a transaction, or subtransaction, that fails are forgotten. Until then no vacuum can
//! give their places in the table to other rows, because their transaction is in progress. Two
//! kinds of rows do not wait: a row of ON CONFLICT that may be removed at once, and a row of
//! another transaction, as CREATE INDEX CONCURRENTLY adds.
//!
//! | file | job |
//! |---|---|
//! | `mod.rs` | the callbacks |
//! | `hooks.rs` | when else rows are added, or forgotten |
//! | `flush.rs` | adds the rows that wait |
//! | `waiting.rs` | keeps them |

mod flush;
pub(crate) mod hooks;
mod waiting;

use pagehop_engine::{Value, check_row};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;
use crate::pages::open_indexes;
use crate::rows::columns::{self, FilterColumn};
use crate::rows::opclass::Kind;
use crate::rows::sample::Budget;
use crate::rows::{memory, vector};

/// The table access method whose rows may wait: `heap`, as in `pg_am.dat`.
const HEAP_TABLE_AM_OID: u32 = 2;
/// Most rows that wait for an index whose model is not trained again.
const ROWS_MAX: usize = 64;

/// `aminsert`. `unchanged` says that the row is a new version, probably with the same vector: its
/// row id is then added to the node of the old version at once. It is a hint: PostgreSQL looks at
/// the columns that an UPDATE names, and a trigger may have changed others.
#[pg_guard]
#[allow(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
pub(crate) unsafe extern "C-unwind" fn aminsert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    is_null: *mut bool,
    tid: pg_sys::ItemPointer,
    heap: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    unchanged: bool,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: PostgreSQL passes the values of the index's columns.
    if unsafe { *is_null } {
        return false;
    }
    let mut components = Vec::new();
    // SAFETY: PostgreSQL passes an open index, a value of its column's type, and the place of the
    // row in the table.
    let (kind, row_id, filters) = unsafe {
        let kind = Kind::of(index);
        vector::append(*values, kind.element, &mut components);
        (kind, vector::row_id(*tid), columns::values(index, &FilterColumn::of(index), values, is_null))
    };
    if !kind.has_place(&components) {
        return false;
    }
    // SAFETY: PostgreSQL passes the index and its table, open, and the place of a row in it; this
    // backend does not write the index yet.
    unsafe {
        let dim = open_indexes::dimensions(index).unwrap_or_else(|error| errors::raise(index, error));
        if !unchanged && may_wait(heap, *tid) && components.len() == dim {
            // A later error would be raised at another row, and COPY would name the line of that
            // row.
            let checked = open_indexes::open(index).and_then(|open| check_row(&open, &components, &filters));
            checked.unwrap_or_else(|error| errors::raise(index, error));
            wait(index, kind, row_id, &components, &filters);
        } else {
            let inserted = flush::insert_now(index, row_id, &components, &filters, unchanged);
            inserted.unwrap_or_else(|error| errors::raise(index, error));
        }
    }
    false
}

/// `aminsertcleanup`: a statement has no more rows for the index.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn aminsertcleanup(index: pg_sys::Relation, _info: *mut pg_sys::IndexInfo) {
    // SAFETY: PostgreSQL passes an open index of this access method, which this backend does not
    // write.
    unsafe { flush::flush(index) };
}

/// Lets a row wait for the index, and adds the rows that wait if there are enough of them.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
unsafe fn wait(index: pg_sys::Relation, kind: Kind, row_id: u64, components: &[f32], filters: &[Value]) {
    // SAFETY: the caller keeps the index open.
    let (oid, subtransaction) = unsafe { ((*index).rd_id, pg_sys::GetCurrentSubTransactionId()) };
    let room = || {
        // SAFETY: the caller keeps the index open.
        let at_once = unsafe { open_indexes::open(index) }.and_then(|open| open.room_at_once());
        // SAFETY: the caller keeps the index open.
        let at_once = at_once.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
        if at_once == 0 {
            return ROWS_MAX;
        }
        let (bytes, dim, columns) = (memory::limit_bytes(), components.len(), filters.len());
        Budget { bytes, dim, metric: kind.metric, columns, threads: 1 }.rows_in_memory().min(at_once)
    };
    waiting::add(oid, subtransaction, room, row_id, components, filters);
    if waiting::are_enough(oid, subtransaction) {
        // SAFETY: the caller keeps the index open and is not its writer.
        unsafe { flush::flush(index) };
    } else if waiting::bytes() > memory::limit_bytes() {
        // The rows of other indexes, for example of many partitions.
        flush::flush_all();
    }
}

/// Whether the row at `tid` belongs to this transaction, and stays so until it ends.
///
/// # Safety
///
/// `heap` is an open table, and `tid` the place of a row that was put there.
unsafe fn may_wait(heap: pg_sys::Relation, tid: pg_sys::ItemPointerData) -> bool {
    // SAFETY: the caller keeps the table open. `heap_fetch` pins the page of the row that it finds,
    // and its header is there until the page is released.
    unsafe {
        if (*(*heap).rd_rel).relam.to_u32() != HEAP_TABLE_AM_OID {
            return false;
        }
        let mut tuple = pg_sys::HeapTupleData { t_self: tid, ..Default::default() };
        let mut buffer = pg_sys::InvalidBuffer as pg_sys::Buffer;
        let any = &raw mut pg_sys::SnapshotAnyData;
        if !pg_sys::heap_fetch(heap, any, &raw mut tuple, &raw mut buffer, false) {
            return false;
        }
        let header = &*tuple.t_data;
        // While ON CONFLICT may take the row back, this number stands in the place of its next
        // version.
        let may_be_taken_back = u32::from(header.t_ctid.ip_posid) == pg_sys::SpecTokenOffsetNumber;
        let inserter = header.t_choice.t_heap.t_xmin;
        pg_sys::ReleaseBuffer(buffer);
        !may_be_taken_back && pg_sys::TransactionIdIsCurrentTransactionId(inserter)
    }
}
