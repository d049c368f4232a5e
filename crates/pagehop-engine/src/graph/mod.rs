//! The graph in memory: its construction, and the candidate list of a search.
//!
//! | file | subject |
//! |---|---|
//! | `leaves.rs`, `center_tree.rs` | candidates from small groups of near rows; the nearest centers of a row |
//! | `prune.rs`, `connect.rs` | robust prune; from candidates to edges and reverse edges |
//! | `equal.rs` | duplicate rows, as a tree below the first of them |
//! | `edge_table.rs`, `refine.rs` | edge codes of all rows; a search for every row, which adds candidates |
//! | `reach.rs` | edges to rows that cannot be reached |
//! | `list.rs` | the candidate list of a search |

pub(crate) mod center_tree;
pub(crate) mod connect;
pub(crate) mod edge_table;
pub(crate) mod equal;
pub(crate) mod leaves;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod reach;
pub(crate) mod refine;

use crate::quantize::codes::Codes;

/// A candidate as one integer: the distance in the high bits, then the id. So the order of integers
/// is the order of search, and equal distances are ordered by id. Negative distances, which only
/// estimates can have, count as 0.
#[inline]
pub(crate) fn key(distance: f32, id: u32) -> u64 {
    u64::from(distance.max(0.0).to_bits()) << 32 | u64::from(id)
}

/// The id of a [`key`].
#[inline]
pub(crate) fn key_id(key: u64) -> u32 {
    key as u32
}

/// The distance of a [`key`].
#[inline]
pub(crate) fn key_distance(key: u64) -> f32 {
    f32::from_bits((key >> 32) as u32)
}

/// The sorted [keys](key) of `ids` by their distance from `row`.
pub(crate) fn keys_of(codes: &Codes, row: usize, ids: &[u32]) -> Vec<u64> {
    let distance = |(at, id): (usize, &u32)| {
        // Codes are spread over memory: fetching one takes longer than computing a distance.
        if let Some(next) = ids.get(at + KEYS_AHEAD) {
            codes.prefetch_hi(*next as usize);
        }
        key(codes.hi_distance(row, *id as usize), *id)
    };
    let mut keys: Vec<u64> = ids.iter().enumerate().map(distance).collect();
    keys.sort_unstable();
    keys
}

/// How many codes ahead [`keys_of`] prefetches.
const KEYS_AHEAD: usize = 4;

/// Out-neighbors of every row: at most `degree` each, the most useful first.
#[derive(Clone, Debug)]
pub(crate) struct Adjacency {
    pub(crate) degree: usize,
    neighbors: Vec<u32>,
    counts: Vec<u8>,
}

impl Adjacency {
    pub(crate) fn new(rows: usize, degree: usize) -> Self {
        Self { degree, neighbors: vec![0; rows * degree], counts: vec![0; rows] }
    }

    /// No rows yet, and space for `rows`.
    pub(crate) fn with_capacity(rows: usize, degree: usize) -> Self {
        Self { degree, neighbors: Vec::with_capacity(rows * degree), counts: Vec::with_capacity(rows) }
    }

    /// Appends the rows of `next`.
    pub(crate) fn append(&mut self, mut next: Self) {
        self.neighbors.append(&mut next.neighbors);
        self.counts.append(&mut next.counts);
    }

    /// Appends a row.
    pub(crate) fn push_row(&mut self, neighbors: &[u32]) {
        self.neighbors.extend_from_slice(neighbors);
        self.neighbors.resize(self.neighbors.len() + self.degree - neighbors.len(), 0);
        self.counts.push(neighbors.len() as u8);
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn neighbors(&self, row: usize) -> &[u32] {
        &self.neighbors[row * self.degree..][..usize::from(self.counts[row])]
    }

    /// Prefetches the neighbors of a row.
    #[inline]
    pub(crate) fn prefetch(&self, row: usize) {
        pagehop_kernels::prefetch(&self.neighbors[row * self.degree..][..self.degree]);
    }

    pub(crate) fn set(&mut self, row: usize, neighbors: &[u32]) {
        self.neighbors[row * self.degree..][..neighbors.len()].copy_from_slice(neighbors);
        self.counts[row] = neighbors.len() as u8;
    }

    /// Adds an edge if the row has a free slot. Returns whether it did.
    pub(crate) fn push(&mut self, row: usize, neighbor: u32) -> bool {
        let count = usize::from(self.counts[row]);
        if count == self.degree {
            return false;
        }
        self.neighbors[row * self.degree + count] = neighbor;
        self.counts[row] += 1;
        true
    }

    /// Replaces the edge in `slot`.
    pub(crate) fn replace(&mut self, row: usize, slot: usize, neighbor: u32) {
        self.neighbors[row * self.degree + slot] = neighbor;
    }
}
