//! Inner products in 128-bit registers. The compiler vectorizes half precision and unsigned bytes:
//! every ARM CPU of 64 bits has 128-bit registers, so plain Rust uses them too.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::neon::{load_f32x4, load_i8x16};

on_token! { Neon:
    fn dot_f32(a: &[f32], b: &[f32]) -> f32;
    fn dot_i8(a: &[i8], b: &[i8]) -> i32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "neon")]
fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<4>();
    let (b_vectors, b_rest) = b.as_chunks::<4>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x4 = [vdupq_n_f32(0.0); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            sums_f32x4[i] = vfmaq_f32(sums_f32x4[i], load_f32x4(&a[i]), load_f32x4(&b[i]));
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        sums_f32x4[0] = vfmaq_f32(sums_f32x4[0], load_f32x4(a), load_f32x4(b));
    }
    let [s0, s1, s2, s3] = sums_f32x4;
    vaddvq_f32(vaddq_f32(vaddq_f32(s0, s1), vaddq_f32(s2, s3))) + portable::dot_f32(a_rest, b_rest)
}

#[target_feature(enable = "neon")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let (a_vectors, a_rest) = a.as_chunks::<16>();
    let (b_vectors, b_rest) = b.as_chunks::<16>();
    let mut sums_i32x4 = [vdupq_n_s32(0); 2];
    for (a, b) in a_vectors.iter().zip(b_vectors) {
        let (a, b) = (load_i8x16(a), load_i8x16(b));
        sums_i32x4[0] = vpadalq_s16(sums_i32x4[0], vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        sums_i32x4[1] = vpadalq_s16(sums_i32x4[1], vmull_high_s8(a, b));
    }
    vaddvq_s32(vaddq_s32(sums_i32x4[0], sums_i32x4[1])).wrapping_add(portable::dot_i8(a_rest, b_rest))
}
