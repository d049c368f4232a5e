//! k-means (Lloyd 1957) on the high planes of own codes, and the assignment of rows to their
//! nearest centers.

use super::codes::Codes;
use super::point::RoundedPoint;
use crate::random::Random;
use crate::threads;
use pagehop_kernels as kernels;

/// Rows that a build keeps to train the centroids with.
pub(crate) const SAMPLE_ROWS: usize = 8192;
const PURPOSE: u64 = 2;
/// Rows whose inner products with all centers are computed at once.
const BLOCK_ROWS: usize = 64;

/// The coarse centroids of the index: 8 bits per dimension and one step per centroid. Centroids are
/// defined by their codes, so storing them loses nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Centroids {
    pub(crate) dim: usize,
    planes: Vec<i8>,
    steps: Vec<f32>,
    norms_sq: Vec<f32>,
}

impl Centroids {
    pub(crate) fn new(dim: usize) -> Self {
        Self { dim, ..Self::default() }
    }

    /// Centroids with the high planes of trained centers.
    pub(crate) fn from_codes(codes: &Codes) -> Self {
        let mut centroids = Self::new(codes.dim);
        (0..codes.len()).for_each(|i| centroids.push(codes.hi_step(i), codes.hi(i)));
        centroids
    }

    pub(crate) fn push(&mut self, step: f32, plane: &[i8]) {
        self.planes.extend_from_slice(plane);
        self.steps.push(step);
        self.norms_sq.push(kernels::dot_i8(plane, plane) as f32 * step * step);
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn step(&self, index: usize) -> f32 {
        self.steps[index]
    }

    pub(crate) fn plane(&self, index: usize) -> &[i8] {
        &self.planes[index * self.dim..][..self.dim]
    }

    /// Squared distance from a centroid to a point.
    #[inline]
    pub(crate) fn distance(&self, index: usize, point: &RoundedPoint) -> f32 {
        point.distance_to_bytes(self.norms_sq[index], self.steps[index], self.plane(index))
    }

    /// Squared distance between two centroids.
    pub(crate) fn apart(&self, a: usize, b: usize) -> f32 {
        let dot = kernels::dot_i8(self.plane(a), self.plane(b)) as f32;
        (self.norms_sq[a] + self.norms_sq[b] - 2.0 * self.steps[a] * self.steps[b] * dot).max(0.0)
    }

    /// Squared Euclidean distance from a centroid to a point under every metric, if `distance` is
    /// that of [`Centroids::distance`].
    pub(crate) fn euclidean(&self, index: usize, point: &RoundedPoint, distance: f32) -> f32 {
        let norm_sq = self.norms_sq[index];
        let shared = point.squares(norm_sq) - f64::from(point.norm_sq()) - f64::from(norm_sq);
        (f64::from(distance) - shared).max(0.0) as f32
    }

    /// All centroids decoded, one after another.
    pub(crate) fn decode(&self) -> Vec<f32> {
        let rows = self.planes.chunks_exact(self.dim).zip(&self.steps);
        rows.flat_map(|(plane, step)| plane.iter().map(move |v| step * f32::from(*v))).collect()
    }
}

/// Trains `count` centers on `sample`, or fewer if it has fewer rows. `rounds` is the number of
/// Lloyd iterations.
pub(crate) fn train(sample: &Codes, count: usize, rounds: usize, seed: u64, workers: usize) -> Codes {
    let count = count.min(sample.len());
    let dim = sample.dim;
    let mut random = Random::new(seed, PURPOSE);
    let mut order: Vec<u32> = (0..sample.len() as u32).collect();
    for i in 0..count {
        let j = i + random.below((order.len() - i) as u64) as usize;
        order.swap(i, j);
    }
    let mut x = vec![0.0; dim];
    let mut centers = Codes::new(dim);
    for &row in &order[..count] {
        sample.decode_hi(row as usize, &mut x);
        centers.push(&x);
    }
    for _ in 0..rounds {
        let nearest = assign(sample, &centers, 1, workers);
        centers = recenter(sample, &nearest, &centers, &mut random);
    }
    centers
}

/// Means of the rows that are assigned to each center. A center without rows moves to a random row.
fn recenter(sample: &Codes, nearest: &[u32], old: &Codes, random: &mut Random) -> Codes {
    let dim = sample.dim;
    let mut sums = vec![0.0f32; old.len() * dim];
    let mut counts = vec![0u32; old.len()];
    for (row, &center) in nearest.iter().enumerate() {
        counts[center as usize] += 1;
        let step = sample.hi_step(row);
        let sum = &mut sums[center as usize * dim..][..dim];
        for (sum, v) in sum.iter_mut().zip(sample.hi(row)) {
            *sum += step * f32::from(*v);
        }
    }
    let mut centers = Codes::new(dim);
    for (sum, &count) in sums.chunks_exact_mut(dim).zip(&counts) {
        if count == 0 {
            sample.decode_hi(random.below(sample.len() as u64) as usize, sum);
        } else {
            sum.iter_mut().for_each(|v| *v /= count as f32);
        }
        centers.push(sum);
    }
    centers
}

/// The indices of the `fanout` nearest centers of each row, nearest first: `rows.len() * fanout`
/// indices. `fanout` must be at least 1 and at most the number of centers. Of equal distances, the
/// lower index comes first.
pub(crate) fn assign(rows: &Codes, centers: &Codes, fanout: usize, workers: usize) -> Vec<u32> {
    assert!(fanout >= 1 && fanout <= centers.len());
    let blocks = rows.len().div_ceil(BLOCK_ROWS);
    let parts = threads::map(workers, blocks, |block| {
        let range = block * BLOCK_ROWS..rows.len().min((block + 1) * BLOCK_ROWS);
        nearest(rows, range, centers, fanout)
    });
    parts.iter().flatten().map(|(_, center)| *center).collect()
}

/// The `fanout` nearest centers of each row of a `range`, as [`assign`], with distances that lack
/// the row's own squared norm.
pub(crate) fn nearest(
    rows: &Codes,
    range: std::ops::Range<usize>,
    centers: &Codes,
    fanout: usize,
) -> Vec<(f32, u32)> {
    let mut nearest = Vec::with_capacity(range.len() * fanout);
    let mut dots = Vec::new();
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(fanout + 1);
    for start in range.clone().step_by(BLOCK_ROWS) {
        let block = start..range.end.min(start + BLOCK_ROWS);
        dots.resize(block.len() * centers.len(), 0);
        let hi = &rows.hi[block.start * rows.dim..block.end * rows.dim];
        kernels::dot_i8_block(hi, &centers.hi, rows.dim, &mut dots);
        for (dots, row) in dots.chunks_exact(centers.len()).zip(block) {
            let twice_step = 2.0 * rows.hi_step(row);
            best.clear();
            for (center, dot) in dots.iter().enumerate() {
                // The row's own norm is the same for all centers and left out.
                let distance = centers.hi_norm_sq[center] - twice_step * centers.hi_step(center) * *dot as f32;
                if best.len() < fanout || distance < best[fanout - 1].0 {
                    best.truncate(fanout - 1);
                    let at = best.partition_point(|b| b.0 <= distance);
                    best.insert(at, (distance, center as u32));
                }
            }
            nearest.extend_from_slice(&best);
        }
    }
    nearest
}
