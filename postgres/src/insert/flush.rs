//! Adds the rows that wait for an index, while other sessions add theirs.

use std::ops::ControlFlow;

use pagehop_engine::{Change, Error, Prepared, Progress, Value, build_memory_bytes};
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::waiting::{self, Taken};
use crate::pages::writer::Writer;
use crate::pages::{open_indexes, writer};
use crate::rows::memory;
use crate::{calibrate, errors};

/// Most rows that share a turn at the index's lock, which a vacuum waits for. Writing a row takes
/// less than a millisecond. With more rows, the first prepared ones would have left the CPU's
/// caches.
const ROWS_PER_TURN: usize = 8;

unsafe extern "C-unwind" {
    /// PostgreSQL's function, which its bindings leave out.
    fn CheckForSerializableConflictIn(
        relation: pg_sys::Relation,
        tid: pg_sys::ItemPointer,
        block: pg_sys::BlockNumber,
    );
}

/// A row to be inserted.
struct Ready<'a> {
    row_id: u64,
    vector: &'a [f32],
    values: &'a [Value],
    prepared: Option<Prepared>,
}

/// Adds all rows that wait for `index`.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
pub(super) unsafe fn flush(index: pg_sys::Relation) {
    // SAFETY: the caller keeps the index open.
    let oid = unsafe { (*index).rd_id };
    loop {
        match waiting::take(oid) {
            Taken::Nothing => return,
            Taken::Rows { subtransaction, row_ids, vectors, values } => {
                // SAFETY: the caller keeps the index open and is not its writer.
                let added = unsafe { add(index, &row_ids, &vectors, &values) };
                // SAFETY: the caller keeps the index open.
                added.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
                waiting::forget(oid, subtransaction);
                // SAFETY: the caller keeps the index open.
                unsafe { check_for_conflict(index) };
            }
            Taken::Lost => {
                // SAFETY: the caller keeps the index open.
                let name = unsafe { errors::name(index) };
                errors::report(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!(
                        "index \"{name}\" lacks rows of a statement that caught an error while they were added"
                    ),
                    Some("Run the statement again, and let errors of its triggers and functions end it.".into()),
                );
            }
        }
    }
}

/// Looks for serializable transactions that have read the index without the rows that were added.
/// PostgreSQL does so before it calls `aminsert`, but a transaction may have read the index since
/// then.
///
/// # Safety
///
/// `index` is open.
unsafe fn check_for_conflict(index: pg_sys::Relation) {
    // SAFETY: the caller keeps the index open. Without a place, the function looks for transactions
    // that have read any part of the index. A scan of an index without predicate locks of its own
    // counts as a read of the whole index.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            CheckForSerializableConflictIn(index, std::ptr::null_mut(), pg_sys::InvalidBlockNumber);
        });
    }
}

/// Adds all rows that wait for any index.
pub(super) fn flush_all() {
    while let Some(oid) = waiting::any_index() {
        // SAFETY: any number may be looked up. The index stays open, and locked as for any
        // insertion, until it is closed; rows wait only for those of this access method.
        unsafe {
            let index = pg_sys::try_index_open(oid, pg_sys::RowExclusiveLock as i32);
            if index.is_null() {
                // The index was dropped after its statement.
                waiting::forget_index(oid);
                continue;
            }
            flush(index);
            pg_sys::index_close(index, pg_sys::RowExclusiveLock as i32);
        }
    }
}

/// Adds one row.
///
/// # Safety
///
/// As [`flush`].
pub(super) unsafe fn insert_now(
    index: pg_sys::Relation,
    row_id: u64,
    vector: &[f32],
    values: &[Value],
    unchanged: bool,
) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe {
        insert(index, &[row_id], vector, values, unchanged)?;
        check_for_conflict(index);
    }
    Ok(())
}

