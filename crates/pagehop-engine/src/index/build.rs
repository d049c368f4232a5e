//! Bulk build: partition, connect, refine, write.
//!
//! ```text
//! read     first pass: count, mean, longest row, a sample                       (bounded memory)
//! train    coarse centroids of the sample
//! encode   second pass: own code and edge code of every row                     (the working set)
//! connect  the first of equal rows -> leaves -> all pairs -> candidates -> prune -> reverse edges
//! refine   search every row in that graph, prune again with what was met
//! write    page mates, node ids, node pages in order, meta page last
//! ```
//!
//! The index depends on the rows, the options and the seed, never on the number of threads: work is cut by
//! position, and results are joined in order.

use std::ops::ControlFlow;

use super::ids;
use super::memory::build_memory_bytes;
use super::meta::{ChangeState, DIM_MAX, Meta};
use super::model::{self, Entry};
use super::order::page_order;
use crate::graph::connect::Pruning;
use crate::graph::refine::{EdgeTable, Walker};
use crate::graph::{Graph, equal, leaves, reach};
use crate::page::layout::{Edge, FLAGS_LIVE, FreeLink, NodeHeader, NodeLayout, NodeMut};
use crate::page::{PageId, PageSink};
use crate::quantize::centroids::Centroids;
use crate::quantize::codes::Codes;
use crate::quantize::edge;
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::prepare::{self, Space, inner_dim};
use crate::quantize::rotation::Rotation;
use crate::quantize::{centroids, own};
use crate::{
    BuildOptions, BuildReport, Error, Metric, OnProgress, Progress, RowIds, TID_END, VectorSource, threads,
};

/// Rows kept for training.
pub(crate) const SAMPLE_ROWS: usize = 8192;
/// Rows of the sample that each centroid should have.
pub(crate) const SAMPLE_PER_CENTROID: usize = 24;
pub(crate) const TRAIN_ROUNDS: usize = 6;
/// Leaves each row belongs to.
pub(crate) const FANOUT: usize = 2;
/// Candidates kept from the leaves for each row.
pub(crate) const LEAF_CANDIDATES: usize = 32;
/// Candidates kept by the search for each row.
pub(crate) const BUILD_LIST: usize = 40;
/// Square of robust prune's slack.
pub(crate) const ALPHA_SQ: f32 = 1.15;

