//! A vector as small integers, cut into bit planes: what a query becomes before edges are scored.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Most bits of a level, and so most planes.
pub const LEVEL_BITS_MAX: usize = 8;

/// The largest magnitude in `x`; 0 of none. NaNs are passed over.
#[inline]
pub fn max_abs(x: &[f32]) -> f32 {
    Kernels::active().max_abs(x)
}

/// Cuts levels of `x` into bit planes. A level is `x * per_unit + 2^(bits - 1)`, without what is behind the point, between 0 and
/// `2^bits - 1`; that of a NaN is 0.
///
/// `planes` is `bits` planes, lightest first, of as many words as it takes to give each number a bit: number `i` is bit `i % 64` of
/// word `i / 64`. Bits behind the last are 0.
///
/// # Panics
///
/// Unless `planes` is 1 to [`LEVEL_BITS_MAX`] whole planes.
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
