//! Prefetching with an instruction that every x86-64 CPU has, so no detection is needed.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

const LINE_BYTES: usize = 64;

// The hint asks for the second cache, not the first. A node is 40 lines and more, and what is under
// way to the first cache has few places (24 on AMD's Zen 4), so the instruction seems to wait for
// one. From the second cache the lines are there when the scan reads them. Searches of a file in
// memory take 12 to 17% less CPU time than with the hint for the first
// (`docs/decisions/0013-cost-of-a-hop.md`).
const HINT: i32 = _MM_HINT_T1;

#[inline]
pub(crate) fn prefetch_at(address: *const u8, bytes: usize) {
    // From the start of the first line: a slice that is not aligned may end in one more line than
    // its length says.
    let first = address.wrapping_sub(address.addr() % LINE_BYTES).cast::<i8>();
    let lines = (address.addr() % LINE_BYTES + bytes).div_ceil(LINE_BYTES);
    for line in 0..if bytes == 0 { 0 } else { lines } {
        // SAFETY: a prefetch has no visible effect on the program, for any address.
        unsafe { _mm_prefetch::<HINT>(first.wrapping_add(line * LINE_BYTES)) };
    }
}
