//! Inner products with codes in 128-bit registers. Each lane of four registers of 32-bit sums adds
//! one product for every 16 dimensions.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{ROUNDED_MAX, Rounded};
use crate::dispatch::on_token;
use crate::lanes::neon::{load_i8x16, load_i16x8, load_u8x16};

on_token! { Neon:
    fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64;
    fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64;
}

/// Registers of codes whose sums of products fit into the 32-bit lanes.
const STEP: usize = 32;

#[target_feature(enable = "neon")]
fn dot_i8_rounded(q: &Rounded, code: &[i8]) -> i64 {
    let (whole, rest) = code.as_chunks::<16>();
    let q = q.values.as_chunks::<16>().0;
    let mut sum = 0;
    for (q, code) in q.chunks(STEP).zip(whole.chunks(STEP)) {
        let mut sums_i32x4 = [vdupq_n_s32(0); 4];
        for (q, code) in q.iter().zip(code) {
            add(&mut sums_i32x4, q, widened(code));
        }
        sum += total(sums_i32x4);
    }
    if !rest.is_empty() {
        let mut sums_i32x4 = [vdupq_n_s32(0); 4];
        add(&mut sums_i32x4, &q[whole.len()], widened(&padded(rest)));
        sum += total(sums_i32x4);
    }
    sum
}

#[target_feature(enable = "neon")]
fn dot_i12_rounded(q: &Rounded, hi: &[i8], lo: &[u8]) -> i64 {
    const { assert!(STEP as i64 * ROUNDED_MAX as i64 * (127 * 16 + 15) <= i32::MAX as i64) };
    let (whole_hi, rest_hi) = hi.as_chunks::<32>();
    let (whole_lo, rest_lo) = lo.split_at(16 * whole_hi.len());
    let values = q.values.as_chunks::<32>().0;
    let mut sum = 0;
    let whole_lo = whole_lo.as_chunks::<16>().0;
    for ((values, hi), lo) in values.chunks(STEP / 2).zip(whole_hi.chunks(STEP / 2)).zip(whole_lo.chunks(STEP / 2))
    {
        let mut sums_i32x4 = [vdupq_n_s32(0); 4];
        for ((values, hi), lo) in values.iter().zip(hi).zip(lo) {
            add_joined(&mut sums_i32x4, values, hi, lo);
        }
        sum += total(sums_i32x4);
    }
    if !rest_hi.is_empty() {
        let mut sums_i32x4 = [vdupq_n_s32(0); 4];
        add_joined(&mut sums_i32x4, &values[whole_hi.len()], &padded(rest_hi), &padded(rest_lo));
        sum += total(sums_i32x4);
    }
    // `pack_i12` added 8 to every nibble.
    sum - 8 * q.sum
}

/// Adds the products of 32 dimensions.
#[inline]
#[target_feature(enable = "neon")]
fn add_joined(sums_i32x4: &mut [int32x4_t; 4], values: &[i16; 32], hi: &[i8; 32], lo: &[u8; 16]) {
    let lo = load_u8x16(lo);
    let (even, odd) = (vandq_u8(lo, vdupq_n_u8(15)), vshrq_n_u8::<4>(lo));
    let (values, hi) = (values.as_chunks::<16>().0, hi.as_chunks::<16>().0);
    add(sums_i32x4, &values[0], join(&hi[0], vzip1q_u8(even, odd)));
    add(sums_i32x4, &values[1], join(&hi[1], vzip2q_u8(even, odd)));
}

#[inline]
#[target_feature(enable = "neon")]
fn widened(code: &[i8; 16]) -> [int16x8_t; 2] {
    let code = load_i8x16(code);
    [vmovl_s8(vget_low_s8(code)), vmovl_high_s8(code)]
}

/// 16 values: 16 times the high bytes, plus the nibbles.
#[inline]
#[target_feature(enable = "neon")]
fn join(hi: &[i8; 16], nibbles: uint8x16_t) -> [int16x8_t; 2] {
    let hi = load_i8x16(hi);
    let (front, back) = (vshll_n_s8::<4>(vget_low_s8(hi)), vshll_high_n_s8::<4>(hi));
    [
        vreinterpretq_s16_u16(vaddw_u8(vreinterpretq_u16_s16(front), vget_low_u8(nibbles))),
        vreinterpretq_s16_u16(vaddw_high_u8(vreinterpretq_u16_s16(back), nibbles)),
    ]
}

/// Adds the products of 16 dimensions.
#[inline]
#[target_feature(enable = "neon")]
fn add(sums_i32x4: &mut [int32x4_t; 4], q: &[i16; 16], [front, back]: [int16x8_t; 2]) {
    let (halves, _) = q.as_chunks::<8>();
    let (q_front, q_back) = (load_i16x8(&halves[0]), load_i16x8(&halves[1]));
    sums_i32x4[0] = vmlal_s16(sums_i32x4[0], vget_low_s16(front), vget_low_s16(q_front));
    sums_i32x4[1] = vmlal_high_s16(sums_i32x4[1], front, q_front);
    sums_i32x4[2] = vmlal_s16(sums_i32x4[2], vget_low_s16(back), vget_low_s16(q_back));
    sums_i32x4[3] = vmlal_high_s16(sums_i32x4[3], back, q_back);
}

#[inline]
#[target_feature(enable = "neon")]
fn total([s0, s1, s2, s3]: [int32x4_t; 4]) -> i64 {
    vaddlvq_s32(s0) + vaddlvq_s32(s1) + vaddlvq_s32(s2) + vaddlvq_s32(s3)
}

/// `values`, followed by zeros. There are at most `N` values.
#[inline]
fn padded<T: Copy + Default, const N: usize>(values: &[T]) -> [T; N] {
    let mut whole = [T::default(); N];
    whole[..values.len()].copy_from_slice(values);
    whole
}
