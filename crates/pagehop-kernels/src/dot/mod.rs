//! Inner product of two vectors of the same element type, and the sum of one vector.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Inner product of two `f32` vectors.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    Kernels::active().dot_f32(a, b)
}

/// Inner product of two vectors of IEEE half-precision bits, computed in `f32`.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn dot_f16(a: &[u16], b: &[u16]) -> f32 {
    Kernels::active().dot_f16(a, b)
}

/// Inner product of two vectors of unsigned bytes. Exact up to 65,536 dimensions, modulo 2^32
/// above.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    Kernels::active().dot_u8(a, b)
}

/// Inner product of two vectors of signed bytes. Exact up to 65,536 dimensions, modulo 2^32 above.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    Kernels::active().dot_i8(a, b)
}

/// Sum of signed bytes. Exact up to 2^24 bytes, modulo 2^32 above.
#[inline]
pub fn sum_i8(a: &[i8]) -> i32 {
    Kernels::active().sum_i8(a)
}

impl Kernels {
    /// [`dot_f32`] on this instruction set.
    #[inline]
    pub fn dot_f32(self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, dot_f32(a, b), avx2, neon)
    }

    /// [`dot_f16`] on this instruction set.
    #[inline]
    pub fn dot_f16(self, a: &[u16], b: &[u16]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, dot_f16(a, b))
    }

    /// [`dot_u8`] on this instruction set.
    #[inline]
    pub fn dot_u8(self, a: &[u8], b: &[u8]) -> u32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, dot_u8(a, b))
    }

    /// [`dot_i8`] on this instruction set.
    #[inline]
    pub fn dot_i8(self, a: &[i8], b: &[i8]) -> i32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, dot_i8(a, b), avx2, neon)
    }

    /// [`sum_i8`] on this instruction set.
    #[inline]
    pub fn sum_i8(self, a: &[i8]) -> i32 {
        on_tier!(self, sum_i8(a))
    }
}
