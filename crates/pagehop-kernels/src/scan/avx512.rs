//! Edge scoring in 512-bit registers. One register holds one word of eight edges. So a lane counts
//! for the same edge from the first word to the last, and no sum across lanes is needed.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Prepared, SCAN_EDGES, SCAN_PLANES, portable};
use crate::dispatch::on_token;
use crate::lanes::avx512::{load_u8x64, store_u32x8};

on_token! { Avx512:
    fn prepare(planes: &[u64], prepared: &mut Prepared);
    fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]);
}

#[target_feature(enable = "avx512f")]
fn prepare(planes: &[u64], prepared: &mut Prepared) {
    portable::prepare(planes, prepared);
}

#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    // One block after another: this reads codes in the order in which they are prefetched. Three or
    // four blocks side by side would share each broadcast of a plane's word. That saves 2 ns of 36
    // ns in the cache, and costs up to 90 ns of 280 ns from memory (decision 0001, 15 words, 24
    // edges).
    for (block, out) in rows.chunks_exact(query.planes.len()).zip(out) {
        let mut counts_u64x8 = [_mm512_setzero_si512(); SCAN_PLANES];
        for (codes, planes) in block.iter().zip(&query.planes) {
            let codes = load_u8x64(codes);
            for plane in 0..SCAN_PLANES {
                let differing = _mm512_xor_si512(codes, _mm512_set1_epi64(planes[plane] as i64));
                counts_u64x8[plane] = _mm512_add_epi64(counts_u64x8[plane], _mm512_popcnt_epi64(differing));
            }
        }
        let [ones, twos, fours, eights] = counts_u64x8;
        let light = _mm512_add_epi64(ones, _mm512_slli_epi64::<1>(twos));
        let heavy = _mm512_add_epi64(fours, _mm512_slli_epi64::<1>(eights));
        store_u32x8(out, _mm512_cvtepi64_epi32(_mm512_add_epi64(light, _mm512_slli_epi64::<2>(heavy))));
    }
}