/// Builds an index over all rows of `source` and writes its pages to `sink`.
///
/// The source is scanned twice. Memory stays within `options.memory_bytes`, which must hold what
/// [`build_memory_bytes`] says: about `1.7 * dim + 600` bytes a row.
///
/// # Errors
///
/// [`Error::Argument`] for no rows, a row that the metric cannot place (named by its position), ids that
/// repeat, or too little memory; [`Error::Interrupted`] if `progress` says so; whatever the source and the
/// sink report.
pub fn build(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<BuildReport, Error> {
    let meta = build_from(source, options, 1.0, PageId(1), sink, progress)?;
    sink.write(PageId(0), &meta.encode())?;
    Ok(BuildReport { rows: meta.rows, pages: meta.page_count })
}

/// Writes the meta page of an index without rows, which grows by changes.
///
/// # Errors
///
/// [`Error::Argument`] for a number of dimensions that no index has; whatever the sink reports.
pub fn create(
    dim: usize,
    metric: Metric,
    seed: u64,
    row_ids: RowIds,
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    check_dim(dim)?;
    sink.write(PageId(0), &Meta::empty(metric, dim, seed, row_ids).encode())
}

fn check_dim(dim: usize) -> Result<(), Error> {
    if (1..=DIM_MAX).contains(&dim) {
        return Ok(());
    }
    Err(Error::argument(format!("vectors have {dim} dimensions, an index takes 1 to {DIM_MAX}")))
}

/// Builds model, nodes and row id map on pages from `first` on, one after the other, and returns the meta page
/// that makes them the index. Rows added later may have `norm_room` times the squared length of the longest.
pub(crate) fn build_from(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    norm_room: f32,
    first: PageId,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<Meta, Error> {
    let dim = source.dim();
    check_dim(dim)?;
    let layout = NodeLayout::choose(inner_dim(options.metric, dim));
    let mut build =
        Build { options, layout, workers: threads::available(options.threads), report: Report(progress) };
    let mut survey = build.survey(source)?;
    survey.norm_sq_max *= norm_room;
    let (space, centers) = build.train(&survey)?;
    survey.sample = Vec::new();
    let rows = build.encode(source, &survey, &space, &centers)?;
    let graph = build.connect(&rows)?;
    let meta = build.write(&survey, &space, &rows, &graph, first, sink)?;
    build.report.step("write", u64::from(meta.page_count), u64::from(meta.page_count))?;
    Ok(meta)
}

/// Passes progress on and turns its `Break` into an error.
struct Report<'a>(OnProgress<'a>);

impl Report<'_> {
    fn step(&mut self, phase: &'static str, done: u64, total: u64) -> Result<(), Error> {
        match (self.0)(Progress { phase, done, total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }
}

struct Build<'a> {
    options: &'a BuildOptions,
    layout: NodeLayout,
    workers: usize,
    report: Report<'a>,
}

/// What the first pass learns.
#[derive(Default)]
struct Survey {
    row_ids: Vec<u64>,
    norm_sq_max: f32,
    sums: Vec<f64>,
    /// Every `stride`-th row, as the user gave it.
    sample: Vec<f32>,
    stride: usize,
}

/// The working set: everything about every row.
struct Rows {
    codes: Codes,
    table: EdgeTable,
    centroids: Centroids,
    /// For each row the first that is equal to it, itself if none is.
    firsts: Vec<u32>,
    /// For each centroid the row nearest to it, as if it were a node, and how near.
    entries: Vec<Entry>,
}

impl Build<'_> {
    fn survey(&mut self, source: &mut dyn VectorSource) -> Result<Survey, Error> {
        let (metric, dim) = (self.options.metric, source.dim());
        let mut survey = Survey { sums: vec![0.0; dim], stride: 1, ..Survey::default() };
        let report = &mut self.report;
        source.scan(&mut |ids, chunk| {
            assert_eq!(ids.len() * dim, chunk.len(), "a chunk has one row for each id");
            for (id, row) in ids.iter().zip(chunk.chunks_exact(dim)) {
                survey.add(metric, *id, row)?;
            }
            report.step("read", survey.row_ids.len() as u64, 0)
        })?;
        let count = survey.row_ids.len();
        if count == 0 {
            return Err(Error::argument("there are no rows to build an index over"));
        }
        let needed = build_memory_bytes(count, dim, metric, self.workers);
        if needed > self.options.memory_bytes {
            let what = format!(
                "a build of {count} rows needs {} MiB of memory, memory is {} MiB",
                needed.div_ceil(1 << 20),
                self.options.memory_bytes >> 20
            );
            return Err(Error::argument(what));
        }
        refuse_repeated_ids(&survey.row_ids)?;
        if self.options.row_ids == RowIds::Tids {
            survey.row_ids.iter().try_for_each(|tid| check_tid(*tid))?;
        }
        Ok(survey)
    }

    /// The space and the coarse centroids.
    fn train(&mut self, survey: &Survey) -> Result<(Space, Codes), Error> {
        self.report.step("train", 0, 1)?;
        let metric = self.options.metric;
        let dim = survey.sums.len();
        let inner = self.layout.inner_dim;
        let count = survey.row_ids.len();
        let sample: Vec<&[f32]> = survey.sample.chunks_exact(dim).collect();
        let mut x = vec![0.0; inner];
        let mut mean: Vec<f32> = survey.sums.iter().map(|s| (s / count as f64) as f32).collect();
        mean.resize(inner, 0.0);
        if metric == Metric::InnerProduct {
            let mut extra = 0.0f64;
            for row in &sample {
                prepare::place(metric, survey.norm_sq_max, row, &mut x)?;
                extra += f64::from(x[dim]);
            }
            mean[dim] = (extra / sample.len() as f64) as f32;
        }
        let rotation = Rotation::new(inner, self.options.seed);
        let space = Space { metric, dim, mean, norm_sq_max: survey.norm_sq_max, rotation };
        let mut codes = Codes::new(inner);
        for row in &sample {
            space.row(row, &mut x)?;
            codes.push(&x);
        }
        // Equal rows count once: where they are most of the rows, centroids are to tell the others apart.
        let firsts = equal::firsts(&codes);
        codes.retain(|row| firsts[row] as usize == row);
        let clusters = (codes.len() / SAMPLE_PER_CENTROID).clamp(1, CENTROIDS_MAX);
        let centers = centroids::train(&codes, clusters, TRAIN_ROUNDS, self.options.seed, self.workers);
        self.report.step("train", 1, 1)?;
        Ok((space, centers))
    }

    fn encode(
        &mut self,
        source: &mut dyn VectorSource,
        survey: &Survey,
        space: &Space,
        centers: &Codes,
    ) -> Result<Rows, Error> {
        let total = survey.row_ids.len();
        let (dim, shape) = (source.dim(), self.layout.edge);
        let centroids = Centroids::from_codes(centers);
        let centers_decoded = centroids.decode();
        let mut codes = Codes::with_capacity(self.layout.inner_dim, total);
        let words = Vec::with_capacity(total * shape.words());
        let mut table = EdgeTable {
            shape,
            words,
            factors: Vec::with_capacity(total),
            centroid: Vec::with_capacity(total),
            query_digits: 1,
        };
        let (workers, report) = (self.workers, &mut self.report);
        source.scan(&mut |ids, chunk| {
            if codes.len() + ids.len() > total || ids != &survey.row_ids[codes.len()..codes.len() + ids.len()] {
                return Err(Error::argument("the source gave other rows in its second scan than in its first"));
            }
            let part = ids.len().div_ceil(workers * 4).max(1);
            let parts = threads::map(workers, ids.len().div_ceil(part), |i| {
                let rows = &chunk[i * part * dim..(((i + 1) * part).min(ids.len())) * dim];
                encode_part(rows, space, centers, &centers_decoded, shape)
            });
            for part in parts {
                let (more_codes, mut more) = part?;
                codes.append(more_codes);
                table.words.append(&mut more.words);
                table.factors.append(&mut more.factors);
                table.centroid.append(&mut more.centroid);
            }
            report.step("encode", codes.len() as u64, total as u64)
        })?;
        if codes.len() != total {
            return Err(Error::argument("the source gave fewer rows in its second scan than in its first"));
        }
        table.query_digits = query_digits(&codes, centers, &table.centroid);
        let entries = nearest_rows(&codes, centers, &table.centroid);
        let firsts = equal::firsts(&codes);
        Ok(Rows { codes, table, centroids, firsts, entries })
    }

    /// Leaves, then one pass of search over what they gave.
    fn connect(&mut self, rows: &Rows) -> Result<Graph, Error> {
        let (codes, workers) = (&rows.codes, self.workers);
        let total = codes.len() as u64;
        let pruning = Pruning { codes, degree: self.layout.degree, alpha_sq: ALPHA_SQ, workers };
        let report = &mut self.report;
        let some = (0..codes.len() as u32).filter(|row| rows.is_first(*row as usize)).collect();
        let leaves = leaves::partition(codes, some, FANOUT, self.options.seed, workers, |done| {
            report.step("partition", done as u64, total)
        })?;
        let nearest = leaves::candidates(codes, &leaves, LEAF_CANDIDATES, workers, |done| {
            report.step("connect", total * done.min(leaves.len()) as u64 / leaves.len() as u64, total)
        })?;
        drop(leaves);
        let mut prune = |done: usize| report.step("prune", done as u64, total);
        let forward = pruning.forward(|| (), |(), row| nearest[row].clone(), &mut prune)?;
        drop(nearest);
        let leaf_graph = pruning.with_reverse(&forward, &mut prune)?;
        drop(forward);
        let walker = || Walker::new(&rows.table, &rows.centroids, codes);
        let met = |walker: &mut Walker<'_>, row: usize| {
            if !rows.is_first(row) {
                return Vec::new();
            }
            let entry = rows.entries[usize::from(rows.table.centroid[row])];
            walker.candidates(&leaf_graph, row, rows.firsts[entry.node as usize], BUILD_LIST)
        };
        let forward = pruning.forward(walker, met, |done| report.step("refine", done as u64, total))?;
        drop(leaf_graph);
        let mut graph = pruning.with_reverse(&forward, |done| report.step("prune", done as u64, total))?;
        equal::hang(&mut graph, &rows.firsts);
        let entries: Vec<u32> = rows.entries.iter().map(|entry| entry.node).collect();
        reach::attach_unreachable(&mut graph, &entries);
        Ok(graph)
    }

    fn write(
        &mut self,
        survey: &Survey,
        space: &Space,
        rows: &Rows,
        graph: &Graph,
        first: PageId,
        sink: &mut dyn PageSink,
    ) -> Result<Meta, Error> {
        let (layout, total) = (self.layout, rows.codes.len());
        let order = page_order(graph, layout.nodes_per_page);
        let mut meta = Meta {
            centroids: rows.centroids.len(),
            query_digits: rows.table.query_digits,
            rows: total as u64,
            norm_sq_max: space.norm_sq_max,
            change: rows.counted(first),
            ..Meta::empty(space.metric, space.dim, self.options.seed, self.options.row_ids)
        };
        // The entry points' page names nodes, whose pages come behind it.
        let entries_page = model::write_model(&mut meta, &space.mean, &rows.centroids, sink)?.0 - 1;
        let first = entries_page + 1;
        // The map adds a page for 600 rows, and there are never so many pages that this could overflow.
        let pages = u64::from(first) + order.len() as u64 + total as u64 / 512 + 2;
        if pages * layout.nodes_per_page as u64 > u64::from(u32::MAX) {
            return Err(Error::argument(format!("{total} rows need {pages} pages, more than ids can name")));
        }
        let mut node_of = vec![0u32; total];
        for (page, mates) in order.iter().enumerate() {
            for (slot, row) in mates.iter().enumerate() {
                node_of[*row as usize] = layout.node_id(PageId(first + page as u32), slot);
            }
        }
        let in_place = |entry: &Entry| Entry { node: node_of[entry.node as usize], ..*entry };
        let entries: Vec<Entry> = rows.entries.iter().map(in_place).collect();
        sink.write(PageId(entries_page), &model::entries_page(&entries))?;
        let anchors = anchors(&rows.codes, graph, &rows.entries);
        let mut page = first;
        for mates in &order {
            let mut body = model::node_page();
            for (slot, row) in mates.iter().enumerate() {
                let row = *row as usize;
                let mut node = NodeMut::new(&layout, &mut body, slot);
                write_node(&mut node, survey.row_ids[row], row, rows, graph.neighbors(row), &node_of, &anchors);
            }
            let spare = layout.nodes_per_page - mates.len();
            if spare > 0 {
                FreeLink { listed: true, next: meta.change.free_head }.write(&mut body);
                meta.change.free_head = page;
                meta.change.free_slots += spare as u32;
            }
            sink.write(PageId(page), &body)?;
            page += 1;
            if page % 1024 == 0 {
                self.report.step("write", u64::from(page - first), order.len() as u64)?;
            }
        }
        meta.page_count = page;
        if meta.row_ids == RowIds::Mapped {
            meta.page_count = write_map(&mut meta, survey.row_ids.iter().copied().zip(node_of), page, sink)?;
        }
        Ok(meta)
    }
}

