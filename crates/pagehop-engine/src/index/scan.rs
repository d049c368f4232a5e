//! The nearest rows of many queries by a look at every row.
//!
//! ```text
//! gather   some hundred nodes, from pages in order
//! bound    the high planes of their codes times those of the queries, in integers: how near each may be at most
//! measure  the few that may be nearer than the k-th row found, by their whole codes
//! ```
//!
//! Of the pairs a percent or so is measured. Queries are shared out among threads, each of which reads every page.

use super::samples::Sample;
use super::state::State;
use super::visit::Probe;
use super::{OnProgress, Progress};
use crate::Error;
use crate::page::layout::{NodeId, NodeRef, PageKind};
use crate::page::{PageId, Pages, Reader};
use crate::quantize::codes::Codes;
use crate::quantize::own::{self, OwnCode};
use crate::threads::{self, Look};
use pagehop_kernels as kernels;

/// Nodes that are gathered before they are compared with the queries.
const BLOCK_ROWS: usize = 128;
/// Queries that are compared with them at once: both and their products fit the CPU's caches.
const BLOCK_QUERIES: usize = 128;
/// Rows whose bounds are computed together.
const LANES: usize = 16;
/// Pages between two looks at progress.
const LOOK_PAGES: u32 = 64;
/// Pages that are asked for before they are needed.
const PAGES_AHEAD: u32 = 32;
/// What high planes leave out has a random direction, for codes are of rotated vectors: its product with another vector is beyond
/// so many standard deviations for hardly one pair in a million million.
const DEVIATIONS: f32 = 7.0;
/// What the sums of a bound may be off by, as a share of the squared lengths in it.
const ROUNDING: f32 = 1e-5;

/// How sure a bound must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// It holds, whatever the vectors.
    Certain,
    /// It holds but for chance that nobody meets, and is the tighter the more dimensions there are.
    Likely,
}

/// Finds the nearest rows of every sample, as many as it wants: `rows * samples.len()` products of bytes. Beside a writer
/// rows may be missed that are moved meanwhile. Returns the nodes that were looked at, and the pages read from storage.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` says so; those of a query that cannot be placed; whatever the reader reports.
pub(crate) fn scan<P: Pages>(
    state: &State,
    pages: &P,
    samples: &mut [Sample],
    bounds: Bounds,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<(u64, u64), Error> {
    let range = state.node_pages();
    let total = u64::from(range.end.saturating_sub(range.start));
    let length = samples.len().div_ceil(threads::available(threads)).max(1);
    let mut go_on = |done| progress(Progress { phase: "scan", done, total });
    let counts = threads::each(samples.chunks_mut(length), &mut go_on, |part, look| {
        let mut reader = pages.reader();
        let nodes = Scan::new(state, part, bounds)?.run(&mut reader, look)?;
        reader.pause();
        Ok((nodes, reader.pages_missed()))
    })?;
    Ok((counts.first().map_or(0, |count| count.0), counts.iter().map(|count| count.1).sum()))
}

/// One thread's share.
struct Scan<'s> {
    state: &'s State,
    samples: &'s mut [Sample],
    probes: Vec<Probe>,
    /// The queries' codes, and what of them the high planes leave out.
    queries: Codes,
    query_rest: Vec<f32>,
    /// How much of the product of two lengths a product of vectors may be.
    share: f32,
    rows: Block,
}

/// Nodes that were gathered.
#[derive(Default)]
struct Block {
    codes: Codes,
    nodes: Vec<NodeId>,
    /// Ids of the rows that the reader may see, those of all nodes in one run; where those of each node end.
    row_ids: Vec<u64>,
    ends: Vec<usize>,
    bounds: RowBounds,
    dots: Vec<i32>,
}

