//! The Walsh-Hadamard transform in 256-bit registers: the first five stages in registers, then two
//! stages per pass over memory. Every sum has the same operands as in the portable version, so the
//! bits agree.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::{Avx512, on_token};
use crate::lanes::avx2::{load_f32x8, store_f32x8};
use crate::lanes::signs;

on_token! { Avx2:
    fn hadamard(x: &mut [f32]);
    fn multiply(x: &mut [f32], by: &[f32]);
    fn scale(x: &mut [f32], factor: f32);
    fn mix_halves(x: &mut [f32]);
}

impl Avx512 {
    pub(super) fn multiply(self, x: &mut [f32], by: &[f32]) {
        self.avx2().multiply(x, by);
    }

    pub(super) fn scale(self, x: &mut [f32], factor: f32) {
        self.avx2().scale(x, factor);
    }

    pub(super) fn mix_halves(self, x: &mut [f32]) {
        self.avx2().mix_halves(x);
    }
}

#[target_feature(enable = "avx2")]
fn multiply(x: &mut [f32], by: &[f32]) {
    portable::multiply(x, by);
}

#[target_feature(enable = "avx2")]
fn scale(x: &mut [f32], factor: f32) {
    portable::scale(x, factor);
}

#[target_feature(enable = "avx2")]
fn mix_halves(x: &mut [f32]) {
    portable::mix_halves(x);
}

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
fn hadamard(x: &mut [f32]) {
    if x.len() < 4 * LANES {
        return portable::hadamard(x);
    }
    for group in x.as_chunks_mut::<LANES>().0.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = group;
        let quad = [within(load_f32x8(a)), within(load_f32x8(b)), within(load_f32x8(c)), within(load_f32x8(d))];
        for (to, value) in group.iter_mut().zip(across(quad)) {
            store_f32x8(to, value);
        }
    }
    let mut half = 4 * LANES;
    while 2 * half < x.len() {
        for group in x.chunks_exact_mut(4 * half) {
            two_stages(group);
        }
        half *= 4;
    }
    if half < x.len() {
        last_stage(x);
    }
}

/// The stages that combine lanes of one register.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn within(x: __m256) -> __m256 {
    // A lane becomes the other lane of its pair plus this lane, or minus this lane in the second
    // lane of a pair.
    let by_one = load_f32x8(&signs(1));
    let by_two = load_f32x8(&signs(2));
    let by_four = load_f32x8(&signs(4));
    let x = _mm256_fmadd_ps(x, by_one, _mm256_permute_ps::<0b10_11_00_01>(x));
    let x = _mm256_fmadd_ps(x, by_two, _mm256_permute_ps::<0b01_00_11_10>(x));
    _mm256_fmadd_ps(x, by_four, _mm256_permute2f128_ps::<1>(x, x))
}

/// Two stages that combine four registers.
#[inline]
#[target_feature(enable = "avx2")]
fn across([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    let (a, b) = (_mm256_add_ps(a, b), _mm256_sub_ps(a, b));
    let (c, d) = (_mm256_add_ps(c, d), _mm256_sub_ps(c, d));
    [_mm256_add_ps(a, c), _mm256_add_ps(b, d), _mm256_sub_ps(a, c), _mm256_sub_ps(b, d)]
}

/// Two stages that combine the quarters of `x`.
#[inline]
#[target_feature(enable = "avx2")]
fn two_stages(x: &mut [f32]) {
    let (vectors, _) = x.as_chunks_mut::<LANES>();
    let (front, back) = vectors.split_at_mut(vectors.len() / 2);
    let (a, b) = front.split_at_mut(front.len() / 2);
    let (c, d) = back.split_at_mut(back.len() / 2);
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let quad = across([load_f32x8(a), load_f32x8(b), load_f32x8(c), load_f32x8(d)]);
        for (to, value) in [a, b, c, d].into_iter().zip(quad) {
            store_f32x8(to, value);
        }
    }
}

/// One stage that combines the halves of `x`.
#[inline]
#[target_feature(enable = "avx2")]
fn last_stage(x: &mut [f32]) {
    let (vectors, _) = x.as_chunks_mut::<LANES>();
    let (front, back) = vectors.split_at_mut(vectors.len() / 2);
    for (to_a, to_b) in front.iter_mut().zip(back) {
        let (a, b) = (load_f32x8(to_a), load_f32x8(to_b));
        store_f32x8(to_a, _mm256_add_ps(a, b));
        store_f32x8(to_b, _mm256_sub_ps(a, b));
    }
}
