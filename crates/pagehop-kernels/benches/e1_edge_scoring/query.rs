//! One query in every form that a layout needs, and the plain sums that check the answers.

use crate::timing::Random;
use pagehop_kernels::{Isa, Kernels, Scan};

/// The number of dimensions, of 64-bit words per code, and of edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) dims: usize,
    pub(crate) words: usize,
    pub(crate) edges: usize,
}

pub(crate) struct Query {
    /// Four bits per dimension; zeros after the last dimension.
    nibbles: Vec<u8>,
    /// Eight bits per dimension; zeros after the last dimension.
    pub(crate) bytes: Vec<u8>,
    /// `nibbles` as four bit planes of `words` words, the least significant plane first.
    pub(crate) planes: Vec<u64>,
    /// The planes, prepared for each instruction set of this CPU.
    scans: [Option<Scan>; Isa::ALL.len()],
    /// `planes` in vectors of 32 bytes, split into low and high nibbles; zeros after the last word.
    pub(crate) split_planes: Vec<[[[u8; 32]; 4]; 2]>,
    /// For every four dimensions, the sum of `nibbles` over each of their 16 subsets: at most 60.
    pub(crate) tables: Vec<[u8; 16]>,
    /// `tables` of one word: for each two bytes, the tables of their low nibbles, then of their
    /// high nibbles.
    pub(crate) word_tables: Vec<[[[u8; 32]; 2]; 4]>,
}

impl Query {
    pub(crate) fn new(shape: Shape) -> Self {
        let mut bytes = Random(2).bytes(shape.dims);
        bytes.resize(shape.words * 64, 0);
        let nibbles: Vec<u8> = bytes.iter().map(|byte| byte >> 4).collect();
        let plane_word = |plane: usize, word: usize| {
            (0..64).fold(0, |bits, bit| bits | u64::from(nibbles[word * 64 + bit] >> plane & 1) << bit)
        };
        let planes: Vec<u64> = (0..4 * shape.words).map(|i| plane_word(i / shape.words, i % shape.words)).collect();
        let plane_byte = |plane: usize, byte: usize| match byte / 8 {
            word if word < shape.words => plane_word(plane, word).to_le_bytes()[byte % 8],
            _ => 0,
        };
        let split_planes = (0..shape.words.div_ceil(4))
            .map(|vector| {
                [0, 4].map(|shift| {
                    std::array::from_fn(|plane| {
                        std::array::from_fn(|byte| plane_byte(plane, vector * 32 + byte) >> shift & 15)
                    })
                })
            })
            .collect();
        let table = |dims: &[u8]| {
            std::array::from_fn(|chosen| (0..4).filter(|dim| chosen >> dim & 1 == 1).map(|dim| dims[dim]).sum())
        };
        let tables = nibbles[..shape.dims].chunks_exact(4).map(table).collect();
        let all_tables: Vec<[u8; 16]> = nibbles.chunks_exact(4).map(table).collect();
        let two_tables = |word: usize, bytes: usize, nibble: usize| {
            let at = word * 16 + bytes * 4 + nibble;
            std::array::from_fn(|entry| all_tables[at + entry / 16 * 2][entry % 16])
        };
        let word_tables = (0..shape.words)
            .map(|word| std::array::from_fn(|bytes| std::array::from_fn(|nibble| two_tables(word, bytes, nibble))))
            .collect();
        let scans = Isa::ALL.map(|isa| {
            let mut scan = Kernels::on(isa)?.scan();
            scan.prepare(&planes);
            Some(scan)
        });
        Self { nibbles, bytes, planes, scans, split_planes, tables, word_tables }
    }

    /// The query as the crate itself prepares it.
    pub(crate) fn scan(&self, kernels: Kernels) -> &Scan {
        self.scans[kernels.isa() as usize].as_ref().expect("these kernels were detected")
    }

    /// The weighted Hamming distance that bit planes count: the nibble of a dimension if its code
    /// bit is 0, and 15 minus the nibble if it is 1.
    pub(crate) fn distance(&self, bit: impl Fn(usize) -> bool) -> u32 {
        self.nibbles.iter().enumerate().map(|(dim, &q)| u32::from(if bit(dim) { 15 - q } else { q })).sum()
    }

    /// The sum of the nibbles of the dimensions whose bit is set.
    pub(crate) fn nibble_sum(&self, bit: impl Fn(usize) -> bool) -> u32 {
        // FastScan has no code bits for the padding. The nibbles there are zero.
        let dims = self.tables.len() * 4;
        self.nibbles[..dims].iter().enumerate().filter(|(dim, _)| bit(*dim)).map(|(_, &q)| u32::from(q)).sum()
    }

    /// The sum of the bytes of the dimensions whose bit is set.
    pub(crate) fn byte_sum(&self, bit: impl Fn(usize) -> bool) -> u32 {
        self.bytes.iter().enumerate().filter(|(dim, _)| bit(*dim)).map(|(_, &q)| u32::from(q)).sum()
    }
}
