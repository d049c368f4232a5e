//! Squared distance in 128-bit registers.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::neon::load_f32x4;

on_token! { Neon:
    fn l2sq_f32(a: &[f32], b: &[f32]) -> f32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "neon")]
fn l2sq_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<4>();
    let (b_vectors, b_rest) = b.as_chunks::<4>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x4 = [vdupq_n_f32(0.0); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let difference = vsubq_f32(load_f32x4(&a[i]), load_f32x4(&b[i]));
            sums_f32x4[i] = vfmaq_f32(sums_f32x4[i], difference, difference);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let difference = vsubq_f32(load_f32x4(a), load_f32x4(b));
        sums_f32x4[0] = vfmaq_f32(sums_f32x4[0], difference, difference);
    }
    let [s0, s1, s2, s3] = sums_f32x4;
    vaddvq_f32(vaddq_f32(vaddq_f32(s0, s1), vaddq_f32(s2, s3))) + portable::l2sq_f32(a_rest, b_rest)
}
