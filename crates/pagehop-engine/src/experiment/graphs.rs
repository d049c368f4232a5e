//! The graphs that the experiments compare, and placements of their nodes on pages.

use super::bed::{Bed, PURPOSE, QUIET, SEED, SharedCodes, all, quiet};
use crate::graph::connect::Pruning;
use crate::graph::list::CandidateList;
use crate::graph::prune::{ALPHA_SQ, prune};
use crate::graph::refine::Walker;
use crate::graph::{Graph, key, leaves, reach};
use crate::index::build::order::page_order;
use crate::index::build::{self};
use crate::quantize::codes::Codes;
use crate::random::Random;

/// A finished graph.
pub struct Net(pub(super) Graph);

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
            leaf_candidates: leaves::LEAF_CANDIDATES,
            refines: 1,
            build_list: build::BUILD_LIST,
            alpha_sq: ALPHA_SQ,
            workers: 1,
        }
    }
}

/// The build of `index/build/mod.rs` between encoding and writing.
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

/// Vamana (Subramanya et al. 2019) on the same distances and the same prune: every row in random
/// order is searched for from the medoid, its neighbors are chosen among the nodes visited, and
/// each gets a link back; a node is pruned once it has three tenths more links than `degree`, as
/// DiskANN does. One pass for each of `alphas_sq`.
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
pub struct Placement(pub(super) Vec<u32>);

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
