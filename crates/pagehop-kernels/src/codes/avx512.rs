//! Float query against integer codes in 512-bit registers. The last, partial register is loaded
//! under a mask; its other lanes are zero and add nothing.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx2::{load_i8x16, load_u8x8};
use crate::lanes::avx512::{load_f32x16, load_part_f32x16, load_part_i8x16, load_part_u8x8};

on_token! { Avx512:
    fn dot_f32_i8(q: &[f32], code: &[i8]) -> f32;
    fn dot_f32_i12(q: &[f32], hi: &[i8], lo: &[u8]) -> f32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn dot_f32_i8(q: &[f32], code: &[i8]) -> f32 {
    let (q_vectors, q_rest) = q.as_chunks::<16>();
    let (code_vectors, code_rest) = code.as_chunks::<16>();
    let (q_groups, q_last) = q_vectors.as_chunks::<SUMS>();
    let (code_groups, code_last) = code_vectors.as_chunks::<SUMS>();
    let mut sums_f32x16 = [_mm512_setzero_ps(); SUMS];
    for (q, code) in q_groups.iter().zip(code_groups) {
        for i in 0..SUMS {
            sums_f32x16[i] =
                _mm512_fmadd_ps(load_f32x16(&q[i]), widen_f32x16(load_i8x16(&code[i])), sums_f32x16[i]);
        }
    }
    for (q, code) in q_last.iter().zip(code_last) {
        sums_f32x16[0] = _mm512_fmadd_ps(load_f32x16(q), widen_f32x16(load_i8x16(code)), sums_f32x16[0]);
    }
    sums_f32x16[1] =
        _mm512_fmadd_ps(load_part_f32x16(q_rest), widen_f32x16(load_part_i8x16(code_rest)), sums_f32x16[1]);
    let [s0, s1, s2, s3] = sums_f32x16;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn dot_f32_i12(q: &[f32], hi: &[i8], lo: &[u8]) -> f32 {
    let (q_vectors, q_rest) = q.as_chunks::<16>();
    let (hi_vectors, hi_rest) = hi.as_chunks::<16>();
    let (lo_vectors, lo_rest) = lo.split_at(q_vectors.len() * 8);
    let (lo_vectors, _) = lo_vectors.as_chunks::<8>();
    let (q_groups, q_last) = q_vectors.as_chunks::<SUMS>();
    let (hi_groups, hi_last) = hi_vectors.as_chunks::<SUMS>();
    let (lo_groups, lo_last) = lo_vectors.as_chunks::<SUMS>();
    let mut sums_f32x16 = [_mm512_setzero_ps(); SUMS];
    for ((q, hi), lo) in q_groups.iter().zip(hi_groups).zip(lo_groups) {
        for i in 0..SUMS {
            sums_f32x16[i] = _mm512_fmadd_ps(
                load_f32x16(&q[i]),
                values_f32x16(load_i8x16(&hi[i]), load_u8x8(&lo[i])),
                sums_f32x16[i],
            );
        }
    }
    for ((q, hi), lo) in q_last.iter().zip(hi_last).zip(lo_last) {
        sums_f32x16[0] =
            _mm512_fmadd_ps(load_f32x16(q), values_f32x16(load_i8x16(hi), load_u8x8(lo)), sums_f32x16[0]);
    }
    let values = values_f32x16(load_part_i8x16(hi_rest), load_part_u8x8(lo_rest));
    sums_f32x16[1] = _mm512_fmadd_ps(load_part_f32x16(q_rest), values, sums_f32x16[1]);
    let [s0, s1, s2, s3] = sums_f32x16;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

/// Sixteen 8-bit values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn widen_f32x16(code: __m128i) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(code))
}

/// Sixteen 12-bit values, from their high bytes in `hi` and their nibbles in the low half of `lo`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn values_f32x16(hi: __m128i, lo: __m128i) -> __m512 {
    // After a shift by 28, the high nibble of a byte is at the start of the upper 32-bit half of
    // its 64-bit lane.
    let bytes_u64x8 = _mm512_cvtepu8_epi64(lo);
    let shifted = _mm512_slli_epi64::<28>(bytes_u64x8);
    // (a | b) & c
    let nibbles_i32x16 = _mm512_ternarylogic_epi32::<0xa8>(bytes_u64x8, shifted, _mm512_set1_epi32(15));
    let high_i32x16 = _mm512_slli_epi32::<4>(_mm512_cvtepi8_epi32(hi));
    let biased = _mm512_or_si512(high_i32x16, nibbles_i32x16);
    _mm512_cvtepi32_ps(_mm512_sub_epi32(biased, _mm512_set1_epi32(8)))
}
