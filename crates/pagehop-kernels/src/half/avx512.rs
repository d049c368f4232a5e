//! Half precision with AVX-512, 16 numbers at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx512::{
    load_f32x16, load_part_f32x16, load_part_u16x16, load_u16x16, store_f32x16, store_part_f32x16,
    store_part_u16x16, store_u16x16,
};

on_token! { Avx512:
    fn f16_to_f32(src: &[u16], dst: &mut [f32]);
    fn f32_to_f16(src: &[f32], dst: &mut [u16]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn f16_to_f32(src: &[u16], dst: &mut [f32]) {
    let (src_vectors, src_rest) = src.as_chunks::<16>();
    let (dst_vectors, dst_rest) = dst.as_chunks_mut::<16>();
    for (src, dst) in src_vectors.iter().zip(dst_vectors) {
        store_f32x16(dst, _mm512_cvtph_ps(load_u16x16(src)));
    }
    store_part_f32x16(dst_rest, _mm512_cvtph_ps(load_part_u16x16(src_rest)));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn f32_to_f16(src: &[f32], dst: &mut [u16]) {
    let (src_vectors, src_rest) = src.as_chunks::<16>();
    let (dst_vectors, dst_rest) = dst.as_chunks_mut::<16>();
    for (src, dst) in src_vectors.iter().zip(dst_vectors) {
        store_u16x16(dst, _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(load_f32x16(src)));
    }
    store_part_u16x16(dst_rest, _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(load_part_f32x16(src_rest)));
}
