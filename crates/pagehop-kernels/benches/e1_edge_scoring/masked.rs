//! Contiguous codes as masks: the query has one byte per dimension, and the bits of a code select
//! the bytes to sum. AVX-512 has mask registers for this; AVX2 first spreads the bits over bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pagehop_kernels::{Isa, Kernels};

use crate::query::{Query, Shape};

pub(crate) fn score(kernels: Kernels, query: &Query, shape: Shape, codes: &[u8], out: &mut [u32]) {
    assert!(
        codes.len() >= shape.edges * shape.words * 8 && out.len() == shape.edges && shape.edges.is_multiple_of(4)
    );
    assert!(query.bytes.len() == 64 * shape.words);
    // SAFETY: `kernels` prove that the CPU has their instruction set; lengths are checked above.
    unsafe {
        match (kernels.isa(), shape.words) {
            (Isa::Avx512, 12) => avx512::<12>(&query.bytes, codes, out),
            (Isa::Avx512, 13) => avx512::<13>(&query.bytes, codes, out),
            (Isa::Avx512, 15) => avx512::<15>(&query.bytes, codes, out),
            (Isa::Avx512, 24) => avx512::<24>(&query.bytes, codes, out),
            (Isa::Avx2, _) => avx2(&query.bytes, shape.words, codes, out),
            _ => unreachable!("shapes of this experiment"),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn avx512<const WORDS: usize>(query: &[u8], codes: &[u8], out: &mut [u32]) {
    let ones = _mm512_set1_epi8(1);
    let mut query_u8x64 = [ones; WORDS];
    for (loaded, query) in query_u8x64.iter_mut().zip(query.as_chunks::<64>().0) {
        // SAFETY: an array of 64 bytes.
        *loaded = unsafe { _mm512_loadu_si512(query.as_ptr().cast()) };
    }
    for (codes, out) in codes.as_chunks::<8>().0.chunks_exact(4 * WORDS).zip(out.as_chunks_mut::<4>().0) {
        let mut sums = [_mm512_setzero_si512(); 4];
        for (word, query) in query_u8x64.iter().enumerate() {
            for edge in 0..4 {
                let chosen = u64::from_le_bytes(codes[edge * WORDS + word]);
                sums[edge] = _mm512_dpbusd_epi32(sums[edge], _mm512_maskz_mov_epi8(chosen, *query), ones);
            }
        }
        // SAFETY: four answers.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), sum_each_i32x4(sums)) };
    }
}

/// The sums over the lanes of each of four registers.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn sum_each_i32x4([a, b, c, d]: [__m512i; 4]) -> __m128i {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    let x4 = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let x2 = _mm256_add_epi32(_mm512_castsi512_si256(x4), _mm512_extracti64x4_epi64::<1>(x4));
    _mm_add_epi32(_mm256_castsi256_si128(x2), _mm256_extracti128_si256::<1>(x2))
}

#[target_feature(enable = "avx2")]
unsafe fn avx2(query: &[u8], words: usize, codes: &[u8], out: &mut [u32]) {
    // Byte `i` of a vector tests bit `i` of 32: bit `i % 8` of byte `i / 8`.
    let spread = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
    );
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let zero = _mm256_setzero_si256();
    let (query, _) = query.as_chunks::<32>();
    let (halves, _) = codes.as_chunks::<4>();
    for (code, out) in halves.chunks_exact(2 * words).zip(out) {
        let mut sums_u64x4 = [zero; 2];
        for (i, (half, query)) in code.iter().zip(query).enumerate() {
            let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(*half)), spread);
            let chosen = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
            // SAFETY: an array of 32 bytes.
            let query = unsafe { _mm256_loadu_si256(query.as_ptr().cast()) };
            let sum = _mm256_sad_epu8(_mm256_and_si256(query, chosen), zero);
            sums_u64x4[i % 2] = _mm256_add_epi64(sums_u64x4[i % 2], sum);
        }
        let x4 = _mm256_add_epi64(sums_u64x4[0], sums_u64x4[1]);
        let x2 = _mm_add_epi64(_mm256_castsi256_si128(x4), _mm256_extracti128_si256::<1>(x4));
        *out = _mm_cvtsi128_si32(_mm_add_epi64(x2, _mm_unpackhi_epi64(x2, x2))) as u32;
    }
}
