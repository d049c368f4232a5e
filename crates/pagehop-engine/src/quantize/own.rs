//! Own codes: 12 bits per dimension with a step of its own for each vector.
//!
//! `x[i] ~ step * v[i]`, `v[i]` an integer of 12 bits, stored as a plane of bytes `hi` and a plane of
//! nibbles `lo` (`v = 16 * hi + lo - 8`). The high plane alone is an 8-bit code, which is what the build
//! computes with; both together place a vector within about `2^-11` of its length, and every distance the
//! index returns is the exact distance to that place.

use pagehop_kernels as kernels;

/// The largest magnitude of a 12-bit value that both planes can hold.
const VALUE_MAX: f32 = 2032.0;

/// What belongs to a vector beside the two planes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OwnCode {
    /// Length of one unit of `v`.
    pub(crate) step: f32,
    /// Squared length of the decoded vector.
    pub(crate) norm_sq: f32,
}

/// Bytes of the low plane.
pub(crate) fn lo_bytes(dim: usize) -> usize {
    dim.div_ceil(2)
}

/// Squared length of what a low plane holds, in units of the step; of an odd dimension perhaps a little more.
pub(crate) fn lo_sum_sq(lo: &[u8]) -> u32 {
    let square = |nibble: u8| {
        let value = i32::from(nibble) - 8;
        (value * value) as u32
    };
    lo.iter().map(|pair| square(pair & 15) + square(pair >> 4)).sum()
}

/// The step of the code of `x`, and its inverse.
fn step(x: &[f32]) -> (f32, f32) {
    let step = kernels::max_abs(x) / VALUE_MAX;
    let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
    // A subnormal `step` has an infinite inverse; such a vector is the zero vector for every purpose.
    if inverse.is_finite() { (step, inverse) } else { (0.0, 0.0) }
}

/// What is about the code of `x` without the code: its step is exact.
pub(crate) fn foretell(x: &[f32]) -> OwnCode {
    OwnCode { step: step(x).0, norm_sq: kernels::dot_f32(x, x) }
}

/// Encodes `x` into the planes; `values` is scratch of the same length.
pub(crate) fn encode(x: &[f32], values: &mut [i16], hi: &mut [i8], lo: &mut [u8]) -> OwnCode {
    let (step, inverse) = step(x);
    let mut norm = 0i64;
    for (value, x) in values.iter_mut().zip(x) {
        *value = round(x * inverse) as i16;
        norm += i64::from(*value) * i64::from(*value);
    }
    kernels::pack_i12(values, hi, lo);
    OwnCode { step, norm_sq: (norm as f64 * f64::from(step) * f64::from(step)) as f32 }
}

/// Rounds to the nearest integer, ties to even, for magnitudes below 2^22. Two additions that every CPU has
/// in vector form, where `round_ties_even` is a library call on the oldest that this runs on.
#[inline]
fn round(x: f32) -> i32 {
    const SHIFT: f32 = 12_582_912.0;
    ((x + SHIFT) - SHIFT) as i32
}

/// Writes the decoded vector to `x`; `values` is scratch of the same length.
pub(crate) fn decode(step: f32, hi: &[i8], lo: &[u8], values: &mut [i16], x: &mut [f32]) {
    kernels::unpack_i12(hi, lo, values);
    for (x, value) in x.iter_mut().zip(values) {
        *x = step * f32::from(*value);
    }
}
