//! PostgreSQL's header of a page, the 24 bytes before the engine's.
//!
//! Full-page images and generic log records leave out the hole between `pd_lower` and `pd_upper`, and whoever replays them finds
//! zeros there. So the hole of a page is the zeros at its end: what is not there is neither logged nor compared.

use pagehop_engine::{BODY_BYTES, HOST_HEADER_BYTES, PAGE_BYTES, used_bytes};
use pgrx::pg_sys;

const _: () = assert!(PAGE_BYTES == pg_sys::BLCKSZ as usize);

/// Makes a page that nobody else has an empty one, all hole.
///
/// # Safety
///
/// `page` is BLCKSZ bytes of memory that are ours to write.
pub(crate) unsafe fn init(page: pg_sys::Page) {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::PageInit(page, pg_sys::BLCKSZ as usize, 0) };
}

/// Makes the zeros at the end of the page its hole.
///
/// # Safety
///
/// As [`init`].
pub(crate) unsafe fn fit_hole(page: pg_sys::Page) {
    // SAFETY: the caller's promise; the header lies at the front of a page.
    unsafe {
        let body = std::slice::from_raw_parts(page.cast::<u8>().add(HOST_HEADER_BYTES), BODY_BYTES);
        let header = page.cast::<pg_sys::PageHeaderData>();
        (*header).pd_lower = (HOST_HEADER_BYTES + used_bytes(body)) as u16;
        (*header).pd_upper = PAGE_BYTES as u16;
        (*header).pd_special = PAGE_BYTES as u16;
    }
}
