//! Best-first search, one page per hop.
//!
//! ```text
//! offer the entry points nearest to the query
//! while the nearest unexpanded candidate may still lead to one of the k nearest:
//!     expand it: its edges give estimates, its own code gives its distance
//!     offer every neighbor; begin to read the pages of the nearest unexpanded candidates
//! answer with the nearest of the expanded nodes
//! ```
//!
//! "May still" is evidence, not only the length of the list: the search ends when the best estimate left is
//! beyond `1 + slack` times the k-th distance found. Nodes are expanded in order of estimate, never of arrival,
//! so the answer does not depend on the storage.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::SEARCH_LIST_MAX;
use super::absent::Absent;
use super::cursor::Met;
use super::meta::Meta;
use super::state::{Newest, State};
use super::visit::{Probe, Visited};
use crate::graph::list::CandidateList;
use crate::graph::{key_distance, key_id};
use crate::page::layout::{NodeHeader, NodeId, NodeRef};
use crate::page::{PageId, Pages, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, Hit, RowIds, SearchOptions, SearchResult, Stats};

/// Searches one after the other on one thread, keeping its buffers between them.
pub struct Searcher<'i, P: Pages + 'i> {
    newest: &'i Newest,
    state: Arc<State>,
    reader: P::Reader<'i>,
    walk: Walk,
    pages: Vec<PageId>,
}

/// The distance that ends a search is at least that of this many nodes: the nearest row alone may be so near that
/// estimates, whose errors do not shrink with it, would be no evidence against the rest.
pub(super) const EVIDENCE_ROWS: usize = 10;
/// How far above the k-th estimate the k-th distance may turn out to be. Less makes for fewer candidates, which is quicker: by 3 to 5%
/// instead of at 1.3. Recall was the same in 64 to 784 dimensions, and 0.0002 less in 16; at 1.06 it was 0.0009 less there.
const FORETOLD: f32 = 1.12;

impl<'i, P: Pages> Searcher<'i, P> {
    pub(crate) fn new(pages: &'i P, newest: &'i Newest) -> Self {
        Self { newest, state: newest.known(), reader: pages.reader(), walk: Walk::default(), pages: Vec::new() }
    }

    /// Finds the `k` rows nearest to `query`; see [`Index::search`](crate::Index::search).
    pub fn search(&mut self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        options.validate(k)?;
        if self.state.meta.row_ids == RowIds::Tids || self.reader.snapshot(true) != self.state.snapshot {
            self.state = self.newest.renew(&mut self.reader)?;
        }
        let state = self.state.clone();
        let walk = &mut self.walk;
        let to_distance = walk.probe.prepare(&state.meta, &state.model, query)?;
        let missed_before = self.reader.pages_missed();
        let mut stats = Stats::default();
        self.pages.clear();
        let mut capacity = among_the_dead(k, options, &state);
        // Among dead nodes the k-th candidate foretells nothing.
        let mut foretells = state.meta.change.dead_rows == 0;
        loop {
            walk.begin(&state, capacity, k, foretells);
            walk.run(&state, &mut self.reader, options, &mut Forgotten, &mut stats)?;
            self.pages.extend(walk.pages(&state.meta));
            let found = walk.nearest.found.len().min(k) as u64;
            let tried_all = !foretells && (!walk.list.is_full() || capacity >= SEARCH_LIST_MAX);
            if found >= state.meta.rows.min(k as u64) || tried_all {
                break;
            }
            // Slots without a row that this search may see have taken the places of those with one.
            foretells = false;
            capacity *= 4;
        }
        stats.distances = stats.hops;
        self.pages.sort_unstable();
        self.pages.dedup();
        stats.pages_read = self.pages.len() as u64;
        stats.pages_missed = self.reader.pages_missed() - missed_before;
        self.reader.pause();
        Ok(SearchResult { hits: walk.nearest.hits(k, to_distance), stats })
    }
}

/// Takes what a walk meets and its answer does not need.
pub(super) trait Rest {
    /// A candidate that is expanded next: how many of all that were met are better, and how far the row is that ends the search, which
    /// is infinitely far before there is one.
    #[inline]
    fn expand(&mut self, _estimate: f32, _rank: usize, _farthest: f32) {}

