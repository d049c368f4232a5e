//! What a build does with the memory it may use: how many rows stay there, and over which of them the graph is built when it
//! cannot be over all.
//!
//! A table may be in any order, by time or by topic. What the graph is built over, and the model trained on, is therefore
//! taken from all of it: of each stretch of rows one, at a place that looks drawn by chance. The longest row is among them:
//! under the inner product it says how long any may be. All others are added to that graph one by one.

use pagehop_engine::{Metric, build_memory_bytes};

use crate::spill::CHUNK_BYTES;

/// A build over so many rows trains a model that is kept, so that to add the others never builds anew.
const ROWS_AT_LEAST: usize = pagehop_engine::index::TRAINED_ENOUGH as usize;
/// Most rows that an index is thought to have.
const ROWS_MAX: usize = u32::MAX as usize;

/// How much memory a build may use, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    pub(crate) dim: usize,
    pub(crate) metric: Metric,
    pub(crate) threads: usize,
}

impl Budget {
    /// Bytes of a build that reads `rows` from files.
    pub(crate) fn needed(&self, rows: usize) -> u64 {
        let chunks = 2 * CHUNK_BYTES as u64;
        build_memory_bytes(rows, self.dim, self.metric, self.threads) + chunks
    }

    /// Rows that may stay in memory while a graph is built over all of them.
    pub(crate) fn rows_in_memory(&self) -> usize {
        most_rows(|rows| self.needed(rows) + (rows * (4 * self.dim + 8)) as u64 <= self.bytes)
    }

    /// The rows, of `rows` in all, over which the graph is built.
    pub(crate) fn choose(&self, rows: usize, longest: usize) -> Choice {
        let most = most_rows(|rows| self.needed(rows) <= self.bytes).max(ROWS_AT_LEAST);
        Choice { rows, chosen: rows.min(most), longest }
    }
}

/// The largest number that `fits`, if all smaller ones do; 0 if none does.
fn most_rows(fits: impl Fn(usize) -> bool) -> usize {
    let (mut most, mut too_many) = (0, ROWS_MAX);
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if fits(middle) {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    most
}

/// Rows chosen by their position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    rows: usize,
    /// Stretches, and so rows, but for the longest.
    chosen: usize,
    longest: usize,
}

impl Choice {
    /// Whether every row is chosen.
    pub(crate) fn is_all(self) -> bool {
        self.chosen == self.rows
    }

    /// Rows that are chosen at least.
    pub(crate) fn len(self) -> usize {
        self.chosen
    }

    /// Whether the row at `position` is chosen.
    pub(crate) fn contains(self, position: usize) -> bool {
        if self.is_all() || position == self.longest {
            return true;
        }
        let (rows, chosen) = (self.rows as u64, self.chosen as u64);
        let stretch = position as u64 * chosen / rows;
        let (start, end) = ((stretch * rows).div_ceil(chosen), ((stretch + 1) * rows).div_ceil(chosen));
        position as u64 == start + mix(stretch) % (end - start)
    }
}

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
