//! FastScan (Andre and others 2015), in the layout of Faiss: byte `i` of a group of four dimensions
//! holds edge `i` in its low nibble and edge `i + 16` in its high nibble. One byte shuffle looks up
//! 32 nibbles.
//!
//! With a 4-bit query a table entry is at most 60, so four groups add up in a byte before they are
//! widened. This is exact, and faster than the 16-bit sums that 8-bit tables need. A node of 24
//! edges uses 24 of 32 places.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pagehop_kernels::{Isa, Kernels};

use crate::query::{Query, Shape};

const PLACES: usize = 32;

pub(crate) fn score(kernels: Kernels, query: &Query, shape: Shape, codes: &[u8], out: &mut [u32]) {
    let groups = shape.dims / 4;
    assert!(
        groups.is_multiple_of(4)
            && query.tables.len() == groups
            && codes.len() >= groups * 16
            && out.len() <= PLACES
    );
    let mut sums = [0u32; PLACES];
    // SAFETY: `kernels` prove that the CPU has their instruction set; lengths are checked above.
    unsafe {
        match kernels.isa() {
            Isa::Avx512 => avx512(&query.tables, codes, &mut sums),
            Isa::Avx2 => avx2(&query.tables, codes, &mut sums),
            Isa::Portable | Isa::Avx512Bw | Isa::Neon => unreachable!("not measured"),
        }
    }
    out.copy_from_slice(&sums[..out.len()]);
}

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn avx512(tables: &[[u8; 16]], codes: &[u8], out: &mut [u32; PLACES]) {
    let (low, byte) = (_mm512_set1_epi8(15), _mm512_set1_epi16(255));
    // `sums[nibble][parity]`: low and high nibbles; sums of even and of odd bytes.
    let mut sums = [[_mm512_setzero_si512(); 2]; 2];
    let mut add = |bytes: [__m512i; 2]| {
        for (sum, bytes) in sums.iter_mut().zip(bytes) {
            sum[0] = _mm512_add_epi16(sum[0], _mm512_and_si512(bytes, byte));
            sum[1] = _mm512_add_epi16(sum[1], _mm512_srli_epi16::<8>(bytes));
        }
    };
    let look_up = |tables: &[u8; 64], codes: &[u8; 64]| {
        // SAFETY: arrays of 64 bytes.
        let (table, code) =
            unsafe { (_mm512_loadu_si512(tables.as_ptr().cast()), _mm512_loadu_si512(codes.as_ptr().cast())) };
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(code), low);
        [_mm512_shuffle_epi8(table, _mm512_and_si512(code, low)), _mm512_shuffle_epi8(table, high)]
    };
    let (tables, codes) = (tables.as_flattened().as_chunks::<64>().0, codes.as_chunks::<64>().0);
    let ((tables, last_tables), codes) = (tables.as_chunks::<4>(), &codes[..tables.len()]);
    let (codes, last_codes) = codes.as_chunks::<4>();
    for (tables, codes) in tables.iter().zip(codes) {
        let mut bytes = look_up(&tables[0], &codes[0]);
        for i in 1..4 {
            let found = look_up(&tables[i], &codes[i]);
            bytes = [_mm512_add_epi8(bytes[0], found[0]), _mm512_add_epi8(bytes[1], found[1])];
        }
        add(bytes);
    }
    for (tables, codes) in last_tables.iter().zip(last_codes) {
        add(look_up(tables, codes));
    }
    for (sums, out) in sums.iter().zip(out.as_chunks_mut::<16>().0) {
        // The quarters of a register hold different groups of the same 16 edges.
        let (even, odd) = (sum_quarters(sums[0]), sum_quarters(sums[1]));
        store(even, odd, out);
    }
}

#[target_feature(enable = "avx2")]
unsafe fn avx2(tables: &[[u8; 16]], codes: &[u8], out: &mut [u32; PLACES]) {
    let (low, byte) = (_mm256_set1_epi8(15), _mm256_set1_epi16(255));
    let mut sums = [[_mm256_setzero_si256(); 2]; 2];
    let mut add = |bytes: [__m256i; 2]| {
        for (sum, bytes) in sums.iter_mut().zip(bytes) {
            sum[0] = _mm256_add_epi16(sum[0], _mm256_and_si256(bytes, byte));
            sum[1] = _mm256_add_epi16(sum[1], _mm256_srli_epi16::<8>(bytes));
        }
    };
    let look_up = |tables: &[u8; 32], codes: &[u8; 32]| {
        // SAFETY: arrays of 32 bytes.
        let (table, code) =
            unsafe { (_mm256_loadu_si256(tables.as_ptr().cast()), _mm256_loadu_si256(codes.as_ptr().cast())) };
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(code), low);
        [_mm256_shuffle_epi8(table, _mm256_and_si256(code, low)), _mm256_shuffle_epi8(table, high)]
    };
    let (tables, codes) = (tables.as_flattened().as_chunks::<32>().0, codes.as_chunks::<32>().0);
    let ((tables, last_tables), codes) = (tables.as_chunks::<4>(), &codes[..tables.len()]);
    let (codes, last_codes) = codes.as_chunks::<4>();
    for (tables, codes) in tables.iter().zip(codes) {
        let mut bytes = look_up(&tables[0], &codes[0]);
        for i in 1..4 {
            let found = look_up(&tables[i], &codes[i]);
            bytes = [_mm256_add_epi8(bytes[0], found[0]), _mm256_add_epi8(bytes[1], found[1])];
        }
        add(bytes);
    }
    for (tables, codes) in last_tables.iter().zip(last_codes) {
        add(look_up(tables, codes));
    }
    for (sums, out) in sums.iter().zip(out.as_chunks_mut::<16>().0) {
        let (even, odd) = (sum_halves(sums[0]), sum_halves(sums[1]));
        store(even, odd, out);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum_quarters(x: __m512i) -> __m128i {
    sum_halves(_mm256_add_epi16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_halves(x: __m256i) -> __m128i {
    _mm_add_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))
}

/// Stores sixteen sums in the order of edges.
#[inline]
#[target_feature(enable = "avx2")]
fn store(even: __m128i, odd: __m128i, out: &mut [u32; 16]) {
    let halves = [_mm_unpacklo_epi16(even, odd), _mm_unpackhi_epi16(even, odd)];
    for (sums, out) in halves.into_iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: an array of eight.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_cvtepu16_epi32(sums)) };
    }
}
