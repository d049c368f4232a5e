//! Edge scoring in 256-bit registers. AVX2 cannot count bits, so a byte shuffle looks up the bit
//! count of each nibble (Mula 2011). The tables hold counts already multiplied by the weight of the
//! plane, so that the counts of all planes add up in one byte. It cannot overflow within a word: 2
//! nibbles * 4 bits * (1 + 2 + 4 + 8) = 120.
//!
//! XOR works on nibbles separately, so the query is split into nibbles once for all blocks, and the
//! code once for all planes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{SCAN_EDGES, SCAN_PLANES};
use crate::dispatch::on_token;
use crate::lanes::avx2::{load_u8x32, load_u32x8, store_u32x8};

on_token! { Avx2:
    fn scan_bits(planes: &[u64], codes: &[u8], words: usize, out: &mut [[u32; SCAN_EDGES]]);
}

/// Words of the query that are split into nibbles at a time, on the stack: 2 KiB.
const WORDS: usize = 32;

/// One word of every plane, split: the low nibbles, then the high nibbles, each in the low half of
/// its byte.
type Nibbles = [[u64; SCAN_PLANES]; 2];

#[target_feature(enable = "avx2")]
fn scan_bits(planes: &[u64], codes: &[u8], words: usize, out: &mut [[u32; SCAN_EDGES]]) {
    let (rows, _) = codes.as_chunks::<64>();
    out.fill([0; SCAN_EDGES]);
    let mut nibbles = [[[0; SCAN_PLANES]; 2]; WORDS];
    for first in (0..words).step_by(WORDS) {
        let count = WORDS.min(words - first);
        for (word, nibbles) in (first..).zip(&mut nibbles[..count]) {
            for plane in 0..SCAN_PLANES {
                let plane_word = planes[plane * words + word];
                nibbles[0][plane] = plane_word & LOW_NIBBLES;
                nibbles[1][plane] = plane_word >> 4 & LOW_NIBBLES;
            }
        }
        for (rows, out) in rows.chunks_exact(words).zip(&mut *out) {
            add_block(&nibbles[..count], &rows[first..][..count], out);
        }
    }
}

const LOW_NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// Adds the weighted distances of the words in `nibbles` to the eight sums of one block.
#[inline]
#[target_feature(enable = "avx2")]
fn add_block(nibbles: &[Nibbles], rows: &[[u8; 64]], out: &mut [u32; SCAN_EDGES]) {
    let counts_u8x32 = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let twice = _mm256_add_epi8(counts_u8x32, counts_u8x32);
    let four_times = _mm256_add_epi8(twice, twice);
    let weighted_counts = [counts_u8x32, twice, four_times, _mm256_add_epi8(four_times, four_times)];
    let low_nibbles = _mm256_set1_epi64x(LOW_NIBBLES as i64);
    let zero = _mm256_setzero_si256();
    let mut sums_u64x4 = [zero; 2];
    for (nibbles, row) in nibbles.iter().zip(rows) {
        for (half, sum_u64x4) in row.as_chunks::<32>().0.iter().zip(&mut sums_u64x4) {
            let codes = load_u8x32(half);
            let split = [
                _mm256_and_si256(codes, low_nibbles),
                _mm256_and_si256(_mm256_srli_epi64::<4>(codes), low_nibbles),
            ];
            let mut distance_u8x32 = zero;
            for (query, codes) in nibbles.iter().zip(split) {
                for plane in 0..SCAN_PLANES {
                    let differing = _mm256_xor_si256(codes, _mm256_set1_epi64x(query[plane] as i64));
                    let counts = _mm256_shuffle_epi8(weighted_counts[plane], differing);
                    distance_u8x32 = _mm256_add_epi8(distance_u8x32, counts);
                }
            }
            *sum_u64x4 = _mm256_add_epi64(*sum_u64x4, _mm256_sad_epu8(distance_u8x32, zero));
        }
    }
    // Each of the two registers has four edges in the low halves of its 64-bit lanes. The shuffle
    // takes two edges from each register in turn; the permutation restores their order.
    let (front, back) = (_mm256_castsi256_ps(sums_u64x4[0]), _mm256_castsi256_ps(sums_u64x4[1]));
    let by_turns = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(front, back));
    let sums_u32x8 = _mm256_permute4x64_epi64::<0xd8>(by_turns);
    store_u32x8(out, _mm256_add_epi32(load_u32x8(out), sums_u32x8));
}
