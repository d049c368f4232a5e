//! The last steps of edge scoring in 128-bit registers.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{EdgeTerms, portable};
use crate::dispatch::on_token;
use crate::lanes::neon::{load_f32x4, load_u32x4, load_u32x4_of_three, store_f32x4};

on_token! { Neon:
    fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]);
    fn at_most(values: &[f32], reach: f32, bound: f32) -> u64;
}

#[target_feature(enable = "neon")]
fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]) {
    let [base_f32x4, per_count_f32x4] = terms.query.map(|x| vdupq_n_f32(x));
    let add_mask_u32x4 = vdupq_n_u32(if terms.has_add { u32::MAX } else { 0 });
    let (counts, counts_rest) = terms.counts.as_chunks::<4>();
    let (centroid_sq, centroid_sq_rest) = terms.centroid_sq.as_chunks::<4>();
    let (heads, heads_rest) = terms.heads.as_chunks::<4>();
    let (fours, rest) = out.as_chunks_mut::<4>();
    for (((out, counts), centroid_sq), heads) in fours.iter_mut().zip(counts).zip(centroid_sq).zip(heads) {
        let [_, add, factor] = load_u32x4_of_three(heads);
        let counted = vmulq_f32(per_count_f32x4, vcvtq_f32_s32(vreinterpretq_s32_u32(load_u32x4(counts))));
        let twice_dot = vsubq_f32(base_f32x4, counted);
        let add = vreinterpretq_f32_u32(vandq_u32(add, add_mask_u32x4));
        let added = vaddq_f32(load_f32x4(centroid_sq), add);
        store_f32x4(out, vsubq_f32(added, vmulq_f32(vreinterpretq_f32_u32(factor), twice_dot)));
    }
    let (counts, centroid_sq, heads) = (counts_rest, centroid_sq_rest, heads_rest);
    portable::estimate(EdgeTerms { counts, centroid_sq, heads, ..terms }, rest);
}

#[target_feature(enable = "neon")]
fn at_most(values: &[f32], reach: f32, bound: f32) -> u64 {
    let (reach_f32x4, bound_f32x4) = (vdupq_n_f32(reach), vdupq_n_f32(bound));
    let bits = vcombine_u32(vcreate_u32(1 | 2 << 32), vcreate_u32(4 | 8 << 32));
    let (fours, rest) = values.as_chunks::<4>();
    let mut mask = 0;
    for (at, four) in fours.iter().enumerate() {
        let four = load_f32x4(four);
        let both = vandq_u32(vcleq_f32(four, reach_f32x4), vcltq_f32(four, bound_f32x4));
        mask |= u64::from(vaddvq_u32(vandq_u32(both, bits))) << (4 * at);
    }
    match rest {
        [] => mask,
        rest => mask | portable::at_most(rest, reach, bound) << (4 * fours.len()),
    }
}
