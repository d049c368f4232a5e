//! The exact nearest rows of many queries, by a scan of every row.
//!
//! ```text
//! gather   128 nodes, from pages in order
//! bound    integer inner products of the high planes of their codes and of the queries' codes
//!          give a lower bound of each distance
//! measure  the few that may be nearer than the k-th row found so far, by their whole codes
//! ```
//!
//! About one percent of the pairs is measured. Each thread has a part of the pages and compares
//! them with every query, so a scan reads a page once. Then the rows that the threads found
//! compete.

use std::ops::Range;

use crate::ids::NodeId;
use crate::index::open::Index;
use crate::index::search::nearest::NearRow;
use crate::index::search::rerank;
use crate::index::search::visit::Probe;
use crate::index::state::{Newest, State};
use crate::page::node::NodeRef;
use crate::page::{PageId, Pages, Reader, read_ahead, with_reader};
use crate::quantize::codes::Codes;
use crate::quantize::own::{self, OwnCode};
use crate::threads::{self, Look};
use crate::{Error, OnProgress, Progress, SearchOptions, SearchResult, Stats};
use pagehop_kernels as kernels;

/// Nodes that are gathered before they are compared with the queries.
const BLOCK_ROWS: usize = 128;
/// Queries that are compared with them at once: both and their products fit into the CPU's caches.
const BLOCK_QUERIES: usize = 128;
/// Rows whose bounds are computed together.
const LANES: usize = 16;
/// Pages between two calls of the progress callback.
const LOOK_PAGES: u32 = 64;
/// Fewest pages for each thread.
const PAGES_PER_THREAD: u64 = 16;
/// Standard deviations that a bound allows for the inner product of another vector with the part
/// that high planes leave out. That part has a random direction, because codes are of rotated
/// vectors. Fewer than one pair in 10^12 exceeds the bound.
const DEVIATIONS: f32 = 7.0;
/// Rounding error of the sums in a bound, relative to the squared norms in it.
const ROUNDING: f32 = 1e-5;

/// Queries that are answered in one scan. Each takes about ten bytes of memory per dimension.
const EXACT_QUERIES: usize = 4096;

/// How certain a bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// It holds for all vectors.
    Certain,
    /// It fails with a negligible probability, and is tighter the more dimensions there are.
    Likely,
}

/// A query and its true nearest rows.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The user's vector.
    pub(crate) query: Vec<f32>,
    /// Nodes that are no answer: the one that the query was taken from, and its duplicates. Empty
    /// for a user's query.
    pub(crate) left_out: Vec<NodeId>,
    /// The number of nearest rows to find.
    pub(crate) k: usize,
    /// The nearest rows in order: squared distances in the inner space, and row ids.
    pub(crate) nearest: Vec<(f32, u64)>,
    /// Their nodes.
    pub(crate) nodes: Vec<NodeId>,
}

impl Sample {
    /// A query whose nearest rows are not known yet.
    pub(crate) fn new(query: Vec<f32>, left_out: Vec<NodeId>, k: usize) -> Self {
        Self { query, left_out, k, nearest: Vec::new(), nodes: Vec::new() }
    }

    /// How many of `found`, which are ascending squared distances, are among the `k` nearest. Rows
    /// at the same distance as the k-th count.
    pub(crate) fn found(&self, found: impl Iterator<Item = f32>, k: usize) -> usize {
        let farthest = self.threshold(k);
        found.take(k).filter(|distance| *distance <= farthest).count()
    }

    /// Squared distance of the k-th nearest row.
    pub(crate) fn threshold(&self, k: usize) -> f32 {
        self.nearest.get(k - 1).or(self.nearest.last()).map_or(f32::NEG_INFINITY, |(distance, _)| *distance)
    }

    /// The number of true rows among the `k` nearest: `k`, or fewer if there are not as many.
    pub(crate) fn wanted(&self, k: usize) -> usize {
        self.nearest.len().min(k)
    }

    /// Rows farther than this are not among the nearest.
    #[inline]
    pub(crate) fn farthest(&self) -> f32 {
        self.nearest.get(self.k - 1).map_or(f32::INFINITY, |(distance, _)| *distance)
    }

    /// Adds a row if it is among the nearest so far.
    #[inline]
    pub(crate) fn keep(&mut self, row: (f32, u64), node: NodeId) {
        let nearer = |other: &(f32, u64)| other.0 < row.0 || other.0 == row.0 && other.1 < row.1;
        let at = self.nearest.partition_point(nearer);
        if at < self.k {
            self.nearest.truncate(self.k - 1);
            self.nearest.insert(at, row);
            self.nodes.truncate(self.k - 1);
            self.nodes.insert(at, node);
        }
    }
}

