//! The Walsh-Hadamard transform in 512-bit registers: the first six stages in registers, then two
//! stages per pass over memory. Every sum has the same operands as in the portable version, so the
//! bits agree.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::dispatch::on_token;
use crate::lanes::avx512::{load_f32x16, store_f32x16};
use crate::lanes::signs;

on_token! { Avx512:
    fn hadamard(x: &mut [f32]);
}

const LANES: usize = 16;

#[target_feature(enable = "avx512f")]
fn hadamard(x: &mut [f32]) {
    if x.len() < 4 * LANES {
        return portable::hadamard(x);
    }
    for group in x.as_chunks_mut::<LANES>().0.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = group;
        let quad = [within(load_f32x16(a)), within(load_f32x16(b)), within(load_f32x16(c)), within(load_f32x16(d))];
        for (to, value) in group.iter_mut().zip(across(quad)) {
            store_f32x16(to, value);
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
#[target_feature(enable = "avx512f")]
fn within(x: __m512) -> __m512 {
    // A lane becomes the other lane of its pair plus this lane, or minus this lane in the second
    // lane of a pair.
    let by_one = load_f32x16(&signs(1));
    let by_two = load_f32x16(&signs(2));
    let by_four = load_f32x16(&signs(4));
    let by_eight = load_f32x16(&signs(8));
    let x = _mm512_fmadd_ps(x, by_one, _mm512_permute_ps::<0b10_11_00_01>(x));
    let x = _mm512_fmadd_ps(x, by_two, _mm512_permute_ps::<0b01_00_11_10>(x));
    let x = _mm512_fmadd_ps(x, by_four, _mm512_shuffle_f32x4::<0b10_11_00_01>(x, x));
    _mm512_fmadd_ps(x, by_eight, _mm512_shuffle_f32x4::<0b01_00_11_10>(x, x))
}

/// Two stages that combine four registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn across([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    let (a, b) = (_mm512_add_ps(a, b), _mm512_sub_ps(a, b));
    let (c, d) = (_mm512_add_ps(c, d), _mm512_sub_ps(c, d));
    [_mm512_add_ps(a, c), _mm512_add_ps(b, d), _mm512_sub_ps(a, c), _mm512_sub_ps(b, d)]
}

/// Two stages that combine the quarters of `x`.
#[inline]
#[target_feature(enable = "avx512f")]
fn two_stages(x: &mut [f32]) {
    let (vectors, _) = x.as_chunks_mut::<LANES>();
    let (front, back) = vectors.split_at_mut(vectors.len() / 2);
    let (a, b) = front.split_at_mut(front.len() / 2);
    let (c, d) = back.split_at_mut(back.len() / 2);
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let quad = across([load_f32x16(a), load_f32x16(b), load_f32x16(c), load_f32x16(d)]);
        for (to, value) in [a, b, c, d].into_iter().zip(quad) {
            store_f32x16(to, value);
        }
    }
}

/// One stage that combines the halves of `x`.
#[inline]
#[target_feature(enable = "avx512f")]
fn last_stage(x: &mut [f32]) {
    let (vectors, _) = x.as_chunks_mut::<LANES>();
    let (front, back) = vectors.split_at_mut(vectors.len() / 2);
    for (to_a, to_b) in front.iter_mut().zip(back) {
        let (a, b) = (load_f32x16(to_a), load_f32x16(to_b));
        store_f32x16(to_a, _mm512_add_ps(a, b));
        store_f32x16(to_b, _mm512_sub_ps(a, b));
    }
}
