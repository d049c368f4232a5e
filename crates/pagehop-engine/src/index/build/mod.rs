//! Bulk build: partition, connect, refine, write.
//!
//! ```text
//! read     first pass: count, mean, longest row, a sample                       (bounded memory)
//! train    coarse centroids of the sample
//! encode   second pass: own code and edge code of every row                     (the working set)
//! connect  rows without duplicates -> leaves -> all pairs -> candidates -> prune -> reverse edges
//! refine   search every row in that graph, prune again with the nodes it found
//! write    choose page neighbors and node ids, write node pages in order, the meta page last
//! ```
//!
//! The index depends on the rows, the options and the seed, but not on the number of threads: work
//! is divided by position, and results are joined in order.

mod job;
mod keep;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod rows;
pub(crate) mod survey;
mod write;

use crate::columns::{Column, ColumnRows};
use crate::graph::connect::Pruning;
use crate::graph::leaves::{self, LEAF_CANDIDATES};
use crate::graph::refine::Walker;
use crate::graph::{Graph, equal, key, key_id, reach};
use crate::page::columns_page::Columns;
use crate::page::layout::NodeLayout;
use crate::page::meta::{DIM_MAX, Meta};
use crate::page::model_pages::Entry;
use crate::page::{PageId, PageSink};
use crate::quantize::prepare::inner_dim;
use crate::{BuildOptions, BuildReport, Error, Metric, OnProgress, RowIds, VectorSource, Vectors, threads};
use job::Job;
use rows::Rows;
use survey::Survey;

/// Leaves per row.
pub(crate) const FANOUT: usize = 2;
/// Length of the candidate list in the search for each row.
const BUILD_LIST: usize = 200;
/// The same in up to 64 dimensions.
const BUILD_LIST_FEW_DIMENSIONS: usize = 40;
/// Centroids whose landmarks such a search begins at.
const START_LISTS: usize = 3;
/// Most landmarks of these that it begins at. A million rows have 370.
const STARTS_MAX: usize = 1024;

