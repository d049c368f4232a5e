//! PostgreSQL's header of a page, the 24 bytes before the engine's.
//!
//! Full-page images and generic log records leave out the hole between `pd_lower` and `pd_upper`, and whoever replays them finds
//! zeros there. So the hole of a page is the zeros at its end: what is not there is neither logged nor compared.

use pagehop_engine::{HOST_HEADER_BYTES, PAGE_BYTES};
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
        let body =
            std::slice::from_raw_parts(page.cast::<u8>().add(HOST_HEADER_BYTES), PAGE_BYTES - HOST_HEADER_BYTES);
        let header = page.cast::<pg_sys::PageHeaderData>();
        (*header).pd_lower = (HOST_HEADER_BYTES + used(body)) as u16;
        (*header).pd_upper = PAGE_BYTES as u16;
        (*header).pd_special = PAGE_BYTES as u16;
    }
}

/// Bytes before the zeros at the end, rounded up to whole words.
fn used(body: &[u8]) -> usize {
    const RUN: usize = 256;
    const { assert!((PAGE_BYTES - HOST_HEADER_BYTES).is_multiple_of(8)) };
    let is_used = |bytes: &&[u8]| bytes.iter().fold(0, |all, byte| all | byte) != 0;
    let runs = body.chunks(RUN).enumerate().rfind(|(_, run)| is_used(run));
    runs.map_or(0, |(at, run)| {
        let words = run.chunks(8).rposition(|word| is_used(&word)).expect("the run has one");
        at * RUN + 8 * (words + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_ends_at_the_last_byte_that_is_not_zero() {
        let mut body = vec![0; PAGE_BYTES - HOST_HEADER_BYTES];
        assert_eq!(used(&body), 0);
        for at in [0, 7, 8, 255, 256, 300, 8159, 8160, 8167] {
            body[at] = 1;
            assert_eq!(used(&body), (at / 8 + 1) * 8, "{at}");
        }
    }
}
