//! Test rows, their distances, and nearest neighbors by brute force.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagehop_engine::{ColumnRows, EachChunk, Error, Metric, Value, VectorSource};

use crate::Rng;

/// A row: its vector, its values in the columns of the index, and its payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its components.
    pub vector: Arc<[f32]>,
    /// A value for each column.
    pub values: Arc<[Value]>,
    /// Its payload, if it has one.
    pub payload: Option<Arc<[u8]>>,
}

/// The row of each id.
pub(super) type Rows = BTreeMap<u64, Row>;

/// The distribution of vectors: centers plus noise.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    dim: usize,
    /// Each vector is one of these centers plus noise.
    centers: Vec<Vec<f32>>,
    noise: f32,
    /// One row in this number is three times as long; 0 for none.
    long_one_in: usize,
    /// One row in this number has no noise; 0 for none.
    same_one_in: usize,
}

impl Cloud {
    pub(super) fn draw(dim: usize, rng: &mut Rng) -> Self {
        let centers = (0..1 + rng.below(8)).map(|_| (0..dim).map(|_| gauss(rng)).collect()).collect();
        let noise = [0.1, 0.5, 1.0, 3.0][rng.below(4)];
        let long_one_in = if rng.one_in(4) { 5 + rng.below(40) } else { 0 };
        let same_one_in = if rng.one_in(8) { 1 + rng.below(20) } else { 0 };
        Self { dim, centers, noise, long_one_in, same_one_in }
    }

    pub(super) fn describe(&self) -> String {
        let Self { centers, noise, long_one_in, same_one_in, .. } = self;
        format!(
            "{} centers, noise {noise}, one in {long_one_in} long, one in {same_one_in} a center",
            centers.len()
        )
    }

    pub(super) fn vector(&self, rng: &mut Rng) -> Arc<[f32]> {
        let center = &self.centers[rng.below(self.centers.len())];
        let scale = if rng.one_in(self.long_one_in) { 3.0 } else { 1.0 };
        let noise = if rng.one_in(self.same_one_in) { 0.0 } else { self.noise };
        debug_assert_eq!(center.len(), self.dim);
        center.iter().map(|x| scale * (x + noise * gauss(rng))).collect()
    }
}

/// A roughly normal random number.
fn gauss(rng: &mut Rng) -> f32 {
    let bits = rng.next_u64();
    let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
    (sum as f32 / 65_536.0 - 2.0) * 1.7
}

/// The distance as the documentation of `Metric` defines it.
pub(super) fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: fn(f64, f64) -> f64| a.iter().zip(b).map(|(a, b)| f(f64::from(*a), f64::from(*b))).sum::<f64>();
    match metric {
        Metric::L2 => sum(|a, b| (a - b) * (a - b)),
        Metric::InnerProduct => -sum(|a, b| a * b),
        Metric::Cosine => 1.0 - sum(|a, b| a * b) / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt(),
    }
}

/// The largest allowed error of a distance. An index stores rows with 12 bits per component, and
/// rounds them once more whenever its model is trained again.
pub(super) fn tolerance(metric: Metric, query: &[f32], row: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    match metric {
        Metric::L2 => 0.01 * (dot(query, query) + dot(row, row)) + 1e-3,
        Metric::InnerProduct => 0.02 * (dot(query, query) * dot(row, row)).sqrt() + 1e-3,
        Metric::Cosine => 0.02,
    }
}

/// The distance of the `k`-th nearest of the rows; infinite if there are fewer rows.
pub(super) fn kth_distance<'r>(
    rows: impl IntoIterator<Item = &'r Row>,
    metric: Metric,
    query: &[f32],
    k: usize,
) -> f64 {
    let mut distances: Vec<f64> = rows.into_iter().map(|row| distance(metric, query, &row.vector)).collect();
    distances.sort_by(f64::total_cmp);
    distances.get(k - 1).copied().unwrap_or(f64::INFINITY)
}

/// The rows, as the source of a bulk build.
pub(super) struct Source<'r> {
    pub(super) dim: usize,
    pub(super) rows: &'r Rows,
    pub(super) columns: ColumnRows,
    pub(super) texts: Option<Vec<String>>,
}

impl VectorSource for Source<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let ids: Vec<u64> = self.rows.keys().copied().collect();
        let vectors: Vec<f32> = self.rows.values().flat_map(|row| row.vector.iter().copied()).collect();
        each(&ids, &vectors)
    }

    fn text_ids(&self) -> Option<&[String]> {
        self.texts.as_deref()
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns).filter(|columns| !columns.columns().is_empty() || columns.payloads().is_some())
    }
}
