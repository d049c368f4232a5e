//! Estimated distances from one query to the neighbors of one node after another.

use super::codes::Codes;
use super::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeShape, QueryPlanes};
use pagehop_kernels as kernels;

/// Most edges of a node.
pub(crate) const DEGREE_MAX: usize = 64;

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
#[derive(Debug)]
pub(crate) struct Estimator {
    planes: QueryPlanes,
    query_norm_sq: f32,
    /// Squared distance to each centroid; NaN until it is needed, because a query meets few of them.
    centroid_sq: [f32; 256],
}

impl Default for Estimator {
    fn default() -> Self {
        Self { planes: QueryPlanes::default(), query_norm_sq: 0.0, centroid_sq: [f32::NAN; 256] }
    }
}

impl Estimator {
    /// Takes a query in the rotated space, to be quantized to one or two digits.
    pub(crate) fn prepare(&mut self, shape: EdgeShape, digits: usize, query: &[f32]) {
        self.planes.prepare(shape, digits, query);
        self.query_norm_sq = kernels::dot_f32(query, query);
        self.centroid_sq.fill(f32::NAN);
    }

    /// Squared length of the query.
    pub(crate) fn query_norm_sq(&self) -> f32 {
        self.query_norm_sq
    }

    #[inline]
    fn measure_centroid(&mut self, centroids: &Codes, query: &[f32], index: u8) {
        let index = usize::from(index);
        let own = centroids.own[index];
        let dot = kernels::dot_f32_i12(query, centroids.hi(index), centroids.lo(index));
        self.centroid_sq[index] = (self.query_norm_sq + own.norm_sq - 2.0 * own.step * dot).max(0.0);
    }

    /// Estimates for the first `estimates.len()` edges of `edges`.
    /// `None` if an edge names a centroid that does not exist.
    #[inline]
    pub(crate) fn score(
        &mut self,
        centroids: &Codes,
        query: &[f32],
        edges: EdgeCodes<'_>,
        estimates: &mut [f32],
    ) -> Option<()> {
        let mut counts = [0u32; DEGREE_MAX];
        let scored = estimates.len().next_multiple_of(BLOCK_EDGES);
        let slots = edges.centroid.len();
        self.planes.count(edges.codes, slots, &mut counts[..scored]);
        let mut known = [0.0f32; DEGREE_MAX];
        for (known, centroid) in known.iter_mut().zip(&edges.centroid[..estimates.len()]) {
            *known = self.centroid_sq[usize::from(*centroid)];
            if known.is_nan() {
                if usize::from(*centroid) >= centroids.len() {
                    return None;
                }
                self.measure_centroid(centroids, query, *centroid);
                *known = self.centroid_sq[usize::from(*centroid)];
            }
        }
        let (base, per_count) = self.planes.constants();
        let edges = edges.add.iter().zip(edges.factor).zip(&known).zip(&counts);
        for (estimate, (((add, factor), known), count)) in estimates.iter_mut().zip(edges) {
            let twice_dot = base - per_count * *count as f32;
            *estimate = known + f32::from_le_bytes(*add) - f32::from_le_bytes(*factor) * twice_dot;
        }
        Some(())
    }

    /// The index of the smallest of `edges`' estimates when every residual is to the origin, whose squared
    /// distance to the query is the same for all and left out. Any number of whole blocks.
    pub(crate) fn nearest(&mut self, edges: &OriginCodes) -> usize {
        let mut counts = vec![0u32; edges.factors.len().next_multiple_of(BLOCK_EDGES)];
        let slots = counts.len();
        self.planes.count(&edges.codes, slots, &mut counts);
        let (base, per_count) = self.planes.constants();
        let mut best = (f32::INFINITY, 0);
        for (i, (factors, count)) in edges.factors.iter().zip(&counts).enumerate() {
            let estimate = factors.add - factors.factor * (base - per_count * *count as f32);
            if estimate < best.0 {
                best = (estimate, i);
            }
        }
        best.1
    }
}

/// Edge codes of vectors relative to the origin, in interleaved blocks: the centroids', by which a search
/// chooses where to begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginCodes {
    codes: Vec<u8>,
    factors: Vec<EdgeFactors>,
}

impl OriginCodes {
    pub(crate) fn new(shape: EdgeShape, vectors: &Codes) -> Self {
        let slots = vectors.len().next_multiple_of(BLOCK_EDGES);
        let mut codes = vec![0; slots * shape.code_bytes()];
        let (mut x, origin) = (vec![0.0; vectors.dim], vec![0.0; vectors.dim]);
        let mut code = vec![0; shape.words()];
        let factors = (0..vectors.len())
            .map(|i| {
                vectors.decode(i, &mut x);
                let factors = edge::encode(shape, &x, &origin, &mut code);
                edge::interleave(shape, &code, i, slots, &mut codes);
                factors
            })
            .collect();
        Self { codes, factors }
    }
}
