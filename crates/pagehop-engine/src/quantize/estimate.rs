//! Estimated distances from one query to the neighbors of one node after another.

use super::edge::{BLOCK_EDGES, EdgeShape, QueryPlanes};
use pagehop_kernels as kernels;

/// Most edges of a node.
pub(crate) const DEGREE_MAX: usize = 64;

/// The index's coarse centroids, in the rotated space: `count * dim` components.
#[derive(Clone, Debug, Default)]
pub(crate) struct Centroids {
    pub(crate) dim: usize,
    pub(crate) values: Vec<f32>,
}

impl Centroids {
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    pub(crate) fn get(&self, index: usize) -> &[f32] {
        &self.values[index * self.dim..][..self.dim]
    }
}

/// A node's edges as a page holds them, apart from the neighbors' ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeCodes<'a> {
    /// Interleaved codes of whole blocks.
    pub(crate) codes: &'a [u8],
    /// `add` of each edge, little endian.
    pub(crate) add: &'a [[u8; 4]],
    /// `factor` of each edge, little endian.
    pub(crate) factor: &'a [[u8; 4]],
    /// Centroid of each edge.
    pub(crate) centroid: &'a [u8],
}

/// One query, ready to estimate. Reusable: `prepare` starts over.
#[derive(Debug, Default)]
pub(crate) struct Estimator {
    planes: QueryPlanes,
    /// Squared distance to each centroid; NaN until it is needed, because a query meets few of them.
    centroid_sq: Vec<f32>,
}

impl Estimator {
    /// Takes a query in the rotated space.
    pub(crate) fn prepare(&mut self, shape: EdgeShape, query: &[f32]) {
        self.planes.prepare(shape, query);
        self.centroid_sq.clear();
        self.centroid_sq.resize(256, f32::NAN);
    }

    /// Squared distance from the query to a centroid, which must exist.
    #[inline]
    pub(crate) fn centroid_sq(&mut self, centroids: &Centroids, query: &[f32], index: u8) -> f32 {
        let known = self.centroid_sq[usize::from(index)];
        if !known.is_nan() {
            return known;
        }
        let distance = kernels::l2sq_f32(query, centroids.get(usize::from(index)));
        self.centroid_sq[usize::from(index)] = distance;
        distance
    }

    /// Estimates for the first `estimates.len()` edges, a multiple of the block size being scored.
    /// `None` if an edge names a centroid that does not exist.
    pub(crate) fn score(
        &mut self,
        centroids: &Centroids,
        query: &[f32],
        edges: EdgeCodes<'_>,
        estimates: &mut [f32],
    ) -> Option<()> {
        let mut counts = [0u32; DEGREE_MAX];
        let mut scratch = [0u32; DEGREE_MAX];
        let scored = edges.codes.len() / (self.planes.code_bytes() * BLOCK_EDGES) * BLOCK_EDGES;
        self.planes.count(edges.codes, &mut counts[..scored], &mut scratch);
        for centroid in &edges.centroid[..estimates.len()] {
            if self.centroid_sq[usize::from(*centroid)].is_nan() {
                if usize::from(*centroid) >= centroids.len() {
                    return None;
                }
                self.centroid_sq(centroids, query, *centroid);
            }
        }
        let edges = edges.centroid.iter().zip(edges.add).zip(edges.factor).zip(&counts);
        for (estimate, (((centroid, add), factor), count)) in estimates.iter_mut().zip(edges) {
            let known = self.centroid_sq[usize::from(*centroid)] + f32::from_le_bytes(*add);
            *estimate = known - f32::from_le_bytes(*factor) * self.planes.twice_dot(*count);
        }
        Some(())
    }
}
