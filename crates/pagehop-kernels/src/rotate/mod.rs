//! The Walsh-Hadamard transform, the expensive part of a random rotation.

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
/// Unless the length is a power of two from 1 to [`HADAMARD_MAX`].
#[inline]
pub fn hadamard(x: &mut [f32]) {
    Kernels::active().hadamard(x);
}

impl Kernels {
    /// [`hadamard`] on this instruction set.
    #[inline]
    pub fn hadamard(self, x: &mut [f32]) {
        assert!(x.len().is_power_of_two() && x.len() <= HADAMARD_MAX, "a power of two up to {HADAMARD_MAX}");
        on_tier!(self, hadamard(x));
    }
}
