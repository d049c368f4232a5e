//! Squared Euclidean distance.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Squared Euclidean distance of two `f32` vectors.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn l2sq_f32(a: &[f32], b: &[f32]) -> f32 {
    Kernels::active().l2sq_f32(a, b)
}

/// Squared Euclidean distance of two vectors of IEEE half-precision bits, computed in `f32`.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn l2sq_f16(a: &[u16], b: &[u16]) -> f32 {
    Kernels::active().l2sq_f16(a, b)
}

/// Squared Euclidean distance of two byte vectors. Exact up to 65,536 dimensions, modulo 2^32
/// above.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    Kernels::active().l2sq_u8(a, b)
}

impl Kernels {
    /// [`l2sq_f32`] on this instruction set.
    #[inline]
    pub fn l2sq_f32(self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, l2sq_f32(a, b), avx2, neon)
    }

    /// [`l2sq_f16`] on this instruction set.
    #[inline]
    pub fn l2sq_f16(self, a: &[u16], b: &[u16]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, l2sq_f16(a, b))
    }

    /// [`l2sq_u8`] on this instruction set.
    #[inline]
    pub fn l2sq_u8(self, a: &[u8], b: &[u8]) -> u32 {
        assert_eq!(a.len(), b.len(), "vectors of one dimension");
        on_tier!(self, l2sq_u8(a, b))
    }
}
