//! PostgreSQL's header of a page: the 24 bytes before the engine's.
//!
//! Full-page images and generic log records leave out the hole between `pd_lower` and `pd_upper`,
//! and replay fills it with zeros. So the hole of a page is the run of zeros at its end, which is
//! neither logged nor compared.

use pagehop_engine::{BODY_BYTES, HOST_HEADER_BYTES, PAGE_BYTES, used_bytes};
use pgrx::pg_sys;

const _: () = assert!(PAGE_BYTES == pg_sys::BLCKSZ as usize);

/// Makes `page` an empty page: its hole is the whole body.
///
/// # Safety
///
/// `page` is BLCKSZ bytes of memory that only the caller uses.
pub(super) unsafe fn init(page: pg_sys::Page) {
    // SAFETY: the caller says that the page is BLCKSZ bytes, and its own.
    unsafe { pg_sys::PageInit(page, pg_sys::BLCKSZ as usize, 0) };
}

/// Sets the hole of the page to the zeros at its end.
///
/// # Safety
///
/// `page` is BLCKSZ bytes of memory that only the caller uses, with a header at its front.
pub(super) unsafe fn fit_hole(page: pg_sys::Page) {
    // SAFETY: the body lies behind the header, and both fill the page, which the caller says is its
    // own.
    unsafe {
        let body = std::slice::from_raw_parts(page.cast::<u8>().add(HOST_HEADER_BYTES), BODY_BYTES);
        let header = page.cast::<pg_sys::PageHeaderData>();
        (*header).pd_lower = (HOST_HEADER_BYTES + used_bytes(body)) as u16;
        (*header).pd_upper = PAGE_BYTES as u16;
        (*header).pd_special = PAGE_BYTES as u16;
    }
}