    /// A candidate that the list does not take, or gives up before it was expanded. The same may come again.
    fn turn_away(&mut self, estimate: f32, node: NodeId);

    /// A row that was visited, one of the nearest or not. The same may come again.
    fn meet(&mut self, node: NodeId, row: Near, visited: &Visited);

    /// Whether what was met is all that is wanted.
    #[inline]
    fn is_enough(&self) -> bool {
        false
    }
}

/// A search that ends with its answer remembers nothing else.
pub(super) struct Forgotten;

impl Rest for Forgotten {
    #[inline]
    fn turn_away(&mut self, _: f32, _: NodeId) {}

    #[inline]
    fn meet(&mut self, _: NodeId, _: Near, _: &Visited) {}
}

/// One bounded search; [`Searcher`] and [`Cursor`](super::Cursor) share it. Reusable.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) probe: Probe,
    pub(super) list: CandidateList,
    pub(super) nearest: Nearest,
    /// Every entry point under its own estimate.
    pub(super) entries: Vec<(f32, NodeId)>,
    /// Entry points that were offered under their own estimates.
    offered: Vec<NodeId>,
    pub(super) visited: Vec<NodeId>,
    /// Whether the k-th estimate bounds what is worth offering.
    foretells: bool,
    /// Nodes whose rows it began to search for.
    first: usize,
    /// The node that the query was taken from: it does as if that one were not there.
    absent: Absent,
}

impl Walk {
    /// Starts over for the query that the probe has, to keep `capacity` candidates.
    pub(super) fn begin(&mut self, state: &State, capacity: usize, k: usize, foretells: bool) {
        self.foretells = foretells;
        self.visited.clear();
        self.first = k.max(EVIDENCE_ROWS);
        self.nearest.reset(self.first);
        self.list.reset(capacity);
        self.limit_equals(k.max(EVIDENCE_ROWS), state);
        self.entries.clear();
        self.entries.extend(self.probe.entries(&state.model, &state.entries));
        self.offered.clear();
    }

