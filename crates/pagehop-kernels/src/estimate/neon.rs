//! Comparing estimates in 128-bit registers. The arithmetic before is left to the compiler.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::neon::load_f32x4;

on_token! { Neon:
    fn at_most(values: &[f32], reach: f32, bound: f32) -> u64;
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
