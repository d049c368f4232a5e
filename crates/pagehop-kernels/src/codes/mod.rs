//! Inner products with vectors of 8 or 12 bits per dimension (`i12.rs` packs the latter).
//!
//! The other vector is rounded to 16 bits ([`Rounded`]), so that all products are integers and the
//! same on every instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod i12;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};
use i12::check_i12;
pub use i12::{I12_MAX, I12_MIN, pack_i12, unpack_i12};

/// Largest magnitude of a component of a [`Rounded`] vector. It is 16 times the largest magnitude
/// of an own code in the engine, so that a decoded own code is rounded without an error. Two signed
/// bytes hold it.
pub const ROUNDED_MAX: i16 = 32_512;

/// Most dimensions of a [`Rounded`] vector. With more, the sums in 32-bit lanes could overflow.
pub const ROUNDED_DIM_MAX: usize = 8192;

/// The arrays of a [`Rounded`] vector are padded with zeros to a multiple of this number of
/// dimensions.
const PADDED: usize = 64;

/// A vector of floats, rounded to 16-bit integers with one step, and laid out for the inner
/// products of one instruction set. Reusable: `round` replaces its vector.
#[derive(Clone, Debug)]
pub struct Rounded {
    kernels: Kernels,
    dim: usize,
    step: f32,
    sum: i64,
    sum_sq: i64,
    values: Vec<i16>,
    parts: Parts,
}

/// The values of a [`Rounded`] vector in a second order. Each instruction set fills what it uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// Dimensions `4j`, then dimensions `4j + 1`, then `4j + 2`, then `4j + 3`.
    #[cfg(target_arch = "x86_64")]
    pub(crate) quarters: Vec<i16>,
    #[cfg(target_arch = "x86_64")]
    pub(crate) digits: Vec<Digits>,
}

/// Both digits to base 256, as signed bytes, of 64 dimensions. Aligned like a register, because a
/// load that crosses a cache line costs as much as two.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Digits {
    pub(crate) high: [i8; 64],
    pub(crate) low: [i8; 64],
}

#[cfg(target_arch = "x86_64")]
impl Default for Digits {
    fn default() -> Self {
        Self { high: [0; 64], low: [0; 64] }
    }
}

impl Default for Rounded {
    fn default() -> Self {
        Kernels::active().rounded()
    }
}

impl Rounded {
    /// Rounds `x` to multiples of its largest magnitude divided by [`ROUNDED_MAX`]. Each component
    /// is off by at most .51 steps. A vector so small that the inverse of the step overflows
    /// becomes zeros.
    ///
    /// # Panics
    ///
    /// If `x` has more than [`ROUNDED_DIM_MAX`] dimensions.
    pub fn round(&mut self, x: &[f32]) {
        assert!(x.len() <= ROUNDED_DIM_MAX, "at most {ROUNDED_DIM_MAX} dimensions");
        let step = self.kernels.max_abs(x) / f32::from(ROUNDED_MAX);
        let inverse = 1.0 / step;
        let (step, inverse) = if inverse.is_finite() { (step, inverse) } else { (0.0, 0.0) };
        self.dim = x.len();
        self.step = step;
        let padded = x.len().next_multiple_of(PADDED);
        if self.values.len() != padded {
            self.values.resize(padded, 0);
        }
        self.values[x.len()..].fill(0);
        let (values, parts) = (&mut self.values[..], &mut self.parts);
        (self.sum, self.sum_sq) = on_tier!(self.kernels, round(x, inverse, values, parts));
    }

    /// The size of one step.
    #[inline]
    pub fn step(&self) -> f32 {
        self.step
    }

    /// The components in steps.
    pub fn values(&self) -> &[i16] {
        &self.values[..self.dim]
    }

    /// The sum of the squares of the components in steps. Exact.
    #[inline]
    pub fn sum_sq(&self) -> i64 {
        self.sum_sq
    }

    /// Inner product, in steps, with 8-bit values: the sum of `value[i] * code[i]`. Exact.
    ///
    /// # Panics
    ///
    /// If `code` is not as long as the vector.
    #[inline]
    pub fn dot_i8(&self, code: &[i8]) -> i64 {
        assert_eq!(code.len(), self.dim, "vectors of one dimension");
        on_tier!(self.kernels, dot_i8_rounded(self, code), avx2, neon)
    }

    /// Inner product, in steps, with 12-bit values packed by [`pack_i12`]. Exact.
    ///
    /// # Panics
    ///
    /// If `hi` is not as long as the vector, or `lo` not half as long, rounded up.
    #[inline]
    pub fn dot_i12(&self, hi: &[i8], lo: &[u8]) -> i64 {
        check_i12(self.dim, hi.len(), lo.len());
        on_tier!(self.kernels, dot_i12_rounded(self, hi, lo), avx2, neon)
    }
}

impl Kernels {
    /// An empty [`Rounded`] vector whose products are computed on this instruction set.
    pub fn rounded(self) -> Rounded {
        let (values, parts) = (Vec::new(), Parts::default());
        Rounded { kernels: self, dim: 0, step: 0.0, sum: 0, sum_sq: 0, values, parts }
    }
}
