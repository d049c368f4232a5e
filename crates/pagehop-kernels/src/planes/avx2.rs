//! Bit planes in 256-bit registers. A shift moves one bit of each of eight levels to the sign bits,
//! and `movemask` gathers the signs.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_f32x8, store_f32x8};

on_token! { Avx2:
    fn max_abs(x: &[f32]) -> f32;
    fn level_planes(x: &[f32], per_unit: f32, bits: usize, planes: &mut [u64]);
}

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
fn max_abs(x: &[f32]) -> f32 {
    let (parts, rest) = x.as_chunks::<LANES>();
    let mut most = _mm256_setzero_ps();
    for part in parts {
        // `max` returns its second operand if one of the two is NaN.
        most = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0), load_f32x8(part)), most);
    }
    let mut lanes = [0.0; LANES];
    store_f32x8(&mut lanes, most);
    portable::max_abs(&lanes).max(portable::max_abs(rest))
}

#[target_feature(enable = "avx2")]
fn level_planes(x: &[f32], per_unit: f32, bits: usize, planes: &mut [u64]) {
    let words = planes.len() / bits;
    let (per_unit, middle) = (_mm256_set1_ps(per_unit), _mm256_set1_ps((1 << (bits - 1)) as f32));
    let (least, most) = (_mm256_setzero_ps(), _mm256_set1_ps(((1 << bits) - 1) as f32));
    planes.fill(0);
    for (place, part) in x.chunks(LANES).enumerate() {
        let mut eight = [0.0; LANES];
        eight[..part.len()].copy_from_slice(part);
        // Not fused, to give the same bits as the portable version. `max` returns its second
        // operand, 0, for a NaN.
        let level = _mm256_add_ps(_mm256_mul_ps(load_f32x8(&eight), per_unit), middle);
        let level = _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(level, least), most));
        // Bits after the last value are 0.
        let present = u64::from(u8::MAX >> (LANES - part.len()));
        for (plane, words) in planes.chunks_exact_mut(words).enumerate() {
            let signs = _mm256_sll_epi32(level, _mm_cvtsi32_si128(31 - plane as i32));
            let mask = _mm256_movemask_ps(_mm256_castsi256_ps(signs)) as u64;
            words[place / 8] |= (mask & present) << (place % 8 * LANES);
        }
    }
}
