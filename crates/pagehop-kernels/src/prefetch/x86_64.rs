//! Prefetching with an instruction that every x86-64 CPU has, so no detection is needed.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

const LINE_BYTES: usize = 64;

// The hint names the second-level cache, not the first. A node has 40 cache lines or more, and the
// CPU has few entries for lines on their way to the first-level cache (24 on AMD's Zen 4), so the
// instruction seems to wait for a free entry. Lines in the second-level cache are near enough when
// the scan reads them. Searches of a file in memory take 12 to 17% less CPU time than with the hint
// for the first-level cache (`docs/decisions/0013-cost-of-a-hop.md`).
const HINT: i32 = _MM_HINT_T1;

#[inline]
pub(crate) fn prefetch_at(address: *const u8, bytes: usize) {
    // Starts at the beginning of the first cache line: a slice that is not aligned may touch one
    // more line than its length says.
    let first = address.wrapping_sub(address.addr() % LINE_BYTES).cast::<i8>();
    let lines = (address.addr() % LINE_BYTES + bytes).div_ceil(LINE_BYTES);
    for line in 0..if bytes == 0 { 0 } else { lines } {
        // SAFETY: a prefetch has no visible effect on the program, for any address.
        unsafe { _mm_prefetch::<HINT>(first.wrapping_add(line * LINE_BYTES)) };
    }
}
