//! Float query against integer codes in 256-bit registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_f32x8, load_i8x8, load_u8x4, sum_f32x8};

on_token! { Avx2:
    fn dot_f32_i8(q: &[f32], code: &[i8]) -> f32;
    fn dot_f32_i12(q: &[f32], hi: &[i8], lo: &[u8]) -> f32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx2,fma")]
fn dot_f32_i8(q: &[f32], code: &[i8]) -> f32 {
    let (q_vectors, q_rest) = q.as_chunks::<8>();
    let (code_vectors, code_rest) = code.as_chunks::<8>();
    let (q_groups, q_last) = q_vectors.as_chunks::<SUMS>();
    let (code_groups, code_last) = code_vectors.as_chunks::<SUMS>();
    let mut sums_f32x8 = [_mm256_setzero_ps(); SUMS];
    for (q, code) in q_groups.iter().zip(code_groups) {
        for i in 0..SUMS {
            let values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_i8x8(&code[i])));
            sums_f32x8[i] = _mm256_fmadd_ps(load_f32x8(&q[i]), values, sums_f32x8[i]);
        }
    }
    for (q, code) in q_last.iter().zip(code_last) {
        let values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_i8x8(code)));
        sums_f32x8[0] = _mm256_fmadd_ps(load_f32x8(q), values, sums_f32x8[0]);
    }
    let [s0, s1, s2, s3] = sums_f32x8;
    let sum_f32x8 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    self::sum_f32x8(sum_f32x8) + portable::dot_f32_i8(q_rest, code_rest)
}

#[target_feature(enable = "avx2,fma")]
fn dot_f32_i12(q: &[f32], hi: &[i8], lo: &[u8]) -> f32 {
    let (q_vectors, q_rest) = q.as_chunks::<8>();
    let (hi_vectors, hi_rest) = hi.as_chunks::<8>();
    // The split is needed: seven leftover dimensions have four bytes of nibbles, as many as a
    // vector.
    let (lo_vectors, lo_rest) = lo.split_at(q_vectors.len() * 4);
    let (lo_vectors, _) = lo_vectors.as_chunks::<4>();
    let (q_groups, q_last) = q_vectors.as_chunks::<SUMS>();
    let (hi_groups, hi_last) = hi_vectors.as_chunks::<SUMS>();
    let (lo_groups, lo_last) = lo_vectors.as_chunks::<SUMS>();
    let mut sums_f32x8 = [_mm256_setzero_ps(); SUMS];
    for ((q, hi), lo) in q_groups.iter().zip(hi_groups).zip(lo_groups) {
        for i in 0..SUMS {
            sums_f32x8[i] = _mm256_fmadd_ps(load_f32x8(&q[i]), values_f32x8(&hi[i], &lo[i]), sums_f32x8[i]);
        }
    }
    for ((q, hi), lo) in q_last.iter().zip(hi_last).zip(lo_last) {
        sums_f32x8[0] = _mm256_fmadd_ps(load_f32x8(q), values_f32x8(hi, lo), sums_f32x8[0]);
    }
    let [s0, s1, s2, s3] = sums_f32x8;
    let sum_f32x8 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    self::sum_f32x8(sum_f32x8) + portable::dot_f32_i12(q_rest, hi_rest, lo_rest)
}

/// Eight 12-bit values.
#[inline]
#[target_feature(enable = "avx2")]
fn values_f32x8(hi: &[i8; 8], lo: &[u8; 4]) -> __m256 {
    // After a shift by 28, the high nibble of a byte is at the start of the upper 32-bit half of
    // its 64-bit lane.
    let bytes_u64x4 = _mm256_cvtepu8_epi64(load_u8x4(lo));
    let spread = _mm256_or_si256(bytes_u64x4, _mm256_slli_epi64::<28>(bytes_u64x4));
    let nibbles_i32x8 = _mm256_and_si256(spread, _mm256_set1_epi32(15));
    let high_i32x8 = _mm256_slli_epi32::<4>(_mm256_cvtepi8_epi32(load_i8x8(hi)));
    let biased = _mm256_or_si256(high_i32x8, nibbles_i32x8);
    _mm256_cvtepi32_ps(_mm256_sub_epi32(biased, _mm256_set1_epi32(8)))
}
