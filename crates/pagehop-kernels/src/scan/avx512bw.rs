//! Edge scoring in 512-bit registers without an instruction that counts bits, by look-ups as in
//! `avx2.rs`. A register has two byte positions of 32 edges. With masks, the bytes of each position
//! use their own table, so the positions need not be separated further.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Prepared, SCAN_EDGES, WordTables};
use crate::dispatch::{Avx512Bw, on_token};
use crate::lanes::avx2::store_u32x8;
use crate::lanes::avx512::{broadcast_u8x16, load_u8x64};
use crate::lanes::rows_repeating_last;

on_token! { Avx512Bw:
    fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]);
}

impl Avx512Bw {
    pub(super) fn prepare(self, planes: &[u64], prepared: &mut Prepared) {
        self.avx2().prepare(planes, prepared);
    }
}

/// Blocks that are counted together.
const TOGETHER: usize = 4;

/// Words whose sums fit into 16 bits; the sum of a word is at most 960.
const WORDS: usize = 64;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    let words = query.tables.len();
    for (rows, out) in rows.chunks(TOGETHER * words).zip(out.chunks_mut(TOGETHER)) {
        // The results of a block that does not exist are not stored.
        let blocks: [_; TOGETHER] = rows_repeating_last(rows, words, out.len());
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn count_together(tables: &[WordTables], [a, b, c, d]: [&[[u8; 64]]; TOGETHER]) -> [__m256i; TOGETHER] {
    let ones = _mm512_set1_epi8(1);
    let mut sum_u16x32 = _mm512_setzero_si512();
    for ((((tables, a), b), c), d) in tables.iter().zip(a).zip(b).zip(c).zip(d) {
        let turned = turn([a, b, c, d]);
        for half in 0..2 {
            // Four entries of at most 60 add up in a byte.
            let front = look_up(tables, 4 * half, turned[2 * half]);
            let back = look_up(tables, 4 * half + 2, turned[2 * half + 1]);
            let both = _mm512_maddubs_epi16(_mm512_add_epi8(front, back), ones);
            sum_u16x32 = _mm512_add_epi16(sum_u16x32, both);
        }
    }
    in_order(sum_u16x32)
}

/// Pairs of byte positions of 32 edges: register `r` has bytes `2r` and `2r + 1` in its 16-bit
/// lanes. Lanes are edges 0, 16, 1, 17, 8, 24, 9 and 25, then the same plus 2, 4 and 6.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn turn(rows: [&[u8; 64]; TOGETHER]) -> [__m512i; 4] {
    const UPPER: __mmask32 = 0xaaaa_aaaa;
    let [a, b, c, d] = rows;
    let (a, b) = (_mm512_castsi512_ps(load_u8x64(a)), _mm512_castsi512_ps(load_u8x64(b)));
    let (c, d) = (_mm512_castsi512_ps(load_u8x64(c)), _mm512_castsi512_ps(load_u8x64(d)));
    let ab_low = _mm512_castps_si512(_mm512_shuffle_ps::<0x88>(a, b));
    let ab_high = _mm512_castps_si512(_mm512_shuffle_ps::<0xdd>(a, b));
    let cd_low = _mm512_castps_si512(_mm512_shuffle_ps::<0x88>(c, d));
    let cd_high = _mm512_castps_si512(_mm512_shuffle_ps::<0xdd>(c, d));
    [
        _mm512_mask_blend_epi16(UPPER, ab_low, _mm512_slli_epi32::<16>(cd_low)),
        _mm512_mask_blend_epi16(UPPER, _mm512_srli_epi32::<16>(ab_low), cd_low),
        _mm512_mask_blend_epi16(UPPER, ab_high, _mm512_slli_epi32::<16>(cd_high)),
        _mm512_mask_blend_epi16(UPPER, _mm512_srli_epi32::<16>(ab_high), cd_high),
    ]
}

/// The distances of byte `at` in even bytes, and of the next one in odd bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up(tables: &WordTables, at: usize, codes: __m512i) -> __m512i {
    const ODD: __mmask64 = 0xaaaa_aaaa_aaaa_aaaa;
    let nibble = _mm512_set1_epi8(15);
    let low_nibbles = _mm512_and_si512(codes, nibble);
    let high_nibbles = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble);
    let (even, odd) = (&tables[at], &tables[at + 1]);
    let low = _mm512_shuffle_epi8(broadcast_u8x16(&even[0]), low_nibbles);
    let low = _mm512_mask_shuffle_epi8(low, ODD, broadcast_u8x16(&odd[0]), low_nibbles);
    let high = _mm512_shuffle_epi8(broadcast_u8x16(&even[1]), high_nibbles);
    let high = _mm512_mask_shuffle_epi8(high, ODD, broadcast_u8x16(&odd[1]), high_nibbles);
    _mm512_add_epi8(low, high)
}

/// Undoes the order of lanes that [`turn`] made, and widens them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn in_order(lanes: __m512i) -> [__m256i; TOGETHER] {
    let pairs = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let in_order = _mm512_permutexvar_epi32(order, _mm512_shuffle_epi8(lanes, pairs));
    [
        _mm256_cvtepu16_epi32(_mm512_castsi512_si128(in_order)),
        _mm256_cvtepu16_epi32(_mm512_extracti32x4_epi32::<1>(in_order)),
        _mm256_cvtepu16_epi32(_mm512_extracti32x4_epi32::<2>(in_order)),
        _mm256_cvtepu16_epi32(_mm512_extracti32x4_epi32::<3>(in_order)),
    ]
}