impl Rows {
    /// A change state that counts rows as trained on, equal ones once.
    fn counted(&self, first: PageId) -> ChangeState {
        let trained_rows = (0..self.firsts.len()).filter(|row| self.is_first(*row)).count() as u64;
        let equal_rows = self.firsts.len() as u64 - trained_rows;
        ChangeState { model_start: first.0, trained_rows, equal_rows, ..ChangeState::default() }
    }

    /// Whether no row before this one is equal to it.
    fn is_first(&self, row: usize) -> bool {
        self.firsts[row] as usize == row
    }
}

impl Survey {
    fn add(&mut self, metric: Metric, id: u64, row: &[f32]) -> Result<(), Error> {
        let position = self.row_ids.len();
        let norm_sq = prepare::validate(metric, row).map_err(|e| match e {
            Error::Argument { what } => Error::argument(format!("row {position} (id {id}): {what}")),
            other => other,
        })?;
        self.norm_sq_max = self.norm_sq_max.max(norm_sq);
        let scale = if metric == Metric::Cosine { 1.0 / norm_sq.sqrt() } else { 1.0 };
        for (sum, x) in self.sums.iter_mut().zip(row) {
            *sum += f64::from(x * scale);
        }
        if position.is_multiple_of(self.stride) {
            self.sample.extend_from_slice(row);
            if self.sample.len() == 2 * SAMPLE_ROWS * row.len() {
                self.thin(row.len());
            }
        }
        self.row_ids.push(id);
        Ok(())
    }

