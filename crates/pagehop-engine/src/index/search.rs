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

use std::cell::RefCell;
use std::sync::Arc;

use super::SEARCH_LIST_MAX;
use super::meta::Meta;
use super::state::{Newest, State};
use super::visit::Probe;
use crate::graph::list::CandidateList;
use crate::page::layout::{NodeHeader, NodeId, NodeRef};
use crate::page::{PageId, Pages, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, Hit, SearchOptions, SearchResult, Stats};

/// Searches one after the other on one thread, keeping its buffers between them.
pub struct Searcher<'i, P: Pages + 'i> {
    newest: &'i Newest,
    state: Arc<State>,
    reader: P::Reader<'i>,
    probe: Probe,
    list: CandidateList,
    nearest: Nearest,
    entries: Vec<(f32, NodeId)>,
    /// Entry points that were offered under their own estimates.
    offered: Vec<NodeId>,
    visited: Vec<NodeId>,
    pages: Vec<PageId>,
    /// Whether the k-th estimate bounds what is worth offering.
    foretells: bool,
}

/// The distance that ends a search is at least that of this many rows: the nearest row alone may be so near that
/// estimates, whose errors do not shrink with it, would be no evidence against the rest.
pub(super) const EVIDENCE_ROWS: usize = 10;
/// How far above the k-th estimate the k-th distance may turn out to be.
const FORETOLD: f32 = 1.3;

impl<'i, P: Pages> Searcher<'i, P> {
    pub(crate) fn new(pages: &'i P, newest: &'i Newest) -> Self {
        Self {
            newest,
            state: newest.known(),
            reader: pages.reader(),
            probe: Probe::default(),
            list: CandidateList::default(),
            nearest: Nearest::default(),
            entries: Vec::new(),
            offered: Vec::new(),
            visited: Vec::new(),
            pages: Vec::new(),
            foretells: true,
        }
    }

    /// Finds the `k` rows nearest to `query`; see [`Index::search`](crate::Index::search).
    pub fn search(&mut self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        options.validate(k)?;
        if self.reader.snapshot(true) != self.state.snapshot {
            self.state = self.newest.renew(&mut self.reader)?;
        }
        let state = self.state.clone();
        let to_distance = self.probe.prepare(&state.meta, &state.model, query)?;
        let missed_before = self.reader.pages_missed();
        let mut stats = Stats::default();
        self.pages.clear();
        let mut capacity = k.max(among_the_dead(options.search_list, &state));
        // Among dead nodes the k-th candidate foretells nothing.
        self.foretells = state.meta.change.dead_rows == 0;
        loop {
            self.search_within(capacity, k, &state, options, &mut stats)?;
            let found = self.nearest.found.len().min(k) as u64;
            let tried_all = !self.foretells && (!self.list.is_full() || capacity >= SEARCH_LIST_MAX);
            if found >= state.meta.rows.min(k as u64) || tried_all {
                break;
            }
            // Slots without a row that this search may see have taken the places of those with one.
            self.foretells = false;
            capacity *= 4;
        }
        stats.distances = stats.hops;
        self.pages.sort_unstable();
        self.pages.dedup();
        stats.pages_read = self.pages.len() as u64;
        stats.pages_missed = self.reader.pages_missed() - missed_before;
        Ok(SearchResult { hits: self.nearest.hits(k, to_distance), stats })
    }

