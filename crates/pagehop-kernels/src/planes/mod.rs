//! Quantizes a vector to small integers and splits them into bit planes. A search does this to its
//! query before it scores edges.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Largest number of bits of a level, and so of planes.
pub const LEVEL_BITS_MAX: usize = 8;

/// The largest magnitude in `x`; 0 if `x` is empty. NaNs are skipped.
#[inline]
pub fn max_abs(x: &[f32]) -> f32 {
    Kernels::active().max_abs(x)
}

/// Quantizes `x` to integer levels and splits the levels into bit planes. The level of a value is
/// `x * per_unit + 2^(bits - 1)`, truncated and clamped to `0..=2^bits - 1`; the level of a NaN is
/// 0.
///
/// `planes` holds `bits` planes, the least significant first. Each plane has one bit per value, in
/// `x.len() / 64` words, rounded up: value `i` is bit `i % 64` of word `i / 64`. Bits after the
/// last value are 0. The length of `planes` determines `bits`.
///
/// # Panics
///
/// If `planes` is not a whole number of planes, from 1 to [`LEVEL_BITS_MAX`].
#[inline]
pub fn level_planes(x: &[f32], per_unit: f32, planes: &mut [u64]) {
    Kernels::active().level_planes(x, per_unit, planes);
}

impl Kernels {
    /// [`max_abs`] on this instruction set.
    #[inline]
    pub fn max_abs(self, x: &[f32]) -> f32 {
        on_tier!(self, max_abs(x))
    }

    /// [`level_planes`] on this instruction set.
    #[inline]
    pub fn level_planes(self, x: &[f32], per_unit: f32, planes: &mut [u64]) {
        let words = x.len().div_ceil(64);
        if words == 0 {
            return;
        }
        let bits = planes.len() / words;
        assert!((1..=LEVEL_BITS_MAX).contains(&bits) && planes.len() == bits * words, "whole planes");
        on_tier!(self, level_planes(x, per_unit, bits, planes));
    }
}
