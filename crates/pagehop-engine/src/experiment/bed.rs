//! Rows, queries and edge codes of the experiments, and their exact answers.

use crate::Metric;
use crate::graph::refine::EdgeTable;
use crate::graph::{key, key_id};
use crate::index::build::rows::{self, query_digits};
use crate::index::build::survey;
use crate::page::layout::NodeLayout;
use crate::quantize::centroids::{self, Centroids};
use crate::quantize::codes::Codes;
use crate::quantize::edge::{self, EdgeFactors, EdgeShape};
use crate::quantize::point::RoundedPoint;
use crate::quantize::prepare::{Space, inner_dim};
use crate::quantize::rotation::Rotation;
use crate::threads;
use pagehop_kernels as kernels;

/// The k of every query.
pub const K: usize = 10;
/// Seed of everything random.
pub(super) const SEED: u64 = 1;
/// Random numbers of [`vamana`] and [`Placement::random`].
pub(super) const PURPOSE: u64 = 100;
/// Candidates that a walk keeps: enough that only the slack ends it.
pub(super) const WALK_LIST: usize = 1000;
/// Hops after which a walk gives up.
pub(super) const WALK_HOPS_MAX: usize = 500;

/// Why a build that reports to [`quiet`] cannot fail.
pub(super) const QUIET: &str = "nothing interrupts an experiment";

/// Marks every row as its own representative: the experiments ignore duplicates.
pub(super) fn all(codes: &Codes) -> Vec<u32> {
    (0..codes.len() as u32).collect()
}

/// Takes progress and says nothing.
pub(super) fn quiet(_: usize) -> Result<(), crate::Error> {
    Ok(())
}

/// Rows, queries and the true neighbors.
pub struct Bed {
    pub(super) codes: Codes,
    /// Prepared as the index does.
    pub(super) queries: Vec<f32>,
    pub(super) truth: Vec<u32>,
}

impl Bed {
    /// Rows and queries of `dim` components under L2; `truth` names the [`K`] nearest rows of each
    /// query.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit each other, or a vector has a component that is no number.
    pub fn new(dim: usize, rows: &[f32], queries: &[f32], truth: Vec<u32>) -> Self {
        assert_eq!(queries.len() / dim * K, truth.len(), "{K} neighbors for each query");
        let inner = inner_dim(Metric::L2, dim);
        let mut sums = vec![0.0f64; inner];
        for row in rows.chunks_exact(dim) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let count = rows.len() / dim;
        let mean = sums.iter().map(|sum| (sum / count as f64) as f32).collect();
        let rotation = Rotation::new(inner, SEED);
        let space = Space { metric: Metric::L2, dim, mean, norm_sq_max: 0.0, rotation };
        let mut codes = Codes::with_capacity(inner, count);
        let mut x = vec![0.0; inner];
        for row in rows.chunks_exact(dim) {
            space.row(row, &mut x).expect("rows are numbers");
            codes.push(&x);
        }
        let mut prepared = vec![0.0; queries.len() / dim * inner];
        for (query, out) in queries.chunks_exact(dim).zip(prepared.chunks_exact_mut(inner)) {
            space.query(query, out).expect("queries are numbers");
        }
        Self { codes, queries: prepared, truth }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// Components in the space the index works in.
    pub fn dim(&self) -> usize {
        self.codes.dim
    }

    /// Queries and the true neighbors of each.
    pub(super) fn questions(&self) -> impl Iterator<Item = (&[f32], &[u32])> {
        self.queries.chunks_exact(self.codes.dim).zip(self.truth.chunks_exact(K))
    }

    /// The distance that a node's own code gives.
    pub(super) fn distance(&self, query: &RoundedPoint, row: usize) -> f32 {
        distance(&self.codes, query, row)
    }

    /// Recall of ranking every row by own codes of `bits` bits: the most a search can reach that
    /// has no other vector. Twelve bits are the engine's code, fewer the same code with coarser
    /// steps.
    pub fn own_code_recall(&self, bits: u32) -> f64 {
        let dim = self.codes.dim;
        let questions: Vec<_> = self.questions().collect();
        let found = threads::map(2, questions.len().div_ceil(100), |part| {
            let questions = &questions[part * 100..questions.len().min((part + 1) * 100)];
            let mut nearest = vec![Vec::new(); questions.len()];
            let mut x = vec![0.0; dim];
            for row in 0..self.rows() {
                self.codes.decode(row, &mut x);
                coarsen(&mut x, bits);
                let norm = kernels::dot_f32(&x, &x);
                for (nearest, (query, _)) in nearest.iter_mut().zip(questions) {
                    // The query's own length is the same for every row and left out; the keys want
                    // no negatives.
                    let query_norm = kernels::dot_f32(query, query);
                    keep(nearest, key(query_norm + norm - 2.0 * kernels::dot_f32(query, &x), row as u32));
                }
            }
            nearest.iter().zip(questions).map(|(nearest, (_, truth))| common(nearest, truth)).sum::<usize>()
        });
        found.iter().sum::<usize>() as f64 / self.truth.len() as f64
    }
}

pub(super) fn distance(codes: &Codes, query: &RoundedPoint, row: usize) -> f32 {
    query.distance(codes.own[row], codes.hi(row), codes.lo(row))
}

/// Rounds to the levels of a code of `bits` bits with one step for the vector.
fn coarsen(x: &mut [f32], bits: u32) {
    if bits < 12 {
        let largest = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let step = largest / ((1 << (bits - 1)) - 1) as f32;
        let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
        x.iter_mut().for_each(|x| *x = (*x * inverse).round() * step);
    }
}

/// Keeps the [`K`] smallest, in order.
pub(super) fn keep(nearest: &mut Vec<u64>, key: u64) {
    if nearest.len() == K {
        if key >= nearest[K - 1] {
            return;
        }
        nearest.pop();
    }
    nearest.insert(nearest.partition_point(|other| *other < key), key);
}

pub(super) fn common(nearest: &[u64], truth: &[u32]) -> usize {
    nearest.iter().filter(|key| truth.contains(&key_id(**key))).count()
}

/// Edge codes of every row relative to coarse centroids, one code for all in-neighbors: the
/// engine's.
pub struct SharedCodes {
    pub(super) centroids: Centroids,
    pub(super) table: EdgeTable,
    pub(super) entries: Vec<u32>,
}

impl SharedCodes {
    /// Trains `centroids` centroids and codes every row in `bits` bits per dimension.
    pub fn new(bed: &Bed, centroids: usize, bits: usize) -> Self {
        let codes = &bed.codes;
        let stride = (codes.len() / centroids::SAMPLE_ROWS).max(1);
        let sample = codes.gather((0..codes.len() as u32).step_by(stride));
        let count = centroids.min(sample.len() / survey::SAMPLE_PER_CENTROID).max(1);
        let centers = centroids::train(&sample, count, survey::TRAIN_ROUNDS, SEED, 2);
        let nearest = centroids::assign(codes, &centers, 1, 2);
        let centroid: Vec<u8> = nearest.iter().map(|c| *c as u8).collect();
        let centroids = Centroids::from_codes(&centers);
        let decoded = centroids.decode();
        let center = |row: usize| &decoded[usize::from(centroid[row]) * codes.dim..][..codes.dim];
        let (words, factors) = encode(codes, bits, codes.len(), |i| (i, center(i).to_vec()));
        let digits = query_digits(codes, &centers, &centroid);
        let entries = rows::nearest_rows(codes, &centers, &centroid).iter().map(|entry| entry.node).collect();
        let table = EdgeTable { shape: shape(codes.dim, bits), words, factors, centroid, query_digits: digits };
        Self { centroids, table, entries }
    }