/// Samples from a user's queries, which follow one another in `queries`. `k` is the number of
/// nearest rows to find.
///
/// # Errors
///
/// [`Error::Dimension`] if the length of `queries` is not a multiple of `dim`.
pub(crate) fn given(dim: usize, queries: &[f32], k: usize) -> Result<Vec<Sample>, Error> {
    if !queries.len().is_multiple_of(dim) {
        return Err(Error::Dimension { expected: dim, got: queries.len() % dim });
    }
    Ok(queries.chunks_exact(dim).map(|query| Sample::new(query.to_vec(), Vec::new(), k)).collect())
}

/// Finds the nearest rows of every sample. Costs `rows * samples.len()` inner products of bytes.
/// Rows that a writer moves during the scan may be missed. Returns the number of nodes that were
/// compared and of pages that were read from storage.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` breaks; the errors of an invalid query; any error of the
/// reader.
pub(crate) fn scan<P: Pages>(
    state: &State,
    pages: &P,
    samples: &mut [Sample],
    bounds: Bounds,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<(u64, u64), Error> {
    let range = state.node_pages(pages);
    let total = u64::from(range.end.saturating_sub(range.start));
    let most = (total / PAGES_PER_THREAD).max(1);
    let parts = u64::min(threads::available(threads) as u64, most);
    let begin = |part: u64| range.start + (total * part / parts) as u32;
    // The parts take about the same time.
    let mut go_on = |done| progress(Progress { phase: "scan", done: total.min(done * parts), total });
    let queries = Queries::new(state, samples, bounds)?;
    let found = threads::each((0..parts).map(|part| begin(part)..begin(part + 1)), &mut go_on, |part, look| {
        let mut scan = Scan::new(state, &queries, samples);
        with_reader(pages, |reader| {
            let nodes = scan.run(part, reader, look)?;
            Ok((nodes, reader.pages_missed()))
        })
        .map(|(nodes, missed)| (scan.samples, nodes, missed))
    })?;
    let counts = found.iter().fold((0, 0), |sum, part| (sum.0 + part.1, sum.1 + part.2));
    for (of_part, ..) in &found {
        for (sample, part) in samples.iter_mut().zip(of_part) {
            part.nearest.iter().zip(&part.nodes).for_each(|(row, node)| sample.keep(*row, *node));
        }
    }
    Ok(counts)
}

/// Queries, prepared for any number of scans.
struct Queries {
    probes: Vec<Probe>,
    /// Their codes, and the norms of what their high planes leave out.
    codes: Codes,
    query_rest: Vec<f32>,
    /// Largest inner product of two vectors, as a share of the product of their norms.
    share: f32,
}

/// The scan of one thread.
struct Scan<'s> {
    state: &'s State,
    queries: &'s Queries,
    /// What it has found for each query.
    samples: Vec<Sample>,
    rows: Block,
}

/// A block of gathered nodes.
#[derive(Default)]
struct Block {
    codes: Codes,
    nodes: Vec<NodeId>,
    /// Ids of the visible rows of all nodes, in one list, and where those of each node end.
    row_ids: Vec<u64>,
    ends: Vec<usize>,
    bounds: RowBounds,
    dots: Vec<i32>,
}

impl Queries {
    /// The queries of `samples`, whose rows are cleared.
    fn new(state: &State, samples: &mut [Sample], bounds: Bounds) -> Result<Self, Error> {
        let dim = state.meta.layout.inner_dim;
        let mut codes = Codes::with_capacity(dim, samples.len());
        let (mut probes, mut query_rest) = (Vec::with_capacity(samples.len()), Vec::new());
        let (mut point, mut high) = (vec![0.0; dim], vec![0.0; dim]);
        for (at, sample) in samples.iter_mut().enumerate() {
            let mut probe = Probe::default();
            probe.prepare(&state.meta, &state.model, &sample.query)?;
            probe.point().decode(&mut point);
            codes.push(&point);
            codes.decode_hi(at, &mut high);
            query_rest.push(kernels::l2sq_f32(&point, &high).sqrt());
            probes.push(probe);
            sample.nearest.clear();
            sample.nodes.clear();
        }
        let share = match bounds {
            Bounds::Certain => 1.0,
            Bounds::Likely => (DEVIATIONS / (dim as f32).sqrt()).min(1.0),
        };
        Ok(Self { probes, codes, query_rest, share })
    }
}

impl<'s> Scan<'s> {
    fn new(state: &'s State, queries: &'s Queries, samples: &[Sample]) -> Self {
        let none = |sample: &Sample| Sample::new(Vec::new(), sample.left_out.clone(), sample.k);
        let rows = Block { codes: Codes::new(state.meta.layout.inner_dim), ..Block::default() };
        Self { state, queries, samples: samples.iter().map(none).collect(), rows }
    }

