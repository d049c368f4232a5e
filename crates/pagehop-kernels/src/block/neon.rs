//! Block inner products in 128-bit registers. A tile of two rows of `a` and four of `b` loads six
//! registers for eight products.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use crate::dispatch::on_token;
use crate::dot::portable::dot_i8;
use crate::lanes::neon::load_i8x16;
use crate::lanes::rows_repeating_last;

on_token! { Neon:
    fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]);
}

/// Rows of `b` that are compared with all rows of `a` while they stay in the first-level cache.
const NEAR_ROWS: usize = 16;
/// Rows of `a` in a tile.
const ROWS: usize = 2;
/// Rows of `b` in a tile.
const COLUMNS: usize = 4;

#[target_feature(enable = "neon")]
fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]) {
    let columns = b.len() / dim;
    for (near, b) in (0..columns).step_by(NEAR_ROWS).zip(b.chunks(NEAR_ROWS * dim)) {
        for (a, out) in a.chunks(ROWS * dim).zip(out.chunks_mut(ROWS * columns)) {
            for (first, b) in (near..columns).step_by(COLUMNS).zip(b.chunks(COLUMNS * dim)) {
                let products =
                    tile(rows_repeating_last(a, dim, a.len() / dim), rows_repeating_last(b, dim, b.len() / dim));
                for (products, out) in products.iter().zip(out.chunks_exact_mut(columns)) {
                    for (product, out) in products.iter().zip(&mut out[first..]).take(b.len() / dim) {
                        *out = *product;
                    }
                }
            }
        }
    }
}

/// The inner products of two rows with four.
#[inline]
#[target_feature(enable = "neon")]
fn tile(a: [&[i8]; ROWS], b: [&[i8]; COLUMNS]) -> [[i32; COLUMNS]; ROWS] {
    let ([a0, a1], [b0, b1, b2, b3]) = (a.map(parts), b.map(parts));
    let mut sums = [[vdupq_n_s32(0); COLUMNS]; ROWS];
    for (((((a0, a1), b0), b1), b2), b3) in a0.iter().zip(a1).zip(b0).zip(b1).zip(b2).zip(b3) {
        let (a, b) = ([load_i8x16(a0), load_i8x16(a1)], [b0, b1, b2, b3]);
        for j in 0..COLUMNS {
            let b = load_i8x16(b[j]);
            for i in 0..ROWS {
                sums[i][j] = add(sums[i][j], a[i], b);
            }
        }
    }
    let whole = 16 * a0.len();
    let mut products = [[0; COLUMNS]; ROWS];
    for i in 0..ROWS {
        for j in 0..COLUMNS {
            products[i][j] = vaddvq_s32(sums[i][j]).wrapping_add(dot_i8(&a[i][whole..], &b[j][whole..]));
        }
    }
    products
}

#[inline]
fn parts(row: &[i8]) -> &[[i8; 16]] {
    row.as_chunks().0
}

#[inline]
#[target_feature(enable = "neon")]
fn add(sum_i32x4: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let sum = vpadalq_s16(sum_i32x4, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    vpadalq_s16(sum, vmull_high_s8(a, b))
}