    /// Digits to which the engine would quantize a query for these codes.
    pub fn digits(&self) -> usize {
        self.table.query_digits
    }

    pub(super) fn distances(&self, query: &RoundedPoint) -> impl Iterator<Item = f32> {
        (0..self.centroids.len()).map(move |c| self.centroids.distance(c, query))
    }

    /// Where the engine begins to search: the entry point of the nearest centroid.
    pub(super) fn entry(&self, query: &RoundedPoint) -> u32 {
        let nearest = self.distances(query).zip(&self.entries).min_by(|a, b| a.0.total_cmp(&b.0));
        *nearest.expect("there is a centroid").1
    }

    /// Mean squared residual over mean squared length of the rows.
    pub fn residual_share(&self, bed: &Bed) -> f64 {
        let codes = &bed.codes;
        let residual = |row: usize| {
            let mut x = vec![0.0; codes.dim];
            codes.decode(row, &mut x);
            f64::from(self.centroids.distance(self.table.centroid[row].into(), &RoundedPoint::new(&x)))
        };
        let lengths: f64 = codes.hi_norm_sq.iter().map(|n| f64::from(*n)).sum();
        (0..codes.len()).map(residual).sum::<f64>() / lengths
    }
}

pub(super) fn shape(dim: usize, bits: usize) -> EdgeShape {
    EdgeShape { dims: NodeLayout::choose(dim).edge.dims, bits }
}

/// `count` codes; `what` names the row and the origin of the residual of each.
pub(super) fn encode(
    codes: &Codes,
    bits: usize,
    count: usize,
    what: impl Fn(usize) -> (usize, Vec<f32>) + Sync,
) -> (Vec<u64>, Vec<EdgeFactors>) {
    let shape = shape(codes.dim, bits);
    let parts = threads::map(2, count.div_ceil(4096), |part| {
        let range = part * 4096..count.min((part + 1) * 4096);
        let mut words = vec![0; range.len() * shape.words()];
        let mut x = vec![0.0; codes.dim];
        let factors: Vec<_> = range
            .zip(words.chunks_exact_mut(shape.words()))
            .map(|(i, code)| {
                let (row, origin) = what(i);
                codes.decode(row, &mut x);
                edge::encode(shape, &x, &origin, code)
            })
            .collect();
        (words, factors)
    });
    let (mut words, mut factors) = (Vec::new(), Vec::new());
    for (mut more, mut more_factors) in parts {
        words.append(&mut more);
        factors.append(&mut more_factors);
    }
    (words, factors)
}
