//! The packing of 12-bit values.
//!
//! A 12-bit value `v` is stored as a rounded high byte and a low nibble: `v = 16 * hi + nibble -
//! 8`, with `hi` in `-127..=127` and `nibble` in `0..=15`. So `16 * hi` alone is the nearest 8-bit
//! code, off by at most 8. Two nibbles share a byte: byte `p` of `lo` holds dimension `2p` in its
//! low four bits and dimension `2p + 1` in its high four bits. If the number of dimensions is odd,
//! the last high four bits are zero.

/// The smallest value of a 12-bit code.
pub const I12_MIN: i16 = -127 * 16 - 8;

/// The largest value of a 12-bit code.
pub const I12_MAX: i16 = 127 * 16 + 7;

/// Added to a value before it is split into a high byte and a nibble, so that the high byte alone
/// is the nearest 8-bit code.
const NIBBLE_BIAS: i16 = 8;

/// Packs 12-bit values. A value outside `I12_MIN..=I12_MAX` is clamped to that range.
///
/// # Panics
///
/// If `hi` is not as long as `v`, or `lo` not half as long, rounded up.
pub fn pack_i12(v: &[i16], hi: &mut [i8], lo: &mut [u8]) {
    check_i12(v.len(), hi.len(), lo.len());
    for ((pair, hi), lo) in v.chunks(2).zip(hi.chunks_mut(2)).zip(lo) {
        *lo = 0;
        for (place, (v, hi)) in pair.iter().zip(hi).enumerate() {
            let biased = v.clamp(&I12_MIN, &I12_MAX) + NIBBLE_BIAS;
            // An arithmetic shift rounds down. Because of the bias this is rounding to nearest.
            *hi = (biased >> 4) as i8;
            *lo |= ((biased & 15) as u8) << (4 * place);
        }
    }
}

/// Unpacks values that [`pack_i12`] packed.
///
/// # Panics
///
/// If `hi` is not as long as `out`, or `lo` not half as long, rounded up.
pub fn unpack_i12(hi: &[i8], lo: &[u8], out: &mut [i16]) {
    check_i12(out.len(), hi.len(), lo.len());
    let (hi_pairs, hi_rest) = hi.as_chunks::<2>();
    let (out_pairs, out_rest) = out.as_chunks_mut::<2>();
    for ((hi, out), &lo) in hi_pairs.iter().zip(out_pairs).zip(lo) {
        out[0] = i16::from(hi[0]) * 16 + i16::from(lo & 15) - NIBBLE_BIAS;
        out[1] = i16::from(hi[1]) * 16 + i16::from(lo >> 4) - NIBBLE_BIAS;
    }
    if let ([hi], [out], Some(&lo)) = (hi_rest, out_rest, lo.last()) {
        *out = i16::from(*hi) * 16 + i16::from(lo & 15) - NIBBLE_BIAS;
    }
}

#[inline]
pub(crate) fn check_i12(dim: usize, hi: usize, lo: usize) {
    assert_eq!(hi, dim, "one high byte per dimension");
    assert_eq!(lo, dim.div_ceil(2), "one low nibble per dimension");
}
