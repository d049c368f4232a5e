//! From candidates to a graph: prune each row's candidates, then let every edge be answered by its reverse
//! and prune again where that overflows.

use super::prune::prune;
use super::{Graph, key};
use crate::quantize::codes::Codes;
use crate::threads;

/// Rows pruned as one unit of work.
const BLOCK_ROWS: usize = 256;

/// Prunes `candidates(row)` for every row, then adds reverse edges.
pub(crate) fn connect(
    codes: &Codes,
    candidates: impl Fn(usize) -> Vec<u64> + Sync,
    degree: usize,
    alpha_sq: f32,
    workers: usize,
) -> Graph {
    let forward = prune_all(codes, candidates, degree, alpha_sq, workers);
    let (starts, sources) = reverse(&forward);
    let both = |row: usize| {
        let incoming = &sources[starts[row] as usize..starts[row + 1] as usize];
        let ids = forward.neighbors(row).iter().chain(incoming);
        let mut keys: Vec<u64> = ids.map(|id| key(codes.hi_distance(row, *id as usize), *id)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    prune_all(codes, both, degree, alpha_sq, workers)
}

fn prune_all(
    codes: &Codes,
    candidates: impl Fn(usize) -> Vec<u64> + Sync,
    degree: usize,
    alpha_sq: f32,
    workers: usize,
) -> Graph {
    let rows = codes.len();
    let blocks = threads::map(workers, rows.div_ceil(BLOCK_ROWS), |block| {
        let range = block * BLOCK_ROWS..rows.min((block + 1) * BLOCK_ROWS);
        let mut kept = Vec::new();
        let mut part = Graph::new(range.len(), degree);
        for (i, row) in range.enumerate() {
            let distance = |a: u32, b: u32| codes.hi_distance(a as usize, b as usize);
            prune(&candidates(row), degree, alpha_sq, distance, &mut kept);
            part.set(i, &kept);
        }
        part
    });
    Graph::concat(degree, blocks)
}

/// The rows that point to each row, as one list with the start of each row's share.
fn reverse(graph: &Graph) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; graph.len() + 1];
    for row in 0..graph.len() {
        for neighbor in graph.neighbors(row) {
            starts[*neighbor as usize + 1] += 1;
        }
    }
    for row in 0..graph.len() {
        starts[row + 1] += starts[row];
    }
    let mut next = starts.clone();
    let mut sources = vec![0u32; starts[graph.len()] as usize];
    for row in 0..graph.len() {
        for neighbor in graph.neighbors(row) {
            let at = &mut next[*neighbor as usize];
            sources[*at as usize] = row as u32;
            *at += 1;
        }
    }
    (starts, sources)
}