    fn run<R: Reader>(&mut self, pages: Range<u32>, reader: &mut R, look: Look<'_>) -> Result<u64, Error> {
        let layout = &self.state.meta.layout;
        let mut nodes = 0;
        for page in pages.clone() {
            if (page - pages.start).is_multiple_of(LOOK_PAGES) {
                look(u64::from(page - pages.start))?;
            }
            read_ahead(reader, page, &pages);
            let body = reader.finish(PageId(page))?;
            for slot in 0..layout.nodes_per_page * usize::from(self.state.meta.has_nodes(&body)) {
                let node = NodeRef::new(layout, &body, slot);
                nodes += u64::from(self.rows.gather(self.state, &node, layout.node_id(PageId(page), slot)));
            }
            drop(body);
            reader.release();
            if self.rows.nodes.len() >= BLOCK_ROWS {
                self.compare();
            }
        }
        self.compare();
        Ok(nodes)
    }

    /// Compares the gathered nodes with every query, and clears the block.
    fn compare(&mut self) {
        let (codes, count) = (&self.queries.codes, self.rows.nodes.len());
        let dim = codes.dim;
        for first in (0..self.samples.len()).step_by(BLOCK_QUERIES) {
            let last = (first + BLOCK_QUERIES).min(self.samples.len());
            let mut dots = std::mem::take(&mut self.rows.dots);
            dots.resize((last - first) * count, 0);
            kernels::dot_i8_block(&codes.hi[first * dim..last * dim], &self.rows.codes.hi, dim, &mut dots);
            if count > 0 {
                for (query, dots) in (first..last).zip(dots.chunks_exact(count)) {
                    self.compare_one(query, dots);
                }
            }
            self.rows.dots = dots;
        }
        self.rows.clear();
    }

    /// Measures the rows that may be among the nearest of one query. `dots` are the inner products
    /// of the high planes.
    fn compare_one(&mut self, query: usize, dots: &[i32]) {
        let Queries { probes, codes, query_rest, share } = self.queries;
        let (rows, sample, probe) = (&self.rows, &mut self.samples[query], &probes[query]);
        let filled_sq = self.state.meta.filled_sq();
        let norm_sq = probe.point().norm_sq();
        let bound = Bounding {
            norm_sq: filled_sq.unwrap_or(norm_sq) * (1.0 - ROUNDING),
            step: codes.hi_step(query),
            length: norm_sq.sqrt() * share,
            rest: query_rest[query] * share,
        };
        for (at, dots) in dots.chunks(LANES).enumerate() {
            let (first, farthest) = (at * LANES, sample.farthest());
            // Usually no row of the run is near enough. Testing all of them without an early exit
            // vectorizes.
            if !bound.any_within(farthest, dots, &rows.bounds, first) {
                continue;
            }
            for (row, dot) in (first..).zip(dots) {
                let least = bound.least(*dot, rows.bounds.at(row));
                if least > sample.farthest() || sample.left_out.contains(&rows.nodes[row]) {
                    continue;
                }
                let distance = probe.point().distance(rows.codes.own[row], rows.codes.hi(row), rows.codes.lo(row));
                rows.row_ids(row).iter().for_each(|row_id| sample.keep((distance, *row_id), rows.nodes[row]));
            }
        }
    }
}

/// The query's part of a lower bound of the distance.
struct Bounding {
    norm_sq: f32,
    step: f32,
    length: f32,
    rest: f32,
}

/// The rows' part of the bound: squared norms, twice the step of the high planes, twice the norms
/// of the vectors in high planes, and twice the norms of what these leave out.
#[derive(Default)]
struct RowBounds {
    norm_sq: Vec<f32>,
    step: Vec<f32>,
    length: Vec<f32>,
    rest: Vec<f32>,
}

impl RowBounds {
    fn at(&self, row: usize) -> [f32; 4] {
        [self.norm_sq[row], self.step[row], self.length[row], self.rest[row]]
    }

    fn clear(&mut self) {
        [&mut self.norm_sq, &mut self.step, &mut self.length, &mut self.rest].into_iter().for_each(Vec::clear);
    }
}

impl Bounding {
    /// A lower bound of the squared distance to a row, from the inner product of the high planes.
    ///
    /// `<q, o> = <q', o'> + <q - q', o'> + <q, o - o'>`. Each of the last two terms is at most
    /// `share` times the product of its norms.
    #[inline(always)]
    fn least(&self, dot: i32, [norm_sq, step, length, rest]: [f32; 4]) -> f32 {
        let product = self.step * step * dot as f32 + self.rest * length + self.length * rest;
        self.norm_sq + norm_sq - product
    }

