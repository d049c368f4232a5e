//! Conversion between `f32` and IEEE half precision. A half-precision number is stored as its `u16`
//! bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Converts half precision to `f32`; exact. A signaling NaN becomes quiet and keeps its sign and
/// payload.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn f16_to_f32(src: &[u16], dst: &mut [f32]) {
    Kernels::active().f16_to_f32(src, dst);
}

/// Converts `f32` to half precision, rounding to nearest, ties to even.
///
/// A magnitude above 65,519.996 becomes infinity, one of at most 2^-25 becomes zero, and one
/// between becomes a normal or denormal half-precision number. A NaN becomes a quiet NaN with the
/// same sign and the upper ten bits of the payload.
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
