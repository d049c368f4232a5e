//! Edge scoring in 128-bit registers, by look-ups as in `avx2.rs`. A look-up needs one byte
//! position of 16 edges in one register. Three rounds of instructions, each of which takes every
//! second byte, bring it there.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{Prepared, SCAN_EDGES, Table, WordTables, tables};
use crate::dispatch::on_token;
use crate::lanes::neon::{load_u8x16, store_u32x4};
use crate::lanes::rows_repeating_last;

on_token! { Neon:
    fn prepare(planes: &[u64], prepared: &mut Prepared);
    fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]);
}

/// Blocks that are counted together: each half of them fills the lanes of a look-up.
const TOGETHER: usize = 4;

/// Words whose sums fit into 16 bits; the sum of a word is at most 960.
const WORDS: usize = 64;

/// Byte positions of a word.
const POSITIONS: usize = 8;

#[target_feature(enable = "neon")]
fn prepare(planes: &[u64], prepared: &mut Prepared) {
    tables::make(planes, &mut prepared.tables);
}

#[target_feature(enable = "neon")]
fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    let words = query.tables.len();
    for (rows, out) in rows.chunks(TOGETHER * words).zip(out.chunks_mut(TOGETHER)) {
        // The results of a block that does not exist are not stored.
        let blocks: [_; TOGETHER] = rows_repeating_last(rows, words, out.len());
        out.fill([0; SCAN_EDGES]);
        for first in (0..words).step_by(WORDS) {
            let part = first..words.min(first + WORDS);
            let [a, b, c, d] = blocks;
            let blocks = [&a[part.clone()], &b[part.clone()], &c[part.clone()], &d[part.clone()]];
            let sums = count_together(&query.tables[part], blocks);
            for (out, sum) in out.iter_mut().zip(sums) {
                add(out, sum);
            }
        }
    }
}

/// The distances of four blocks, in 16-bit lanes.
#[inline]
#[target_feature(enable = "neon")]
fn count_together(tables: &[WordTables], [a, b, c, d]: [&[[u8; 64]]; TOGETHER]) -> [uint16x8_t; TOGETHER] {
    let mut sums = [vdupq_n_u16(0); TOGETHER];
    for ((((tables, a), b), c), d) in tables.iter().zip(a).zip(b).zip(c).zip(d) {
        let (front, back) = (turn(a, b), turn(c, d));
        for pair in 0..POSITIONS / 2 {
            let (even, odd) = (&tables[2 * pair], &tables[2 * pair + 1]);
            // Four entries of at most 60 add up in a byte.
            let near = vaddq_u8(look_up(even, front[2 * pair]), look_up(odd, front[2 * pair + 1]));
            let far = vaddq_u8(look_up(even, back[2 * pair]), look_up(odd, back[2 * pair + 1]));
            sums[0] = vaddw_u8(sums[0], vget_low_u8(near));
            sums[1] = vaddw_high_u8(sums[1], near);
            sums[2] = vaddw_u8(sums[2], vget_low_u8(far));
            sums[3] = vaddw_high_u8(sums[3], far);
        }
    }
    sums
}

/// The byte positions of the 16 edges of two rows: register `p` has byte `p` of every edge, in the
/// order of edges.
#[inline]
#[target_feature(enable = "neon")]
fn turn(first: &[u8; 64], second: &[u8; 64]) -> [uint8x16_t; POSITIONS] {
    let ([r0, r1, r2, r3], [r4, r5, r6, r7]) = (quarters(first), quarters(second));
    // Positions 0, 2, 4 and 6 of four edges, and positions 1, 3, 5 and 7.
    let even = [vuzp1q_u8(r0, r1), vuzp1q_u8(r2, r3), vuzp1q_u8(r4, r5), vuzp1q_u8(r6, r7)];
    let odd = [vuzp2q_u8(r0, r1), vuzp2q_u8(r2, r3), vuzp2q_u8(r4, r5), vuzp2q_u8(r6, r7)];
    let ([p0, p2, p4, p6], [p1, p3, p5, p7]) = (four_positions(even), four_positions(odd));
    [p0, p1, p2, p3, p4, p5, p6, p7]
}

/// Separates four positions whose bytes alternate in the registers.
#[inline]
#[target_feature(enable = "neon")]
fn four_positions([a, b, c, d]: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
    let (first, third) = (vuzp1q_u8(a, b), vuzp1q_u8(c, d));
    let (second, fourth) = (vuzp2q_u8(a, b), vuzp2q_u8(c, d));
    [vuzp1q_u8(first, third), vuzp1q_u8(second, fourth), vuzp2q_u8(first, third), vuzp2q_u8(second, fourth)]
}

#[inline]
#[target_feature(enable = "neon")]
fn quarters(row: &[u8; 64]) -> [uint8x16_t; 4] {
    let (quarters, _) = row.as_chunks::<16>();
    [load_u8x16(&quarters[0]), load_u8x16(&quarters[1]), load_u8x16(&quarters[2]), load_u8x16(&quarters[3])]
}

/// The distances of one byte position of 16 edges.
#[inline]
#[target_feature(enable = "neon")]
fn look_up([low, high]: &[Table; 2], codes: uint8x16_t) -> uint8x16_t {
    let low = vqtbl1q_u8(load_u8x16(low), vandq_u8(codes, vdupq_n_u8(15)));
    vaddq_u8(low, vqtbl1q_u8(load_u8x16(high), vshrq_n_u8::<4>(codes)))
}

/// Adds the lanes to the distances of a block.
#[inline]
#[target_feature(enable = "neon")]
fn add(out: &mut [u32; SCAN_EDGES], sums: uint16x8_t) {
    let mut lanes = [[0; 4]; 2];
    store_u32x4(&mut lanes[0], vmovl_u16(vget_low_u16(sums)));
    store_u32x4(&mut lanes[1], vmovl_high_u16(sums));
    for (out, lane) in out.iter_mut().zip(lanes.as_flattened()) {
        *out += lane;
    }
}
