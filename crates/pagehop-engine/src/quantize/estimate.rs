//! Estimates distances from a query to the neighbors of a node, one node after another.

use super::centroids::Centroids;
use super::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeHead, EdgeShape, QueryPlanes};
use super::point::RoundedPoint;
use super::row_codes::RowCodes;
use pagehop_kernels::{self as kernels, EdgeTerms};

/// Largest number of edges of a node.
pub(crate) const DEGREE_MAX: usize = 64;

/// Largest number of coarse centroids: an edge stores the index of its centroid in a byte.
pub(crate) const CENTROIDS_MAX: usize = 256;

/// Edges as a page stores them. Each has `N` bytes that begin with its centroid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeCodes<'a, const N: usize = 1> {
    /// Interleaved codes of whole blocks.
    pub(crate) codes: &'a [u8],
    pub(crate) heads: &'a [EdgeHead],
    /// Centroid of each edge, and the bytes that follow it.
    pub(crate) centroids: &'a [[u8; N]],
}

/// A query that is prepared for row codes.
#[derive(Debug, Default)]
struct Refinement {
    is_ready: bool,
    planes: QueryPlanes,
    /// Direct-mapped cache of nodes with their estimates; a later node may overwrite an earlier
    /// one. Most candidates of a hop were met before.
    known: Vec<(u32, f32)>,
    /// Codes, interleaved as those of edges are.
    gathered: Vec<u8>,
}

/// Places of [`Refinement::known`].
const KNOWN: usize = 1 << KNOWN_BITS;
const KNOWN_BITS: u32 = 11;

/// Where [`Refinement::known`] has a node (Fibonacci hashing, Knuth 1973).
#[inline]
fn known_place(node: u32) -> usize {
    (node.wrapping_mul(0x9e37_79b9) >> (u32::BITS - KNOWN_BITS)) as usize
}

/// A prepared query. Reusable: `prepare` starts a new query.
#[derive(Debug)]
pub(crate) struct Estimator {
    planes: QueryPlanes,
    refinement: Refinement,
    point: RoundedPoint,
    /// Whether distances are those of the inner product.
    is_filled: bool,
    /// Squared distance to each centroid. NaN until it is needed, because a query needs only a few
    /// of them.
    centroid_sq: [f32; CENTROIDS_MAX],
}

impl Default for Estimator {
    fn default() -> Self {
        let (planes, refinement, point) = (QueryPlanes::default(), Refinement::default(), RoundedPoint::default());
        Self { planes, refinement, point, is_filled: false, centroid_sq: [f32::NAN; CENTROIDS_MAX] }
    }
}

impl Estimator {
    /// Prepares a query of the rotated space and quantizes it to one or two digits. `filled_sq` is
    /// as in [`RoundedPoint::fill`].
    pub(crate) fn prepare(&mut self, shape: EdgeShape, digits: usize, query: &[f32], filled_sq: Option<f32>) {
        self.planes.prepare(shape, digits, query);
        self.refinement.is_ready = false;
        self.point.round(query);
        self.point.fill(filled_sq);
        self.is_filled = filled_sq.is_some();
        self.centroid_sq.fill(f32::NAN);
    }

    /// Whether distances are those of the inner product.
    pub(crate) fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// The query, rounded.
    #[inline]
    pub(crate) fn point(&self) -> &RoundedPoint {
        &self.point
    }

    /// Writes the distance of the centroid of each edge to `distances`, and measures those that are
    /// not known yet. `None` if one does not exist.
    #[cold]
    fn measure_centroids<const N: usize>(
        &mut self,
        centroids: &Centroids,
        of_edges: &[[u8; N]],
        distances: &mut [f32],
    ) -> Option<()> {
        for (distance, centroid) in distances.iter_mut().zip(of_edges) {
            let at = usize::from(centroid[0]);
            if self.centroid_sq[at].is_nan() {
                if at >= centroids.len() {
                    return None;
                }
                self.centroid_sq[at] = centroids.distance(at, &self.point);
            }
            *distance = self.centroid_sq[at];
        }
        Some(())
    }

    /// Estimates the squared distances of the first `estimates.len()` edges of `edges`. `None` if
    /// an edge names a centroid that does not exist.
    #[inline]
    pub(crate) fn score<const N: usize>(
        &mut self,
        centroids: &Centroids,
        edges: EdgeCodes<'_, N>,
        estimates: &mut [f32],
    ) -> Option<()> {
        let mut counts = [0u32; DEGREE_MAX];
        let scored = estimates.len().next_multiple_of(BLOCK_EDGES);
        let slots = edges.centroids.len();
        self.planes.count(edges.codes, slots, &mut counts[..scored]);
        let constants = self.planes.constants();
        self.estimate(centroids, (&counts, constants), edges.heads, edges.centroids, estimates)
    }

    /// Estimates the squared distances of edges from the counts of their codes, and the constants
    /// of the query's planes. `None` if an edge names a centroid that does not exist.
    #[inline]
    fn estimate<const N: usize>(
        &mut self,
        centroids: &Centroids,
        (counts, (base, per_count)): (&[u32; DEGREE_MAX], (f32, f32)),
        heads: &[EdgeHead],
        of_edges: &[[u8; N]],
        estimates: &mut [f32],
    ) -> Option<()> {
        let mut centroid_sq = [0.0f32; DEGREE_MAX];
        let of_edges = &of_edges[..estimates.len()];
        // One test for all edges, without a branch for each: almost always all distances are known.
        let mut is_unknown = false;
        for (distance, centroid) in centroid_sq.iter_mut().zip(of_edges) {
            *distance = self.centroid_sq[usize::from(centroid[0])];
            is_unknown |= distance.is_nan();
        }
        if is_unknown {
            self.measure_centroids(centroids, of_edges, &mut centroid_sq)?;
        }
        let terms = EdgeTerms {
            query: [base, per_count],
            counts,
            centroid_sq: &centroid_sq,
            heads,
            // Distances under the inner product do not have this term.
            has_add: !self.is_filled,
        };
        kernels::estimate(terms, estimates);
        Some(())
    }