    /// Keeps every other row of the sample.
    fn thin(&mut self, dim: usize) {
        for i in 0..SAMPLE_ROWS {
            self.sample.copy_within(2 * i * dim..(2 * i + 1) * dim, i * dim);
        }
        self.sample.truncate(SAMPLE_ROWS * dim);
        self.stride *= 2;
    }
}

/// Writes the map from row ids to nodes on pages from `first` on; returns the page after them.
fn write_map(
    meta: &mut Meta,
    nodes: impl Iterator<Item = (u64, u32)>,
    first: u32,
    sink: &mut dyn PageSink,
) -> Result<u32, Error> {
    let mut nodes: Vec<(u64, u32)> = nodes.collect();
    nodes.sort_unstable();
    let (root, end) = ids::write(&nodes, PageId(first), sink)?;
    meta.change.id_root = root.0;
    Ok(end.0)
}

pub(super) fn check_tid(tid: u64) -> Result<(), Error> {
    if (1..TID_END).contains(&tid) {
        return Ok(());
    }
    Err(Error::argument(format!("row {tid} cannot be: tids are numbers from 1 to 2^48 - 1")))
}

fn refuse_repeated_ids(ids: &[u64]) -> Result<(), Error> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::argument(format!("id {} is given to more than one row", pair[0]))),
        None => Ok(()),
    }
}

