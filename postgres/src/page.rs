//! PostgreSQL's header of a page, the 24 bytes before the engine's.
//!
//! Full-page images and generic log records leave out the hole between `pd_lower` and `pd_upper`. A page in use has none, so that
//! every byte of it is logged; a page that was allocated and never filled is all hole.

use pgrx::pg_sys;

/// Makes a page that nobody else has an empty one, all hole.
///
/// # Safety
///
/// `page` is BLCKSZ bytes of memory that are ours to write.
pub(crate) unsafe fn init(page: pg_sys::Page) {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::PageInit(page, pg_sys::BLCKSZ as usize, 0) };
}

/// Makes sure that the page has no hole.
///
/// # Safety
///
/// As [`init`].
pub(crate) unsafe fn close_hole(page: pg_sys::Page) {
    let end = pg_sys::BLCKSZ as u16;
    // SAFETY: the caller's promise; the header lies at the front of a page.
    unsafe {
        let header = page.cast::<pg_sys::PageHeaderData>();
        (*header).pd_lower = end;
        (*header).pd_upper = end;
        (*header).pd_special = end;
    }
}
