//! CRC-32C with the SSE4.2 instruction, which takes eight bytes and has a latency of three cycles.
//! Three stretches of the input are interleaved to hide that latency. The checksum is linear, so a
//! table advances the state of one stretch over the length of the next (Gopal and others, "Fast CRC
//! Computation for iSCSI", Intel 2011).
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable::times_x;
use crate::dispatch::{Avx512, on_token};

on_token! { Avx2:
    fn crc32c(bytes: &[u8], seed: u32) -> u32;
}

impl Avx512 {
    pub(super) fn crc32c(self, bytes: &[u8], seed: u32) -> u32 {
        self.avx2().crc32c(bytes, seed)
    }
}

/// Bytes in one stretch. Five rounds of three stretches cover all of an 8 KiB page but 512 bytes.
const STRETCH_BYTES: usize = 512;

/// `OVER_STRETCH[k][b]` is the state `b << 8 * k` after one stretch of zero bytes.
static OVER_STRETCH: [[u32; 256]; 4] = over_stretch();

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

fn move_over_stretch(state: u32) -> u32 {
    let [b0, b1, b2, b3] = state.to_le_bytes().map(usize::from);
    OVER_STRETCH[0][b0] ^ OVER_STRETCH[1][b1] ^ OVER_STRETCH[2][b2] ^ OVER_STRETCH[3][b3]
}

const fn over_stretch() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut bit = 0;
    while bit < 32 {
        let mut state = 1 << bit;
        let mut step = 0;
        while step < 8 * STRETCH_BYTES {
            state = times_x(state);
            step += 1;
        }
        // An entry is the XOR of the results of its bits.
        let mut byte = 0;
        while byte < 256 {
            if byte >> (bit % 8) & 1 == 1 {
                tables[bit / 8][byte] ^= state;
            }
            byte += 1;
        }
        bit += 1;
    }
    tables
}