fn encode_part(
    rows: &[f32],
    space: &Space,
    centers: &Codes,
    centers_decoded: &[f32],
    shape: edge::EdgeShape,
) -> Result<(Codes, EdgeTable), Error> {
    let inner = space.inner_dim();
    let count = rows.len() / space.dim;
    let mut codes = Codes::with_capacity(inner, count);
    let mut x = vec![0.0; inner];
    for row in rows.chunks_exact(space.dim) {
        space.row(row, &mut x)?;
        codes.push(&x);
    }
    let nearest = centroids::assign(&codes, centers, 1, 1);
    let centroid: Vec<u8> = nearest.iter().map(|c| *c as u8).collect();
    let mut words = vec![0; count * shape.words()];
    let mut factors = Vec::with_capacity(count);
    for (row, code) in words.chunks_exact_mut(shape.words()).enumerate() {
        // From the stored code, not from the user's vector: whoever reads the node can encode it again.
        codes.decode(row, &mut x);
        factors.push(edge::encode(
            shape,
            &x,
            &centers_decoded[usize::from(centroid[row]) * inner..][..inner],
            code,
        ));
    }
    Ok((codes, EdgeTable { shape, words, factors, centroid, query_digits: 1 }))
}

/// Two digits if residuals are so much shorter than vectors that a query of one digit would blur them.
pub(crate) fn query_digits(codes: &Codes, centers: &Codes, centroid: &[u8]) -> usize {
    const RATIO: f64 = 6.0;
    let (mut residuals, mut lengths) = (0.0f64, 0.0f64);
    for row in (0..codes.len()).step_by((codes.len() / SAMPLE_ROWS).max(1)) {
        residuals += f64::from(center_distance(codes, row, centers, centroid[row].into()).max(0.0));
        lengths += f64::from(codes.hi_norm_sq[row]);
    }
    1 + usize::from(lengths > RATIO * residuals)
}

/// Squared distance between the high planes of a row and a center.
fn center_distance(codes: &Codes, row: usize, centers: &Codes, center: usize) -> f32 {
    let dot = pagehop_kernels::dot_i8(codes.hi(row), centers.hi(center)) as f32;
    codes.hi_norm_sq[row] + centers.hi_norm_sq[center] - 2.0 * codes.hi_step(row) * centers.hi_step(center) * dot
}

