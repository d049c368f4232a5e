//! A random rotation in `O(d log d)`: sign flips, Walsh-Hadamard transforms on a window that is a
//! power of two, and pairwise mixing for other dimensions. After the rotation every coordinate of a
//! vector looks Gaussian, whatever the data, so the same uniform code fits all coordinates.
//!
//! The transform is the fast Johnson-Lindenstrauss construction (Ailon, Chazelle 2009). For lengths
//! between powers of two it adds a step of a Kac walk, as the RaBitQ library does.

use crate::random::Random;
use pagehop_kernels as kernels;

const PURPOSE: u64 = 1;

/// An orthogonal map of `dim` dimensions, determined by `dim` and the seed.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    dim: usize,
    window: usize,
    /// For each round, `dim` signs, each 1 or -1.
    signs: Vec<Vec<f32>>,
}

impl Rotation {
    pub(crate) fn new(dim: usize, seed: u64) -> Self {
        assert!(dim > 0);
        let window = if dim.is_power_of_two() { dim } else { dim.next_power_of_two() / 2 };
        // Between powers of two, each round transforms only a part of the vector, so mixing takes
        // more rounds.
        let rounds = if window == dim { 3 } else { 4 };
        let mut random = Random::new(seed, PURPOSE);
        let signs = (0..rounds)
            .map(|_| {
                let mut bits = 0;
                (0..dim)
                    .map(|i| {
                        if i % 64 == 0 {
                            bits = random.next();
                        }
                        let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
                        bits >>= 1;
                        sign
                    })
                    .collect()
            })
            .collect();
        Self { dim, window, signs }
    }

    /// Rotates `x` in place. Keeps norms and inner products.
    pub(crate) fn apply(&self, x: &mut [f32]) {
        assert_eq!(x.len(), self.dim);
        let scale = 1.0 / (self.window as f32).sqrt();
        for (round, signs) in self.signs.iter().enumerate() {
            kernels::multiply(x, signs);
            let start = if round % 2 == 0 { 0 } else { self.dim - self.window };
            let window = &mut x[start..start + self.window];
            kernels::hadamard(window);
            kernels::scale(window, scale);
            if self.window < self.dim {
                // Mixes the components inside the window with those outside.
                kernels::mix_halves(x);
            }
        }
    }

    /// The inverse of [`Rotation::apply`]: its steps in reverse order, each of which is its own
    /// inverse.
    pub(crate) fn undo(&self, x: &mut [f32]) {
        assert_eq!(x.len(), self.dim);
        let scale = 1.0 / (self.window as f32).sqrt();
        for (round, signs) in self.signs.iter().enumerate().rev() {
            if self.window < self.dim {
                kernels::mix_halves(x);
            }
            let start = if round % 2 == 0 { 0 } else { self.dim - self.window };
            let window = &mut x[start..start + self.window];
            kernels::hadamard(window);
            kernels::scale(window, scale);
            kernels::multiply(x, signs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_keeps_norms_and_spreads_a_unit_vector() {
        for dim in [1, 2, 3, 5, 31, 64, 100, 384, 784, 1000, 1536, 4095, 4096] {
            let rotation = Rotation::new(dim, 7);
            let mut x = vec![0.0; dim];
            x[dim / 3] = 3.0;
            rotation.apply(&mut x);
            let norm: f32 = x.iter().map(|v| v * v).sum();
            assert!((norm - 9.0).abs() < 1e-3, "dim {dim}: squared length {norm}");
            let mut back = x.clone();
            rotation.undo(&mut back);
            assert!(back.iter().enumerate().all(|(i, v)| (v - if i == dim / 3 { 3.0 } else { 0.0 }).abs() < 1e-4));
            if dim >= 64 {
                let max = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                assert!(max < 3.0 * 6.0 / (dim as f32).sqrt(), "dim {dim}: largest coordinate {max}");
            }
        }
    }
}
