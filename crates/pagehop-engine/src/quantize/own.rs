//! Own codes: 12 bits per dimension, with one step per vector.
//!
//! `x[i] ~ step * v[i]`, where `v[i]` is a 12-bit integer, stored as a plane of bytes `hi` and a
//! plane of nibbles `lo` (`v = 16 * hi + lo - 8`). The high plane alone is an 8-bit code, which the
//! build computes with. Both together decode to a vector with a relative error of about `2^-11`.
//! Every distance that the index returns is the distance from the rounded query (`point.rs`) to the
//! decoded vector.

use super::inner_product::dot;
use pagehop_kernels as kernels;

/// Bits per dimension.
pub(crate) const BITS: usize = 12;
/// The largest magnitude of a value in both planes.
const VALUE_MAX: f32 = 2032.0;

/// The two numbers that are stored with the planes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OwnCode {
    /// The step: the value of one unit of `v`.
    pub(crate) step: f32,
    /// Squared norm of the decoded vector.
    pub(crate) norm_sq: f32,
}

/// Bytes of the low plane.
pub(crate) fn lo_bytes(dim: usize) -> usize {
    dim.div_ceil(2)
}

/// Squared norm of the part that a low plane holds, in units of the squared step. If the dimension
/// is odd, the padding nibble adds 64.
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
    // A subnormal step has an infinite inverse. Such a vector counts as the zero vector.
    if inverse.is_finite() { (step, inverse) } else { (0.0, 0.0) }
}

/// Step and squared norm of `x`, without encoding it. The step equals that of [`encode`]; the norm
/// is that of `x`, not of the decoded vector.
pub(crate) fn measure(x: &[f32]) -> OwnCode {
    OwnCode { step: step(x).0, norm_sq: dot(x, x) }
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

/// Rounds to the nearest integer, ties to even, for magnitudes below 2^22. These two additions
/// exist as vector instructions on every CPU; `round_ties_even` is a library call on older ones.
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
