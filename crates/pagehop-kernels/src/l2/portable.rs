//! Squared distance in plain Rust. The compiler may not reorder float additions, so float sums have
//! 16 partial sums that it can vectorize. It may reorder integer additions, so an integer sum is a
//! plain loop.

use crate::half::portable::widen;

const LANES: usize = 16;

pub(crate) fn l2sq_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            let difference = a[lane] - b[lane];
            sums[lane] += difference * difference;
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += (a - b) * (a - b);
    }
    sums.iter().sum()
}

pub(crate) fn l2sq_f16(a: &[u16], b: &[u16]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            let difference = widen(a[lane]) - widen(b[lane]);
            sums[lane] += difference * difference;
        }
    }
    for (lane, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        let difference = widen(a) - widen(b);
        sums[lane] += difference * difference;
    }
    sums.iter().sum()
}

pub(crate) fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).fold(0, |sum: u32, (&a, &b)| {
        let difference = i32::from(a) - i32::from(b);
        sum.wrapping_add((difference * difference) as u32)
    })
}
