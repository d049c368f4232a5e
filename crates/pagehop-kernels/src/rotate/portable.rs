//! The Walsh-Hadamard transform in plain Rust: `log2(n)` passes of butterflies.

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
