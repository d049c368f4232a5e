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
use crate::page::layout::{FLAG_LIVE, NodeId, NodeRef, PageKind};
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
    /// Sum of the query's components: what a 12-bit code's offset needs.
    estimator: Estimator,
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
        while let Some((_, node)) = state.list.expand() {
            state.expand(self.meta, self.model, &self.reader, node, k)?;
            for (_, next) in state.list.open().take(options.beam_width) {
                let (page, slot) = self.meta.layout.place(next);
                self.reader.start(page, self.meta.layout.slot_bytes(slot));
            }
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
        let mut best = (f32::INFINITY, 0);
        for i in 0..model.centroids.len() {
            let distance = self.estimator.centroid_sq(&model.centroids, &self.query, i as u8);
            if distance < best.0 {
                best = (distance, i);
            }
        }
        self.list.insert(best.0, model.entries[best.1]);
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
        if body[0] != PageKind::Node as u8 {
            return Err(Error::corrupt(page, format!("an edge leads here, but the page has kind {}", body[0])));
        }
        let node_ref = NodeRef::new(&meta.layout, body, slot);
        let header = node_ref.header();
        let degree = usize::from(header.degree);
        if header.flags != FLAG_LIVE || degree > meta.layout.degree {
            let what = format!("an edge leads to slot {slot}, which has flags {} and degree {degree}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..degree];
        let scored = self.estimator.score(&model.centroids, &self.query, node_ref.edges(), estimates);
        scored.ok_or_else(|| Error::corrupt(page, format!("an edge of slot {slot} names an unknown centroid")))?;
        let bound = self.list.bound();
        for (estimate, neighbor) in estimates.iter().zip(node_ref.neighbors()) {
            if *estimate < bound {
                self.list.insert(*estimate, NodeId::from_le_bytes(*neighbor));
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
