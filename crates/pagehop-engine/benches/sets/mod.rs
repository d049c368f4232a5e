//! Rows, queries and true neighbors for the experiments, the sweep they share, and their output.
//!
//! The data is named by an argument or by `PAGEHOP_DATA`. It is a folder with `train.fbin`,
//! `test.fbin` and `truth.ibin` (rows and dimension as 32-bit integers, then the values, little
//! endian; the first ten of each row of `truth.ibin` are the nearest rows), or `DIMxROWS` for a
//! generated set. The default is `256x20000`. `PAGEHOP_QUERIES` (1000) and `PAGEHOP_ROWS` (all)
//! limit the queries and the rows.
#![allow(dead_code, reason = "each experiment uses a part")]

use std::path::Path;

use pagehop_engine::experiment::{Bed, K, Point, at_recall};
use pagehop_kernels::l2sq_f32;

/// Slacks at which a walk is measured, from much too small to much too large.
pub(crate) const SLACKS: [f64; 28] = [
    -0.6, -0.5, -0.4, -0.3, -0.25, -0.2, -0.15, -0.1, -0.05, 0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5,
    0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0,
];

/// Prints the name and loads the data.
pub(crate) fn load() -> Bed {
    let argument = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let name = argument.or(std::env::var("PAGEHOP_DATA").ok()).unwrap_or_else(|| "256x20000".to_owned());
    let limit = |variable: &str| std::env::var(variable).ok().map(|n| n.parse::<usize>().expect(variable));
    let queries_max = limit("PAGEHOP_QUERIES").unwrap_or(1000);
    let numbers = name.split_once('x').and_then(|(dim, rows)| Some((dim.parse().ok()?, rows.parse().ok()?)));
    let (dim, mut rows, mut queries, truth) = match numbers {
        Some((dim, rows)) => {
            let mut source = Embeddings::new(dim);
            (dim, source.take(rows), source.take(queries_max), None)
        }
        // Cargo runs a bench in the folder of its crate; data is named relative to the repository.
        None => read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&name)),
    };
    queries.truncate(queries_max * dim);
    let all = rows.len() / dim;
    rows.truncate(limit("PAGEHOP_ROWS").unwrap_or(all) * dim);
    let truth = match truth {
        Some(mut truth) if rows.len() / dim == all => {
            truth.truncate(queries.len() / dim * K);
            truth
        }
        _ => brute_force(dim, &rows, &queries),
    };
    let what = if numbers.is_some() { "generated" } else { name.trim_end_matches('/') };
    println!("\n{what}: {} rows x {dim}, {} queries", rows.len() / dim, queries.len() / dim);
    Bed::new(dim, &rows, &queries, truth)
}

fn read_folder(folder: &Path) -> (usize, Vec<f32>, Vec<f32>, Option<Vec<u32>>) {
    let read = |name: &str| {
        let path = folder.join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let words: Vec<[u8; 4]> = bytes.as_chunks().0.to_vec();
        (u32::from_le_bytes(words[1]) as usize, words[2..].to_vec())
    };
    let floats = |words: Vec<[u8; 4]>| words.into_iter().map(f32::from_le_bytes).collect();
    let (dim, rows) = read("train.fbin");
    let (_, queries) = read("test.fbin");
    let (width, truth) = read("truth.ibin");
    let truth =
        truth.chunks_exact(width).flat_map(|row| row[..K].iter().map(|id| u32::from_le_bytes(*id))).collect();
    (dim, floats(rows), floats(queries), Some(truth))
}

