//! Prefetching with an instruction that every x86-64 CPU has, so no detection is needed.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

const LINE_BYTES: usize = 64;

#[inline]
pub(crate) fn prefetch_at(address: *const u8, bytes: usize) {
    // From the start of the first line: a slice that is not aligned may end in one more line than
    // its length says.
    let first = address.wrapping_sub(address.addr() % LINE_BYTES).cast::<i8>();
    let lines = (address.addr() % LINE_BYTES + bytes).div_ceil(LINE_BYTES);
    for line in 0..if bytes == 0 { 0 } else { lines } {
        // SAFETY: a prefetch has no visible effect on the program, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line * LINE_BYTES)) };
    }
}
