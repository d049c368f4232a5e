//! The steps of a rotation in plain Rust. The simple ones are always inlined, so that the compiler
//! vectorizes them for the instruction set of their caller.

#[inline(always)]
pub(crate) fn multiply(x: &mut [f32], by: &[f32]) {
    for (x, by) in x.iter_mut().zip(by) {
        *x *= by;
    }
}

#[inline(always)]
pub(crate) fn scale(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

#[inline(always)]
pub(crate) fn mix_halves(x: &mut [f32]) {
    let half = x.len() / 2;
    let (front, back) = x.split_at_mut(x.len() - half);
    for (a, b) in front.iter_mut().zip(back) {
        let (sum, difference) = (*a + *b, *a - *b);
        *a = sum * std::f32::consts::FRAC_1_SQRT_2;
        *b = difference * std::f32::consts::FRAC_1_SQRT_2;
    }
}

/// `log2(n)` passes of butterflies.
pub(crate) fn hadamard(x: &mut [f32]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (front, back) = pair.split_at_mut(half);
            for (a, b) in front.iter_mut().zip(back) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
