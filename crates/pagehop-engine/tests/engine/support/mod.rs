//! Seeded data, brute force, and helpers that the engine's tests share.

pub mod hosted;
pub mod sessions;
pub mod spilling;

use std::ops::ControlFlow;

use pagehop_engine::{
    BuildOptions, Calibration, Change, ColumnRows, EachChunk, Error, Index, Metric, SearchOptions, VacuumReport,
    VectorSource, build,
};
use pagehop_sim::{MemPages, MemWriter};

/// Rows in memory, passed to a build in chunks of `chunk_rows`.
#[derive(Clone)]
pub struct Rows {
    pub dim: usize,
    pub ids: Vec<u64>,
    pub values: Vec<f32>,
    pub chunk_rows: usize,
}

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        self.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let ids = self.ids.chunks(self.chunk_rows);
        ids.zip(self.values.chunks(self.chunk_rows * self.dim)).try_for_each(|(ids, values)| each(ids, values))
    }
}

/// Rows with columns, passed to a build in one chunk.
pub struct ColumnSource {
    pub dim: usize,
    pub ids: Vec<u64>,
    pub vectors: Vec<f32>,
    pub columns: ColumnRows,
}

impl VectorSource for ColumnSource {
    fn dim(&self) -> usize {
        self.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        each(&self.ids, &self.vectors)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

impl Rows {
    pub fn new(dim: usize, values: Vec<f32>) -> Self {
        let count = values.len() / dim;
        // Ids differ from positions, so that a test fails if the two are confused.
        let ids = (0..count as u64).map(|i| i * 7 + 1_000_000_007).collect();
        Self { dim, ids, values, chunk_rows: 100 }
    }

    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.dim..][..self.dim]
    }
}

/// The SplitMix64 generator, with Gaussians.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A float in 0.0..1.0.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// A number with mean 0 and variance 1, as the sum of 12 uniform ones.
    pub fn gauss(&mut self) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() - 6.0
    }
}

/// Rows near a curved surface of few dimensions, with different norms, like embeddings.
pub fn embeddings(dim: usize, count: usize, seed: u64) -> Vec<f32> {
    let latent = dim.min(8);
    let mut map_noise = Noise(77 + dim as u64);
    let map: Vec<f32> = (0..latent * dim).map(|_| map_noise.gauss()).collect();
    let mut noise = Noise(seed);
    let mut values = Vec::with_capacity(dim * count);
    for _ in 0..count {
        let cluster = (noise.unit() * 5.0).floor();
        let z: Vec<f32> = (0..latent).map(|i| noise.gauss() + if i == 0 { 2.0 * cluster } else { 0.0 }).collect();
        for d in 0..dim {
            let x: f32 = (0..latent).map(|i| z[i] * map[i * dim + d]).sum();
            values.push((0.3 * x).sin() + 0.1 * x + 0.05 * noise.gauss());
        }
    }
    values
}

/// The distance as the documentation of `Metric` defines it.
pub fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let dot = || pairs().map(|(a, b)| a * b).sum::<f64>();
    match metric {
        Metric::L2 => pairs().map(|(a, b)| (a - b) * (a - b)).sum(),
        Metric::InnerProduct => -dot(),
        Metric::Cosine => {
            let (a_sq, b_sq) = pairs().fold((0.0, 0.0), |(a_sq, b_sq), (a, b)| (a_sq + a * a, b_sq + b * b));
            1.0 - dot() / (a_sq * b_sq).sqrt()
        }
    }
}

/// Whether this is `./dev test long`, in which tests also run the cases that show little more.
pub fn is_long() -> bool {
    std::env::var("PAGEHOP_LONG").is_ok()
}

/// The metrics of a test that takes seconds for each: one, and all in `./dev test long`.
pub fn metrics() -> impl Iterator<Item = Metric> {
    let count = if is_long() { 3 } else { 1 };
    [Metric::L2, Metric::InnerProduct, Metric::Cosine].into_iter().take(count)
}

/// The ids of the `k` nearest rows, by brute force.
pub fn truth(rows: &Rows, metric: Metric, query: &[f32], k: usize) -> Vec<u64> {
    let mut all: Vec<(f64, u64)> =
        (0..rows.ids.len()).map(|i| (distance(metric, query, rows.row(i)), rows.ids[i])).collect();
    let order = |a: &(f64, u64), b: &(f64, u64)| a.partial_cmp(b).unwrap();
    if k < all.len() {
        all.select_nth_unstable_by(k, order);
        all.truncate(k);
    }
    all.sort_by(order);
    all.into_iter().map(|(_, id)| id).collect()
}

pub fn options(metric: Metric) -> BuildOptions {
    BuildOptions { metric, threads: 2, ..BuildOptions::default() }
}

pub fn built(rows: &Rows, options: &BuildOptions) -> Result<MemPages, Error> {
    let mut pages = MemPages::new();
    build(&mut rows.clone(), options, &mut pages, &mut |_| ControlFlow::Continue(()))?;
    Ok(pages)
}

pub fn index(rows: &Rows, metric: Metric) -> Index<MemPages> {
    Index::open(built(rows, &options(metric)).unwrap()).unwrap()
}

/// A calibration by rows of the index, which is not stored.
pub fn calibrated(index: &Index<MemPages>) -> Calibration {
    index.calibrate(None, 2, &mut no_progress()).unwrap().expect("there are enough rows")
}

/// Runs one transaction on an index whose row ids are given by the user.
pub fn change<T>(pages: &mut MemPages, work: impl FnOnce(&mut Change<'_, MemWriter<'_>>) -> T) -> T {
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    let result = work(&mut change);
    change.finish().unwrap();
    writer.commit();
    result
}

/// Vacuums until no work is left.
pub fn vacuum(pages: &mut MemPages) -> VacuumReport {
    let mut report = VacuumReport::default();
    loop {
        let part = change(pages, |change| change.vacuum(u64::MAX, &mut no_progress()).unwrap());
        report.add(&part);
        if part.steps() == 0 {
            return report;
        }
    }
}

/// Mean recall@k over queries, and mean pages and estimates per query.
pub fn recall(
    index: &Index<MemPages>,
    rows: &Rows,
    metric: Metric,
    queries: &[f32],
    options: &SearchOptions,
) -> (f64, f64, f64) {
    let k = 10;
    let (mut found, mut pages, mut estimates) = (0, 0, 0);
    let count = queries.len() / rows.dim;
    let mut searcher = index.searcher();
    for query in queries.chunks_exact(rows.dim) {
        let truth = truth(rows, metric, query, k);
        let result = searcher.search_with(query, k, options).unwrap();
        found += result.hits.iter().filter(|hit| truth.contains(&hit.row_id)).count();
        pages += result.stats.pages_read;
        estimates += result.stats.estimates;
    }
    let n = count as f64;
    (found as f64 / n / k as f64, pages as f64 / n, estimates as f64 / n)
}

pub fn no_progress() -> impl FnMut(pagehop_engine::Progress) -> ControlFlow<()> {
    |_| ControlFlow::Continue(())
}