/// Builds an index over all rows of `source` and writes its pages to `sink`.
///
/// Scans the source twice, and once to eight times more for vectors that are kept. Memory stays
/// within `options.memory_bytes`, which must be at least
/// [`build_memory_bytes`](memory::build_memory_bytes), about `1.7 * dim + 600` bytes per row, and
/// an eighth of the bytes of kept vectors.
///
/// # Errors
///
/// [`Error::Argument`] if there are no rows, a vector is invalid for the metric (the message has
/// its position), an id repeats, or memory is too small; [`Error::Interrupted`] if `progress`
/// breaks; any error of the source or the sink.
pub fn build(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<BuildReport, Error> {
    let meta = build_from(source, options, PageId(1), sink, progress)?;
    sink.write(PageId(0), &meta.encode())?;
    Ok(BuildReport { rows: meta.rows, pages: meta.page_count })
}

/// Writes the meta page of an index without rows, which grows by changes.
///
/// # Errors
///
/// [`Error::Argument`] if `dim` is out of range; any error of the sink.
pub fn create(
    dim: usize,
    metric: Metric,
    seed: u64,
    row_ids: RowIds,
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    create_with_columns(dim, metric, &[], seed, row_ids, sink)
}

/// [`create`] of an index with columns, at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
///
/// # Errors
///
/// Those of [`create`] and of [`ColumnRows::new`].
pub fn create_with_columns(
    dim: usize,
    metric: Metric,
    columns: &[Column],
    seed: u64,
    row_ids: RowIds,
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    create_keeping(Vectors::Codes, dim, metric, columns, seed, row_ids, sink)
}

/// [`create_with_columns`] of an index that keeps `vectors`.
///
/// # Errors
///
/// Those of [`create_with_columns`]; [`Error::Argument`] if vectors shall be kept that the host of
/// the index has.
pub fn create_keeping(
    vectors: Vectors,
    dim: usize,
    metric: Metric,
    columns: &[Column],
    seed: u64,
    row_ids: RowIds,
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    let meta = write_empty(vectors, dim, metric, columns, seed, row_ids, sink)?;
    sink.write(PageId(0), &meta.encode())
}

/// Writes the pages of an index without rows but page 0, and returns the meta page.
pub(crate) fn write_empty(
    vectors: Vectors,
    dim: usize,
    metric: Metric,
    columns: &[Column],
    seed: u64,
    row_ids: RowIds,
    sink: &mut dyn PageSink,
) -> Result<Meta, Error> {
    check_dim(dim)?;
    keep::check(vectors, row_ids)?;
    ColumnRows::new(columns.to_vec())?;
    let mut meta = Meta { vectors, ..Meta::empty(metric, dim, columns.len(), seed, row_ids) };
    if !columns.is_empty() {
        sink.write(PageId(1), &Columns::without_trees(columns).encode())?;
        meta.change.columns_page = 1;
        meta.page_count = 2;
    }
    Ok(meta)
}

fn check_dim(dim: usize) -> Result<(), Error> {
    if (1..=DIM_MAX).contains(&dim) {
        return Ok(());
    }
    Err(Error::argument(format!("vectors have {dim} dimensions, an index takes 1 to {DIM_MAX}")))
}

/// Builds model, nodes and row id map on consecutive pages from `first`, and returns the meta page
/// that makes them the index.
pub(crate) fn build_from(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    first: PageId,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<Meta, Error> {
    let dim = source.dim();
    check_dim(dim)?;
    keep::check(options.vectors, options.row_ids)?;
    let source = &mut keep::Rounded { source, vectors: options.vectors };
    let columns = source.columns().map_or(&[][..], ColumnRows::columns);
    let layout = NodeLayout::choose(inner_dim(dim), columns.len());
    let job = &mut Job { options, layout, threads: threads::available(options.threads), progress };
    let mut survey = Survey::read(job, source)?;
    let (total, known) = (survey.row_ids.len(), source.columns());
    if let Some(known) = known.filter(|known| !known.columns().is_empty() && known.len() != total) {
        let what = format!("there are {total} vectors, and columns of {} rows", known.len());
        return Err(Error::argument(what));
    }
    let (space, centers) = survey.train(job)?;
    survey.drop_sample();
    let rows = Rows::encode(job, source, &survey, &space, &centers)?;
    let graph = connect(job, &rows)?;
    let built = write::Built { survey: &survey, space: &space, rows: &rows, graph: &graph };
    let meta = write::write(job, &built, source, first, sink)?;
    job.step("write", u64::from(meta.page_count), u64::from(meta.page_count))?;
    Ok(meta)
}

/// Builds the graph from leaves, then refines it by one pass of searches.
fn connect(job: &mut Job<'_>, rows: &Rows) -> Result<Graph, Error> {
    let (codes, workers) = (&rows.codes, job.threads);
    let total = codes.len() as u64;
    let pruning = Pruning { codes, degree: job.layout.degree, workers };
    let seed = job.options.seed;
    let some = (0..codes.len() as u32).filter(|row| rows.is_first(*row as usize)).collect();
    let leaves =
        leaves::partition(codes, some, FANOUT, seed, workers, |done| job.step("partition", done as u64, total))?;
    let nearest = leaves::candidates(codes, &leaves, LEAF_CANDIDATES, workers, |done| {
        job.step("connect", total * done.min(leaves.len()) as u64 / leaves.len() as u64, total)
    })?;
    drop(leaves);
    let mut prune = |done: usize| job.step("prune", done as u64, total);
    let forward = pruning.forward(|| (), |(), row| nearest.of(row).to_vec(), &mut prune)?;
    drop(nearest);
    let leaf_graph = pruning.with_reverse(&forward, &mut prune)?;
    drop(forward);
    let walker = || Walker::new(&rows.table, &rows.centroids, codes);
    let starts = starts(rows);
    let list = if codes.dim > 64 { BUILD_LIST } else { BUILD_LIST_FEW_DIMENSIONS };
    let met = |walker: &mut Walker<'_>, row: usize| {
        if !rows.is_first(row) {
            return Vec::new();
        }
        walker.candidates(&leaf_graph, row, &starts[usize::from(rows.table.centroid[row])], list)
    };
    let forward = pruning.forward(walker, met, |done| job.step("refine", done as u64, total))?;
    drop(leaf_graph);
    let mut graph = pruning.with_reverse(&forward, |done| job.step("prune", done as u64, total))?;
    equal::link_duplicates(&mut graph, &rows.firsts);
    let entries: Vec<u32> = rows.entries.iter().map(|entry| entry.node).collect();
    reach::attach_unreachable(&mut graph, &entries);
    Ok(graph)
}

/// Where the search for the rows of each centroid begins: its entry point, and the landmarks of
/// the nearest centroids. The graph of leaf neighbors is local: a search from one row would not
/// leave its region.
fn starts(rows: &Rows) -> Vec<Vec<u32>> {
    let centers = rows.centroids.decode();
    let near = |center: &[f32]| {
        let distances = centers.chunks_exact(rows.codes.dim).enumerate().map(|(i, other)| {
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
    centers.chunks_exact(rows.codes.dim).zip(&rows.entries).map(start).collect()
}
