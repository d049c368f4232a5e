//! Conversion between `f32` and IEEE half precision, held as `u16` bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Widens half-precision bits; exact. A signaling NaN becomes quiet and keeps its sign and payload.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn f16_to_f32(src: &[u16], dst: &mut [f32]) {
    Kernels::active().f16_to_f32(src, dst);
}

/// Narrows to half-precision bits, rounding to nearest, ties to even.
///
/// Above 65,519.996 in magnitude the answer is infinity, at or below 2^-25 zero, in between half precision's
/// normal and denormal numbers. A NaN becomes a quiet NaN with its sign and the upper ten payload bits.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn f32_to_f16(src: &[f32], dst: &mut [u16]) {
    Kernels::active().f32_to_f16(src, dst);
}

impl Kernels {
    /// [`f16_to_f32`] on this instruction set.
    #[inline]
    pub fn f16_to_f32(self, src: &[u16], dst: &mut [f32]) {
        assert_eq!(src.len(), dst.len(), "vectors of one dimension");
        on_tier!(self, f16_to_f32(src, dst));
    }

    /// [`f32_to_f16`] on this instruction set.
    #[inline]
    pub fn f32_to_f16(self, src: &[f32], dst: &mut [u16]) {
        assert_eq!(src.len(), dst.len(), "vectors of one dimension");
        on_tier!(self, f32_to_f16(src, dst));
    }
}
