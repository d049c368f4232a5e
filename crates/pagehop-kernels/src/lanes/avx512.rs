//! 512-bit loads and stores, whole and masked.
//!
//! A masked load of an unmapped page does not fault if no lane is taken from it, but it costs about
//! 150 ns in microcode. The address after the end of a slice may be on such a page, so an empty
//! part is not loaded at all.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_f32x16(from: &[f32; 16]) -> __m512 {
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_part_f32x16(from: &[f32]) -> __m512 {
    if from.is_empty() {
        return _mm512_setzero_ps();
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not read.
    unsafe { _mm512_maskz_loadu_ps(mask(from.len(), 16) as __mmask16, from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_f32x16(to: &mut [f32; 16], value: __m512) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_part_f32x16(to: &mut [f32], value: __m512) {
    if to.is_empty() {
        return;
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not written.
    unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), mask(to.len(), 16) as __mmask16, value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_u8x64(from: &[u8; 64]) -> __m512i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// 16 bytes, in every quarter of the register.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn broadcast_u8x16(from: &[u8; 16]) -> __m512i {
    // SAFETY: reads 16 bytes, the length of the array.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_i8x64(from: &[i8; 64]) -> __m512i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn load_part_u8x64(from: &[u8]) -> __m512i {
    if from.is_empty() {
        return _mm512_setzero_si512();
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not read.
    unsafe { _mm512_maskz_loadu_epi8(mask(from.len(), 64), from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn load_part_i8x64(from: &[i8]) -> __m512i {
    if from.is_empty() {
        return _mm512_setzero_si512();
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not read.
    unsafe { _mm512_maskz_loadu_epi8(mask(from.len(), 64), from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) fn load_part_u8x32(from: &[u8]) -> __m256i {
    if from.is_empty() {
        return _mm256_setzero_si256();
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not read.
    unsafe { _mm256_maskz_loadu_epi8(mask(from.len(), 32) as __mmask32, from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_i16x32(to: &mut [i16; 32], value: __m512i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_i8x32(to: &mut [i8; 32], value: __m256i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_u16x16(from: &[u16; 16]) -> __m256i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) fn load_part_u16x16(from: &[u16]) -> __m256i {
    if from.is_empty() {
        return _mm256_setzero_si256();
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not read.
    unsafe { _mm256_maskz_loadu_epi16(mask(from.len(), 16) as __mmask16, from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_u16x16(to: &mut [u16; 16], value: __m256i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) fn store_part_u16x16(to: &mut [u16], value: __m256i) {
    if to.is_empty() {
        return;
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not written.
    unsafe { _mm256_mask_storeu_epi16(to.as_mut_ptr().cast(), mask(to.len(), 16) as __mmask16, value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_part_i32x16(to: &mut [i32], value: __m512i) {
    if to.is_empty() {
        return;
    }
    // SAFETY: the mask has no lane after the end of the slice, and other lanes are not written.
    unsafe { _mm512_mask_storeu_epi32(to.as_mut_ptr(), mask(to.len(), 16) as __mmask16, value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_u32x8(to: &mut [u32; 8], value: __m256i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

/// Four adjacent bytes in every 32-bit lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn broadcast_i8x4(group: &[i8; 4]) -> __m512i {
    // SAFETY: reads four bytes, the length of the array; the read may be unaligned.
    _mm512_set1_epi32(unsafe { group.as_ptr().cast::<i32>().read_unaligned() })
}

/// 64-bit lanes with the same sum as the 32-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn widen_i32x16(lanes: __m512i) -> __m512i {
    let front = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(lanes));
    _mm512_add_epi64(front, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64::<1>(lanes)))
}

/// A mask of the first `length` lanes, but of at most `lanes`. `lanes` is at most 64.
#[inline]
fn mask(length: usize, lanes: usize) -> u64 {
    match length.min(lanes) {
        0 => 0,
        taken => u64::MAX >> (64 - taken),
    }
}
