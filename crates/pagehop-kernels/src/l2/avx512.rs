//! Squared distance in 512-bit registers. The last, partial register is loaded under a mask, so
//! there is no scalar tail. Its other lanes are zero and add nothing.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx512::{
    load_f32x16, load_part_f32x16, load_part_u8x64, load_part_u16x16, load_u8x64, load_u16x16,
};

on_token! { Avx512:
    fn l2sq_f32(a: &[f32], b: &[f32]) -> f32;
    fn l2sq_f16(a: &[u16], b: &[u16]) -> f32;
    fn l2sq_u8(a: &[u8], b: &[u8]) -> u32;
}

/// Independent sums, enough to cover the latency of an addition.
const SUMS: usize = 4;

#[target_feature(enable = "avx512f")]
fn l2sq_f32(a: &[f32], b: &[f32]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<16>();
    let (b_vectors, b_rest) = b.as_chunks::<16>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x16 = [_mm512_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let difference = _mm512_sub_ps(load_f32x16(&a[i]), load_f32x16(&b[i]));
            sums_f32x16[i] = _mm512_fmadd_ps(difference, difference, sums_f32x16[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let difference = _mm512_sub_ps(load_f32x16(a), load_f32x16(b));
        sums_f32x16[0] = _mm512_fmadd_ps(difference, difference, sums_f32x16[0]);
    }
    let difference = _mm512_sub_ps(load_part_f32x16(a_rest), load_part_f32x16(b_rest));
    sums_f32x16[1] = _mm512_fmadd_ps(difference, difference, sums_f32x16[1]);
    let [s0, s1, s2, s3] = sums_f32x16;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn l2sq_f16(a: &[u16], b: &[u16]) -> f32 {
    let (a_vectors, a_rest) = a.as_chunks::<16>();
    let (b_vectors, b_rest) = b.as_chunks::<16>();
    let (a_groups, a_last) = a_vectors.as_chunks::<SUMS>();
    let (b_groups, b_last) = b_vectors.as_chunks::<SUMS>();
    let mut sums_f32x16 = [_mm512_setzero_ps(); SUMS];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..SUMS {
            let difference =
                _mm512_sub_ps(_mm512_cvtph_ps(load_u16x16(&a[i])), _mm512_cvtph_ps(load_u16x16(&b[i])));
            sums_f32x16[i] = _mm512_fmadd_ps(difference, difference, sums_f32x16[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        let difference = _mm512_sub_ps(_mm512_cvtph_ps(load_u16x16(a)), _mm512_cvtph_ps(load_u16x16(b)));
        sums_f32x16[0] = _mm512_fmadd_ps(difference, difference, sums_f32x16[0]);
    }
    let (a_rest, b_rest) = (load_part_u16x16(a_rest), load_part_u16x16(b_rest));
    let difference = _mm512_sub_ps(_mm512_cvtph_ps(a_rest), _mm512_cvtph_ps(b_rest));
    sums_f32x16[1] = _mm512_fmadd_ps(difference, difference, sums_f32x16[1]);
    let [s0, s1, s2, s3] = sums_f32x16;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    let (a_vectors, a_rest) = a.as_chunks::<64>();
    let (b_vectors, b_rest) = b.as_chunks::<64>();
    let zero = _mm512_setzero_si512();
    let (mut low_i32x16, mut high_i32x16) = (zero, zero);
    for (a, b) in a_vectors.iter().zip(b_vectors) {
        let (low, high) = distances(load_u8x64(a), load_u8x64(b));
        low_i32x16 = _mm512_dpwssd_epi32(low_i32x16, low, low);
        high_i32x16 = _mm512_dpwssd_epi32(high_i32x16, high, high);
    }
    let (low, high) = distances(load_part_u8x64(a_rest), load_part_u8x64(b_rest));
    low_i32x16 = _mm512_dpwssd_epi32(low_i32x16, low, low);
    high_i32x16 = _mm512_dpwssd_epi32(high_i32x16, high, high);
    _mm512_reduce_add_epi32(_mm512_add_epi32(low_i32x16, high_i32x16)) as u32
}

/// The absolute differences of 64 pairs of bytes as 16-bit lanes in two registers. Their order is
/// not specified.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn distances(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    // One of the two differences saturates to zero; the other is the absolute difference.
    let distance = _mm512_or_si512(_mm512_subs_epu8(a, b), _mm512_subs_epu8(b, a));
    let zero = _mm512_setzero_si512();
    (_mm512_unpacklo_epi8(distance, zero), _mm512_unpackhi_epi8(distance, zero))
}