    /// Whether one of a run of rows may be as near as `farthest`.
    #[inline(always)]
    fn any_within(&self, farthest: f32, dots: &[i32], rows: &RowBounds, first: usize) -> bool {
        let within = first..first + dots.len();
        let pairs = rows.norm_sq[within.clone()].iter().zip(&rows.step[within.clone()]);
        let rests = rows.length[within.clone()].iter().zip(&rows.rest[within]);
        let near = dots.iter().zip(pairs).zip(rests).map(|((dot, (norm_sq, step)), (length, rest))| {
            u32::from(self.least(*dot, [*norm_sq, *step, *length, *rest]) <= farthest)
        });
        near.fold(0, |any, near| any | near) != 0
    }
}

impl Block {
    /// Adds a node if it has visible rows. Returns whether it has.
    fn gather(&mut self, state: &State, node: &NodeRef<'_>, id: NodeId) -> bool {
        let header = node.header();
        let before = self.row_ids.len();
        self.row_ids.extend(state.rows(id, &header));
        if self.row_ids.len() == before {
            return false;
        }
        self.nodes.push(id);
        self.ends.push(self.row_ids.len());
        self.codes.push_hi(OwnCode { step: header.step, norm_sq: header.norm_sq }, node.hi());
        self.codes.lo.extend_from_slice(node.lo());
        let norm_sq = state.meta.filled_sq().unwrap_or(header.norm_sq);
        self.bounds.norm_sq.push(norm_sq * (1.0 - ROUNDING));
        self.bounds.step.push(2.0 * 16.0 * header.step);
        self.bounds.length.push(2.0 * self.codes.hi_norm_sq[self.nodes.len() - 1].max(0.0).sqrt());
        self.bounds.rest.push(2.0 * header.step * (own::lo_sum_sq(node.lo()) as f32).sqrt());
        true
    }

    fn row_ids(&self, row: usize) -> &[u64] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.row_ids[start..self.ends[row]]
    }

    fn clear(&mut self) {
        self.codes.clear();
        self.nodes.clear();
        self.row_ids.clear();
        self.ends.clear();
        self.bounds.clear();
    }
}

impl<P: Pages> Index<P> {
    /// The `k` nearest rows of each query, by a scan of every row: the answer that an approximate
    /// search may miss. `queries` are the user's vectors, one after another. Distances are as in a
    /// search: those to the rows' codes, or exact if vectors are kept.
    ///
    /// Reads every page once per 4,096 queries. `threads` of 0 means one per core.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`]; [`Error::Interrupted`] if `progress` breaks.
    pub fn search_exactly(
        &self,
        queries: &[f32],
        k: usize,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<Vec<SearchResult>, Error> {
        search_exactly(self.pages(), self.newest(), queries, k, threads, progress)
    }
}

/// [`Index::search_exactly`].
pub(super) fn search_exactly<P: Pages>(
    pages: &P,
    newest: &Newest,
    queries: &[f32],
    k: usize,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<Vec<SearchResult>, Error> {
    SearchOptions::default().validate(k)?;
    with_reader(pages, |reader| {
        let state = newest.renew(reader)?;
        let mut results = Vec::new();
        for some in queries.chunks(EXACT_QUERIES * state.meta.dim) {
            results.extend(search_some_exactly(pages, &state, reader, some, k, threads, progress)?);
        }
        Ok(results)
    })
}

/// The answers to as many queries as are searched for in one scan.
fn search_some_exactly<P: Pages>(
    pages: &P,
    state: &State,
    reader: &mut P::Reader<'_>,
    queries: &[f32],
    k: usize,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<Vec<SearchResult>, Error> {
    let mut samples = given(state.meta.dim, queries, k + rerank::spare(state))?;
    let (nodes, missed) = scan(state, pages, &mut samples, Bounds::Certain, threads, progress)?;
    let pages_read = state.node_pages(pages).len() as u64;
    let pages_missed = missed / (samples.len() as u64).max(1);
    let stats = Stats { pages_read, pages_missed, distances: nodes, ..Stats::default() };
    let mut probe = Probe::default();
    let answer = |sample: Sample| {
        let to_distance = probe.prepare(&state.meta, &state.model, &sample.query)?;
        let near = sample.nearest.iter().zip(&sample.nodes);
        let near: Vec<NearRow> =
            near.map(|(&(distance, row_id), &node)| NearRow { distance, row_id, node, is_first: true }).collect();
        let mut stats = stats;
        let mut read = Vec::new();
        let hits = rerank::rerank(state, reader, &sample.query, k, &near, to_distance, &mut read)?;
        stats.pages_read += rerank::distinct(&mut read);
        Ok(SearchResult { hits, stats, snapshot: state.snapshot })
    };
    samples.into_iter().map(answer).collect()
}
