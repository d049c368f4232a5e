//! Inner product of a float query with a vector of 8 or 12 bits per dimension, and the packing of
//! 12-bit values.
//!
//! A 12-bit value `v` is stored as a rounded high byte and a low nibble: `v = 16 * hi + nibble -
//! 8`, with `hi` in `-127..=127` and `nibble` in `0..=15`. So `16 * hi` alone is the nearest 8-bit
//! code, off by at most 8. Two nibbles share a byte: byte `p` of `lo` holds dimension `2p` in its
//! low four bits and dimension `2p + 1` in its high four. If the number of dimensions is odd, the
//! last high four bits are zero.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};
pub use portable::{I12_MAX, I12_MIN};

/// Inner product of a float query with 8-bit values: the sum of `q[i] * code[i]`.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn dot_f32_i8(q: &[f32], code: &[i8]) -> f32 {
    Kernels::active().dot_f32_i8(q, code)
}

/// Inner product of a float query with 12-bit values packed by [`pack_i12`].
///
/// # Panics
///
/// Unless `hi` is as long as `q`, and `lo` half as long, rounded up.
#[inline]
pub fn dot_f32_i12(q: &[f32], hi: &[i8], lo: &[u8]) -> f32 {
    Kernels::active().dot_f32_i12(q, hi, lo)
}

/// Packs 12-bit values. A value outside `I12_MIN..=I12_MAX` is clamped to that range.
///
/// # Panics
///
/// Unless `hi` is as long as `v`, and `lo` half as long, rounded up.
pub fn pack_i12(v: &[i16], hi: &mut [i8], lo: &mut [u8]) {
    check_i12(v.len(), hi.len(), lo.len());
    portable::pack_i12(v, hi, lo);
}

/// Unpacks values that [`pack_i12`] packed.
///
/// # Panics
///
/// Unless `hi` is as long as `out`, and `lo` half as long, rounded up.
pub fn unpack_i12(hi: &[i8], lo: &[u8], out: &mut [i16]) {
    check_i12(out.len(), hi.len(), lo.len());
    portable::unpack_i12(hi, lo, out);
}

impl Kernels {
    /// [`dot_f32_i8`] on this instruction set.
    #[inline]
    pub fn dot_f32_i8(self, q: &[f32], code: &[i8]) -> f32 {
        assert_eq!(q.len(), code.len(), "vectors of one dimension");
        on_tier!(self, dot_f32_i8(q, code))
    }

    /// [`dot_f32_i12`] on this instruction set.
    #[inline]
    pub fn dot_f32_i12(self, q: &[f32], hi: &[i8], lo: &[u8]) -> f32 {
        check_i12(q.len(), hi.len(), lo.len());
        on_tier!(self, dot_f32_i12(q, hi, lo))
    }
}

#[inline]
fn check_i12(dim: usize, hi: usize, lo: usize) {
    assert_eq!(hi, dim, "one high byte per dimension");
    assert_eq!(lo, dim.div_ceil(2), "one low nibble per dimension");
}
