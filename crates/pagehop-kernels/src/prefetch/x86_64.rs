//! Prefetching with an instruction that every x86-64 CPU has, so no detection is needed.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

const LINE_BYTES: usize = 64;

#[inline]
pub(crate) fn prefetch_at(address: *const u8, bytes: usize) {
    let start = address.cast::<i8>();
    // Every `LINE_BYTES` from the start, and the last byte: the end of an unaligned slice may lie
    // in one more line.
    for at in (0..bytes).step_by(LINE_BYTES).chain(bytes.checked_sub(1)) {
        // SAFETY: a prefetch has no visible effect on the program, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
    }
}
