//! Prefetching with an instruction that every x86-64 CPU has, so nothing is detected.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

const LINE_BYTES: usize = 64;

#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    let Some(last) = bytes.last() else { return };
    for line in bytes.chunks(LINE_BYTES) {
        // SAFETY: prefetching has no effect a program can observe, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    // An unaligned slice ends in a cache line that no step of 64 bytes from its start reaches.
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(last).cast()) };
}
