//! CRC-32C with the instruction of SSE4.2, which takes eight bytes. Three stretches of the input
//! are computed side by side (`stretch.rs`).
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::stretch::{STRETCH_BYTES, move_over_stretch};
use crate::dispatch::{Avx512, on_token};

on_token! { Avx2:
    fn crc32c(bytes: &[u8], seed: u32) -> u32;
}

impl Avx512 {
    pub(super) fn crc32c(self, bytes: &[u8], seed: u32) -> u32 {
        self.avx2().crc32c(bytes, seed)
    }
}

#[target_feature(enable = "sse4.2")]
fn crc32c(bytes: &[u8], seed: u32) -> u32 {
    let mut state = !seed;
    let (rounds, rest) = bytes.as_chunks::<{ 3 * STRETCH_BYTES }>();
    for round in rounds {
        let (words, _) = round.as_chunks::<8>();
        let (first, later) = words.split_at(STRETCH_BYTES / 8);
        let (second, third) = later.split_at(STRETCH_BYTES / 8);
        let (mut a, mut b, mut c) = (u64::from(state), 0, 0);
        for ((first, second), third) in first.iter().zip(second).zip(third) {
            a = _mm_crc32_u64(a, u64::from_le_bytes(*first));
            b = _mm_crc32_u64(b, u64::from_le_bytes(*second));
            c = _mm_crc32_u64(c, u64::from_le_bytes(*third));
        }
        state = move_over_stretch(move_over_stretch(a as u32) ^ b as u32) ^ c as u32;
    }
    let (words, rest) = rest.as_chunks::<8>();
    let mut wide = u64::from(state);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    let mut state = wide as u32;
    for byte in rest {
        state = _mm_crc32_u8(state, *byte);
    }
    !state
}
