//! What the experiments in `benches/` need of the build and the search, with open the choices that the engine
//! fixes. It exists with the feature `experiments` only.
//!
//! A [`Bed`] holds rows and queries in the space the index works in; [`SharedCodes`] and [`NodeCodes`] are two
//! ways to code edges; [`connect`] and [`vamana`] are two ways to a [`Net`]. [`walk`] is the search of
//! `index/search.rs` on them, which counts and reads no pages.

use std::collections::HashSet;

use crate::Metric;
use crate::graph::connect::Pruning;
use crate::graph::list::CandidateList;
use crate::graph::prune::prune;
use crate::graph::refine::{EdgeTable, Walker};
use crate::graph::{Graph, key, key_distance, key_id, leaves, reach};
use crate::index::build::{self, query_digits};
use crate::index::order::page_order;
use crate::page::layout::NodeLayout;
use crate::quantize::centroids::{self, Centroids};
use crate::quantize::codes::Codes;
use crate::quantize::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeShape, QueryPlanes};
use crate::quantize::estimate::DEGREE_MAX;
use crate::quantize::own;
use crate::quantize::prepare::{Space, inner_dim};
use crate::quantize::rotation::Rotation;
use crate::random::Random;
use crate::threads;
use pagehop_kernels as kernels;

/// Neighbors asked for by every query.
pub const K: usize = 10;
/// Seed of everything random.
const SEED: u64 = 1;
/// Random numbers of [`vamana`] and [`Placement::random`].
const PURPOSE: u64 = 100;
/// Candidates a walk keeps: so many that the slack alone ends it.
const WALK_LIST: usize = 1000;
/// Hops after which a walk gives up.
const WALK_HOPS_MAX: usize = 500;

/// Why a build that reports to [`quiet`] cannot fail.
const QUIET: &str = "nothing interrupts an experiment";

/// All rows of a set, none of which are taken for equal.
fn all(codes: &Codes) -> Vec<u32> {
    (0..codes.len() as u32).collect()
}

/// Takes progress and says nothing.
fn quiet(_: usize) -> Result<(), crate::Error> {
    Ok(())
}

/// Rows, queries and the true neighbors.
pub struct Bed {
    codes: Codes,
    /// Prepared as the index does.
    queries: Vec<f32>,
    truth: Vec<u32>,
}

impl Bed {
    /// Rows and queries of `dim` components under L2; `truth` names the [`K`] nearest rows of each query.
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
    fn questions(&self) -> impl Iterator<Item = (&[f32], &[u32])> {
        self.queries.chunks_exact(self.codes.dim).zip(self.truth.chunks_exact(K))
    }

    /// The distance that a node's own code gives.
    fn distance(&self, query: &[f32], query_norm_sq: f32, row: usize) -> f32 {
        distance(&self.codes, query, query_norm_sq, row)
    }

    /// Recall of ranking every row by own codes of `bits` bits: the most a search can reach that has no other
    /// vector. Twelve bits are the engine's code, fewer the same code with coarser steps.
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
                    // The query's own length is the same for every row and left out; the keys want no negatives.
                    let query_norm = kernels::dot_f32(query, query);
                    keep(nearest, key(query_norm + norm - 2.0 * kernels::dot_f32(query, &x), row as u32));
                }
            }
            nearest.iter().zip(questions).map(|(nearest, (_, truth))| common(nearest, truth)).sum::<usize>()
        });
        found.iter().sum::<usize>() as f64 / self.truth.len() as f64
    }
}

