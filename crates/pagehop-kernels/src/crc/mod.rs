//! CRC-32C (Castagnoli), the checksum of pages. x86 and ARM compute this polynomial in hardware.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod stretch;

use crate::dispatch::{Kernels, on_tier};

/// CRC-32C of `bytes`. `seed` is 0 at the start, or the answer for the bytes before these.
///
/// `crc32c(b, crc32c(a, 0))` is the checksum of `a` followed by `b`.
#[inline]
pub fn crc32c(bytes: &[u8], seed: u32) -> u32 {
    Kernels::active().crc32c(bytes, seed)
}

impl Kernels {
    /// [`crc32c`] on this instruction set.
    #[inline]
    pub fn crc32c(self, bytes: &[u8], seed: u32) -> u32 {
        on_tier!(self, crc32c(bytes, seed), avx2, neon)
    }
}
