//! CRC-32C with ARM's instruction, which takes eight bytes. Three stretches of the input are
//! computed side by side (`stretch.rs`).
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::stretch::{STRETCH_BYTES, move_over_stretch};
use crate::dispatch::on_token;

on_token! { Neon:
    fn crc32c(bytes: &[u8], seed: u32) -> u32;
}

#[target_feature(enable = "crc")]
fn crc32c(bytes: &[u8], seed: u32) -> u32 {
    let mut state = !seed;
    let (rounds, rest) = bytes.as_chunks::<{ 3 * STRETCH_BYTES }>();
    for round in rounds {
        let (pairs, _) = round.as_chunks::<16>();
        let (first, later) = pairs.split_at(STRETCH_BYTES / 16);
        let (second, third) = later.split_at(STRETCH_BYTES / 16);
        let (mut a, mut b, mut c) = (state, 0, 0);
        for ((first, second), third) in first.iter().zip(second).zip(third) {
            // Two words of a stretch are loaded by one instruction.
            (a, b, c) = (add_pair(a, first), add_pair(b, second), add_pair(c, third));
        }
        state = move_over_stretch(move_over_stretch(a) ^ b) ^ c;
    }
    let (pairs, rest) = rest.as_chunks::<16>();
    for pair in pairs {
        state = add_pair(state, pair);
    }
    for byte in rest {
        state = __crc32cb(state, *byte);
    }
    !state
}

#[inline]
#[target_feature(enable = "crc")]
fn add_pair(state: u32, pair: &[u8; 16]) -> u32 {
    let words = u128::from_le_bytes(*pair);
    __crc32cd(__crc32cd(state, words as u64), (words >> 64) as u64)
}
