//! Reads PostgreSQL's lists of pointers.

use pgrx::pg_sys;

/// The pointers of a list.
///
/// # Safety
///
/// The list has pointers to `T`, or is null, and does not change while the slice is used.
pub(crate) unsafe fn elements<'l, T>(list: *mut pg_sys::List) -> &'l [*mut T] {
    // SAFETY: the list has pointers to `T`, as the caller ensures; a cell is as large as a pointer.
    unsafe {
        let Some(list) = list.as_ref() else { return &[] };
        std::slice::from_raw_parts(list.elements.cast::<*mut T>(), list.length as usize)
    }
}
