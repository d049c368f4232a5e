//! `aminsert`: one row, under the writer's lock.

use std::ops::ControlFlow;

use pagehop_engine::Error;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::pages::{open_indexes, writer};
use crate::rows::opclass::Kind;
use crate::rows::vector;
use crate::{calibrate, errors};

/// `aminsert`. `unchanged` says that the row is a new version with the same vector: the node of the
/// old version takes it in.
#[pg_guard]
#[allow(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
pub(crate) unsafe extern "C-unwind" fn aminsert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    is_null: *mut bool,
    tid: pg_sys::ItemPointer,
    _heap: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    unchanged: bool,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: PostgreSQL passes the value of the index's one column.
    if unsafe { *is_null } {
        return false;
    }
    let mut components = Vec::new();
    // SAFETY: PostgreSQL passes an open index, a value of its column's type, and the place of the
    // row in the table.
    let (kind, row_id) = unsafe {
        let kind = Kind::of(index);
        vector::append(*values, kind.element, &mut components);
        (kind, vector::row_id(*tid))
    };
    if kind.has_place(&components) {
        // SAFETY: the index is open and of this access method, and this backend does not write it
        // yet.
        let inserted = unsafe { insert(index, row_id, &components, unchanged) };
        // SAFETY: the index is open.
        inserted.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
    }
    false
}

/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
unsafe fn insert(index: pg_sys::Relation, row_id: u64, components: &[f32], unchanged: bool) -> Result<(), Error> {
    // Before the lock is taken: other insertions do not wait for it.
    // SAFETY: the caller keeps the index open.
    let prepared = unsafe { open_indexes::open(index)? }.prepare(components, unchanged);
    // SAFETY: the caller keeps the index open and is not its writer.
    let wants_calibration = unsafe {
        writer::change(index, |change| {
            change.insert_prepared(row_id, components, prepared, unchanged, &mut |_| {
                pgrx::check_for_interrupts!();
                ControlFlow::Continue(())
            })?;
            Ok(change.wants_calibration())
        })?
    };
    if wants_calibration {
        // SAFETY: the caller keeps the index open, and the writer's lock was given back.
        unsafe { calibrate::grown_index(index)? };
    }
    Ok(())
}
