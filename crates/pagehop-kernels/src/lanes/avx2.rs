//! 128- and 256-bit loads, stores and sums over lanes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_f32x8(from: &[f32; 8]) -> __m256 {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_f32x8(to: &mut [f32; 8], value: __m256) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_u32x8(from: &[u32; 8]) -> __m256i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_u8x32(from: &[u8; 32]) -> __m256i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// 16 bytes, in both halves of the register.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn broadcast_u8x16(from: &[u8; 16]) -> __m256i {
    // SAFETY: reads 16 bytes, the length of the array.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_i8x32(from: &[i8; 32]) -> __m256i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_i8x16(from: &[i8; 16]) -> __m128i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_i16x16(from: &[i16; 16]) -> __m256i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_i16x16(to: &mut [i16; 16], value: __m256i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_u16x8(from: &[u16; 8]) -> __m128i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_u16x8(to: &mut [u16; 8], value: __m128i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

/// The first 16 signed bytes of `from` as 16-bit lanes. Lanes after the end of `from` are zero.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn widen_part_i8x16(from: &[i8]) -> __m256i {
    let mut bytes = [0; 16];
    match from.first_chunk() {
        Some(whole) => bytes = *whole,
        None => bytes[..from.len()].copy_from_slice(from),
    }
    _mm256_cvtepi8_epi16(load_i8x16(&bytes))
}

/// Two adjacent 16-bit values in every 32-bit lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn broadcast_i16x2(pair: &[i16; 2]) -> __m256i {
    // SAFETY: reads four bytes, the length of the array; the read may be unaligned.
    _mm256_set1_epi32(unsafe { pair.as_ptr().cast::<i32>().read_unaligned() })
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_i32x8(to: &mut [i32; 8], value: __m256i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_u32x8(to: &mut [u32; 8], value: __m256i) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn sum_f32x8(lanes: __m256) -> f32 {
    let x4 = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
    _mm_cvtss_f32(_mm_add_ss(x2, _mm_shuffle_ps::<1>(x2, x2)))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn sum_i32x8(lanes: __m256i) -> i32 {
    let x4 = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    let x2 = _mm_add_epi32(x4, _mm_unpackhi_epi64(x4, x4));
    _mm_cvtsi128_si32(_mm_add_epi32(x2, _mm_shuffle_epi32::<1>(x2)))
}

/// 64-bit lanes with the same sum as the 32-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn widen_i32x8(lanes: __m256i) -> __m256i {
    let front = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(lanes));
    _mm256_add_epi64(front, _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(lanes)))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn sum_i64x4(lanes: __m256i) -> i64 {
    let x2 = _mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    _mm_cvtsi128_si64(_mm_add_epi64(x2, _mm_unpackhi_epi64(x2, x2)))
}