/// Adds rows. If they make the index large enough to be trained again, the first of them are added
/// by one training.
///
/// # Safety
///
/// As [`flush`].
unsafe fn add(index: pg_sys::Relation, row_ids: &[u64], vectors: &[f32], values: &[Value]) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open.
    let room = if row_ids.len() > 1 { unsafe { open_indexes::open(index)? }.room_at_once()? } else { 0 };
    let (dim, columns) = (vectors.len() / row_ids.len(), values.len() / row_ids.len());
    let (mut taken, mut wants_calibration) = (0, false);
    if room > 0 {
        // A copy of the rows, and the build.
        let rows = row_ids.len().min(room);
        memory::reserve(4 * dim * rows + build_memory_bytes(rows, dim, 1) as usize);
        // SAFETY: the caller keeps the index open and is not its writer.
        unsafe {
            writer::change(index, |change| {
                taken = change.train_if_grown(row_ids, vectors, values, &mut go_on)?;
                wants_calibration = taken > 0 && change.wants_calibration();
                Ok(())
            })?;
        }
    }
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe {
        if taken < row_ids.len() {
            insert(index, &row_ids[taken..], &vectors[taken * dim..], &values[taken * columns..], false)?;
        }
        calibrate_if(index, wants_calibration)
    }
}

/// Inserts rows, at least one, one after the other. While a vacuum has the index's lock, the next
/// rows are prepared. Otherwise a row is prepared in its turn: its walks share buffers, and visited
/// nodes need not be read again.
///
/// # Safety
///
/// As [`flush`].
unsafe fn insert(
    index: pg_sys::Relation,
    row_ids: &[u64],
    vectors: &[f32],
    values: &[Value],
    unchanged: bool,
) -> Result<(), Error> {
    let (dim, columns) = (vectors.len() / row_ids.len(), values.len() / row_ids.len());
    let values = (0..row_ids.len()).map(|row| &values[row * columns..][..columns]);
    let mut rows = row_ids.iter().zip(vectors.chunks_exact(dim)).zip(values).peekable();
    while rows.peek().is_some() {
        let mut ready: Vec<Ready<'_>> = Vec::new();
        let writer = loop {
            // SAFETY: the caller keeps the index open and is not its writer.
            if let Some(writer) = unsafe { writer::beside_others_if_free(index)? } {
                break writer;
            }
            match rows.next_if(|_| ready.len() < ROWS_PER_TURN) {
                Some(((row_id, vector), values)) => {
                    pgrx::check_for_interrupts!();
                    // SAFETY: the caller keeps the index open.
                    let prepared = unsafe { open_indexes::open(index)? }.prepare(vector, unchanged);
                    ready.push(Ready { row_id: *row_id, vector, values, prepared });
                }
                // SAFETY: the caller keeps the index open and is not its writer.
                None => break unsafe { writer::beside_others(index)? },
            }
        };
        while let Some(((row_id, vector), values)) = rows.next_if(|_| ready.len() < ROWS_PER_TURN) {
            ready.push(Ready { row_id: *row_id, vector, values, prepared: None });
        }
        let is_written = writer.change(|change| match change.must_be_alone(ready.len()) {
            true => Ok(false),
            false => write(change, std::mem::take(&mut ready), unchanged).map(|()| true),
        })?;
        if !is_written {
            // SAFETY: the caller keeps the index open. The writer has given its lock back, so this
            // backend is not the writer.
            unsafe { writer::change(index, |change| write(change, ready, unchanged))? };
        }
    }
    Ok(())
}

/// Writes rows.
fn write(change: &mut Change<'_, Writer>, ready: Vec<Ready<'_>>, unchanged: bool) -> Result<(), Error> {
    for Ready { row_id, vector, values, prepared } in ready {
        pgrx::check_for_interrupts!();
        change.insert_prepared(row_id, vector, values, prepared, unchanged, &mut go_on)?;
    }
    Ok(())
}

/// # Safety
///
/// As [`flush`].
unsafe fn calibrate_if(index: pg_sys::Relation, is_due: bool) -> Result<(), Error> {
    if !is_due {
        return Ok(());
    }
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe { calibrate::grown_index(index) }
}

fn go_on(_: Progress) -> ControlFlow<()> {
    pgrx::check_for_interrupts!();
    ControlFlow::Continue(())
}
