//! The steps of a random rotation. The most expensive one is the Walsh-Hadamard transform.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// The longest vector that [`hadamard`] transforms, in dimensions.
pub const HADAMARD_MAX: usize = 4096;

/// Walsh-Hadamard transform in place, unnormalized, in natural order. Applied twice, it multiplies
/// `x` by its length.
///
/// `x[i]` becomes the sum over `j` of `x[j]`, with a minus sign where `i & j` has an odd number of
/// one bits. Costs `n * log2(n)` additions.
///
/// # Panics
///
/// If the length is not a power of two from 1 to [`HADAMARD_MAX`].
#[inline]
pub fn hadamard(x: &mut [f32]) {
    Kernels::active().hadamard(x);
}

/// Multiplies each component of `x` by the same component of `by`. The bits are the same on every
/// instruction set.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn multiply(x: &mut [f32], by: &[f32]) {
    Kernels::active().multiply(x, by);
}

/// Multiplies each component of `x` by `factor`. The bits are the same on every instruction set.
#[inline]
pub fn scale(x: &mut [f32], factor: f32) {
    Kernels::active().scale(x, factor);
}

/// Rotates each pair of components `(i, i + ceil(n / 2))` by 45 degrees: it becomes the sum and the
/// difference, both divided by the square root of 2. If `n` is odd, the middle component does not
/// change. Applied twice, it gives `x` again, up to rounding. The bits are the same on every
/// instruction set.
#[inline]
pub fn mix_halves(x: &mut [f32]) {
    Kernels::active().mix_halves(x);
}

impl Kernels {
    /// [`multiply`] on this instruction set.
    #[inline]
    pub fn multiply(self, x: &mut [f32], by: &[f32]) {
        assert_eq!(x.len(), by.len(), "vectors of one dimension");
        on_tier!(self, multiply(x, by));
    }

    /// [`scale`] on this instruction set.
    #[inline]
    pub fn scale(self, x: &mut [f32], factor: f32) {
        on_tier!(self, scale(x, factor));
    }

    /// [`mix_halves`] on this instruction set.
    #[inline]
    pub fn mix_halves(self, x: &mut [f32]) {
        on_tier!(self, mix_halves(x));
    }

    /// [`hadamard`] on this instruction set.
    #[inline]
    pub fn hadamard(self, x: &mut [f32]) {
        assert!(x.len().is_power_of_two() && x.len() <= HADAMARD_MAX, "a power of two up to {HADAMARD_MAX}");
        on_tier!(self, hadamard(x));
    }
}