    /// Searches. What comes neither into the list nor among the nearest goes to `rest`, but for entry points
    /// that were not offered.
    pub(super) fn run<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        rest: &mut impl Rest,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        self.enter();
        let before = self.visited.len();
        self.expand_all(state, reader, options, rest, stats)?;
        if !rest.is_enough() {
            self.offer_entries(options, rest);
            self.expand_all(state, reader, options, rest, stats)?;
        }
        stats.hops += (self.visited.len() - before) as u64;
        Ok(())
    }

    /// Searches from now on, until another [`Walk::leave_out`], as if `node` were not there, to whose place the probe is prepared.
    pub(super) fn leave_out<R: Reader>(
        &mut self,
        node: Option<NodeId>,
        state: &State,
        reader: &mut R,
    ) -> Result<(), Error> {
        self.absent.become_node(node, &mut self.probe, state, reader)
    }

    /// Offers the nearest entry point.
    fn enter(&mut self) {
        let nearest = self.entries.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((estimate, entry)) = nearest {
            self.list.insert(estimate, entry);
            self.offered.push(entry);
        }
    }

    /// Searches on for the rows of `k` nodes, more than before. `rest` must have `met` what was met, and `turned_away` what was turned
    /// away, which comes back if it may now matter.
    pub(super) fn widen<R: Reader>(
        &mut self,
        k: usize,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        rest: &mut Met,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        self.nearest.reset(k);
        self.limit_equals(k, state);
        if options.slack.is_finite() {
            // A list that is short for the first rows has no room for the evidence on more.
            let search_list = options.search_list.saturating_mul(k).div_ceil(self.first).min(SEARCH_LIST_MAX);
            self.list.grow(among_the_dead(k, &SearchOptions { search_list, ..options.clone() }, state));
        }
        rest.rows.iter().for_each(|row| self.nearest.keep(row.near));
        let before = self.visited.len();
        self.take_back(self.nearest.reach(options.slack), rest);
        self.offer_entries(options, rest);
        self.expand_all(state, reader, options, rest, stats)?;
        stats.hops += (self.visited.len() - before) as u64;
        Ok(())
    }

    /// Of equal rows, as many as there are places in the answer are enough, and as many more as may be dead.
    fn limit_equals(&mut self, k: usize, state: &State) {
        self.list.limit_equals(k.saturating_add(state.meta.change.dead_rows as usize));
    }

    /// Offers again what was turned away and is within `reach`.
    fn take_back(&mut self, reach: f32, rest: &mut Met) {
        let mut back = Vec::new();
        rest.turned_away.retain(|key| {
            let (estimate, node) = (key_distance(*key), key_id(*key));
            let matters = estimate <= reach && estimate < self.list.bound();
            if matters && !self.visited.contains(&node) && !self.offered.contains(&node) {
                back.push((estimate, node));
            }
            !matters
        });
        for (estimate, node) in back {
            self.list.insert_or(estimate, node, |estimate, node| rest.turn_away(estimate, node));
        }
    }

    /// The pages of the nodes that were visited.
    pub(super) fn pages(&self, meta: &Meta) -> impl Iterator<Item = PageId> {
        self.visited.iter().map(|node| meta.layout.place(*node).0)
    }

    /// Offers the entry points that may still matter and were not met. They wait until the neighborhood of the
    /// nearest one is exhausted: by then most are too far. The rest are for queries between clusters that no
    /// edge connects.
    fn offer_entries(&mut self, options: &SearchOptions, rest: &mut impl Rest) {
        let reach = self.nearest.reach(options.slack);
        for (estimate, entry) in &self.entries {
            let near = *estimate <= reach && *estimate < self.list.bound();
            if near && !self.visited.contains(entry) && self.list.all().all(|(_, node)| node != *entry) {
                self.list.insert_or(*estimate, *entry, |estimate, node| rest.turn_away(estimate, node));
                self.offered.push(*entry);
            }
        }
    }

    /// Expands candidates until none is left that may lead to one of the `k` nearest.
    fn expand_all<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        rest: &mut impl Rest,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        let (meta, model) = (&state.meta, &*state.model);
        let mut newest = self.nearest.reach(options.slack);
        loop {
            // What the distance measured last leaves within reach decides whether to go on. What is worth offering and reading goes by
            // the one before: it is known by now, and a wrong guess of the processor's at a branch need not wait for the newest.
            let within = newest;
            newest = self.nearest.reach(options.slack);
            let Some((estimate, node)) = self.list.expand_within(newest) else { break };
            if self.absent.node == Some(node) {
                continue;
            }
            rest.expand(estimate, self.list.expanded_rank(), self.nearest.reach(0.0));
            // The best of the others is likely the next: its bytes travel while this node is scored.
            let likely = look_ahead(&self.list, meta, reader, None, 1, within);
            // A candidate beyond this would never be expanded: the k-th distance only falls. Before there is
            // one, the k-th estimate foretells it, give or take what estimates are off by.
            let foretold = if self.foretells { self.list.estimate_at(self.nearest.k - 1) } else { None };
            let foretold = foretold.map(|estimate| estimate * FORETOLD * (1.0 + options.slack));
            let reach = within.min(foretold.unwrap_or(f32::INFINITY));
            let (list, offered) = (RefCell::new(&mut self.list), &self.offered);
            let mut take = |estimate: f32, neighbor: NodeId| {
                let mut list = list.borrow_mut();
                // Entry points stand in the list under estimates of their own and must not enter twice.
                // Few are: to ask both without a way out between them is quicker.
                if (estimate <= reach) & (estimate < list.bound()) && !offered.contains(&neighbor) {
                    list.insert_or(estimate, neighbor, |estimate, node| rest.turn_away(estimate, node));
                } else {
                    rest.turn_away(estimate, neighbor);
                }
            };
            let (leads_to_absent, mut heir) = (Cell::new(false), None);
            let offer = |_, estimate: f32, neighbor: NodeId| match self.absent.node == Some(neighbor) {
                true => leads_to_absent.set(true),
                false => take(estimate, neighbor),
            };
            // While the search approaches, what is best now is soon displaced: reads begun for it are wasted.
            let width = if self.nearest.is_full() { options.beam_width } else { 1 };
            let finished = |found: &NodeRef<'_>, header: &NodeHeader| {
                look_ahead(&list.borrow(), meta, reader, likely, width, reach);
                if leads_to_absent.get() {
                    heir = self.absent.heir_for(node, found, header);
                }
            };
            let visited = self.probe.visit(meta, model, reader, node, offer, finished)?;
            heir.into_iter().for_each(|(estimate, heir)| take(estimate, heir));
            for (at, row_id) in state.rows(node, &visited.header).enumerate() {
                let row = Near { distance: visited.distance, row_id, is_first: at == 0 };
                self.nearest.keep(row);
                rest.meet(node, row, &visited);
            }
            self.visited.push(node);
            stats.estimates += visited.degree() as u64;
            reader.release();
            if rest.is_enough() {
                break;
            }
        }
        Ok(())
    }
}