fn distance(codes: &Codes, query: &[f32], query_norm_sq: f32, row: usize) -> f32 {
    let own::OwnCode { step, norm_sq } = codes.own[row];
    let dot = kernels::dot_f32_i12(query, codes.hi(row), codes.lo(row));
    (query_norm_sq + norm_sq - 2.0 * step * dot).max(0.0)
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
fn keep(nearest: &mut Vec<u64>, key: u64) {
    if nearest.len() == K {
        if key >= nearest[K - 1] {
            return;
        }
        nearest.pop();
    }
    nearest.insert(nearest.partition_point(|other| *other < key), key);
}

fn common(nearest: &[u64], truth: &[u32]) -> usize {
    nearest.iter().filter(|key| truth.contains(&key_id(**key))).count()
}

/// Edge codes of every row relative to coarse centroids, one code for all in-neighbors: the engine's.
pub struct SharedCodes {
    centroids: Centroids,
    table: EdgeTable,
    entries: Vec<u32>,
}

impl SharedCodes {
    /// Trains `centroids` centroids and codes every row in `bits` bits per dimension.
    pub fn new(bed: &Bed, centroids: usize, bits: usize) -> Self {
        let codes = &bed.codes;
        let stride = (codes.len() / build::SAMPLE_ROWS).max(1);
        let sample = codes.gather((0..codes.len() as u32).step_by(stride));
        let count = centroids.min(sample.len() / build::SAMPLE_PER_CENTROID).max(1);
        let centers = centroids::train(&sample, count, build::TRAIN_ROUNDS, SEED, 2);
        let nearest = centroids::assign(codes, &centers, 1, 2);
        let centroid: Vec<u8> = nearest.iter().map(|c| *c as u8).collect();
        let centroids = Centroids::from_codes(&centers);
        let decoded = centroids.decode();
        let center = |row: usize| &decoded[usize::from(centroid[row]) * codes.dim..][..codes.dim];
        let (words, factors) = encode(codes, bits, codes.len(), |i| (i, center(i).to_vec()));
        let digits = query_digits(codes, &centers, &centroid);
        let entries = build::nearest_rows(codes, &centers, &centroid).iter().map(|entry| entry.node).collect();
        let table = EdgeTable { shape: shape(codes.dim, bits), words, factors, centroid, query_digits: digits };
        Self { centroids, table, entries }
    }

    /// Digits to which the engine would quantize a query for these codes.
    pub fn digits(&self) -> usize {
        self.table.query_digits
    }

    fn distances(&self, query: &[f32], query_norm_sq: f32) -> impl Iterator<Item = f32> {
        (0..self.centroids.len()).map(move |c| self.centroids.distance(c, query, query_norm_sq))
    }

    /// Where the engine begins to search: the entry point of the nearest centroid.
    fn entry(&self, query: &[f32], query_norm_sq: f32) -> u32 {
        let nearest = self.distances(query, query_norm_sq).zip(&self.entries).min_by(|a, b| a.0.total_cmp(&b.0));
        *nearest.expect("there is a centroid").1
    }

    /// Mean squared residual over mean squared length of the rows.
    pub fn residual_share(&self, bed: &Bed) -> f64 {
        let codes = &bed.codes;
        let residual = |row: usize| {
            let mut x = vec![0.0; codes.dim];
            codes.decode(row, &mut x);
            f64::from(self.centroids.distance(self.table.centroid[row].into(), &x, codes.own[row].norm_sq))
        };
        let lengths: f64 = codes.hi_norm_sq.iter().map(|n| f64::from(*n)).sum();
        (0..codes.len()).map(residual).sum::<f64>() / lengths
    }
}

/// Edge codes relative to the node that holds the edge: one code per edge, the node's distance known.
pub struct NodeCodes {
    shape: EdgeShape,
    degree: usize,
    words: Vec<u64>,
    factors: Vec<EdgeFactors>,
}

impl NodeCodes {
    /// Codes every edge of `net` in `bits` bits per dimension.
    pub fn new(bed: &Bed, net: &Net, bits: usize) -> Self {
        let codes = &bed.codes;
        let degree = net.0.degree;
        let (words, factors) = encode(codes, bits, codes.len() * degree, |i| {
            let (row, slot) = (i / degree, i % degree);
            let mut node = vec![0.0; codes.dim];
            codes.decode(row, &mut node);
            (net.0.neighbors(row).get(slot).map_or(row, |n| *n as usize), node)
        });
        Self { shape: shape(codes.dim, bits), degree, words, factors }
    }
}

fn shape(dim: usize, bits: usize) -> EdgeShape {
    EdgeShape { dims: NodeLayout::choose(dim).edge.dims, bits }
}

/// `count` codes; `what` names the row and the origin of the residual of each.
fn encode(
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

/// A finished graph.
pub struct Net(Graph);

impl Net {
    /// Mean number of neighbors.
    pub fn mean_degree(&self) -> f64 {
        let edges: usize = (0..self.0.len()).map(|row| self.0.neighbors(row).len()).sum();
        edges as f64 / self.0.len() as f64
    }
}

/// The choices of [`connect`].
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Neighbors of each row.
    pub degree: usize,
    /// Leaves each row belongs to.
    pub fanout: usize,
    /// Candidates kept from the leaves.
    pub leaf_candidates: usize,
    /// Passes of search over the graph so far; the engine makes one.
    pub refines: usize,
    /// Candidates kept by each search.
    pub build_list: usize,
    /// Square of robust prune's slack.
    pub alpha_sq: f32,
    /// Threads.
    pub workers: usize,
}

impl Steps {
    /// The engine's own, with one thread.
    pub fn engine(degree: usize) -> Self {
        Self {
            degree,
            fanout: build::FANOUT,
            leaf_candidates: build::LEAF_CANDIDATES,
            refines: 1,
            build_list: build::BUILD_LIST,
            alpha_sq: build::ALPHA_SQ,
            workers: 1,
        }
    }
}

/// The build of `index/build.rs` between encoding and writing.
///
/// # Panics
///
/// Never: nothing here reads or reports.
pub fn connect(bed: &Bed, shared: &SharedCodes, steps: &Steps) -> Net {
    let codes = &bed.codes;
    let pruning = Pruning { codes, degree: steps.degree, alpha_sq: steps.alpha_sq, workers: steps.workers };
    let leaves = leaves::partition(codes, all(codes), steps.fanout, SEED, steps.workers, quiet).expect(QUIET);
    let nearest = leaves::candidates(codes, &leaves, steps.leaf_candidates, steps.workers, quiet).expect(QUIET);
    let forward = pruning.forward(|| (), |(), row| nearest[row].clone(), quiet).expect(QUIET);
    let mut graph = pruning.with_reverse(&forward, quiet).expect(QUIET);
    for _ in 0..steps.refines {
        let walker = || Walker::new(&shared.table, &shared.centroids, codes);
        let met = |walker: &mut Walker<'_>, row: usize| {
            let entry = shared.entries[usize::from(shared.table.centroid[row])];
            walker.candidates(&graph, row, entry, steps.build_list)
        };
        let forward = pruning.forward(walker, met, quiet).expect(QUIET);
        graph = pruning.with_reverse(&forward, quiet).expect(QUIET);
    }
    reach::attach_unreachable(&mut graph, &shared.entries);
    Net(graph)
}

