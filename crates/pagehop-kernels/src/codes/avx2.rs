//! Inner products with codes in 256-bit registers: each instruction adds pairs of 16-bit products
//! into 32-bit lanes.
//!
//! The sums do not overflow up to [`ROUNDED_DIM_MAX`](super::ROUNDED_DIM_MAX) dimensions. A 32-bit
//! lane of two added registers has a sixteenth of the products, and each product is at most 128 *
//! 32,512.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Parts, ROUNDED_MAX, Rounded};
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_f32x8, load_i8x16, load_i16x16, load_u8x32, store_i16x16, sum_i64x4, widen_i32x8};

on_token! { Avx2:
    fn round(x: &[f32], inverse: f32, values: &mut [i16], parts: &mut Parts) -> (i64, i64);
    fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64;
    fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx2")]
fn round(x: &[f32], inverse: f32, values: &mut [i16], parts: &mut Parts) -> (i64, i64) {
    let inverse = _mm256_set1_ps(inverse);
    let (least, most) = (_mm256_set1_epi16(-ROUNDED_MAX), _mm256_set1_epi16(ROUNDED_MAX));
    let (ones, low_halves) = (_mm256_set1_epi16(1), _mm256_set1_epi64x(0xffff_ffff));
    let (mut sum_i32x8, mut squares_i64x4) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for (x, value) in x.chunks(16).zip(values.as_chunks_mut::<16>().0) {
        let mut part = [0.0; 16];
        let sixteen = x.first_chunk().unwrap_or_else(|| {
            part[..x.len()].copy_from_slice(x);
            &part
        });
        let (halves, _) = sixteen.as_chunks::<8>();
        let front = _mm256_cvtps_epi32(_mm256_mul_ps(load_f32x8(&halves[0]), inverse));
        let back = _mm256_cvtps_epi32(_mm256_mul_ps(load_f32x8(&halves[1]), inverse));
        let both = _mm256_permute4x64_epi64::<0xd8>(_mm256_packs_epi32(front, back));
        let both = _mm256_min_epi16(_mm256_max_epi16(both, least), most);
        store_i16x16(value, both);
        sum_i32x8 = _mm256_add_epi32(sum_i32x8, _mm256_madd_epi16(both, ones));
        // Two squares fit into 31 bits.
        let squares = _mm256_madd_epi16(both, both);
        squares_i64x4 = _mm256_add_epi64(squares_i64x4, _mm256_and_si256(squares, low_halves));
        squares_i64x4 = _mm256_add_epi64(squares_i64x4, _mm256_srli_epi64::<32>(squares));
    }
    fill_quarters(values, &mut parts.quarters);
    (sum_i64x4(widen_i32x8(sum_i32x8)), sum_i64x4(squares_i64x4))
}

/// Puts the values of dimensions `4j`, `4j + 1`, `4j + 2` and `4j + 3` each into a quarter.
#[inline]
#[target_feature(enable = "avx2")]
fn fill_quarters(values: &[i16], quarters: &mut Vec<i16>) {
    quarters.resize(values.len(), 0);
    let (first, second) = quarters.split_at_mut(values.len() / 2);
    let (a, b) = first.split_at_mut(first.len() / 2);
    let (c, d) = second.split_at_mut(second.len() / 2);
    let [a, b, c, d] = [a, b, c, d].map(|quarter| quarter.as_chunks_mut::<16>().0);
    // Pairs of the same quarter, from two groups of four dimensions.
    let pairs = _mm256_setr_epi8(
        0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15,
    );
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let groups = values.as_chunks::<16>().0.as_chunks::<4>().0;
    for ((((group, a), b), c), d) in groups.iter().zip(a).zip(b).zip(c).zip(d) {
        let (r0, r1) = (load_i16x16(&group[0]), load_i16x16(&group[1]));
        let (r2, r3) = (load_i16x16(&group[2]), load_i16x16(&group[3]));
        let (r0, r1) = (_mm256_shuffle_epi8(r0, pairs), _mm256_shuffle_epi8(r1, pairs));
        let (r2, r3) = (_mm256_shuffle_epi8(r2, pairs), _mm256_shuffle_epi8(r3, pairs));
        let (front_ab, front_cd) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
        let (back_ab, back_cd) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
        store_i16x16(a, _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(front_ab, back_ab), order));
        store_i16x16(b, _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(front_ab, back_ab), order));
        store_i16x16(c, _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(front_cd, back_cd), order));
        store_i16x16(d, _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(front_cd, back_cd), order));
    }
}

