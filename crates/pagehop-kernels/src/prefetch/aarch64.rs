//! Prefetching with an instruction that every ARM CPU of 64 bits has. Rust has no stable intrinsic
//! for it.
#![allow(unsafe_code)]

use std::arch::asm;

const LINE_BYTES: usize = 64;

#[inline]
pub(crate) fn prefetch_at(address: *const u8, bytes: usize) {
    // Starts at the beginning of the first cache line: a slice that is not aligned may touch one
    // more line than its length says.
    let first = address.wrapping_sub(address.addr() % LINE_BYTES);
    let lines = (address.addr() % LINE_BYTES + bytes).div_ceil(LINE_BYTES);
    for line in 0..if bytes == 0 { 0 } else { lines } {
        let line = first.wrapping_add(line * LINE_BYTES);
        // SAFETY: a prefetch has no visible effect on the program, for any address.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) };
    }
}