/// Vamana (Subramanya et al. 2019) on the same distances and the same prune: every row in random order is searched
/// for from the medoid, its neighbors are chosen among the nodes visited, and each gets a link back; a node is
/// pruned once it has three tenths more links than `degree`, as DiskANN does. One pass for each of `alphas_sq`.
pub fn vamana(bed: &Bed, shared: &SharedCodes, degree: usize, list: usize, alphas_sq: &[f32]) -> Net {
    let codes = &bed.codes;
    let rows = codes.len();
    let mut random = Random::new(SEED, PURPOSE);
    let mut order: Vec<u32> = (0..rows as u32).collect();
    for i in (1..rows).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    // Rows are centered at their mean.
    let medoid = (0..rows).min_by(|a, b| codes.hi_norm_sq[*a].total_cmp(&codes.hi_norm_sq[*b])).unwrap_or(0);
    let mut graph = Graph::new(rows, (degree * 13).div_ceil(10));
    let mut insertion = Insertion { codes, list: CandidateList::default(), met: vec![u32::MAX; rows] };
    let mut kept = Vec::new();
    let gap = |a: u32, b: u32| codes.hi_distance(a as usize, b as usize);
    for (pass, &alpha_sq) in alphas_sq.iter().enumerate() {
        insertion.met.fill(u32::MAX);
        for &row in &order {
            let mut keys = insertion.visited(&graph, row, medoid as u32, list);
            if pass > 0 {
                keys.extend(graph.neighbors(row as usize).iter().map(|n| key(gap(row, *n), *n)));
            }
            keys.sort_unstable();
            keys.dedup();
            prune(&keys, degree, alpha_sq, gap, &mut kept);
            graph.set(row as usize, &kept);
            for &neighbor in &kept.clone() {
                let at = neighbor as usize;
                if graph.neighbors(at).contains(&row) || graph.push(at, row) {
                    continue;
                }
                let ids = graph.neighbors(at).iter().copied().chain([row]);
                let mut keys: Vec<u64> = ids.map(|id| key(gap(neighbor, id), id)).collect();
                keys.sort_unstable();
                prune(&keys, degree, alpha_sq, gap, &mut kept);
                graph.set(at, &kept);
            }
        }
    }
    let mut last = Graph::new(rows, degree);
    for row in 0..rows {
        let ids = graph.neighbors(row).iter();
        let mut keys: Vec<u64> = ids.map(|id| key(gap(row as u32, *id), *id)).collect();
        keys.sort_unstable();
        prune(&keys, degree, alphas_sq.last().copied().unwrap_or(1.0), gap, &mut kept);
        last.set(row, &kept);
    }
    reach::attach_unreachable(&mut last, &shared.entries);
    Net(last)
}

