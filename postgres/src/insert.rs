//! `aminsert`: one row, under the writer's lock.

use std::ops::ControlFlow;

use pagehop_engine::Error;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::opclass::Kind;
use crate::writer::Writer;
use crate::{errors, models, recall, vector};

/// `aminsert`. `unchanged` says that the row's vector is that of a version before: its node takes the new version in.
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
    // SAFETY: PostgreSQL passes an open index of one column, its value, and where the row is.
    unsafe {
        if *is_null {
            return false;
        }
        let kind = Kind::of(index);
        let mut components = Vec::new();
        vector::append(*values, kind.element, &mut components);
        if kind.has_place(&components)
            && let Err(error) = insert(index, vector::row_id(*tid), &components, unchanged)
        {
            errors::raise(index, error);
        }
    }
    false
}

/// # Safety
///
/// `index` is open and of this access method.
unsafe fn insert(index: pg_sys::Relation, tid: u64, components: &[f32], unchanged: bool) -> Result<(), Error> {
    // Before others have to wait for it.
    // SAFETY: the caller keeps the index open.
    let prepared = unsafe { models::open(index)?.prepare(components, unchanged) };
    // SAFETY: as above.
    let mut writer = unsafe { Writer::new(index)? };
    let open = writer.index();
    let mut change = open.change(&mut writer)?;
    change.insert_prepared(tid, components, prepared, unchanged, &mut |_| {
        pgrx::check_for_interrupts!();
        ControlFlow::Continue(())
    })?;
    let wants_calibration = change.wants_calibration();
    change.finish()?;
    drop(writer);
    if wants_calibration {
        // SAFETY: as above.
        unsafe { recall::calibrate_grown(index)? };
    }
    Ok(())
}
