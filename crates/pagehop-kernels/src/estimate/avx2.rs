//! The last steps of edge scoring in 256-bit registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{EdgeTerms, portable};
use crate::dispatch::{Avx512, on_token};
use crate::lanes::avx2::load_f32x8;

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
    portable::estimate(terms, out);
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