struct Insertion<'a> {
    codes: &'a Codes,
    list: CandidateList,
    /// The row for which each row was measured last.
    met: Vec<u32>,
}

impl Insertion<'_> {
    /// Keys of the nodes that a greedy search for `row` expands.
    fn visited(&mut self, graph: &Graph, row: u32, entry: u32, list: usize) -> Vec<u64> {
        let Self { codes, list: open, met } = self;
        let gap = |id: u32| codes.hi_distance(row as usize, id as usize);
        let mut visited = Vec::new();
        open.reset(list);
        open.insert(gap(entry), entry);
        met[entry as usize] = row;
        while let Some((distance, node)) = open.expand() {
            if node != row {
                visited.push(key(distance, node));
            }
            for &next in graph.neighbors(node as usize) {
                if std::mem::replace(&mut met[next as usize], row) != row {
                    open.insert(gap(next), next);
                }
            }
        }
        visited
    }
}

/// Which page each row lies on.
pub struct Placement(Vec<u32>);

impl Placement {
    /// As the engine places rows.
    pub fn built(net: &Net, per_page: usize) -> Self {
        let mut page_of = vec![0; net.0.len()];
        for (page, rows) in page_order(&net.0, per_page).iter().enumerate() {
            rows.iter().for_each(|row| page_of[*row as usize] = page as u32);
        }
        Self(page_of)
    }

    /// Leaf after leaf of the partition, each row in one leaf.
    pub fn leaves(bed: &Bed, per_page: usize) -> Self {
        let rows: Vec<u32> =
            leaves::partition(&bed.codes, all(&bed.codes), 1, SEED, 2, quiet).expect(QUIET).concat();
        Self::in_order(&rows, per_page)
    }

    /// Any order.
    pub fn random(rows: usize, per_page: usize) -> Self {
        let mut random = Random::new(SEED, PURPOSE);
        let mut order: Vec<u32> = (0..rows as u32).collect();
        for i in (1..rows).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        Self::in_order(&order, per_page)
    }

    fn in_order(rows: &[u32], per_page: usize) -> Self {
        let mut page_of = vec![0; rows.len()];
        rows.iter().enumerate().for_each(|(at, row)| page_of[*row as usize] = (at / per_page) as u32);
        Self(page_of)
    }

    /// Runs of `pages` pages instead of pages.
    pub fn runs(&self, pages: u32) -> Self {
        Self(self.0.iter().map(|page| page / pages).collect())
    }
}

/// What estimates the distances to a node's neighbors.
#[derive(Clone, Copy)]
pub enum Guide<'a> {
    /// The own codes of the neighbors: what no page layout can give.
    Exact,
    /// Shared codes, the query quantized to so many digits.
    Shared(&'a SharedCodes, usize),
    /// Codes relative to the node.
    Node(&'a NodeCodes, usize),
}

/// Means over the queries at one slack.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// When the search stops.
    pub slack: f64,
    /// Share of the true neighbors found.
    pub recall: f64,
    /// Nodes expanded.
    pub hops: f64,
    /// Distances estimated.
    pub estimates: f64,
    /// Distinct pages, for each placement.
    pub pages: Vec<f64>,
}

