//! Inner products in 512-bit registers. The last, partial register is loaded under a mask, so there
//! is no scalar tail. Its other lanes are zero and add nothing.
//!
//! VNNI multiplies unsigned bytes by signed bytes only. So `dot_i8` adds 128 to one side and
//! subtracts 128 times the sum of the other side at the end; `dot_u8` does the reverse.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx512::{
    load_f32x16, load_i8x64, load_part_f32x16, load_part_i8x64, load_part_u8x64, load_part_u16x16, load_u8x64,
    load_u16x16,
};

on_token! { Avx512:
    fn dot_f32(a: &[f32], b: &[f32]) -> f32;
    fn dot_f16(a: &[u16], b: &[u16]) -> f32;
    fn dot_u8(a: &[u8], b: &[u8]) -> u32;
    fn dot_i8(a: &[i8], b: &[i8]) -> i32;
    fn sum_i8(a: &[i8]) -> i32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx512f")]
fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<16>();
    let (b_vectors, b_rest) = b.as_chunks::<16>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x16 = [_mm512_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            sums_f32x16[i] = _mm512_fmadd_ps(load_f32x16(&a[i]), load_f32x16(&b[i]), sums_f32x16[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        sums_f32x16[0] = _mm512_fmadd_ps(load_f32x16(a), load_f32x16(b), sums_f32x16[0]);
    }
    sums_f32x16[1] = _mm512_fmadd_ps(load_part_f32x16(a_rest), load_part_f32x16(b_rest), sums_f32x16[1]);
    let [s0, s1, s2, s3] = sums_f32x16;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn dot_f16(a: &[u16], b: &[u16]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<16>();
    let (b_vectors, b_rest) = b.as_chunks::<16>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x16 = [_mm512_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let (a, b) = (_mm512_cvtph_ps(load_u16x16(&a[i])), _mm512_cvtph_ps(load_u16x16(&b[i])));
            sums_f32x16[i] = _mm512_fmadd_ps(a, b, sums_f32x16[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let (a, b) = (_mm512_cvtph_ps(load_u16x16(a)), _mm512_cvtph_ps(load_u16x16(b)));
        sums_f32x16[0] = _mm512_fmadd_ps(a, b, sums_f32x16[0]);
    }
    let (a, b) = (_mm512_cvtph_ps(load_part_u16x16(a_rest)), _mm512_cvtph_ps(load_part_u16x16(b_rest)));
    sums_f32x16[1] = _mm512_fmadd_ps(a, b, sums_f32x16[1]);
    let [s0, s1, s2, s3] = sums_f32x16;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    let (a_vectors, a_rest) = a.as_chunks::<64>();
    let (b_vectors, b_rest) = b.as_chunks::<64>();
    let (offset, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
    let mut dot_i32x16 = _mm512_setzero_si512();
    let mut a_sum_i32x16 = _mm512_setzero_si512();
    for (a, b) in a_vectors.iter().zip(b_vectors) {
        let (a, b) = (load_u8x64(a), _mm512_xor_si512(load_u8x64(b), offset));
        dot_i32x16 = _mm512_dpbusd_epi32(dot_i32x16, a, b);
        a_sum_i32x16 = _mm512_dpbusd_epi32(a_sum_i32x16, a, ones);
    }
    let (a, b) = (load_part_u8x64(a_rest), _mm512_xor_si512(load_part_u8x64(b_rest), offset));
    dot_i32x16 = _mm512_dpbusd_epi32(dot_i32x16, a, b);
    a_sum_i32x16 = _mm512_dpbusd_epi32(a_sum_i32x16, a, ones);
    let dot_i32x16 = _mm512_add_epi32(dot_i32x16, _mm512_slli_epi32::<7>(a_sum_i32x16));
    _mm512_reduce_add_epi32(dot_i32x16) as u32
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
    let (a_vectors, a_rest) = a.as_chunks::<64>();
    let (b_vectors, b_rest) = b.as_chunks::<64>();
    let (offset, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
    let mut dot_i32x16 = _mm512_setzero_si512();
    let mut b_sum_i32x16 = _mm512_setzero_si512();
    for (a, b) in a_vectors.iter().zip(b_vectors) {
        let (a, b) = (_mm512_xor_si512(load_i8x64(a), offset), load_i8x64(b));
        dot_i32x16 = _mm512_dpbusd_epi32(dot_i32x16, a, b);
        b_sum_i32x16 = _mm512_dpbusd_epi32(b_sum_i32x16, ones, b);
    }
    let (a, b) = (_mm512_xor_si512(load_part_i8x64(a_rest), offset), load_part_i8x64(b_rest));
    dot_i32x16 = _mm512_dpbusd_epi32(dot_i32x16, a, b);
    b_sum_i32x16 = _mm512_dpbusd_epi32(b_sum_i32x16, ones, b);
    _mm512_reduce_add_epi32(_mm512_sub_epi32(dot_i32x16, _mm512_slli_epi32::<7>(b_sum_i32x16)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn sum_i8(a: &[i8]) -> i32 {
    let (vectors, rest) = a.as_chunks::<64>();
    let ones = _mm512_set1_epi8(1);
    let mut sum_i32x16 = _mm512_setzero_si512();
    for vector in vectors {
        sum_i32x16 = _mm512_dpbusd_epi32(sum_i32x16, ones, load_i8x64(vector));
    }
    _mm512_reduce_add_epi32(_mm512_dpbusd_epi32(sum_i32x16, ones, load_part_i8x64(rest)))
}
