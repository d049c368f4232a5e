//! Contiguous codes, whose bits are counted on four bit planes. The planes stay in registers. Each
//! edge ends with a sum across lanes, which AVX-512 does for eight edges at once.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pagehop_kernels::{Isa, Kernels};

use crate::query::{Query, Shape};

// Loops instead of iterators with closures: `lanes/mod.rs` of the crate says why.

pub(crate) fn score(kernels: Kernels, query: &Query, shape: Shape, codes: &[u8], out: &mut [u32]) {
    assert!(
        codes.len() >= shape.edges * shape.words * 8 + 32
            && out.len() == shape.edges
            && shape.edges.is_multiple_of(8)
    );
    assert!(query.planes.len() == 4 * shape.words && query.split_planes.len() == shape.words.div_ceil(4));
    // SAFETY: `kernels` prove that the CPU has their instruction set; lengths are checked above.
    unsafe {
        match (kernels.isa(), shape.words.div_ceil(8)) {
            (Isa::Avx512, 2) => avx512::<2>(&query.planes, shape.words, codes, out),
            (Isa::Avx512, 3) => avx512::<3>(&query.planes, shape.words, codes, out),
            (Isa::Avx2, _) => avx2(query, shape.words, codes, out),
            _ => unreachable!("shapes of this experiment"),
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn avx512<const VECTORS: usize>(plane_words: &[u64], words: usize, codes: &[u8], out: &mut [u32]) {
    let mut masks: [__mmask8; VECTORS] = [0xff; VECTORS];
    masks[VECTORS - 1] >>= 8 * VECTORS - words;
    let mut planes = [[_mm512_setzero_si512(); 4]; VECTORS];
    for (v, planes) in planes.iter_mut().enumerate() {
        for (plane, loaded) in planes.iter_mut().enumerate() {
            // SAFETY: masks end with the planes' words.
            *loaded = unsafe {
                _mm512_maskz_loadu_epi64(masks[v], plane_words.as_ptr().add(plane * words + 8 * v).cast())
            };
        }
    }
    for (codes, out) in codes.chunks_exact(8 * words * 8).zip(out.as_chunks_mut::<8>().0) {
        let mut sums = [_mm512_setzero_si512(); 8];
        for (edge, sum) in sums.iter_mut().enumerate() {
            let mut counts = [_mm512_setzero_si512(); 4];
            for v in 0..VECTORS {
                let at = (edge * words + 8 * v) * 8;
                // SAFETY: masks end with the edge's words.
                let code = unsafe { _mm512_maskz_loadu_epi64(masks[v], codes.as_ptr().add(at).cast()) };
                for plane in 0..4 {
                    let differing = _mm512_xor_si512(code, planes[v][plane]);
                    counts[plane] = _mm512_add_epi64(counts[plane], _mm512_popcnt_epi64(differing));
                }
            }
            let light = _mm512_add_epi64(counts[0], _mm512_slli_epi64::<1>(counts[1]));
            let heavy = _mm512_add_epi64(counts[2], _mm512_slli_epi64::<1>(counts[3]));
            *sum = _mm512_add_epi64(light, _mm512_slli_epi64::<2>(heavy));
        }
        let totals = _mm512_cvtepi64_epi32(sum_each_u64x8(sums));
        // SAFETY: eight answers.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), totals) };
    }
}

/// The sums over the lanes of each of eight registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_each_u64x8(x: [__m512i; 8]) -> __m512i {
    let x01 = _mm512_add_epi64(_mm512_unpacklo_epi64(x[0], x[1]), _mm512_unpackhi_epi64(x[0], x[1]));
    let x23 = _mm512_add_epi64(_mm512_unpacklo_epi64(x[2], x[3]), _mm512_unpackhi_epi64(x[2], x[3]));
    let x45 = _mm512_add_epi64(_mm512_unpacklo_epi64(x[4], x[5]), _mm512_unpackhi_epi64(x[4], x[5]));
    let x67 = _mm512_add_epi64(_mm512_unpacklo_epi64(x[6], x[7]), _mm512_unpackhi_epi64(x[6], x[7]));
    halve(halve(x01, x23), halve(x45, x67))
}

/// Sums of pairs of quarters: two from `a`, then two from `b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn halve(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b))
}

#[target_feature(enable = "avx2")]
unsafe fn avx2(query: &Query, words: usize, codes: &[u8], out: &mut [u32]) {
    let counts = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let twice = _mm256_add_epi8(counts, counts);
    let four_times = _mm256_add_epi8(twice, twice);
    let weighted = [counts, twice, four_times, _mm256_add_epi8(four_times, four_times)];
    let (low, zero) = (_mm256_set1_epi8(15), _mm256_setzero_si256());
    // If a code ends within a vector, the next code follows in the same vector and must not count.
    let lanes_left = (words % 4) as i64;
    let tail = _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes_left), _mm256_setr_epi64x(0, 1, 2, 3));
    for (edge, out) in out.iter_mut().enumerate() {
        let mut sums_u64x4 = zero;
        for (v, split) in query.split_planes.iter().enumerate() {
            // SAFETY: the caller leaves room for a vector behind the last code.
            let mut code = unsafe { _mm256_loadu_si256(codes.as_ptr().add((edge * words + 4 * v) * 8).cast()) };
            if 4 * v + 4 > words {
                code = _mm256_and_si256(code, tail);
            }
            let parts = [_mm256_and_si256(code, low), _mm256_and_si256(_mm256_srli_epi64::<4>(code), low)];
            let mut distance_u8x32 = zero;
            for (code, planes) in parts.into_iter().zip(split) {
                for plane in 0..4 {
                    // SAFETY: an array of 32 bytes.
                    let plane_bits = unsafe { _mm256_loadu_si256(planes[plane].as_ptr().cast()) };
                    let counted = _mm256_shuffle_epi8(weighted[plane], _mm256_xor_si256(code, plane_bits));
                    distance_u8x32 = _mm256_add_epi8(distance_u8x32, counted);
                }
            }
            sums_u64x4 = _mm256_add_epi64(sums_u64x4, _mm256_sad_epu8(distance_u8x32, zero));
        }
        let x2 = _mm_add_epi64(_mm256_castsi256_si128(sums_u64x4), _mm256_extracti128_si256::<1>(sums_u64x4));
        *out = _mm_cvtsi128_si32(_mm_add_epi64(x2, _mm_unpackhi_epi64(x2, x2))) as u32;
    }
}