/// Searches for every query, once: a smaller slack stops the same walk earlier. `slacks` must increase.
pub fn walk(
    bed: &Bed,
    net: &Net,
    start: &SharedCodes,
    guide: Guide<'_>,
    slacks: &[f64],
    placements: &[&Placement],
) -> Vec<Point> {
    let empty = |slack: &f64| Point { slack: *slack, pages: vec![0.0; placements.len()], ..Point::default() };
    let mut points: Vec<Point> = slacks.iter().map(empty).collect();
    let mut walk = Walk::new(bed, net, guide);
    for (query, truth) in bed.questions() {
        walk.run(start, query, truth, placements, &mut points);
    }
    let queries = (bed.truth.len() / K) as f64;
    for point in &mut points {
        point.recall /= queries * K as f64;
        let sums = [&mut point.hops, &mut point.estimates].into_iter().chain(&mut point.pages);
        sums.for_each(|sum| *sum /= queries);
    }
    points
}

struct Walk<'a> {
    bed: &'a Bed,
    net: &'a Net,
    guide: Guide<'a>,
    planes: QueryPlanes,
    query_norm_sq: f32,
    /// Squared distance to each centroid.
    centroid_sq: Vec<f32>,
    gathered: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(bed: &'a Bed, net: &'a Net, guide: Guide<'a>) -> Self {
        let planes = QueryPlanes::default();
        Self { bed, net, guide, planes, query_norm_sq: 0.0, centroid_sq: Vec::new(), gathered: Vec::new() }
    }

    /// One query; adds what it cost and found to `points`, in order of slack.
    fn run(
        &mut self,
        start: &SharedCodes,
        query: &[f32],
        truth: &[u32],
        placed: &[&Placement],
        points: &mut [Point],
    ) {
        self.prepare(query);
        let entry = start.entry(query, self.query_norm_sq);
        let mut list = CandidateList::default();
        list.reset(WALK_LIST);
        list.insert(0.0, entry);
        let mut nearest = Vec::new();
        let mut pages: Vec<HashSet<u32>> = vec![HashSet::new(); placed.len()];
        let (mut expanded, mut estimated) = (HashSet::new(), 0);
        let add = |point: &mut Point, nearest: &[u64], hops: usize, estimated: usize, pages: &[HashSet<u32>]| {
            point.recall += common(nearest, truth) as f64;
            point.hops += hops as f64;
            point.estimates += estimated as f64;
            point.pages.iter_mut().zip(pages).for_each(|(sum, pages)| *sum += pages.len() as f64);
        };
        let mut next = 0;
        let mut estimates = [0.0; DEGREE_MAX];
        while let Some((estimate, node)) = list.expand() {
            let beyond = |point: &Point| {
                nearest.len() == K
                    && f64::from(estimate) > f64::from(key_distance(nearest[K - 1])) * (1.0 + point.slack)
            };
            while next < points.len() && beyond(&points[next]) {
                add(&mut points[next], &nearest, expanded.len(), estimated, &pages);
                next += 1;
            }
            if next == points.len() || expanded.len() == WALK_HOPS_MAX {
                break;
            }
            // Only codes relative to the node can list a row twice, under two estimates.
            if !expanded.insert(node) {
                continue;
            }
            let distance = self.bed.distance(query, self.query_norm_sq, node as usize);
            let neighbors = self.net.0.neighbors(node as usize);
            self.estimate(query, node as usize, distance, &mut estimates);
            for (estimate, neighbor) in estimates.iter().zip(neighbors) {
                if *estimate < list.bound() && *neighbor != entry {
                    list.insert(*estimate, *neighbor);
                }
            }
            estimated += neighbors.len();
            keep(&mut nearest, key(distance, node));
            pages.iter_mut().zip(placed).for_each(|(pages, placed)| {
                pages.insert(placed.0[node as usize]);
            });
        }
        for point in &mut points[next..] {
            add(point, &nearest, expanded.len(), estimated, &pages);
        }
    }

    fn prepare(&mut self, query: &[f32]) {
        self.query_norm_sq = kernels::dot_f32(query, query);
        match self.guide {
            Guide::Exact => {}
            Guide::Shared(shared, digits) => {
                self.planes.prepare(shared.table.shape, digits, query);
                self.centroid_sq = shared.distances(query, self.query_norm_sq).collect();
            }
            Guide::Node(codes, digits) => self.planes.prepare(codes.shape, digits, query),
        }
    }

    /// Estimates of the distances to the neighbors of `node`, which is `distance` away itself.
    fn estimate(&mut self, query: &[f32], node: usize, distance: f32, estimates: &mut [f32; DEGREE_MAX]) {
        let neighbors = self.net.0.neighbors(node);
        let (shape, degree) = match self.guide {
            Guide::Exact => {
                for (estimate, neighbor) in estimates.iter_mut().zip(neighbors) {
                    *estimate = self.bed.distance(query, self.query_norm_sq, *neighbor as usize);
                }
                return;
            }
            Guide::Shared(shared, _) => (shared.table.shape, 0),
            Guide::Node(codes, _) => (codes.shape, codes.degree),
        };
        // Code and factors of an edge, and the query's distance to the origin of its residual.
        let edge = |slot: usize| match self.guide {
            Guide::Shared(SharedCodes { table, .. }, _) => {
                let row = neighbors[slot] as usize;
                (table.code(row), table.factors[row], self.centroid_sq[usize::from(table.centroid[row])])
            }
            Guide::Node(codes, _) => {
                let at = node * degree + slot;
                (&codes.words[at * shape.words()..][..shape.words()], codes.factors[at], distance)
            }
            Guide::Exact => unreachable!("exact distances need no codes"),
        };
        let slots = neighbors.len().next_multiple_of(BLOCK_EDGES);
        self.gathered.resize(slots * shape.code_bytes(), 0);
        for slot in 0..neighbors.len() {
            edge::interleave(shape, edge(slot).0, slot, slots, &mut self.gathered);
        }
        let mut counts = [0u32; DEGREE_MAX];
        self.planes.count(&self.gathered, slots, &mut counts[..slots]);
        let (base, per_count) = self.planes.constants();
        for (slot, estimate) in estimates[..neighbors.len()].iter_mut().enumerate() {
            let (_, EdgeFactors { add, factor }, known) = edge(slot);
            *estimate = known + add - factor * (base - per_count * counts[slot] as f32);
        }
    }
}

