//! The interleaved layout, looked up as in FastScan. A word of 16 edges is transposed in registers
//! until one byte position of all 16 lies in one lane, and is then looked up in tables of sums of
//! the query. This is for AVX2, which cannot count bits: 16 shuffles to transpose save three of
//! every four lookups.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pagehop_kernels::{Isa, Kernels};

use crate::query::{Query, Shape};

/// Edges transposed together: two blocks.
const TOGETHER: usize = 16;

pub(crate) fn score(kernels: Kernels, query: &Query, shape: Shape, codes: &[u8], out: &mut [u32]) {
    assert!(kernels.isa() == Isa::Avx2 && query.word_tables.len() == shape.words);
    let block_bytes = shape.words * 64;
    assert!(codes.len() >= shape.edges / 8 * block_bytes && out.len() == shape.edges);
    let blocks = &codes[..shape.edges / 8 * block_bytes];
    for (pair, out) in blocks.chunks(2 * block_bytes).zip(out.chunks_mut(TOGETHER)) {
        let (first, second) = pair.split_at(block_bytes);
        // An odd last block is paired with itself.
        let second = if second.is_empty() { first } else { second };
        let mut sums = [0; TOGETHER];
        // SAFETY: `kernels` prove that the CPU has their instruction set.
        unsafe { avx2(&query.word_tables, first.as_chunks().0, second.as_chunks().0, &mut sums) };
        out.copy_from_slice(&sums[..out.len()]);
    }
}

#[target_feature(enable = "avx2")]
fn avx2(tables: &[[[[u8; 32]; 2]; 4]], first: &[[u8; 64]], second: &[[u8; 64]], out: &mut [u32; TOGETHER]) {
    let byte = _mm256_set1_epi16(255);
    let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for ((tables, first), second) in tables.iter().zip(first).zip(second) {
        let turned = turn(first, second);
        for half in 0..2 {
            // Four table entries of at most 60 add up in a byte.
            let a = look_up(&tables[half * 2], turned[half * 2]);
            let b = look_up(&tables[half * 2 + 1], turned[half * 2 + 1]);
            let bytes = _mm256_add_epi8(a, b);
            even = _mm256_add_epi16(even, _mm256_and_si256(bytes, byte));
            odd = _mm256_add_epi16(odd, _mm256_srli_epi16::<8>(bytes));
        }
    }
    let mut sums = [[0u16; 8]; 2];
    for (sum, sums) in [even, odd].into_iter().zip(&mut sums) {
        let sum = _mm_add_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        // SAFETY: an array of eight.
        unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), sum) };
    }
    // The order of edges after `turn`: pairs 0, 2, 4, 6, then 1, 3, 5, 7.
    for (place, pair) in [0, 2, 4, 6, 1, 3, 5, 7].into_iter().enumerate() {
        out[2 * pair] = u32::from(sums[0][place]);
        out[2 * pair + 1] = u32::from(sums[1][place]);
    }
}

/// Eight byte positions of 16 edges, two positions to a register.
#[inline]
#[target_feature(enable = "avx2")]
fn turn(first: &[u8; 64], second: &[u8; 64]) -> [__m256i; 4] {
    let interleave = _mm256_setr_epi8(
        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15,
    );
    let rows = [&first[..32], &first[32..], &second[..32], &second[32..]];
    let mut pairs = [interleave; 4];
    for (pairs, row) in pairs.iter_mut().zip(rows) {
        // SAFETY: 32 bytes.
        *pairs = _mm256_shuffle_epi8(unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }, interleave);
    }
    let [a, b, c, d] = pairs;
    let (ab_low, ab_high) = (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi16(c, d), _mm256_unpackhi_epi16(c, d));
    [
        _mm256_permute4x64_epi64::<0xd8>(_mm256_unpacklo_epi32(ab_low, cd_low)),
        _mm256_permute4x64_epi64::<0xd8>(_mm256_unpackhi_epi32(ab_low, cd_low)),
        _mm256_permute4x64_epi64::<0xd8>(_mm256_unpacklo_epi32(ab_high, cd_high)),
        _mm256_permute4x64_epi64::<0xd8>(_mm256_unpackhi_epi32(ab_high, cd_high)),
    ]
}

/// The sums of two byte positions for 16 edges. The first table is for low nibbles, the second for
/// high nibbles.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(tables: &[[u8; 32]; 2], codes: __m256i) -> __m256i {
    let nibble = _mm256_set1_epi8(15);
    // SAFETY: arrays of 32 bytes.
    let (low, high) =
        unsafe { (_mm256_loadu_si256(tables[0].as_ptr().cast()), _mm256_loadu_si256(tables[1].as_ptr().cast())) };
    _mm256_add_epi8(
        _mm256_shuffle_epi8(low, _mm256_and_si256(codes, nibble)),
        _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble)),
    )
}
