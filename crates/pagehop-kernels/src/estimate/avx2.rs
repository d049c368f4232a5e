//! The last steps of edge scoring in 256-bit registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{EdgeTerms, HEAD_BYTES, portable};
use crate::dispatch::{Avx512, on_token};
use crate::lanes::avx2::{load_f32x8, load_u8x32, load_u32x8, store_f32x8};

on_token! { Avx2:
    fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]);
    fn at_most(values: &[f32], reach: f32, bound: f32) -> u64;
}

impl Avx512 {
    pub(super) fn estimate(self, terms: EdgeTerms<'_>, out: &mut [f32]) {
        self.avx2().estimate(terms, out);
    }

    pub(super) fn at_most(self, values: &[f32], reach: f32, bound: f32) -> u64 {
        self.avx2().at_most(values, reach, bound)
    }
}

#[target_feature(enable = "avx2")]
fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]) {
    let [base_f32x8, per_count_f32x8] = terms.query.map(|x| _mm256_set1_ps(x));
    let add_mask_f32x8 = _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(terms.has_add)));
    let (counts, counts_rest) = terms.counts.as_chunks::<8>();
    let (centroid_sq, centroid_sq_rest) = terms.centroid_sq.as_chunks::<8>();
    let (heads, heads_rest) = terms.heads.as_chunks::<8>();
    let (eights, rest) = out.as_chunks_mut::<8>();
    for (((out, counts), centroid_sq), heads) in eights.iter_mut().zip(counts).zip(centroid_sq).zip(heads) {
        let [add, factor] = terms_of(heads);
        let counted = _mm256_mul_ps(per_count_f32x8, _mm256_cvtepi32_ps(load_u32x8(counts)));
        let twice_dot = _mm256_sub_ps(base_f32x8, counted);
        let added = _mm256_add_ps(load_f32x8(centroid_sq), _mm256_and_ps(add, add_mask_f32x8));
        store_f32x8(out, _mm256_sub_ps(added, _mm256_mul_ps(factor, twice_dot)));
    }
    let (counts, centroid_sq, heads) = (counts_rest, centroid_sq_rest, heads_rest);
    portable::estimate(EdgeTerms { counts, centroid_sq, heads, ..terms }, rest);
}

/// `add` and `factor` of eight edges. Every third 32-bit lane of three registers is an `add`, and
/// no two of them are in the same lane of their registers. So blends gather them, and one
/// permutation orders them.
#[inline]
#[target_feature(enable = "avx2")]
fn terms_of(heads: &[[u8; HEAD_BYTES]; 8]) -> [__m256; 2] {
    let (parts, _) = heads.as_flattened().as_chunks::<32>();
    let [a, b, c] = [0, 1, 2].map(|part| load_u8x32(&parts[part]));
    let add = _mm256_blend_epi32::<0b0100_1001>(_mm256_blend_epi32::<0b0010_0100>(a, b), c);
    let add = _mm256_permutevar8x32_epi32(add, _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6));
    let factor = _mm256_blend_epi32::<0b1001_0010>(_mm256_blend_epi32::<0b0100_1001>(a, b), c);
    let factor = _mm256_permutevar8x32_epi32(factor, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
    [_mm256_castsi256_ps(add), _mm256_castsi256_ps(factor)]
}

#[target_feature(enable = "avx2")]
fn at_most(values: &[f32], reach: f32, bound: f32) -> u64 {
    let (reach_f32x8, bound_f32x8) = (_mm256_set1_ps(reach), _mm256_set1_ps(bound));
    let (eights, rest) = values.as_chunks::<8>();
    let mut mask = 0;
    for (at, eight) in eights.iter().enumerate() {
        let eight = load_f32x8(eight);
        let within = _mm256_cmp_ps::<_CMP_LE_OQ>(eight, reach_f32x8);
        let both = _mm256_and_ps(within, _mm256_cmp_ps::<_CMP_LT_OQ>(eight, bound_f32x8));
        mask |= u64::from(_mm256_movemask_ps(both) as u32) << (8 * at);
    }
    match rest {
        [] => mask,
        rest => mask | portable::at_most(rest, reach, bound) << (8 * eights.len()),
    }
}
