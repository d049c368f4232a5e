//! Half precision with the F16C instructions.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_f32x8, load_u16x8, store_f32x8, store_u16x8};

on_token! { Avx2:
    fn f16_to_f32(src: &[u16], dst: &mut [f32]);
    fn f32_to_f16(src: &[f32], dst: &mut [u16]);
}

#[target_feature(enable = "avx2,f16c")]
fn f16_to_f32(src: &[u16], dst: &mut [f32]) {
    let (src_vectors, src_rest) = src.as_chunks::<8>();
    let (dst_vectors, dst_rest) = dst.as_chunks_mut::<8>();
    for (src, dst) in src_vectors.iter().zip(dst_vectors) {
        store_f32x8(dst, _mm256_cvtph_ps(load_u16x8(src)));
    }
    portable::f16_to_f32(src_rest, dst_rest);
}

#[target_feature(enable = "avx2,f16c")]
fn f32_to_f16(src: &[f32], dst: &mut [u16]) {
    let (src_vectors, src_rest) = src.as_chunks::<8>();
    let (dst_vectors, dst_rest) = dst.as_chunks_mut::<8>();
    for (src, dst) in src_vectors.iter().zip(dst_vectors) {
        store_u16x8(dst, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(load_f32x8(src)));
    }
    portable::f32_to_f16(src_rest, dst_rest);
}
