//! Best-first search, one page per hop.
//!
//! ```text
//! offer the entry points nearest to the query
//! while some candidate of the list is unexpanded:
//!     expand the nearest: read its page; its own code gives its distance, its edges give estimates
//!     offer every neighbor; begin to read the pages of the nearest unexpanded candidates
//! answer with the nearest of the expanded nodes
//! ```
//!
//! Nodes are expanded in order of estimate, never of arrival, so the answer does not depend on the storage.

use crate::graph::list::CandidateList;
use crate::graph::{key, key_distance, key_id};
use crate::index::meta::{Meta, Model};
use crate::page::layout::{FLAGS_LIVE, NodeId, NodeRef};
use crate::page::{PageId, Pages, Reader};
use crate::quantize::estimate::{DEGREE_MAX, Estimator};
use crate::{Error, Hit, SearchOptions, SearchResult, Stats};
use pagehop_kernels as kernels;

/// Searches one after the other on one thread, keeping its buffers between them.
pub struct Searcher<'i, P: Pages + 'i> {
    meta: &'i Meta,
    model: &'i Model,
    reader: P::Reader<'i>,
    state: State,
}

/// What a search computes with.
#[derive(Debug, Default)]
struct State {
    query: Vec<f32>,
    query_norm_sq: f32,
    estimator: Estimator,
    entry: NodeId,
    list: CandidateList,
    /// The `k` nearest expanded nodes: keys of distance and position in `rows`.
    nearest: Vec<u64>,
    rows: Vec<u64>,
    pages: Vec<PageId>,
    stats: Stats,
}

impl<'i, P: Pages> Searcher<'i, P> {
    pub(crate) fn new(pages: &'i P, meta: &'i Meta, model: &'i Model) -> Self {
        Self { meta, model, reader: pages.reader(), state: State::default() }
    }

    /// Finds the `k` rows nearest to `query`; see [`Index::search`](crate::Index::search).
    pub fn search(&mut self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        options.validate(k)?;
        let state = &mut self.state;
        state.query.resize(self.model.space.inner_dim(), 0.0);
        let to_distance = self.model.space.query(query, &mut state.query)?;
        let missed_before = self.reader.pages_missed();
        state.begin(self.meta, self.model, k.max(options.search_list));
        let slack: f32 = options.slack;
        while let Some((e, node)) = state.list.expand() {
            if state.nearest.len() == k && e > key_distance(state.nearest[k-1]) * (1.0 + slack) { break; }
            // The best of the others is likely the next: its bytes travel while this node is scored.
            let likely = state.look_ahead(self.meta, &self.reader, None, 1);
            state.expand(self.meta, self.model, &self.reader, node, k)?;
            state.look_ahead(self.meta, &self.reader, likely, options.beam_width);
            self.reader.release();
        }
        let hits = state.hits(|inner| to_distance.apply(inner));
        state.pages.sort_unstable();
        state.pages.dedup();
        state.stats.pages_read = state.pages.len() as u64;
        state.stats.pages_missed = self.reader.pages_missed() - missed_before;
        Ok(SearchResult { hits, stats: state.stats })
    }
}

impl State {
    fn begin(&mut self, meta: &Meta, model: &Model, list: usize) {
        self.stats = Stats::default();
        self.nearest.clear();
        self.rows.clear();
        self.pages.clear();
        self.query_norm_sq = kernels::dot_f32(&self.query, &self.query);
        self.estimator.prepare(meta.layout.edge, &self.query);
        self.list.reset(list);
        self.entry = model.entries[self.estimator.nearest(&model.entry_codes)];
        self.list.insert(0.0, self.entry);
    }

    /// Begins to read the pages of the nearest unexpanded candidates, and to bring the bytes of the first of
    /// them into the CPU's cache unless it is `near` already. Returns the first.
    fn look_ahead(&self, meta: &Meta, reader: &impl Reader, near: Option<NodeId>, width: usize) -> Option<NodeId> {
        let mut first = None;
        for (_, node) in self.list.open().take(width) {
            let (page, slot) = meta.layout.place(node);
            if first.is_none() && near != Some(node) {
                reader.start(page, meta.layout.slot_bytes(slot));
            } else {
                reader.start(page, 0..0);
            }
            first = first.or(Some(node));
        }
        first
    }

    fn expand<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &R,
        node: NodeId,
        k: usize,
    ) -> Result<(), Error> {
        let (page, slot) = meta.layout.place(node);
        let guard = reader.finish(page)?;
        let body: &[u8] = &guard;
        let node_ref = NodeRef::new(&meta.layout, body, slot);
        let header = node_ref.header();
        let degree = usize::from(header.degree);
        if header.flags != FLAGS_LIVE || degree > meta.layout.degree {
            let what = format!("an edge leads to slot {slot}, which has flags {} and degree {degree}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..degree];
        let scored = self.estimator.score(&model.centroids, node_ref.edges(), estimates);
        scored.ok_or_else(|| Error::corrupt(page, format!("an edge of slot {slot} names an unknown centroid")))?;
        let bound = self.list.bound();
        for (estimate, neighbor) in estimates.iter().zip(node_ref.neighbors()) {
            // The entry point stands in the list under an estimate of its own and must not enter twice.
            let neighbor = NodeId::from_le_bytes(*neighbor);
            if *estimate < bound && neighbor != self.entry {
                self.list.insert(*estimate, neighbor);
            }
        }
        let dot = kernels::dot_f32_i12(&self.query, kernels::as_i8(node_ref.hi()), node_ref.lo());
        let distance = self.query_norm_sq + header.norm_sq - 2.0 * header.step * dot;
        self.keep(distance, header.row_id, k);
        self.pages.push(page);
        self.stats.hops += 1;
        self.stats.estimates += degree as u64;
        self.stats.distances += 1;
        Ok(())
    }

    /// Keeps a row if it is among the `k` nearest so far.
    fn keep(&mut self, distance: f32, row_id: u64, k: usize) {
        let key = key(distance, self.rows.len() as u32);
        if self.nearest.len() == k {
            if self.nearest.last().is_none_or(|last| key_distance(*last) <= distance) {
                return;
            }
            self.nearest.pop();
        }
        self.rows.push(row_id);
        let at = self.nearest.partition_point(|other| *other < key);
        self.nearest.insert(at, key);
    }

    fn hits(&self, to_distance: impl Fn(f32) -> f32) -> Vec<Hit> {
        let hit = |key: &u64| Hit {
            row_id: self.rows[key_id(*key) as usize],
            distance: to_distance(key_distance(*key)),
        };
        let mut hits: Vec<Hit> = self.nearest.iter().map(hit).collect();
        hits.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.row_id.cmp(&b.row_id)));
        hits
    }
}
