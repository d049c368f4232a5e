//! An inner product of floats that has the same bits on every CPU. In the kernels, the order of
//! additions depends on the instruction set.

/// Inner product with sixteen interleaved sums: the order of additions is the same on every
/// machine, and the compiler can still use vector instructions.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (a_chunks, b_chunks) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a_chunks.0.iter().zip(b_chunks.0) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    for (i, (a, b)) in a_chunks.1.iter().zip(b_chunks.1).enumerate() {
        sums[i] += a * b;
    }
    sums.iter().sum()
}