    /// Prepares the query of [`Estimator::prepare`] for row codes.
    pub(crate) fn prepare_refinement(&mut self, codes: &RowCodes, digits: usize, query: &[f32]) {
        let Refinement { is_ready, planes, known, .. } = &mut self.refinement;
        planes.prepare(codes.shape(), digits, query);
        known.clear();
        known.resize(KNOWN, (u32::MAX, 0.0));
        *is_ready = true;
    }

    /// Replaces estimates of up to `limit` by those of row codes. `node` gives the node of an
    /// estimate and its generation. A node without a code of this generation keeps its estimate.
    /// Does nothing if the query is not prepared for row codes.
    #[inline]
    pub(crate) fn refine(
        &mut self,
        (centroids, codes): (&Centroids, &RowCodes),
        node: impl Fn(usize) -> (u32, u8),
        limit: f32,
        estimates: &mut [f32],
    ) {
        if !self.refinement.is_ready {
            return;
        }
        let mut near = kernels::at_most(estimates, limit, f32::INFINITY);
        let (mut unknown, mut count) = ([(0, 0, 0); DEGREE_MAX], 0);
        while near != 0 {
            let at = near.trailing_zeros() as usize;
            near &= near - 1;
            let (node, generation) = node(at);
            let (known, estimate) = self.refinement.known[known_place(node)];
            if known == node {
                estimates[at] = estimate;
            } else {
                codes.prefetch(node);
                unknown[count] = (at, node, generation);
                count += 1;
            }
        }
        if count > 0 {
            self.refine_unknown((centroids, codes), &unknown[..count], estimates);
        }
    }

    /// Estimates some nodes by their codes: position in `estimates`, node, generation.
    fn refine_unknown(
        &mut self,
        (centroids, codes): (&Centroids, &RowCodes),
        unknown: &[(usize, u32, u8)],
        estimates: &mut [f32],
    ) {
        let (shape, slots) = (codes.shape(), unknown.len().next_multiple_of(BLOCK_EDGES));
        let Refinement { planes, gathered, .. } = &mut self.refinement;
        gathered.resize(slots * shape.code_bytes(), 0);
        let (mut heads, mut of_edges) = ([EdgeHead::default(); DEGREE_MAX], [[0]; DEGREE_MAX]);
        let (mut places, mut count) = ([0; DEGREE_MAX], 0);
        for (place, node, generation) in unknown {
            let Some(code) = codes.get(*node, *generation) else { continue };
            edge::interleave(shape, code.code, count, slots, gathered);
            (heads[count], of_edges[count], places[count]) = (code.factors.head(*node), [code.centroid], *place);
            count += 1;
        }
        let mut counts = [0u32; DEGREE_MAX];
        planes.count(gathered, slots, &mut counts[..slots]);
        let constants = planes.constants();
        let mut fine = [0.0; DEGREE_MAX];
        let estimated = self.estimate(centroids, (&counts, constants), &heads, &of_edges, &mut fine[..count]);
        estimated.expect("row codes name centroids that exist");
        for ((place, head), estimate) in places[..count].iter().zip(&heads).zip(fine) {
            let node = edge::target_of(head);
            self.refinement.known[known_place(node)] = (node, estimate);
            estimates[*place] = estimate;
        }
    }

    /// Writes the estimated squared distance of each centroid to `estimates`. The codes are small
    /// enough to stay in the CPU's cache.
    pub(crate) fn coarse(&self, codes: &CoarseCodes, estimates: &mut Vec<f32>) {
        let mut counts = [0u32; CENTROIDS_MAX];
        let slots = codes.factors.len().next_multiple_of(BLOCK_EDGES);
        self.planes.count(&codes.codes, slots, &mut counts[..slots]);
        let (base, per_count) = self.planes.constants();
        estimates.clear();
        estimates.extend(codes.factors.iter().zip(&counts).map(|(factors, count)| {
            let twice_dot = base - per_count * *count as f32;
            (self.point.squares(factors.add) as f32 - factors.factor * twice_dot).max(0.0)
        }));
    }
}

/// Edge codes of the centroids, relative to the origin, in interleaved blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoarseCodes {
    codes: Vec<u8>,
    factors: Vec<EdgeFactors>,
}

impl CoarseCodes {
    pub(crate) fn new(shape: EdgeShape, centroids: &Centroids) -> Self {
        let slots = centroids.len().next_multiple_of(BLOCK_EDGES);
        let mut codes = vec![0; slots * shape.code_bytes()];
        let origin = vec![0.0; centroids.dim];
        let mut code = vec![0; shape.words()];
        let decoded = centroids.decode();
        let encode = |(i, x)| {
            let factors = edge::encode(shape, x, &origin, &mut code);
            edge::interleave(shape, &code, i, slots, &mut codes);
            factors
        };
        let factors = decoded.chunks_exact(centroids.dim).enumerate().map(encode).collect();
        Self { codes, factors }
    }
}
