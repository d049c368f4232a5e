//! Edge scoring in 256-bit registers. AVX2 cannot count bits, so a byte shuffle looks up the
//! distance of four bits in a table of the query, as in FastScan (André, Kermarrec, Le Scouarnec
//! 2015). A look-up needs one byte position of many edges in one register. Mostly shifts and blends
//! bring it there: shuffles compete with the look-ups for the one port that Intel has for them.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Prepared, SCAN_EDGES, Table, WordTables, tables};
use crate::dispatch::on_token;
use crate::lanes::avx2::{broadcast_u8x16, load_u8x32, store_u32x8};
use crate::lanes::rows_repeating_last;

on_token! { Avx2:
    fn prepare(planes: &[u64], prepared: &mut Prepared);
    fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]);
}

/// Blocks that are counted together.
const TOGETHER: usize = 4;

/// Words whose sums, at most 960 each, fit into 16 bits.
const WORDS: usize = 64;

#[target_feature(enable = "avx2")]
fn prepare(planes: &[u64], prepared: &mut Prepared) {
    tables::make(planes, &mut prepared.tables);
}

#[target_feature(enable = "avx2")]
fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    let words = query.tables.len();
    for (rows, out) in rows.chunks(TOGETHER * words).zip(out.chunks_mut(TOGETHER)) {
        // What is computed for blocks that are not there is not stored.
        let blocks: [_; TOGETHER] = rows_repeating_last(rows, words);
        let mut sums = [_mm256_setzero_si256(); TOGETHER];
        for first in (0..words).step_by(WORDS) {
            let part = first..words.min(first + WORDS);
            let [a, b, c, d] = blocks;
            let blocks = [&a[part.clone()], &b[part.clone()], &c[part.clone()], &d[part.clone()]];
            let more = count_together(&query.tables[part], blocks);
            for i in 0..TOGETHER {
                sums[i] = _mm256_add_epi32(sums[i], more[i]);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            store_u32x8(out, sum);
        }
    }
}

/// The distances of four blocks, in 32-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn count_together(tables: &[WordTables], [a, b, c, d]: [&[[u8; 64]]; TOGETHER]) -> [__m256i; TOGETHER] {
    let low_byte = _mm256_set1_epi16(255);
    // The sums of 16-bit lanes, and of their upper bytes alone.
    let (mut both, mut upper) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for ((((tables, a), b), c), d) in tables.iter().zip(a).zip(b).zip(c).zip(d) {
        let (front, back) = (turn(a, b), turn(c, d));
        for pair in 0..4 {
            let (x, y) = (front[pair], back[pair]);
            let even = _mm256_or_si256(_mm256_and_si256(x, low_byte), _mm256_slli_epi16::<8>(y));
            let odd = _mm256_or_si256(_mm256_srli_epi16::<8>(x), _mm256_andnot_si256(low_byte, y));
            // Four entries of at most 60 add up in a byte.
            let sums = _mm256_add_epi8(look_up(&tables[2 * pair], even), look_up(&tables[2 * pair + 1], odd));
            both = _mm256_add_epi16(both, sums);
            upper = _mm256_add_epi16(upper, _mm256_srli_epi16::<8>(sums));
        }
    }
    let lower = _mm256_sub_epi16(both, _mm256_slli_epi16::<8>(upper));
    let ([a, b], [c, d]) = (in_order(lower), in_order(upper));
    [a, b, c, d]
}

/// Pairs of byte positions of 16 edges: register `r` has bytes `2r` and `2r + 1` in its 16-bit
/// lanes. Lanes are edges 0, 8, 1, 9, 4, 12, 5 and 13, then the same plus 2.
#[inline]
#[target_feature(enable = "avx2")]
fn turn(first: &[u8; 64], second: &[u8; 64]) -> [__m256i; 4] {
    let ([a, b], [c, d]) = (halves(first), halves(second));
    let (ab_low, ab_high) = (_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b));
    let (cd_low, cd_high) = (_mm256_shuffle_ps::<0x88>(c, d), _mm256_shuffle_ps::<0xdd>(c, d));
    let [ab_low, ab_high] = [_mm256_castps_si256(ab_low), _mm256_castps_si256(ab_high)];
    let [cd_low, cd_high] = [_mm256_castps_si256(cd_low), _mm256_castps_si256(cd_high)];
    [
        _mm256_blend_epi16::<0xaa>(ab_low, _mm256_slli_epi32::<16>(cd_low)),
        _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(ab_low), cd_low),
        _mm256_blend_epi16::<0xaa>(ab_high, _mm256_slli_epi32::<16>(cd_high)),
        _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(ab_high), cd_high),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(row: &[u8; 64]) -> [__m256; 2] {
    let (halves, _) = row.as_chunks::<32>();
    [_mm256_castsi256_ps(load_u8x32(&halves[0])), _mm256_castsi256_ps(load_u8x32(&halves[1]))]
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

/// Undoes the order of lanes that [`turn`] made, and widens them.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(lanes: __m256i) -> [__m256i; 2] {
    let pairs = _mm256_setr_epi8(
        0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
    );
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let in_order = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(lanes, pairs), order);
    let back = _mm256_extracti128_si256::<1>(in_order);
    [_mm256_cvtepu16_epi32(_mm256_castsi256_si128(in_order)), _mm256_cvtepu16_epi32(back)]
}
