//! The memory of a build, estimated before it starts.

use crate::graph::edge_table::EdgeTable;
use crate::graph::leaves::LEAF_CANDIDATES;
use crate::page::layout::NodeLayout;
use crate::quantize::centroids::SAMPLE_ROWS;
use crate::quantize::codes::Codes;
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::prepare::inner_dim;
use crate::{Error, Vectors};

/// Rows that a thread works on at once, approximately.
const BATCH_ROWS: usize = 2048;
/// Bytes of candidates per such row.
const BATCH_ROW_BYTES: usize = 1024;
/// Fixed allowance for small allocations: `REST_ROW_BYTES` per row, for at most `REST_ROWS` rows.
const REST_ROWS: usize = 4096;
const REST_ROW_BYTES: usize = 2048;

/// Bytes per row while page neighbors are chosen: eight edges with their lengths, groups, and pages
/// of one row.
const ORDER_ROW_BYTES: usize = 8 * 16 + 80;

/// Bytes of a row's id in the first pass: in an array that grows, and sorted.
const ID_BYTES: usize = 24;

/// Most scans of the source for kept vectors.
const SCANS_MAX: u64 = 8;

/// Bytes of memory that kept vectors take at least while they are written.
pub(super) fn kept_bytes_min(vectors: Vectors, rows: usize, dim: usize) -> u64 {
    (rows * dim * vectors.component_bytes()) as u64 / SCANS_MAX
}

/// Largest memory of a build of `rows` rows on `threads` threads, in bytes, without the memory of
/// its source and its sink. More rows never need less. An index that keeps vectors needs an eighth
/// of their bytes in addition.
///
/// The peak is after reading the sample, or while connecting rows.
pub fn build_memory_bytes(rows: usize, dim: usize, threads: usize) -> u64 {
    let inner = inner_dim(dim);
    // The memory of columns is the source's.
    let layout = NodeLayout::choose(inner, 0);
    let surveyed = survey_bytes(rows, rows.min(2 * SAMPLE_ROWS), dim);
    let row = Codes::row_bytes(inner) + table_row_bytes(&layout) + 12 + connect_row_bytes(&layout);
    // A sixteenth more for results that threads hand over, and for memory that the allocator keeps.
    let connected = rows * row / 16 * 17;
    (surveyed.max(connected + fixed_bytes(rows, inner)) + threads * thread_bytes(rows, inner)) as u64
}

/// Bytes that a build of `rows` rows takes while it has `sampled` of them as they were given, and
/// their codes.
pub(super) fn survey_bytes(rows: usize, sampled: usize, dim: usize) -> usize {
    let inner = inner_dim(dim);
    sampled * (4 * dim + Codes::row_bytes(inner)) + rows * ID_BYTES + fixed_bytes(rows, inner)
}

/// Bytes that a build takes beside those of each row.
pub(super) fn fixed_bytes(rows: usize, inner: usize) -> usize {
    // A centroid is held as a code, decoded, and as sums.
    let centroids = rows.min(CENTROIDS_MAX) * 10 * inner;
    centroids + rows.min(REST_ROWS) * REST_ROW_BYTES
}

/// Bytes of one thread's buffers.
pub(super) fn thread_bytes(rows: usize, inner: usize) -> usize {
    rows.min(BATCH_ROWS) * (inner + BATCH_ROW_BYTES)
}

/// Bytes of a row's edge code, and of what is stored with it.
pub(super) fn table_row_bytes(layout: &NodeLayout) -> usize {
    EdgeTable::row_bytes(layout.edge)
}

/// The most bytes per row that are held at once of candidates, graphs, in-neighbors and edges by
/// length.
pub(super) fn connect_row_bytes(layout: &NodeLayout) -> usize {
    let graph = 4 * layout.degree + 1;
    let pruned = LEAF_CANDIDATES * 8 + 1 + graph;
    let reversed = 2 * graph + 4 * layout.degree + 8;
    let ordered = graph + ORDER_ROW_BYTES;
    pruned.max(reversed).max(ordered)
}

/// The error for a build that needs more memory than it may use.
pub(super) fn too_little(rows: usize, needed_bytes: u64, memory: u64) -> Error {
    let needed = needed_bytes.div_ceil(1 << 20);
    let what = format!("a build of {rows} rows needs {needed} MiB of memory, memory is {} MiB", memory >> 20);
    Error::Memory { what, needed_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_need_little_and_more_never_less() {
        for dim in [1, 96, 768, 4096] {
            let bytes = |rows| build_memory_bytes(rows, dim, 4);
            assert!(bytes(1) < 1 << 18, "{dim} dimensions: {}", bytes(1));
            let steps = [0, 1, 100, 2047, 2048, 5000, 16_383, 16_384, 16_385, 1_000_000];
            assert!(steps.is_sorted_by_key(|rows| bytes(*rows)), "{dim} dimensions");
        }
    }
}
