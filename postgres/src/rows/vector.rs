//! pgvector's values, read: `vector` and `halfvec`.
//!
//! Both are a length word, the number of dimensions (`int16`), two unused bytes, and the
//! components. The sizes are compared before they are used.

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::opclass::Element;
use crate::errors;

/// Bytes before the components, the length word included.
const HEADER_BYTES: usize = 8;

/// Appends the components of `value` to `out` and returns how many there were. Toasted values are
/// read into the current memory context, and freed.
///
/// # Safety
///
/// `value` is a non-null Datum of the type that `element` names.
pub(crate) unsafe fn append(value: pg_sys::Datum, element: Element, out: &mut Vec<f32>) -> usize {
    let stored: *mut pg_sys::varlena = value.cast_mut_ptr();
    // SAFETY: the caller's Datum is of a variable-length type, and what comes back has a four-byte
    // length word.
    let plain = unsafe { pg_sys::pg_detoast_datum(stored) };
    // SAFETY: the length word says how long the value is, and PostgreSQL wrote both.
    let bytes = unsafe { std::slice::from_raw_parts(plain.cast::<u8>(), pgrx::varsize_4b(plain)) };
    let dim = append_bytes(bytes, element, out);
    if plain != stored {
        // SAFETY: `pg_detoast_datum` made this copy for us, and nothing refers to it any more.
        unsafe { pg_sys::pfree(plain.cast()) };
    }
    dim
}

fn append_bytes(bytes: &[u8], element: Element, out: &mut Vec<f32>) -> usize {
    let width = match element {
        Element::F32 => 4,
        Element::F16 => 2,
    };
    let dim = bytes.get(4..6).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])));
    let Some((dim, components)) = dim.zip(bytes.get(HEADER_BYTES..)).filter(|(dim, c)| c.len() == dim * width)
    else {
        let what = format!("a vector of {} bytes contradicts its own dimensions", bytes.len());
        errors::report(PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, what, None)
    };
    match element {
        Element::F32 => out.extend(components.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
        Element::F16 => {
            let halves: Vec<u16> = components.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
            let start = out.len();
            out.resize(start + dim, 0.0);
            pagehop_kernels::f16_to_f32(&halves, &mut out[start..]);
        }
    }
    dim
}

/// The engine's id for a row: its place in the table.
pub(crate) fn row_id(tid: pg_sys::ItemPointerData) -> u64 {
    let (block, offset) = pgrx::itemptr::item_pointer_get_both(tid);
    u64::from(block) << 16 | u64::from(offset)
}

/// The place of the row with that id. `None` for a number that is not a row id.
pub(crate) fn tid(row_id: u64) -> Option<pg_sys::ItemPointerData> {
    let (block, offset) = ((row_id >> 16) as u32, row_id as u16);
    if row_id >> 48 > 0 || offset == 0 {
        return None;
    }
    let mut tid = pg_sys::ItemPointerData::default();
    pgrx::itemptr::item_pointer_set_all(&mut tid, block, offset);
    Some(tid)
}