#[target_feature(enable = "avx2")]
fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64 {
    sum_i64x4(dot_high(&q.values, code))
}

#[target_feature(enable = "avx2")]
fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64 {
    let high = dot_high(&q.values, hi);
    let low = widen_i32x8(dot_nibbles(&q.parts.quarters, lo));
    sum_i64x4(_mm256_add_epi64(_mm256_slli_epi64::<4>(high), low)) - 8 * q.sum
}

/// The inner product with high bytes, as four 64-bit sums.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_high(q: &[i16], code: &[i8]) -> __m256i {
    let (q_vectors, _) = q.as_chunks::<16>();
    let (code_vectors, code_rest) = code.as_chunks::<16>();
    let (code_groups, code_last) = code_vectors.as_chunks::<SUMS>();
    let (q_groups, _) = q_vectors.as_chunks::<SUMS>();
    let mut sums_i32x8 = [_mm256_setzero_si256(); SUMS];
    for (q, code) in q_groups.iter().zip(code_groups) {
        for i in 0..SUMS {
            sums_i32x8[i] = add_high(sums_i32x8[i], &q[i], &code[i]);
        }
    }
    let q_last = &q_vectors[code_groups.len() * SUMS..];
    for (i, (q, code)) in q_last.iter().zip(code_last).enumerate() {
        sums_i32x8[i] = add_high(sums_i32x8[i], q, code);
    }
    if !code_rest.is_empty() {
        let mut part = [0; 16];
        part[..code_rest.len()].copy_from_slice(code_rest);
        sums_i32x8[SUMS - 1] = add_high(sums_i32x8[SUMS - 1], &q_last[code_last.len()], &part);
    }
    let [s0, s1, s2, s3] = sums_i32x8;
    _mm256_add_epi64(widen_i32x8(_mm256_add_epi32(s0, s1)), widen_i32x8(_mm256_add_epi32(s2, s3)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_high(sum_i32x8: __m256i, q: &[i16; 16], code: &[i8; 16]) -> __m256i {
    let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(load_i8x16(code)), load_i16x16(q));
    _mm256_add_epi32(sum_i32x8, products)
}

/// The inner product with nibbles, as eight 32-bit sums. A 16-bit lane of `lo` has the nibbles of
/// four dimensions, one of each quarter of the rounded vector.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_nibbles(quarters: &[i16], lo: &[u8]) -> __m256i {
    let (vectors, rest) = lo.as_chunks::<32>();
    let (first, second) = quarters.split_at(quarters.len() / 2);
    let halves = [first.split_at(first.len() / 2), second.split_at(second.len() / 2)];
    let [(q0, q1), (q2, q3)] = halves.map(|(a, b)| (a.as_chunks::<16>().0, b.as_chunks::<16>().0));
    let mut sums_i32x8 = [_mm256_setzero_si256(); 4];
    let mut add = |q: [&[i16; 16]; 4], lo: &[u8; 32]| {
        let (lo, nibble) = (load_u8x32(lo), _mm256_set1_epi16(15));
        let nibbles = [
            _mm256_and_si256(lo, nibble),
            _mm256_and_si256(_mm256_srli_epi16::<4>(lo), nibble),
            _mm256_and_si256(_mm256_srli_epi16::<8>(lo), nibble),
            _mm256_srli_epi16::<12>(lo),
        ];
        for i in 0..4 {
            let products = _mm256_madd_epi16(nibbles[i], load_i16x16(q[i]));
            sums_i32x8[i] = _mm256_add_epi32(sums_i32x8[i], products);
        }
    };
    for ((((q0, q1), q2), q3), lo) in q0.iter().zip(q1).zip(q2).zip(q3).zip(vectors) {
        add([q0, q1, q2, q3], lo);
    }
    if !rest.is_empty() {
        let (mut part, at) = ([0; 32], vectors.len());
        part[..rest.len()].copy_from_slice(rest);
        add([&q0[at], &q1[at], &q2[at], &q3[at]], &part);
    }
    let [s0, s1, s2, s3] = sums_i32x8;
    _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3))
}
