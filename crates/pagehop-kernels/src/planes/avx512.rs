//! Bit planes in 512-bit registers. A test of one bit of 16 levels gives a mask.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx512::load_part_f32x16;

on_token! { Avx512:
    fn max_abs(x: &[f32]) -> f32;
    fn level_planes(x: &[f32], per_unit: f32, bits: usize, planes: &mut [u64]);
}

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512dq")]
fn max_abs(x: &[f32]) -> f32 {
    let mut most = _mm512_setzero_ps();
    for part in x.chunks(LANES) {
        // `max` returns its second operand if one of the two is NaN.
        most = _mm512_max_ps(_mm512_abs_ps(load_part_f32x16(part)), most);
    }
    _mm512_reduce_max_ps(most)
}

#[target_feature(enable = "avx512f")]
fn level_planes(x: &[f32], per_unit: f32, bits: usize, planes: &mut [u64]) {
    let words = planes.len() / bits;
    let (per_unit, middle) = (_mm512_set1_ps(per_unit), _mm512_set1_ps((1 << (bits - 1)) as f32));
    let (least, most) = (_mm512_setzero_ps(), _mm512_set1_ps(((1 << bits) - 1) as f32));
    for (word, x) in x.chunks(4 * LANES).enumerate() {
        let mut levels = [_mm512_setzero_si512(); 4];
        for (level, part) in levels.iter_mut().zip(x.chunks(LANES)) {
            // Not fused, to give the same bits as the portable version. `max` returns its second
            // operand, 0, for a NaN.
            let scaled = _mm512_add_ps(_mm512_mul_ps(load_part_f32x16(part), per_unit), middle);
            *level = _mm512_cvttps_epi32(_mm512_min_ps(_mm512_max_ps(scaled, least), most));
        }
        // Bits after the last value are 0.
        let present = u64::MAX >> (4 * LANES - x.len());
        for (plane, words) in planes.chunks_exact_mut(words).enumerate() {
            let bit = _mm512_set1_epi32(1 << plane);
            let [a, b, c, d] = levels;
            let low = test(a, bit) | test(b, bit) << LANES;
            words[word] = (low | (test(c, bit) | test(d, bit) << LANES) << (2 * LANES)) & present;
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn test(levels: __m512i, bit: __m512i) -> u64 {
    u64::from(_mm512_test_epi32_mask(levels, bit))
}
