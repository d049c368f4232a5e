//! Edge scoring in 256-bit registers. AVX2 has no instruction that counts bits. So a byte shuffle
//! looks up the distance of four bits in a table of the query, as in FastScan (André, Kermarrec, Le
//! Scouarnec 2015). A look-up needs one byte position of many edges in one register. Two shuffles
//! for each half of a block, and blends, bring it there. Blends run on any port, but shuffles
//! compete with the look-ups.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::hint::black_box;
use std::ops::Range;

use super::{Prepared, SCAN_EDGES, Table, WordTables, tables};
use crate::dispatch::on_token;
use crate::lanes::avx2::{broadcast_u8x16, load_u8x32, store_u32x8};
use crate::lanes::rows_repeating_last;

on_token! { Avx2:
    fn prepare(planes: &[u64], prepared: &mut Prepared);
    fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]);
}

/// Blocks that are counted together: each has one 32-bit lane of every 128 bits.
const TOGETHER: usize = 4;

/// Words whose sums fit into 16 bits; the sum of a word is at most 960.
const WORDS: usize = 64;

#[target_feature(enable = "avx2")]
fn prepare(planes: &[u64], prepared: &mut Prepared) {
    tables::make(planes, &mut prepared.tables);
}

#[target_feature(enable = "avx2")]
fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    let words = query.tables.len();
    let mut rest = rows;
    for out in out.chunks_mut(TOGETHER) {
        let (rows, after) = rest.split_at(out.len() * words);
        rest = after;
        if out.len() == TOGETHER {
            count_blocks::<TOGETHER>(&query.tables, rows, out);
        } else {
            // The results of a block that does not exist are not stored.
            count_blocks::<3>(&query.tables, rows, out);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn count_blocks<const N: usize>(tables: &[WordTables], rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    let words = tables.len();
    let blocks: [_; N] = rows_repeating_last(rows, words, out.len());
    let mut sums = [_mm256_setzero_si256(); TOGETHER];
    for first in (0..words).step_by(WORDS) {
        let more = count_together(tables, blocks, first..words.min(first + WORDS));
        for i in 0..TOGETHER {
            sums[i] = _mm256_add_epi32(sums[i], more[i]);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        store_u32x8(out, sum);
    }
}

/// The distances of three or four blocks in some words, in 32-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn count_together<const N: usize>(
    tables: &[WordTables],
    blocks: [&[[u8; 64]]; N],
    words: Range<usize>,
) -> [__m256i; TOGETHER] {
    // For each order of the blocks, the sums of 16-bit lanes, and the sums of their upper bytes.
    let (mut both, mut upper) = ([_mm256_setzero_si256(); 4], [_mm256_setzero_si256(); 4]);
    let a_order = by_position();
    let b_order = _mm256_shuffle_epi32::<SWAP_1>(a_order);
    let c_order = _mm256_shuffle_epi32::<SWAP_2>(a_order);
    let d_order = _mm256_shuffle_epi32::<SWAP_BOTH>(a_order);
    for word in words {
        let tables = &tables[word];
        let [a_near, a_far] = turn(&blocks[0][word], a_order);
        let [b_near, b_far] = turn(&blocks[1][word], b_order);
        let [c_near, c_far] = turn(&blocks[2][word], c_order);
        let (mut cd_near, mut cd_far) = ([c_near; 2], [c_far; 2]);
        if N == TOGETHER {
            let [d_near, d_far] = turn(&blocks[3][word], d_order);
            (cd_near, cd_far) = (zip(c_near, d_near), zip(c_far, d_far));
        }
        let near = join(zip(a_near, b_near), cd_near);
        let far = join(zip(a_far, b_far), cd_far);
        for p in 0..4 {
            // Four entries of at most 60 add up in a byte.
            let sums = _mm256_add_epi8(look_up(&tables[p], near[p]), look_up(&tables[p + 4], far[p]));
            both[p] = _mm256_add_epi16(both[p], sums);
            upper[p] = _mm256_add_epi16(upper[p], _mm256_srli_epi16::<8>(sums));
        }
    }
    let (both, upper) = (in_one_order(both), in_one_order(upper));
    let lower = _mm256_sub_epi16(both, _mm256_slli_epi16::<8>(upper));
    let [a, b] = widened(_mm256_unpacklo_epi16(lower, upper));
    let [c, d] = widened(_mm256_unpackhi_epi16(lower, upper));
    [a, b, c, d]
}

// Blends join the blocks, and a blend leaves each 32-bit lane in its place. So each block has the
// four positions in another order, and the register of each position has the blocks A to D in
// another order: A B C D, then B A D C, then C D A B, and D C B A.
const SWAP_1: i32 = 0b10_11_00_01;
const SWAP_2: i32 = 0b01_00_11_10;
const SWAP_BOTH: i32 = 0b00_01_10_11;

/// The shuffle that brings the bytes of a position together, with the positions in the order of
/// block A. It is hidden from the compiler, which would else make three shuffles of the two in
/// [`turn`].
#[inline]
#[target_feature(enable = "avx2")]
fn by_position() -> __m256i {
    let bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    black_box(_mm256_broadcastsi128_si256(bytes))
}

/// Byte positions 0 to 3 of the eight edges of a block, and positions 4 to 7. A 32-bit lane has one
/// position of the edges 0, 1, 4 and 5, or of 2, 3, 6 and 7.
#[inline]
#[target_feature(enable = "avx2")]
fn turn(row: &[u8; 64], order: __m256i) -> [__m256i; 2] {
    let (halves, _) = row.as_chunks::<32>();
    let front = _mm256_castsi256_ps(load_u8x32(&halves[0]));
    let back = _mm256_castsi256_ps(load_u8x32(&halves[1]));
    [
        _mm256_shuffle_epi8(_mm256_castps_si256(_mm256_shuffle_ps::<0x88>(front, back)), order),
        _mm256_shuffle_epi8(_mm256_castps_si256(_mm256_shuffle_ps::<0xdd>(front, back)), order),
    ]
}

/// Even 32-bit lanes of one and odd lanes of the other, and the reverse.
#[inline]
#[target_feature(enable = "avx2")]
fn zip(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_blend_epi32::<0b1010_1010>(a, b), _mm256_blend_epi32::<0b0101_0101>(a, b)]
}

/// One register for each of four positions.
#[inline]
#[target_feature(enable = "avx2")]
fn join(ab: [__m256i; 2], cd: [__m256i; 2]) -> [__m256i; 4] {
    [
        _mm256_blend_epi32::<0b1100_1100>(ab[0], cd[0]),
        _mm256_blend_epi32::<0b1100_1100>(ab[1], cd[1]),
        _mm256_blend_epi32::<0b0011_0011>(ab[0], cd[0]),
        _mm256_blend_epi32::<0b0011_0011>(ab[1], cd[1]),
    ]
}

/// The distances of one byte position of 32 edges.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up([low, high]: &[Table; 2], codes: __m256i) -> __m256i {
    let nibble = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(broadcast_u8x16(low), _mm256_and_si256(codes, nibble));
    let high_nibbles = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble);
    _mm256_add_epi8(low, _mm256_shuffle_epi8(broadcast_u8x16(high), high_nibbles))
}

/// The sum of four registers, each with the blocks in the order of its position.
#[inline]
#[target_feature(enable = "avx2")]
fn in_one_order([abcd, badc, cdab, dcba]: [__m256i; 4]) -> __m256i {
    let front = _mm256_add_epi16(abcd, _mm256_shuffle_epi32::<SWAP_1>(badc));
    let back = _mm256_add_epi16(cdab, _mm256_shuffle_epi32::<SWAP_1>(dcba));
    _mm256_add_epi16(front, _mm256_shuffle_epi32::<SWAP_2>(back))
}

/// Two blocks of 16-bit lanes in the order of [`turn`], as two registers in the order of edges.
#[inline]
#[target_feature(enable = "avx2")]
fn widened(blocks: __m256i) -> [__m256i; 2] {
    let in_order = _mm256_permutevar8x32_epi32(blocks, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    let second = _mm256_extracti128_si256::<1>(in_order);
    [_mm256_cvtepu16_epi32(_mm256_castsi256_si128(in_order)), _mm256_cvtepu16_epi32(second)]
}
