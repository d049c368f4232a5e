//! The edges of rows in memory: leaves, all pairs, prune, reverse edges, refinement.

use super::job::Job;
use super::rows::Rows;
use crate::Error;
use crate::graph::connect::Pruning;
use crate::graph::leaves::{self, LEAF_CANDIDATES};
use crate::graph::refine::Walker;
use crate::graph::{Adjacency, key, key_id, keys_of};
use crate::page::model_pages::Entry;
use crate::quantize::codes::Codes;

/// Leaves per row.
const FANOUT: usize = 2;
/// Length of the candidate list in the search that refines a row.
const BUILD_LIST: usize = 200;
/// The same length in up to 64 dimensions.
const BUILD_LIST_FEW_DIMENSIONS: usize = 40;
/// Centroids whose landmarks the search for a row begins at.
const START_LISTS: usize = 3;
/// Most landmarks that the search for a row begins at. A million rows have 650.
const STARTS_MAX: usize = 1024;

/// Builds the graph from leaves, then refines the edges of the first `refined` rows by a search
/// each.
pub(super) fn connect(job: &mut Job<'_>, codes: &Codes, rows: &Rows, refined: usize) -> Result<Adjacency, Error> {
    let (workers, total) = (job.threads, codes.len());
    let pruning = Pruning { codes, degree: job.layout.degree, workers };
    let seed = job.options.seed;
    let some = (0..codes.len() as u32).filter(|row| rows.is_first(*row as usize)).collect();
    let leaves = leaves::partition(codes, some, FANOUT, seed, workers, |done| job.step_rows("partition", done))?;
    let nearest = leaves::candidates(codes, &leaves, LEAF_CANDIDATES, workers, |done| {
        job.step_rows("connect", total * done.min(leaves.len()) / leaves.len())
    })?;
    drop(leaves);
    let mut prune = |done: usize| job.step_rows("prune", done);
    let forward = pruning.forward(|| (), |(), row| nearest.of(row).to_vec(), &mut prune)?;
    drop(nearest);
    let leaf_graph = pruning.with_reverse(&forward, &mut prune)?;
    drop(forward);
    refine(job, pruning, leaf_graph, rows, refined)
}

/// Replaces the edges of the first `refined` rows by the best of those that a search for the row
/// finds and of those that it has.
///
/// It takes two stages. The searches of the second find better edges than those of the first, in
/// fewer hops, because rows of the first stage already have their new edges and the reverse of
/// them. DiskANN changes the graph after each search instead; stages give the same graph for any
/// number of threads.
fn refine(
    job: &mut Job<'_>,
    pruning: Pruning<'_>,
    mut graph: Adjacency,
    rows: &Rows,
    refined: usize,
) -> Result<Adjacency, Error> {
    let (codes, total) = (pruning.codes, pruning.codes.len());
    let walker = || Walker::new(&rows.table, &rows.centroids, codes);
    let starts = starts(rows, codes.dim);
    let list = if codes.dim > 64 { BUILD_LIST } else { BUILD_LIST_FEW_DIMENSIONS };
    for stage in [Stage::First, Stage::Second] {
        let met = |walker: &mut Walker<'_>, row: usize| {
            if !rows.is_first(row) {
                return Vec::new();
            }
            if row >= refined || Stage::of(row) != stage {
                return keys_of(codes, row, graph.neighbors(row));
            }
            let starts = &starts[usize::from(rows.table.centroid(row))];
            walker.candidates(&graph, row, starts, list)
        };
        let forward = pruning.forward(walker, met, |done| job.step_rows("refine", stage.refined(done, total)))?;
        drop(graph);
        graph = pruning.with_reverse(&forward, |done| match stage {
            Stage::First => job.step_rows("refine", stage.refined(total, total)),
            Stage::Second => job.step_rows("prune", done),
        })?;
    }
    Ok(graph)
}

/// When a row is refined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    Second,
}

impl Stage {
    /// Percent of the rows that are refined in the first stage. `docs/decisions/0012-hard-data.md`
    /// has the hops with 15, 30 and 50.
    const FIRST_PERCENT: usize = 30;

    /// The stage of a row: rows of both are spread over all regions (Fibonacci hashing, Knuth
    /// 1973).
    fn of(row: usize) -> Self {
        let place = u64::from((row as u32).wrapping_mul(0x9e37_79b9));
        let percent = (place * 100) >> u32::BITS;
        if percent < Self::FIRST_PERCENT as u64 { Self::First } else { Self::Second }
    }

    /// About how many of all `rows` are refined once this stage has passed `done` of them.
    fn refined(self, done: usize, rows: usize) -> usize {
        let first = Self::FIRST_PERCENT;
        match self {
            Self::First => done * first / 100,
            Self::Second => (rows * first + done * (100 - first)) / 100,
        }
    }
}

/// Where the search for the rows of each centroid begins: its entry point, and the landmarks of
/// the nearest centroids. The graph of leaf neighbors is local: a search from one row would not
/// leave its region.
fn starts(rows: &Rows, dim: usize) -> Vec<Vec<u32>> {
    let centers = rows.centroids.decode();
    let near = |center: &[f32]| {
        let distances = centers.chunks_exact(dim).enumerate().map(|(i, other)| {
            let distance: f32 = center.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum();
            key(distance, i as u32)
        });
        let mut near: Vec<u64> = distances.collect();
        near.sort_unstable();
        near.truncate(START_LISTS);
        near
    };
    let start = |(center, entry): (&[f32], &Entry)| {
        let lists = near(center).into_iter().map(|near| &rows.landmarks[key_id(near) as usize]);
        let all: Vec<u32> = lists.flatten().copied().collect();
        let every = all.len().div_ceil(STARTS_MAX).max(1);
        let mut start: Vec<u32> = all.into_iter().step_by(every).collect();
        start.push(rows.firsts[entry.node as usize]);
        start.sort_unstable();
        start.dedup();
        start
    };
    centers.chunks_exact(dim).zip(&rows.entries).map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rows_of_ten_are_refined_first_in_every_region() {
        for region in [0..1000, 77_000..78_000, 9_999_000..10_000_000] {
            let first = region.clone().filter(|row| Stage::of(*row) == Stage::First).count();
            assert!((280..=320).contains(&first), "{first} rows of {region:?}");
        }
    }

    #[test]
    fn the_progress_of_both_stages_rises_from_no_row_to_all() {
        for rows in [1, 7, 1000] {
            let stages = [Stage::First, Stage::Second];
            let steps: Vec<usize> = stages
                .map(|stage| (0..=rows).map(move |done| stage.refined(done, rows)))
                .into_iter()
                .flatten()
                .collect();
            assert!(steps.is_sorted(), "{steps:?}");
            assert_eq!((steps.first(), steps.last()), (Some(&0), Some(&rows)));
        }
    }
}
