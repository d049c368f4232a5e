//! 128-bit loads and stores.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn load_f32x4(from: &[f32; 4]) -> float32x4_t {
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_f32(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn load_u32x4(from: &[u32; 4]) -> uint32x4_t {
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_u32(from.as_ptr()) }
}

/// The first, the second and the third number of each record.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn load_u32x4_of_three(from: &[[u8; 12]; 4]) -> [uint32x4_t; 3] {
    // SAFETY: the arrays are as long as the three registers, and the load needs no alignment.
    let uint32x4x3_t(first, second, third) = unsafe { vld3q_u32(from.as_ptr().cast()) };
    [first, second, third]
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn store_f32x4(to: &mut [f32; 4], value: float32x4_t) {
    // SAFETY: the array is as long as the register.
    unsafe { vst1q_f32(to.as_mut_ptr(), value) }
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn load_u8x16(from: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_u8(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn load_i8x16(from: &[i8; 16]) -> int8x16_t {
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_s8(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn load_i16x8(from: &[i16; 8]) -> int16x8_t {
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_s16(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn store_u32x4(to: &mut [u32; 4], value: uint32x4_t) {
    // SAFETY: the array is as long as the register.
    unsafe { vst1q_u32(to.as_mut_ptr(), value) }
}
