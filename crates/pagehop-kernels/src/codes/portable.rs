//! Rounding and inner products with codes in plain Rust.

use super::i12::unpack_i12;
use super::{Parts, ROUNDED_MAX, Rounded};

/// Partial sums, which the compiler vectorizes.
const LANES: usize = 16;

/// Dimensions that are unpacked at a time.
const STEP: usize = 512;

/// Rounds `x * inverse` to the nearest integers, ties to even. `values` may be longer than `x`; the
/// rest is zero. Returns the sum of the integers and that of their squares.
pub(crate) fn round(x: &[f32], inverse: f32, values: &mut [i16], _: &mut Parts) -> (i64, i64) {
    /// Added to a number below 2^22, this leaves its nearest integer in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    for (x, value) in x.iter().zip(&mut *values) {
        // A number that is not finite comes from a damaged page. It gives any number in the range.
        *value = ((x * inverse + SHIFT).to_bits() as i16).clamp(-ROUNDED_MAX, ROUNDED_MAX);
    }
    let wide = |value: &i16| i64::from(*value);
    (values.iter().map(wide).sum(), values.iter().map(|value| wide(value) * wide(value)).sum())
}

pub(crate) fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64 {
    let mut sum = 0;
    for (q, code) in q.values().chunks(STEP).zip(code.chunks(STEP)) {
        let mut values = [0; STEP];
        values.iter_mut().zip(code).for_each(|(value, code)| *value = i16::from(*code));
        sum += dot_i16(q, &values[..q.len()]);
    }
    sum
}

pub(crate) fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64 {
    let mut sum = 0;
    for ((q, hi), lo) in q.values().chunks(STEP).zip(hi.chunks(STEP)).zip(lo.chunks(STEP / 2)) {
        let mut values = [0; STEP];
        unpack_i12(hi, lo, &mut values[..q.len()]);
        sum += dot_i16(q, &values[..q.len()]);
    }
    sum
}

/// The inner product of at most [`STEP`] values up to [`ROUNDED_MAX`] with values up to 2,056. The
/// sum of `STEP / LANES` such products fits into a 32-bit lane.
fn dot_i16(q: &[i16], values: &[i16]) -> i64 {
    const { assert!((STEP / LANES) as i64 * ROUNDED_MAX as i64 * 2056 <= i32::MAX as i64) };
    let (q_chunks, q_rest) = q.as_chunks::<LANES>();
    let (value_chunks, value_rest) = values.as_chunks::<LANES>();
    let mut sums = [0i32; LANES];
    for (q, value) in q_chunks.iter().zip(value_chunks) {
        for lane in 0..LANES {
            sums[lane] += i32::from(q[lane]) * i32::from(value[lane]);
        }
    }
    let rest = q_rest.iter().zip(value_rest).map(|(q, value)| i64::from(*q) * i64::from(*value));
    sums.iter().map(|sum| i64::from(*sum)).chain(rest).sum()
}
