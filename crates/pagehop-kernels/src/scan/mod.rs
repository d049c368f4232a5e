//! Scores the one-bit edge codes of a node against a query of four bit planes: the inner loop of
//! search.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Edges in one block of codes: as many as a 512-bit register has `u64` lanes.
pub const SCAN_EDGES: usize = 8;

/// Bit planes of a query.
pub const SCAN_PLANES: usize = 4;

/// Weighted Hamming distances between a query and every edge code: `out[edge]` is the sum over
/// planes `j` of `2^j` times the number of bits in which plane `j` and the code of the edge differ.
///
/// `planes` is four planes of `words` words each, one after another, the least significant first.
/// `codes` is blocks of eight edges, interleaved by word: word `w` of edge `e` of block `b` is the
/// little-endian `u64` at byte `((b * words + w) * 8 + e) * 8`. `codes` need not be aligned. `out`
/// is in the order of edges, eight per block.
///
/// # Panics
///
/// Unless `planes.len() == 4 * words`, `codes.len() == 8 * words * out.len()`, and the length of
/// `out` is a multiple of eight.
#[inline]
pub fn scan_bits(planes: &[u64], codes: &[u8], words: usize, out: &mut [u32]) {
    Kernels::active().scan_bits(planes, codes, words, out);
}

impl Kernels {
    /// [`scan_bits`] on this instruction set.
    #[inline]
    pub fn scan_bits(self, planes: &[u64], codes: &[u8], words: usize, out: &mut [u32]) {
        assert_eq!(planes.len(), SCAN_PLANES * words, "four planes");
        let (blocks, partial) = out.as_chunks_mut::<SCAN_EDGES>();
        assert!(partial.is_empty(), "whole blocks of edges");
        assert_eq!(codes.len(), blocks.len() * words * SCAN_EDGES * 8, "one code per answer");
        if words == 0 {
            blocks.fill([0; SCAN_EDGES]);
            return;
        }
        on_tier!(self, scan_bits(planes, codes, words, blocks));
    }
}
