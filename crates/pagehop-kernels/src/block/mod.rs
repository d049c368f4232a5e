//! All inner products between two sets of signed-byte vectors. Index builds spend most of their
//! time here.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// All inner products between the `m` rows of `a` and the `n` rows of `b`: `out[i * n + j]` is the
/// inner product of row `i` of `a` and row `j` of `b`.
///
/// Each row is `dim` contiguous values, and rows follow each other without gaps. Exact up to 65,536
/// dimensions.
///
/// The kernels of AVX2 and AVX-512 pack `b` first, which pays off from about eight rows of `a`.
/// That of AVX-512 allocates `48 * dim` bytes and 4 bytes for each row of `a`, and that of AVX2 up
/// to `544 * dim` bytes. The others allocate nothing.
///
/// # Panics
///
/// If `dim` is zero, if `a` or `b` is not a whole number of rows, or if the length of `out` is not
/// `m * n`.
pub fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]) {
    Kernels::active().dot_i8_block(a, b, dim, out);
}

impl Kernels {
    /// [`dot_i8_block`] on this instruction set.
    pub fn dot_i8_block(self, a: &[i8], b: &[i8], dim: usize, out: &mut [i32]) {
        assert!(dim > 0, "vectors of at least one dimension");
        assert!(a.len().is_multiple_of(dim) && b.len().is_multiple_of(dim), "whole rows");
        assert_eq!(out.len(), (a.len() / dim) * (b.len() / dim), "one answer per pair of rows");
        if out.is_empty() {
            return;
        }
        on_tier!(self, dot_i8_block(a, b, dim, out), avx2, neon);
    }
}
