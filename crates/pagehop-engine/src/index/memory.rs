//! What a build holds in memory, known before it begins.

use super::build::{LEAF_CANDIDATES, SAMPLE_ROWS};
use crate::Metric;
use crate::page::layout::NodeLayout;
use crate::quantize::codes::Codes;
use crate::quantize::edge::EdgeFactors;
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::prepare::inner_dim;

/// Rows with which a thread works at once, at most about.
const BATCH_ROWS: usize = 2048;
/// Bytes of candidates for each of them.
const BATCH_ROW_BYTES: usize = 1024;
/// What is too small to be counted by itself is this for each row, up to so many rows.
const REST_ROWS: usize = 4096;
const REST_ROW_BYTES: usize = 2048;

/// Bytes that a build of `rows` on `threads` threads holds at its widest point, beside what its source and its sink hold.
/// More rows never need less.
///
/// It is widest when it has read its sample, or when it connects its rows.
pub fn build_memory_bytes(rows: usize, dim: usize, metric: Metric, threads: usize) -> u64 {
    let inner = inner_dim(metric, dim);
    let layout = NodeLayout::choose(inner);
    let sampled = rows.min(2 * SAMPLE_ROWS) * (4 * dim + Codes::row_bytes(inner));
    let connected = rows * row_bytes(&layout) + threads * rows.min(BATCH_ROWS) * (inner + BATCH_ROW_BYTES);
    // A centroid as a code, decoded, and as sums.
    let centroids = rows.min(CENTROIDS_MAX) * 10 * inner;
    let rest = rows.min(REST_ROWS) * REST_ROW_BYTES;
    (sampled.max(connected) + centroids + rest) as u64
}

/// Bytes of a row while rows are connected: its codes, its id, the first row equal to it, candidates or
/// graphs, and the list of who leads to it.
fn row_bytes(layout: &NodeLayout) -> usize {
    let degree = layout.degree;
    let table = layout.edge.code_bytes() + size_of::<EdgeFactors>() + 1;
    let candidates = LEAF_CANDIDATES * 8 + 32;
    let graphs = 3 * (4 * degree + 1);
    let bytes = Codes::row_bytes(layout.inner_dim) + table + 12 + candidates.max(graphs) + 4 * degree + 1;
    // An eighth is what the allocator loses on lists of every length: 10 percent over 150,000 rows of 96 dimensions.
    bytes * 9 / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_need_little_and_more_never_less() {
        for (dim, metric) in
            [(1, Metric::L2), (96, Metric::InnerProduct), (768, Metric::Cosine), (4096, Metric::L2)]
        {
            let bytes = |rows| build_memory_bytes(rows, dim, metric, 4);
            assert!(bytes(1) < 1 << 18, "{dim} dimensions: {}", bytes(1));
            let steps = [0, 1, 100, 2047, 2048, 5000, 16_383, 16_384, 16_385, 1_000_000];
            assert!(steps.is_sorted_by_key(|rows| bytes(*rows)), "{dim} dimensions");
        }
    }
}
