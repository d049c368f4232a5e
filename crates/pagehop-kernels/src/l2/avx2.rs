//! Squared distance in 256-bit registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_f32x8, load_u8x32, load_u16x8, sum_f32x8, sum_i32x8};

on_token! { Avx2:
    fn l2sq_f32(a: &[f32], b: &[f32]) -> f32;
    fn l2sq_f16(a: &[u16], b: &[u16]) -> f32;
    fn l2sq_u8(a: &[u8], b: &[u8]) -> u32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx2,fma")]
fn l2sq_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<8>();
    let (b_vectors, b_rest) = b.as_chunks::<8>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x8 = [_mm256_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let difference = _mm256_sub_ps(load_f32x8(&a[i]), load_f32x8(&b[i]));
            sums_f32x8[i] = _mm256_fmadd_ps(difference, difference, sums_f32x8[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let difference = _mm256_sub_ps(load_f32x8(a), load_f32x8(b));
        sums_f32x8[0] = _mm256_fmadd_ps(difference, difference, sums_f32x8[0]);
    }
    let [s0, s1, s2, s3] = sums_f32x8;
    let sum_f32x8 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    self::sum_f32x8(sum_f32x8) + portable::l2sq_f32(a_rest, b_rest)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn l2sq_f16(a: &[u16], b: &[u16]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<8>();
    let (b_vectors, b_rest) = b.as_chunks::<8>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x8 = [_mm256_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let difference = _mm256_sub_ps(_mm256_cvtph_ps(load_u16x8(&a[i])), _mm256_cvtph_ps(load_u16x8(&b[i])));
            sums_f32x8[i] = _mm256_fmadd_ps(difference, difference, sums_f32x8[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let difference = _mm256_sub_ps(_mm256_cvtph_ps(load_u16x8(a)), _mm256_cvtph_ps(load_u16x8(b)));
        sums_f32x8[0] = _mm256_fmadd_ps(difference, difference, sums_f32x8[0]);
    }
    let [s0, s1, s2, s3] = sums_f32x8;
    let sum_f32x8 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    self::sum_f32x8(sum_f32x8) + portable::l2sq_f16(a_rest, b_rest)
}

#[target_feature(enable = "avx2")]
fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    let (a_vectors, a_rest) = a.as_chunks::<32>();
    let (b_vectors, b_rest) = b.as_chunks::<32>();
    let zero = _mm256_setzero_si256();
    let mut low_i32x8 = zero;
    let mut high_i32x8 = zero;
    for (a, b) in a_vectors.iter().zip(b_vectors) {
        let (a, b) = (load_u8x32(a), load_u8x32(b));
        // One of the two differences saturates to zero; the other is the absolute difference.
        let distance = _mm256_or_si256(_mm256_subs_epu8(a, b), _mm256_subs_epu8(b, a));
        let low = _mm256_unpacklo_epi8(distance, zero);
        let high = _mm256_unpackhi_epi8(distance, zero);
        low_i32x8 = _mm256_add_epi32(low_i32x8, _mm256_madd_epi16(low, low));
        high_i32x8 = _mm256_add_epi32(high_i32x8, _mm256_madd_epi16(high, high));
    }
    let sum = sum_i32x8(_mm256_add_epi32(low_i32x8, high_i32x8)) as u32;
    sum.wrapping_add(portable::l2sq_u8(a_rest, b_rest))
}