/// Candidates to keep: `search_list`, and as many more as dead nodes will take the places of; at least `k`.
pub(super) fn among_the_dead(k: usize, options: &SearchOptions, state: &State) -> usize {
    let (rows, dead) = (state.meta.rows.max(1), state.meta.change.dead_rows);
    let more = (options.search_list as u64).saturating_mul(dead.min(3 * rows)) / rows;
    k.max(options.search_list + more as usize)
}

/// Begins to read the pages of the nearest unexpanded candidates, and to bring the bytes of the first of them
/// into the CPU's cache unless it is `near` already. Returns the first. None beyond `reach` is read for.
fn look_ahead(
    list: &CandidateList,
    meta: &Meta,
    reader: &impl Reader,
    near: Option<NodeId>,
    width: usize,
    reach: f32,
) -> Option<NodeId> {
    let mut first = None;
    for (_, node) in list.open().take(width).take_while(|(estimate, _)| *estimate <= reach) {
        let (page, slot) = meta.layout.place(node);
        let fetch = first.is_none() && near != Some(node);
        reader.start(page, if fetch { meta.layout.slot_bytes(slot) } else { 0..0 });
        first = first.or(Some(node));
    }
    first
}

/// Rows of the `k` nearest of the nodes visited, nearest first, equal distances in order of row id.
///
/// Rows of one vector share a node. They count once for what ends a search: the second of them is no evidence
/// against what lies beyond the first.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    k: usize,
    /// How many nodes `found` has rows of.
    nodes: usize,
    pub(super) found: Vec<Near>,
}

/// A row among the nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Near {
    /// Squared, in the inner space.
    pub(super) distance: f32,
    pub(super) row_id: u64,
    /// Whether it is the one that counts, of the rows of its node.
    pub(super) is_first: bool,
}

impl Nearest {
    fn reset(&mut self, k: usize) {
        self.k = k;
        self.nodes = 0;
        self.found.clear();
    }

    /// How many nodes it keeps the rows of.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    pub(super) fn is_full(&self) -> bool {
        self.nodes == self.k
    }

    /// The largest estimate of a candidate that may still matter.
    #[inline]
    fn reach(&self, slack: f32) -> f32 {
        match self.found.last() {
            // Infinite slack times a distance of 0 is no number, and no bound.
            Some(last) if self.is_full() && slack.is_finite() => last.distance * (1.0 + slack),
            _ => f32::INFINITY,
        }
    }

    /// A row that two edges reach under different estimates, the older of which was meant for a row before it in
    /// its slot, is kept once.
    fn keep(&mut self, row: Near) {
        let nearer = |other: &Near| {
            other.distance < row.distance || other.distance == row.distance && other.row_id < row.row_id
        };
        let at = self.found.partition_point(nearer);
        let is_there =
            self.found.get(at).is_some_and(|other| other.row_id == row.row_id && other.distance == row.distance);
        // Another row of the last node is inside.
        let is_inside = |last: &Near| !row.is_first && last.distance == row.distance;
        let is_beyond = at == self.found.len() && self.is_full() && !self.found.last().is_some_and(is_inside);
        if is_there || is_beyond {
            return;
        }
        self.found.insert(at, row);
        self.nodes += usize::from(row.is_first);
        while self.nodes > self.k {
            self.nodes -= usize::from(self.found.pop().is_some_and(|last| last.is_first));
        }
    }

    fn hits(&self, k: usize, to_distance: ToDistance) -> Vec<Hit> {
        let hit = |near: &Near| Hit { row_id: near.row_id, distance: to_distance.apply(near.distance) };
        self.found.iter().take(k).map(hit).collect()
    }
}