/// For each center the row nearest to it among those assigned to it; for one without rows, the first center's.
pub(crate) fn nearest_rows(codes: &Codes, centers: &Codes, centroid: &[u8]) -> Vec<Entry> {
    let mut best: Vec<Option<Entry>> = vec![None; centers.len()];
    for (row, center) in centroid.iter().enumerate() {
        let center = usize::from(*center);
        let from_centroid_sq = center_distance(codes, row, centers, center).max(0.0);
        if best[center].is_none_or(|entry| from_centroid_sq < entry.from_centroid_sq) {
            best[center] = Some(Entry { node: row as u32, from_centroid_sq });
        }
    }
    let any = best.iter().flatten().next().copied().expect("every row has a center");
    best.into_iter().map(|entry| entry.unwrap_or(any)).collect()
}

/// For each row the one whose edge to it is an anchor: the nearest of those that a walk from the entry points
/// comes to before it, so that anchors alone lead from the entry points to every row. No row promises more than
/// half of its edges, as long as another can.
fn anchors(codes: &Codes, graph: &Graph, entries: &[Entry]) -> Vec<u32> {
    let order = walk_order(graph, entries);
    let mut rank = vec![u32::MAX; graph.len()];
    order.iter().enumerate().for_each(|(at, row)| rank[*row as usize] = at as u32);
    let mut anchors = vec![u32::MAX; graph.len()];
    let mut promised = vec![0; graph.len()];
    // The first round serves nearly all. Who was turned away asks again, at last at those who promised half.
    let mut most = graph.degree / 2;
    loop {
        let mut turned_to_someone = false;
        let mut nearest = vec![(f32::INFINITY, u32::MAX); graph.len()];
        for row in order.iter().map(|row| *row as usize).filter(|row| promised[*row] < most) {
            for neighbor in graph.neighbors(row).iter().map(|neighbor| *neighbor as usize) {
                if anchors[neighbor] == u32::MAX && rank[row] < rank[neighbor] {
                    let distance = codes.hi_distance(row, neighbor);
                    if distance < nearest[neighbor].0 {
                        nearest[neighbor] = (distance, row as u32);
                    }
                }
            }
        }
        for (anchor, (_, row)) in anchors.iter_mut().zip(nearest) {
            if row != u32::MAX && promised[row as usize] < most {
                promised[row as usize] += 1;
                *anchor = row;
                turned_to_someone = true;
            }
        }
        if !turned_to_someone && most == graph.degree {
            return anchors;
        }
        if !turned_to_someone {
            most = graph.degree;
        }
    }
}

/// Rows in the order of a breadth-first walk from the entry points.
fn walk_order(graph: &Graph, entries: &[Entry]) -> Vec<u32> {
    let mut seen = vec![false; graph.len()];
    let mut order = Vec::with_capacity(graph.len());
    let reach = |row: u32, order: &mut Vec<u32>, seen: &mut Vec<bool>| {
        if !std::mem::replace(&mut seen[row as usize], true) {
            order.push(row);
        }
    };
    entries.iter().for_each(|entry| reach(entry.node, &mut order, &mut seen));
    let mut at = 0;
    while let Some(row) = order.get(at).copied() {
        graph.neighbors(row as usize).iter().for_each(|neighbor| reach(*neighbor, &mut order, &mut seen));
        at += 1;
    }
    order
}

fn write_node(
    node: &mut NodeMut<'_>,
    row_id: u64,
    row: usize,
    rows: &Rows,
    neighbors: &[u32],
    node_of: &[u32],
    anchors: &[u32],
) {
    let own::OwnCode { step, norm_sq } = rows.codes.own[row];
    node.set_header(&NodeHeader {
        row_id,
        norm_sq,
        step,
        flags: FLAGS_LIVE,
        generation: 0,
        degree: neighbors.len() as u8,
        centroid: rows.table.centroid[row],
        added: 0,
        deleted: 0,
    });
    node.set_own(rows.codes.hi(row), rows.codes.lo(row));
    for (slot, neighbor) in neighbors.iter().enumerate() {
        let target = *neighbor as usize;
        node.set_edge(
            slot,
            &Edge {
                neighbor: node_of[target],
                generation: 0,
                anchor: anchors[target] as usize == row,
                centroid: rows.table.centroid[target],
                factors: rows.table.factors[target],
                code: rows.table.code(target),
            },
        );
    }
}
