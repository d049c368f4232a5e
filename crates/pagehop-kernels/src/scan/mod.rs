//! Scores the one-bit edge codes of a node against a query of four bit planes: the inner loop of
//! search.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512bw;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables;

use crate::dispatch::{Kernels, on_tier};

/// Edges in one block of codes: as many as a 512-bit register has `u64` lanes.
pub const SCAN_EDGES: usize = 8;

/// Bit planes of a query.
pub const SCAN_PLANES: usize = 4;

/// A query of four bit planes, prepared for one instruction set. Reusable: `prepare` replaces the
/// query.
#[derive(Clone, Debug)]
pub struct Scan {
    kernels: Kernels,
    words: usize,
    prepared: Prepared,
}

/// A prepared query. Each instruction set fills the field that it uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    /// The four planes of each word.
    pub(crate) planes: Vec<[u64; SCAN_PLANES]>,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) tables: Vec<WordTables>,
}

/// The weighted distances of the 16 values of four bits; at most 4 * 15.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) type Table = [u8; 16];

/// The tables of one word: for each byte, the table of its low four bits and that of its high four
/// bits.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) type WordTables = [[Table; 2]; 8];

impl Default for Scan {
    fn default() -> Self {
        Kernels::active().scan()
    }
}

impl Scan {
    /// Prepares a query: four planes of `planes.len() / 4` words each, one after another, the least
    /// significant first.
    ///
    /// # Panics
    ///
    /// If the length of `planes` is not a multiple of four.
    pub fn prepare(&mut self, planes: &[u64]) {
        assert!(planes.len().is_multiple_of(SCAN_PLANES), "four planes");
        self.words = planes.len() / SCAN_PLANES;
        let prepared = &mut self.prepared;
        on_tier!(self.kernels, prepare(planes, prepared), avx512bw, neon);
    }

    /// Weighted Hamming distances between the query and every edge code: `out[edge]` is the sum
    /// over planes `j` of `2^j` times the number of bits in which plane `j` and the code of the
    /// edge differ.
    ///
    /// `codes` is blocks of eight edges, interleaved by word: word `w` of edge `e` of block `b` is
    /// the little-endian `u64` at byte `((b * words + w) * 8 + e) * 8`. `codes` need not be
    /// aligned. `out` is in the order of edges, eight per block.
    ///
    /// # Panics
    ///
    /// If `codes.len() != 8 * words * out.len()`, or the length of `out` is not a multiple of
    /// eight.
    #[inline]
    pub fn count(&self, codes: &[u8], out: &mut [u32]) {
        let (blocks, partial) = out.as_chunks_mut::<SCAN_EDGES>();
        assert!(partial.is_empty(), "whole blocks of edges");
        assert_eq!(codes.len(), blocks.len() * self.words * SCAN_EDGES * 8, "one code per answer");
        if self.words == 0 {
            blocks.fill([0; SCAN_EDGES]);
            return;
        }
        let (rows, _) = codes.as_chunks::<64>();
        on_tier!(self.kernels, count_differing(&self.prepared, rows, blocks), avx512bw, neon);
    }
}

impl Kernels {
    /// An empty [`Scan`] that counts on this instruction set.
    pub fn scan(self) -> Scan {
        Scan { kernels: self, words: 0, prepared: Prepared::default() }
    }
}
