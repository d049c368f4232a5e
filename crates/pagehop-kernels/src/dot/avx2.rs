//! Inner products in 256-bit registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_f32x8, load_i8x16, load_i8x32, load_u8x32, load_u16x8, sum_f32x8, sum_i32x8};

on_token! { Avx2:
    fn dot_f32(a: &[f32], b: &[f32]) -> f32;
    fn dot_f16(a: &[u16], b: &[u16]) -> f32;
    fn dot_u8(a: &[u8], b: &[u8]) -> u32;
    fn dot_i8(a: &[i8], b: &[i8]) -> i32;
    fn sum_i8(a: &[i8]) -> i32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx2,fma")]
fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<8>();
    let (b_vectors, b_rest) = b.as_chunks::<8>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x8 = [_mm256_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            sums_f32x8[i] = _mm256_fmadd_ps(load_f32x8(&a[i]), load_f32x8(&b[i]), sums_f32x8[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        sums_f32x8[0] = _mm256_fmadd_ps(load_f32x8(a), load_f32x8(b), sums_f32x8[0]);
    }
    let [s0, s1, s2, s3] = sums_f32x8;
    let sum_f32x8 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    self::sum_f32x8(sum_f32x8) + portable::dot_f32(a_rest, b_rest)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dot_f16(a: &[u16], b: &[u16]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<8>();
    let (b_vectors, b_rest) = b.as_chunks::<8>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x8 = [_mm256_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let (a, b) = (_mm256_cvtph_ps(load_u16x8(&a[i])), _mm256_cvtph_ps(load_u16x8(&b[i])));
            sums_f32x8[i] = _mm256_fmadd_ps(a, b, sums_f32x8[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let (a, b) = (_mm256_cvtph_ps(load_u16x8(a)), _mm256_cvtph_ps(load_u16x8(b)));
        sums_f32x8[0] = _mm256_fmadd_ps(a, b, sums_f32x8[0]);
    }
    let [s0, s1, s2, s3] = sums_f32x8;
    let sum_f32x8 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    self::sum_f32x8(sum_f32x8) + portable::dot_f16(a_rest, b_rest)
}

#[target_feature(enable = "avx2")]
fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    let (a_vectors, a_rest) = a.as_chunks::<32>();
    let (b_vectors, b_rest) = b.as_chunks::<32>();
    let zero = _mm256_setzero_si256();
    let (mut low_i32x8, mut high_i32x8) = (zero, zero);
    for (a, b) in a_vectors.iter().zip(b_vectors) {
        let (a, b) = (load_u8x32(a), load_u8x32(b));
        let low = _mm256_madd_epi16(_mm256_unpacklo_epi8(a, zero), _mm256_unpacklo_epi8(b, zero));
        let high = _mm256_madd_epi16(_mm256_unpackhi_epi8(a, zero), _mm256_unpackhi_epi8(b, zero));
        low_i32x8 = _mm256_add_epi32(low_i32x8, low);
        high_i32x8 = _mm256_add_epi32(high_i32x8, high);
    }
    let sum = sum_i32x8(_mm256_add_epi32(low_i32x8, high_i32x8)) as u32;
    sum.wrapping_add(portable::dot_u8(a_rest, b_rest))
}

#[target_feature(enable = "avx2")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let (a_vectors, a_rest) = a.as_chunks::<16>();
    let (b_vectors, b_rest) = b.as_chunks::<16>();
    let (a_groups, a_last) = a_vectors.as_chunks::<2>();
    let (b_groups, b_last) = b_vectors.as_chunks::<2>();
    let mut sums_i32x8 = [_mm256_setzero_si256(); 2];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..2 {
            let (a, b) = (_mm256_cvtepi8_epi16(load_i8x16(&a[i])), _mm256_cvtepi8_epi16(load_i8x16(&b[i])));
            sums_i32x8[i] = _mm256_add_epi32(sums_i32x8[i], _mm256_madd_epi16(a, b));
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let (a, b) = (_mm256_cvtepi8_epi16(load_i8x16(a)), _mm256_cvtepi8_epi16(load_i8x16(b)));
        sums_i32x8[0] = _mm256_add_epi32(sums_i32x8[0], _mm256_madd_epi16(a, b));
    }
    sum_i32x8(_mm256_add_epi32(sums_i32x8[0], sums_i32x8[1])).wrapping_add(portable::dot_i8(a_rest, b_rest))
}

#[target_feature(enable = "avx2")]
fn sum_i8(a: &[i8]) -> i32 {
    let (vectors, rest) = a.as_chunks::<32>();
    // AVX2 can only sum unsigned bytes: add 128 to each, and subtract it from the sum below.
    let offset = _mm256_set1_epi8(-128);
    let mut sum_i64x4 = _mm256_setzero_si256();
    for vector in vectors {
        let biased = _mm256_xor_si256(load_i8x32(vector), offset);
        sum_i64x4 = _mm256_add_epi64(sum_i64x4, _mm256_sad_epu8(biased, _mm256_setzero_si256()));
    }
    // Only the lower half of each 64-bit lane counts: the upper half is zero up to 2^24 bytes, and
    // above that the sum is modulo 2^32.
    let low_halves = _mm256_and_si256(sum_i64x4, _mm256_set1_epi64x(0xffff_ffff));
    let biased = sum_i32x8(low_halves);
    biased.wrapping_sub((vectors.len() as i32).wrapping_mul(32 * 128)).wrapping_add(portable::sum_i8(rest))
}