impl<'s> Scan<'s> {
    fn new(state: &'s State, samples: &'s mut [Sample], bounds: Bounds) -> Result<Self, Error> {
        let dim = state.meta.layout.inner_dim;
        let mut queries = Codes::with_capacity(dim, samples.len());
        let (mut probes, mut query_rest) = (Vec::with_capacity(samples.len()), Vec::new());
        let mut high = vec![0.0; dim];
        for (at, sample) in samples.iter_mut().enumerate() {
            let mut probe = Probe::default();
            probe.prepare(&state.meta, &state.model, &sample.query)?;
            queries.push(probe.query());
            queries.decode_hi(at, &mut high);
            query_rest.push(kernels::l2sq_f32(probe.query(), &high).sqrt());
            probes.push(probe);
            sample.nearest.clear();
        }
        let rows = Block { codes: Codes::new(dim), ..Block::default() };
        let share = match bounds {
            Bounds::Certain => 1.0,
            Bounds::Likely => (DEVIATIONS / (dim as f32).sqrt()).min(1.0),
        };
        Ok(Self { state, samples, probes, queries, query_rest, share, rows })
    }

    fn run<R: Reader>(mut self, reader: &mut R, look: Look<'_>) -> Result<u64, Error> {
        let (layout, pages) = (&self.state.meta.layout, self.state.node_pages());
        let mut nodes = 0;
        for page in pages.clone() {
            if (page - pages.start).is_multiple_of(LOOK_PAGES) {
                look(u64::from(page - pages.start))?;
            }
            let ahead = if page == pages.start {
                page..page + PAGES_AHEAD
            } else {
                page + PAGES_AHEAD - 1..page + PAGES_AHEAD
            };
            ahead.filter(|page| *page < pages.end).for_each(|page| reader.start(PageId(page), 0..0));
            let body = reader.finish(PageId(page))?;
            for slot in 0..layout.nodes_per_page * usize::from(body[0] == PageKind::Node as u8) {
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

    /// Compares what was gathered with every query, and forgets it.
    fn compare(&mut self) {
        let (dim, count) = (self.queries.dim, self.rows.nodes.len());
        for first in (0..self.samples.len()).step_by(BLOCK_QUERIES) {
            let last = (first + BLOCK_QUERIES).min(self.samples.len());
            let mut dots = std::mem::take(&mut self.rows.dots);
            dots.resize((last - first) * count, 0);
            kernels::dot_i8_block(&self.queries.hi[first * dim..last * dim], &self.rows.codes.hi, dim, &mut dots);
            if count > 0 {
                for (query, dots) in (first..last).zip(dots.chunks_exact(count)) {
                    self.compare_one(query, dots);
                }
            }
            self.rows.dots = dots;
        }
        self.rows.clear();
    }

    /// Measures the rows that may be among the nearest of one query, by the products of the high planes.
    fn compare_one(&mut self, query: usize, dots: &[i32]) {
        let (rows, sample, probe) = (&self.rows, &mut self.samples[query], &self.probes[query]);
        let norm_sq = probe.query_norm_sq();
        let bound = Bounding {
            norm_sq: norm_sq * (1.0 - ROUNDING),
            step: self.queries.hi_step(query),
            length: norm_sq.sqrt() * self.share,
            rest: self.query_rest[query] * self.share,
        };
        for (at, dots) in dots.chunks(LANES).enumerate() {
            let (first, farthest) = (at * LANES, sample.farthest());
            // Hardly ever one is near, and to look at all of a run without a way out is what processors are good at.
            if !bound.any_within(farthest, dots, &rows.bounds, first) {
                continue;
            }
            for (row, dot) in (first..).zip(dots) {
                let least = bound.least(*dot, rows.bounds.at(row));
                if least > sample.farthest() || sample.node == Some(rows.nodes[row]) {
                    continue;
                }
                let distance = probe.distance_to(rows.codes.own[row], rows.codes.hi(row), rows.codes.lo(row));
                rows.row_ids(row).iter().for_each(|row_id| sample.keep((distance, *row_id)));
            }
        }
    }
}

/// What of a query says how near rows are at most.
struct Bounding {
    norm_sq: f32,
    step: f32,
    length: f32,
    rest: f32,
}

/// The same of rows: their squared lengths, twice one unit of their high planes, twice the lengths of what these hold, and of what they
/// leave out.
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
    /// The least that the squared distance to a row may be, by the product of the high planes.
    ///
    /// `<q, o> = <q', o'> + <q - q', o'> + <q, o - o'>`, of which the last two are at most a share of the products of their lengths.
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
    /// Takes a node if it has rows to see; says whether.
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
        self.bounds.norm_sq.push(header.norm_sq * (1.0 - ROUNDING));
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
