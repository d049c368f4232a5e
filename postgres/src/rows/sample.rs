//! How a build uses its memory: how many rows stay in memory, and which rows the graph is built
//! over if memory has no room for a few hundred bytes of each.
//!
//! A table may be in any order, by time or by topic. So the sample that the graph is built over,
//! and the model trained on, is stratified: one row of each stretch of the table, at a position
//! that a hash chooses. The other rows are added to that graph one by one.

use pagehop_engine::{Metric, build_memory_bytes, build_memory_bytes_min};

use super::columns::build_bytes;
use super::memory::CHUNK_BYTES;

/// Fewest rows of a sample. The model of a sample of this size is kept, so adding the other rows
/// never trains it again.
const ROWS_AT_LEAST: usize = pagehop_engine::TRAINED_ENOUGH as usize;
/// Upper bound on the rows of an index.
const ROWS_MAX: usize = u32::MAX as usize;

/// The memory that a build may use, and how it is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    pub(crate) dim: usize,
    pub(crate) metric: Metric,
    /// Number of filter columns.
    pub(crate) columns: usize,
    pub(crate) threads: usize,
}

impl Budget {
    /// Bytes of a build of `rows` rows beside those of the engine.
    pub(crate) fn beside(&self, rows: usize) -> u64 {
        let chunks = 2 * CHUNK_BYTES as u64;
        chunks + rows as u64 * build_bytes(self.columns)
    }

    /// Fewest bytes of a build of `rows` rows, which writes codes to temporary files.
    pub(crate) fn least(&self, rows: usize) -> u64 {
        build_memory_bytes_min(rows, self.dim, self.columns, self.threads) + self.beside(rows)
    }

    /// Bytes that the engine may use for `rows` rows.
    pub(crate) fn of_engine(&self, rows: usize) -> u64 {
        self.bytes.max(self.least(rows)) - self.beside(rows)
    }

    /// Rows that may stay in memory while a graph is built over all of them.
    pub(crate) fn rows_in_memory(&self) -> usize {
        let in_memory = |rows| build_memory_bytes(rows, self.dim, self.threads) + self.beside(rows);
        most_rows(|rows| in_memory(rows) + (rows * (4 * self.dim + 8)) as u64 <= self.bytes)
    }

    /// The sample of `rows` rows over which the graph is built.
    pub(crate) fn sample(&self, rows: usize) -> RowSample {
        let most = most_rows(|rows| self.least(rows) <= self.bytes).max(ROWS_AT_LEAST);
        RowSample { rows, strata: rows.min(most) }
    }
}

/// The largest number that `fits`, if all smaller numbers fit; 0 if none does.
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

/// Rows sampled by their position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSample {
    rows: usize,
    /// Stretches of the table, each with one row in the sample.
    strata: usize,
}

impl RowSample {
    /// Whether every row is in the sample.
    pub(crate) fn is_all(self) -> bool {
        self.strata == self.rows
    }

    /// Rows in the sample.
    pub(crate) fn len(self) -> usize {
        self.strata
    }

    /// Whether the row at `position` is in the sample.
    pub(crate) fn contains(self, position: usize) -> bool {
        if self.is_all() {
            return true;
        }
        let (rows, strata) = (self.rows as u64, self.strata as u64);
        let stratum = position as u64 * strata / rows;
        let (start, end) = ((stratum * rows).div_ceil(strata), ((stratum + 1) * rows).div_ceil(strata));
        position as u64 == start + mix(stratum) % (end - start)
    }
}

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