/// The [`K`] nearest rows of each query, on two threads.
fn brute_force(dim: usize, rows: &[f32], queries: &[f32]) -> Vec<u32> {
    let part = |queries: &[f32]| {
        let mut all: Vec<(f32, u32)> = Vec::new();
        let mut truth = Vec::new();
        for query in queries.chunks_exact(dim) {
            all.clear();
            all.extend(rows.chunks_exact(dim).zip(0..).map(|(row, id)| (l2sq_f32(query, row), id)));
            all.select_nth_unstable_by(K - 1, |a, b| a.partial_cmp(b).expect("distances are numbers"));
            truth.extend(all[..K].iter().map(|nearest| nearest.1));
        }
        truth
    };
    let (front, back) = queries.split_at(queries.len() / dim / 2 * dim);
    std::thread::scope(|scope| {
        let front = scope.spawn(|| part(front));
        let back = part(back);
        let mut truth = front.join().expect("brute force does not panic");
        truth.extend(back);
        truth
    })
}

/// Vectors like a model's embeddings: 200 clusters of very different size in 16 dimensions, bent
/// into 64, spread over all, with a little noise.
struct Embeddings {
    dim: usize,
    noise: Noise,
    centers: Vec<f32>,
    bend: Vec<f32>,
    spread: Vec<f32>,
    /// Running sums of the clusters' shares.
    shares: Vec<f32>,
}

const LATENT: usize = 16;
const BENT: usize = 64;
const CLUSTERS: usize = 200;

impl Embeddings {
    fn new(dim: usize) -> Self {
        let mut noise = Noise(5);
        let mut gauss = |count: usize, scale: f32| (0..count).map(|_| noise.gauss() * scale).collect::<Vec<f32>>();
        let centers = gauss(CLUSTERS * LATENT, 1.2);
        let bend = gauss(LATENT * BENT, 0.25);
        let spread = gauss(BENT * dim, 0.125);
        let mut sum = 0.0;
        let mut shares: Vec<f32> = Vec::new();
        for rank in 1..=CLUSTERS {
            sum += (rank as f32).powf(-0.8);
            shares.push(sum);
        }
        shares.iter_mut().for_each(|share| *share /= sum);
        Self { dim, noise, centers, bend, spread, shares }
    }

    fn take(&mut self, count: usize) -> Vec<f32> {
        let dim = self.dim;
        let mut values = vec![0.0; count * dim];
        for row in values.chunks_exact_mut(dim) {
            let pick = self.noise.unit();
            let cluster = self.shares.partition_point(|share| *share < pick).min(CLUSTERS - 1);
            let mut bent = [0.0f32; BENT];
            for (i, center) in self.centers[cluster * LATENT..][..LATENT].iter().enumerate() {
                let z = center + 0.8 * self.noise.gauss();
                bent.iter_mut().zip(&self.bend[i * BENT..]).for_each(|(bent, w)| *bent += z * w);
            }
            for (bent, spread) in bent.iter().zip(self.spread.chunks_exact(dim)) {
                let bent = bent.tanh();
                row.iter_mut().zip(spread).for_each(|(x, w)| *x += bent * w);
            }
            row.iter_mut().for_each(|x| *x += 0.02 * self.noise.gauss());
        }
        values
    }
}

/// SplitMix64.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between 0 and 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Mean 0, variance 1: twelve uniforms of 16 bits, summed.
    fn gauss(&mut self) -> f32 {
        let sixteen = |x: u64| (0..4).map(|i| (x >> (16 * i) & 0xFFFF) as u32).sum::<u32>();
        let sum = sixteen(self.next()) + sixteen(self.next()) + sixteen(self.next());
        (sum as f32 + 6.0) / 65536.0 - 6.0
    }
}

/// CPU seconds that all threads of this process have used; 0 where there is no `/proc`.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the command in parentheses; user and system time are the 14th and 15th,
    // in 1/100 s.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// A value of the walk at a recall, or a dash if no slack reaches it.
pub(crate) fn cell(points: &[Point], recall: f64, of: impl Fn(&Point) -> f64) -> String {
    at_recall(points, recall).map_or_else(|| "-".to_owned(), |point| format!("{:.1}", of(&point)))
}

/// The largest recall any slack reached.
pub(crate) fn best(points: &[Point]) -> f64 {
    points.iter().map(|point| point.recall).fold(0.0, f64::max)
}