/// The point of exactly `recall`, between those that were measured; `None` beyond the last.
pub fn at_recall(points: &[Point], recall: f64) -> Option<Point> {
    let after = points.iter().position(|point| point.recall >= recall)?;
    let Some(before) = after.checked_sub(1) else {
        return Some(points[after].clone());
    };
    let (a, b) = (&points[before], &points[after]);
    let share = (recall - a.recall) / (b.recall - a.recall);
    let mix = |a: f64, b: f64| a + share * (b - a);
    Some(Point {
        slack: mix(a.slack, b.slack),
        recall,
        hops: mix(a.hops, b.hops),
        estimates: mix(a.estimates, b.estimates),
        pages: a.pages.iter().zip(&b.pages).map(|(a, b)| mix(*a, *b)).collect(),
    })
}

/// Nodes of this shape that fit on a page; 0 if none does.
pub fn nodes_per_page(dim: usize, degree: usize, bits: usize) -> usize {
    let fits = |nodes_per_page: &usize| {
        NodeLayout { inner_dim: dim, degree, edge: shape(dim, bits), nodes_per_page: *nodes_per_page }.is_valid()
    };
    (1..).take_while(fits).last().unwrap_or(0)
}

/// Degree, bits and nodes per page that the engine chooses.
pub fn default_layout(dim: usize) -> (usize, usize, usize) {
    let layout = NodeLayout::choose(dim);
    (layout.degree, layout.edge.bits, layout.nodes_per_page)
}
