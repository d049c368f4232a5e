//! Inner products with codes in 512-bit registers. VNNI multiplies unsigned bytes by signed bytes
//! and adds four products into a 32-bit lane. So a rounded vector is split into two signed digits.
//! The high bytes get 128 added, which is subtracted at the end. Nibbles are used as they are.
//!
//! The last, partial register is loaded under a mask. Its other lanes add nothing, because the
//! digits there are zero.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Digits, Parts, ROUNDED_MAX, Rounded};
use crate::dispatch::on_token;
use crate::lanes::avx2::load_u8x32;
use crate::lanes::avx512::{
    load_i8x64, load_part_f32x16, load_part_i8x64, load_part_u8x32, store_i8x32, store_i16x32, widen_i32x16,
};

on_token! { Avx512:
    fn round(x: &[f32], inverse: f32, values: &mut [i16], parts: &mut Parts) -> (i64, i64);
    fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64;
    fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64;
}

/// Values that are rounded together.
const LANES: usize = 32;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn round(x: &[f32], inverse: f32, values: &mut [i16], parts: &mut Parts) -> (i64, i64) {
    let inverse = _mm512_set1_ps(inverse);
    let (least, most) = (_mm512_set1_epi16(-ROUNDED_MAX), _mm512_set1_epi16(ROUNDED_MAX));
    let (ones, half) = (_mm512_set1_epi16(1), _mm512_set1_epi16(128));
    let low_halves = _mm512_set1_epi64(0xffff_ffff);
    parts.digits.resize(values.len() / 64, Digits::default());
    let mut digits = parts.digits.iter_mut().flat_map(|digits| {
        digits.high.as_chunks_mut::<LANES>().0.iter_mut().zip(digits.low.as_chunks_mut::<LANES>().0)
    });
    let (mut sum_i32x16, mut squares_i64x8) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for ((x, value), (high, low)) in x.chunks(LANES).zip(values.as_chunks_mut::<LANES>().0).zip(digits.by_ref()) {
        let (front, back) = x.split_at(x.len().min(LANES / 2));
        let front = _mm512_cvtps_epi32(_mm512_mul_ps(load_part_f32x16(front), inverse));
        let back = _mm512_cvtps_epi32(_mm512_mul_ps(load_part_f32x16(back), inverse));
        let front = _mm512_castsi256_si512(_mm512_cvtsepi32_epi16(front));
        let both = _mm512_inserti64x4::<1>(front, _mm512_cvtsepi32_epi16(back));
        let both = _mm512_min_epi16(_mm512_max_epi16(both, least), most);
        store_i16x32(value, both);
        // The low digit is a signed byte. If it is negative, the high digit is one more than the
        // upper byte.
        let upper = _mm512_srai_epi16::<8>(_mm512_add_epi16(both, half));
        store_i8x32(high, _mm512_cvtepi16_epi8(upper));
        store_i8x32(low, _mm512_cvtepi16_epi8(both));
        sum_i32x16 = _mm512_add_epi32(sum_i32x16, _mm512_madd_epi16(both, ones));
        // Two squares fit into 31 bits.
        let squares = _mm512_madd_epi16(both, both);
        squares_i64x8 = _mm512_add_epi64(squares_i64x8, _mm512_and_si512(squares, low_halves));
        squares_i64x8 = _mm512_add_epi64(squares_i64x8, _mm512_srli_epi64::<32>(squares));
    }
    digits.for_each(|(high, low)| [high, low].into_iter().for_each(|digits| digits.fill(0)));
    (_mm512_reduce_add_epi32(sum_i32x16).into(), _mm512_reduce_add_epi64(squares_i64x8))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64 {
    let (vectors, rest) = code.as_chunks::<64>();
    let (pairs, last) = vectors.as_chunks::<2>();
    let (digit_pairs, _) = q.parts.digits.as_chunks::<2>();
    let mut sums_i32x16 = [[_mm512_setzero_si512(); 2]; 2];
    for (digits, code) in digit_pairs.iter().zip(pairs) {
        for i in 0..2 {
            add_high(&mut sums_i32x16[i], &digits[i], load_i8x64(&code[i]));
        }
    }
    let digits = &q.parts.digits[2 * pairs.len()..];
    if let [code] = last {
        add_high(&mut sums_i32x16[0], &digits[0], load_i8x64(code));
    }
    if !rest.is_empty() {
        add_high(&mut sums_i32x16[1], &digits[last.len()], load_part_i8x64(rest));
    }
    let [[high0, low0], [high1, low1]] = sums_i32x16;
    whole([_mm512_add_epi32(high0, high1), _mm512_add_epi32(low0, low1)]) - 128 * q.sum
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64 {
    let digits = &q.parts.digits;
    let (hi_vectors, hi_rest) = hi.as_chunks::<64>();
    // The split is needed: 63 leftover dimensions have 32 bytes of nibbles, as many as a vector.
    let (lo_vectors, lo_rest) = lo.split_at(hi_vectors.len() * 32);
    let (lo_vectors, _) = lo_vectors.as_chunks::<32>();
    let mut sums_i32x16 = [_mm512_setzero_si512(); 2];
    let mut nibble_sums_i32x16 = [_mm512_setzero_si512(); 2];
    for ((digits, hi), lo) in digits.iter().zip(hi_vectors).zip(lo_vectors) {
        add_high(&mut sums_i32x16, digits, load_i8x64(hi));
        add_nibbles(&mut nibble_sums_i32x16, digits, load_u8x32(lo));
    }
    if !hi_rest.is_empty() {
        let digits = &digits[hi_vectors.len()];
        add_high(&mut sums_i32x16, digits, load_part_i8x64(hi_rest));
        add_nibbles(&mut nibble_sums_i32x16, digits, load_part_u8x32(lo_rest));
    }
    for (sum, nibble_sum) in sums_i32x16.iter_mut().zip(nibble_sums_i32x16) {
        *sum = _mm512_add_epi32(_mm512_slli_epi32::<4>(*sum), nibble_sum);
    }
    whole(sums_i32x16) - (16 * 128 + 8) * q.sum
}

/// Adds the products of both digits with `code + 128`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn add_high([high_sum, low_sum]: &mut [__m512i; 2], digits: &Digits, code: __m512i) {
    let code = _mm512_xor_si512(code, _mm512_set1_epi8(-128));
    *high_sum = _mm512_dpbusd_epi32(*high_sum, code, load_i8x64(&digits.high));
    *low_sum = _mm512_dpbusd_epi32(*low_sum, code, load_i8x64(&digits.low));
}

/// Adds the products of both digits with nibbles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn add_nibbles([high_sum, low_sum]: &mut [__m512i; 2], digits: &Digits, lo: __m256i) {
    // A shift by 4 puts the high nibble of a byte at the start of the upper byte of its 16-bit
    // lane.
    let bytes_u16x32 = _mm512_cvtepu8_epi16(lo);
    let shifted = _mm512_slli_epi16::<4>(bytes_u16x32);
    // (a | b) & c
    let nibbles = _mm512_ternarylogic_epi32::<0xa8>(bytes_u16x32, shifted, _mm512_set1_epi8(15));
    *high_sum = _mm512_dpbusd_epi32(*high_sum, nibbles, load_i8x64(&digits.high));
    *low_sum = _mm512_dpbusd_epi32(*low_sum, nibbles, load_i8x64(&digits.low));
}

/// `256 * high + low`, summed over all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn whole([high_i32x16, low_i32x16]: [__m512i; 2]) -> i64 {
    let high = _mm512_slli_epi64::<8>(widen_i32x16(high_i32x16));
    _mm512_reduce_add_epi64(_mm512_add_epi64(high, widen_i32x16(low_i32x16)))
}