    /// One search that keeps `capacity` candidates.
    fn search_within(
        &mut self,
        capacity: usize,
        k: usize,
        state: &State,
        options: &SearchOptions,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        self.visited.clear();
        self.nearest.reset(k.max(EVIDENCE_ROWS));
        self.list.reset(capacity);
        self.entries.clear();
        self.entries.extend(self.probe.entries(&state.model, &state.entries));
        let nearest = self.entries.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0));
        self.offered.clear();
        if let Some((estimate, entry)) = nearest {
            self.list.insert(estimate, entry);
            self.offered.push(entry);
        }
        self.expand_all(state, options, stats)?;
        self.offer_entries(options);
        self.expand_all(state, options, stats)?;
        stats.hops += self.visited.len() as u64;
        self.pages.extend(self.visited.iter().map(|node| state.meta.layout.place(*node).0));
        Ok(())
    }

    /// Offers the entry points that may still matter and were not met. They wait until the neighborhood of the
    /// nearest one is exhausted: by then most are too far. The rest are for queries between clusters that no
    /// edge connects.
    fn offer_entries(&mut self, options: &SearchOptions) {
        let reach = self.nearest.reach(options.slack);
        for (estimate, entry) in &self.entries {
            let near = *estimate <= reach && *estimate < self.list.bound();
            if near && !self.visited.contains(entry) && self.list.all().all(|(_, node)| node != *entry) {
                self.list.insert(*estimate, *entry);
                self.offered.push(*entry);
            }
        }
    }

    /// Expands candidates until none is left that may lead to one of the `k` nearest.
    fn expand_all(&mut self, state: &State, options: &SearchOptions, stats: &mut Stats) -> Result<(), Error> {
        let (meta, model) = (&state.meta, &*state.model);
        while let Some((estimate, node)) = self.list.expand() {
            if estimate > self.nearest.reach(options.slack) {
                break;
            }
            // The best of the others is likely the next: its bytes travel while this node is scored.
            let likely = look_ahead(&self.list, meta, &self.reader, None, 1, f32::INFINITY);
            // A candidate beyond this would never be expanded: the k-th distance only falls. Before there is
            // one, the k-th estimate foretells it, give or take what estimates are off by.
            let foretold = if self.foretells { self.list.estimate_at(self.nearest.k - 1) } else { None };
            let foretold = foretold.map(|estimate| estimate * FORETOLD * (1.0 + options.slack));
            let reach = self.nearest.reach(options.slack).min(foretold.unwrap_or(f32::INFINITY));
            let list = RefCell::new(&mut self.list);
            let offer = |_, estimate: f32, neighbor: NodeId| {
                let mut list = list.borrow_mut();
                // Entry points stand in the list under estimates of their own and must not enter twice.
                if estimate <= reach && estimate < list.bound() && !self.offered.contains(&neighbor) {
                    list.insert(estimate, neighbor);
                }
            };
            // While the search approaches, what is best now is soon displaced: reads begun for it are wasted.
            let width = if self.nearest.is_full() { options.beam_width } else { 1 };
            let finished = |_: &NodeRef<'_>, _: &NodeHeader| {
                look_ahead(&list.borrow(), meta, &self.reader, likely, width, reach);
            };
            let visited = self.probe.visit(meta, model, &self.reader, node, offer, finished)?;
            if visited.header.is_visible(state.snapshot) {
                self.nearest.keep((visited.distance, visited.header.row_id));
            }
            self.visited.push(node);
            stats.estimates += visited.degree() as u64;
            self.reader.release();
        }
        Ok(())
    }
}

/// `search_list`, and as many places more as dead nodes will take.
fn among_the_dead(search_list: usize, state: &State) -> usize {
    let (rows, dead) = (state.meta.rows.max(1), state.meta.change.dead_rows);
    let more = (search_list as u64).saturating_mul(dead.min(3 * rows)) / rows;
    search_list + more as usize
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

/// The `k` nearest of the nodes visited, nearest first, equal distances in order of row id.
#[derive(Debug, Default)]
struct Nearest {
    k: usize,
    found: Vec<(f32, u64)>,
}

impl Nearest {
    fn reset(&mut self, k: usize) {
        self.k = k;
        self.found.clear();
    }

    fn is_full(&self) -> bool {
        self.found.len() == self.k
    }

    /// The largest estimate of a candidate that may still matter.
    #[inline]
    fn reach(&self, slack: f32) -> f32 {
        // Infinite slack times a distance of 0 is no number, and no bound.
        if self.is_full() && slack.is_finite() { self.found[self.k - 1].0 * (1.0 + slack) } else { f32::INFINITY }
    }

    /// A row that two edges reach under different estimates, the older of which was meant for a row before it in
    /// its slot, is kept once.
    fn keep(&mut self, entry: (f32, u64)) {
        let nearer = |other: &(f32, u64)| other.0 < entry.0 || other.0 == entry.0 && other.1 < entry.1;
        let at = self.found.partition_point(nearer);
        if at == self.k || self.found.get(at) == Some(&entry) {
            return;
        }
        self.found.truncate(self.k - 1);
        self.found.insert(at, entry);
    }

    fn hits(&self, k: usize, to_distance: ToDistance) -> Vec<Hit> {
        self.found
            .iter()
            .take(k)
            .map(|(d, row_id)| Hit { row_id: *row_id, distance: to_distance.apply(*d) })
            .collect()
    }
}
