//! Inner products in plain Rust. The compiler may not reorder float additions, so float sums have
//! 16 partial sums that it can vectorize. It may reorder integer additions, so an integer sum is a
//! plain loop.

use crate::half::portable::widen;

const LANES: usize = 16;

pub(crate) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += a * b;
    }
    sums.iter().sum()
}

pub(crate) fn dot_f16(a: &[u16], b: &[u16]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += widen(a[lane]) * widen(b[lane]);
        }
    }
    for (lane, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += widen(a) * widen(b);
    }
    sums.iter().sum()
}

pub(crate) fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).fold(0, |sum: u32, (&a, &b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
}

pub(crate) fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).fold(0, |sum: i32, (&a, &b)| sum.wrapping_add(i32::from(a) * i32::from(b)))
}

pub(crate) fn sum_i8(a: &[i8]) -> i32 {
    a.iter().fold(0, |sum: i32, &a| sum.wrapping_add(i32::from(a)))
}
