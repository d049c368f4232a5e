//! Best-first search, one page per hop.
//!
//! ```text
//! offer the landmarks nearest to the query, or the nearest entry point if there are none
//! while the nearest unexpanded candidate may still lead to one of the k nearest:
//!     expand it: its edges give estimates of its neighbors, its own code gives its distance
//!     offer every neighbor; prefetch the pages of the nearest unexpanded candidates
//!     if it seems to be among the nearest, the other rows of its page are compared, too
//! answer with the nearest of the rows that were compared
//! ```
//!
//! "May still" does not only depend on the length of the list: the search ends when the best
//! estimate left is beyond `1 + slack` times the k-th distance found. Nodes are expanded in order
//! of estimate, never in order of arrival, so the answer does not depend on the storage.
//!
//! | file | subject |
//! |---|---|
//! | `around.rs` | the other rows of the pages that a walk reads |
//! | `only.rs` | finding only some rows |
//! | `expected.rs` | the reach that a walk with a filter expects |
//! | `absent.rs` | searching as if some nodes did not exist |
//! | `offer.rs` | the neighbors of a node in the list |

pub(crate) mod absent;
pub(crate) mod around;
mod expected;
mod offer;
pub(crate) mod only;

use crate::graph::list::CandidateList;
use crate::graph::{key, key_distance, key_id};
use crate::ids::NodeId;
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::filter::shares::SHARE_MIN;
use crate::index::search::filter::walls::Walls;
use crate::index::search::met::Met;
use crate::index::search::nearest::Nearest;
use crate::index::search::observer::Observer;
use crate::index::search::plan::list_capacity;
use crate::index::search::shortlist::Shortlist;
use crate::index::search::visit::{Probe, Scored};
use crate::index::search::walk::absent::Absent;
use crate::index::search::walk::around::{
    Around, ByTags, Sought, decide, expand_around, keep, look_around, looks, prefetch_around,
};
use crate::index::search::walk::expected::ExpectedReach;
use crate::index::search::walk::offer::{limit, look_ahead, offer, pages_ahead};
use crate::index::search::walk::only::Only;
use crate::index::state::State;
use crate::memory::MakeRoom;
use crate::options::SEARCH_LIST_MAX;
use crate::page::layout::NodeLayout;
use crate::page::meta::Meta;
use crate::page::{PageId, Reader};
use crate::quantize::estimate::DEGREE_MAX;
use crate::quantize::landmarks::{Start, smallest};
use crate::{Error, SearchOptions, Stats};
use pagehop_kernels::{self as kernels, AT_MOST_VALUES};

/// A search for fewer rows collects this many, and the farthest of them decides when it ends. The
/// errors of estimates do not shrink with the distance. So if one very near row decided, the errors
/// would.
pub(crate) const EVIDENCE_ROWS: usize = 10;
/// Most candidates that are rejected as a node is expanded: each of its neighbors, or one that it
/// displaces, and the substitute of the node that is left out.
const REJECTED_MAX: usize = 2 * DEGREE_MAX + 1;

/// One bounded search, used by [`Searcher`](crate::Searcher) and [`Cursor`](crate::Cursor).
/// Reusable.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) probe: Probe,
    pub(crate) list: CandidateList,
    pub(crate) nearest: Nearest,
    /// Estimated distance of each centroid.
    coarse: Vec<f32>,
    /// The landmarks that the search begins at.
    landmarks: Vec<Start>,
    /// The own estimate of each entry point.
    entries: Vec<f32>,
    /// Entry points that were offered to the list with their own estimates.
    offered: Vec<NodeId>,
    pub(crate) visited: Vec<NodeId>,
    /// Whether estimates are by row codes.
    uses_row_codes: bool,
    expected: ExpectedReach,
    /// The k that this walk was started with, at least [`EVIDENCE_ROWS`].
    first: usize,
    /// The nodes that the search leaves out.
    absent: Absent,
    /// Which rows the search may find, if not all.
    pub(crate) only: Option<Only>,
    /// The pages whose rows were compared with the query.
    around: Around,
    /// The reach before the last hop.
    within: f32,
    /// Storage reads of the reader when this search began.
    missed_before: u64,
    /// Whether the entry points that may matter were offered.
    has_entries: bool,
    /// Candidates in random order. A walk does not use it, but keeps the buffer.
    pub(crate) shortlist: Shortlist,
    /// The walls around the query, for searches by postings, too.
    pub(crate) walls: Walls,
}

/// The outcome of a turn of a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Turn {
    /// The walk went on.
    Moved,
    /// The page that the walk needs next is being read.
    Waits,
    /// The walk had ended before.
    Ended,
}

impl Walk {
    /// Starts a search for the query in `probe`. The list keeps `capacity` candidates. With
    /// `uses_estimate`, those far beyond the k-th estimate are left out.
    pub(crate) fn begin(&mut self, state: &State, capacity: usize, k: usize, uses_estimate: bool) {
        self.expected.begin(uses_estimate);
        self.uses_row_codes = false;
        self.only = None;
        self.clear();
        self.first = k.max(EVIDENCE_ROWS);
        self.nearest.reset(self.first);
        self.list.reset(capacity);
        self.limit_equals(k.max(EVIDENCE_ROWS), state);
        self.entries.clear();
        self.probe.coarse(&state.model, &mut self.coarse);
        self.offered.clear();
    }

    /// After [`Walk::begin`]: estimates by row codes, if they are loaded. A candidate that an
    /// observer keeps would come back with an estimate by its edge code, so only walks without one
    /// may.
    pub(crate) fn use_row_codes(&mut self, state: &State) {
        self.uses_row_codes = state.model.row_codes.is_some();
    }

    /// Forgets what the last search has seen.
    pub(crate) fn clear(&mut self) {
        self.visited.clear();
        self.around.begin();
    }

    /// After [`Walk::begin`]: finds only rows that pass a filter, and ends after `hops_max` hops.
    pub(crate) fn find_only(&mut self, filter: &FilterPlan, hops_max: usize, looks_at_tags: bool, state: &State) {
        let (rows, dead) = (state.meta.rows.max(1) as f64, state.meta.change.dead_rows as f64);
        let share = filter.share().max(SHARE_MIN) * rows / (rows + dead);
        self.expected.set_candidates((1.0 / share) as f32);
        self.only = Some(Only::new(filter, hops_max, looks_at_tags, state));
    }

    /// Makes room for a search for `k` rows with a list of `capacity`, so that [`Walk::begin`] and
    /// [`Walk::widen`] need none.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    pub(crate) fn make_room(&mut self, capacity: usize) -> Result<(), Error> {
        self.list.make_room(capacity)
    }

    /// Approximate memory of what the walk has seen, in bytes; without the list, whose length is
    /// bounded.
    pub(crate) fn memory_bytes(&self) -> usize {
        let visited = self.visited.len() * size_of::<NodeId>();
        visited + self.around.memory_bytes() + self.expected.memory_bytes() + self.shortlist.memory_bytes()
    }

    /// Runs the search. Candidates that the list does not keep and all visited rows are reported to
    /// `observer`. Entry points that are not offered are not reported.
    pub(crate) fn run<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        observer: &mut impl Observer,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        self.enter(state, options, reader);
        while self.turn(state, reader, options, observer, stats)? != Turn::Ended {}
        Ok(())
    }

    /// As [`Walk::run`], but begins at the neighbors of the first node that is left out, which are
    /// near the query, and nowhere else.
    pub(crate) fn run_from_absent<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        observer: &mut impl Observer,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        for (estimate, node) in self.absent.neighbors() {
            self.list.insert(*estimate, *node);
        }
        self.within = self.nearest.reach(options.slack);
        self.missed_before = reader.pages_missed();
        while self.hop(state, reader, options, observer, stats)? {}
        Ok(())
    }

    /// Begins at the landmarks nearest to the query, or at an entry point. [`Walk::turn`] goes on.
    pub(crate) fn enter(&mut self, state: &State, options: &SearchOptions, reader: &impl Reader) {
        self.offer_landmarks(state, reader);
        self.within = self.nearest.reach(options.slack);
        self.missed_before = reader.pages_missed();
        self.has_entries = false;
    }

    /// Takes the next step of a search that was entered: a hop, or the offer of entry points.
    #[inline]
    pub(crate) fn turn<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        observer: &mut impl Observer,
        stats: &mut Stats,
    ) -> Result<Turn, Error> {
        if self.hop(state, reader, options, observer, stats)? {
            return Ok(Turn::Moved);
        }
        if observer.is_enough() {
            return Ok(Turn::Ended);
        }
        if self.offer_left_out(options, observer)? {
            return Ok(Turn::Moved);
        }
        if std::mem::replace(&mut self.has_entries, true) {
            return Ok(Turn::Ended);
        }
        observer.make_room(self.entries.len())?;
        self.offer_entries(state, options, observer);
        Ok(Turn::Moved)
    }

    /// Whether the next turn need not wait for a page. If not, the page is read ahead.
    #[inline]
    pub(crate) fn is_ready(&self, state: &State, reader: &impl Reader) -> bool {
        let Some((_, node)) = self.list.open().next() else { return true };
        let page = state.meta.layout.place(node).0;
        let is_ready = reader.is_ready(page);
        if !is_ready {
            reader.start(page, 0..0);
        }
        is_ready
    }

    /// From now on searches as if `nodes` did not exist, until the next call. `probe` must be
    /// prepared for the vector of the first.
    pub(crate) fn leave_out<R: Reader>(
        &mut self,
        nodes: &[NodeId],
        state: &State,
        reader: &mut R,
    ) -> Result<(), Error> {
        self.absent.leave_out(nodes, &mut self.probe, state, reader)
    }

    /// Offers the nearest landmarks to the list, or the nearest entry point if there are none.
    /// Changes keep entry points right; a landmark may lead to another row.
    fn offer_landmarks(&mut self, state: &State, reader: &impl Reader) {
        self.probe.landmarks(&state.model, &self.coarse, &mut self.landmarks);
        self.landmarks.retain(|start| !self.absent.has(start.node));
        if let Some(start) = self.landmarks.first() {
            // Nearly always the first hop.
            let (page, slot) = state.meta.layout.place(start.node);
            reader.start(page, state.meta.layout.slot_bytes(slot));
        }
        self.entries.extend(self.probe.entries(&self.coarse, &state.entries));
        if self.uses_row_codes {
            self.probe.refine(&state.model, &mut self.landmarks);
        }
        self.landmarks.iter().for_each(|start| _ = self.list.insert(start.estimate, start.node));
        // An entry point is in the list with an estimate of its own, which is rough, and is not
        // offered again with a better one. As the only start it is visited first. Beside landmarks
        // it may never be visited, and would be missing among the rows found.
        if self.landmarks.is_empty() {
            // Where no estimate is finite, any entry point will do.
            let nearest = smallest::<1>(&self.entries).next().unwrap_or(0);
            if let (Some(estimate), Some(entry)) = (self.entries.get(nearest), state.entries.get(nearest)) {
                self.list.insert(*estimate, entry.node);
                self.offered.push(entry.node);
            }
        }
    }

    /// Whether the walk has taken the largest number of hops that it may take.
    pub(crate) fn is_over(&self) -> bool {
        self.only.as_ref().is_some_and(|only| only.is_over(self.visited.len()))
    }

    /// From now on [`Walk::widen`] goes on as if the walk had been started with this `k`.
    pub(crate) fn expect(&mut self, k: usize, options: &SearchOptions, state: &State) {
        self.first = k.max(EVIDENCE_ROWS);
        self.list.grow(list_capacity(k, options, state));
    }

    /// Continues the search for the rows of `k` nodes, more than before. `observer` must have
    /// observed the walk so far. Rejected candidates that may now matter are offered again.
    pub(crate) fn widen<R: Reader>(
        &mut self,
        k: usize,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        observer: &mut Met,
        stats: &mut Stats,
    ) -> Result<(), Error> {
        self.nearest.reset(k);
        self.limit_equals(k, state);
        if options.slack.is_finite() {
            // A list that is short for the first rows would be too short for the larger k, so it
            // grows in proportion.
            let search_list = options.search_list.saturating_mul(k).div_ceil(self.first).min(SEARCH_LIST_MAX);
            let capacity = list_capacity(k, &SearchOptions { search_list, ..options.clone() }, state);
            self.list.make_room(capacity)?;
            self.list.grow(capacity);
        }
        for row in &observer.rows {
            self.nearest.found.make_room(1)?;
            self.nearest.keep(row.near);
        }
        self.within = self.nearest.reach(options.slack);
        self.missed_before = reader.pages_missed();
        self.offer_rejected(self.within, observer)?;
        observer.make_room(self.entries.len())?;
        self.offer_entries(state, options, observer);
        loop {
            while self.hop(state, reader, options, observer, stats)? {}
            if !self.offer_left_out(options, observer)? {
                return Ok(());
            }
        }
    }

    /// Limits duplicates in the list to `k`, plus the number of dead rows.
    fn limit_equals(&mut self, k: usize, state: &State) {
        self.list.limit_equals(k.saturating_add(state.meta.change.dead_rows as usize));
    }

    /// Offers rejected candidates again if they are within `reach`.
    fn offer_rejected(&mut self, reach: f32, observer: &mut Met) -> Result<(), Error> {
        // Keys have the order of estimates, and one comparison tells the few that matter.
        let end = if reach >= 0.0 { key(reach, u32::MAX).min(key(self.list.bound(), 0)) } else { 0 };
        let near = observer.rejected.iter().filter(|key| **key < end);
        let mut back: Vec<(f32, NodeId)> = Vec::new();
        back.make_room(near.clone().count())?;
        back.extend(near.map(|key| (key_distance(*key), key_id(*key))));
        if back.is_empty() {
            return Ok(());
        }
        observer.rejected.retain(|key| *key >= end);
        back.retain(|(_, node)| !self.visited.contains(node) && !self.offered.contains(node));
        for (estimate, node) in back {
            self.list.insert_or(estimate, node, |estimate, node| observer.reject(estimate, node));
        }
        Ok(())
    }

    /// Offers the candidates that were left out and may matter. Returns whether there were any.
    fn offer_left_out(&mut self, options: &SearchOptions, observer: &mut impl Observer) -> Result<bool, Error> {
        if self.is_over() {
            return Ok(false);
        }
        let mut is_offered = false;
        for key in self.expected.within(self.nearest.reach(options.slack)) {
            let node = key_id(key);
            if !self.offered.contains(&node) {
                observer.make_room(1)?;
                is_offered |=
                    self.list.insert_or(key_distance(key), node, |estimate, node| observer.reject(estimate, node));
            }
        }
        Ok(is_offered)
    }

    /// The pages of the visited nodes.
    pub(crate) fn pages(&self, meta: &Meta) -> impl Iterator<Item = PageId> {
        self.visited.iter().map(|node| meta.layout.place(*node).0)
    }

    /// Offers the entry points that may still matter and were not seen. This happens once the
    /// neighborhood of the starts is exhausted; by then most entry points are too far. The others
    /// are needed for queries between clusters that no edge connects.
    fn offer_entries(&mut self, state: &State, options: &SearchOptions, observer: &mut impl Observer) {
        let reach = self.nearest.reach(options.slack);
        for (part, estimates) in self.entries.chunks(AT_MOST_VALUES).enumerate() {
            let mut near = kernels::at_most(estimates, reach, self.list.bound());
            while near != 0 {
                let at = near.trailing_zeros() as usize;
                near &= near - 1;
                let (estimate, entry) = (estimates[at], state.entries[part * AT_MOST_VALUES + at].node);
                let is_near = estimate < self.list.bound();
                if is_near && !self.visited.contains(&entry) && self.list.all().all(|(_, node)| node != entry) {
                    self.list.insert_or(estimate, entry, |estimate, node| observer.reject(estimate, node));
                    self.offered.push(entry);
                }
            }
        }
    }

    /// The entry points, each with its own estimate.
    pub(crate) fn entries<'s>(&self, state: &'s State) -> impl Iterator<Item = (f32, NodeId)> + use<'_, 's> {
        self.entries.iter().copied().zip(state.entries.iter().map(|entry| entry.node))
    }

    #[inline]
    fn make_room_for_hop(&mut self, layout: &NodeLayout, observer: &mut impl Observer) -> Result<(), Error> {
        let is_of_page = self.only.as_ref().is_some_and(|only| only.expands_pages);
        let nodes = if is_of_page { layout.nodes_per_page } else { 1 };
        observer.make_room(nodes * REJECTED_MAX)?;
        self.visited.make_room(1)?;
        self.expected.make_room(nodes)?;
        self.around.make_room()
    }

    /// Expands the nearest candidate that may lead to one of the `k` nearest. Returns whether there
    /// may be another such candidate.
    #[inline]
    fn hop<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        observer: &mut impl Observer,
        stats: &mut Stats,
    ) -> Result<bool, Error> {
        let (meta, model) = (&state.meta, &*state.model);
        // Offering and prefetching use the previous reach. It is already known, so a branch
        // misprediction does not wait for the distance just computed.
        let newest = self.nearest.reach(options.slack);
        let within = std::mem::replace(&mut self.within, newest);
        let Some((estimate, node)) = self.list.expand_within(newest) else { return Ok(false) };
        let place = meta.layout.place(node);
        if self.absent.has(node) || self.around.is_expanded(place.0, self.only.as_ref()) {
            return Ok(true);
        }
        observer.expand(estimate, self.list.expanded_rank(), self.nearest.reach(0.0));
        self.make_room_for_hop(&meta.layout, observer)?;
        // The best other candidate is probably next: prefetch its bytes while this node is scored.
        let likely = look_ahead(&self.list, meta, reader, None, 1, within);
        // A candidate beyond `within` would never be expanded: the k-th distance only decreases.
        let reach = self.expected.reach(&self.list, self.nearest.k(), options.slack, within);
        let in_memory = reader.pages_missed() == self.missed_before;
        let width = pages_ahead(self.visited.len(), in_memory, options.beam_width);
        let Self { probe, list, nearest, offered, absent, only, expected, around, uses_row_codes, .. } = self;
        let is_near = only.is_some() || estimate <= nearest.reach(0.0);
        let looks = is_near && looks(&meta.layout, only.is_some()) && !absent.is_on(place.0, &meta.layout);
        let is_new = around.is_new(place.0, looks);
        let body = reader.finish(place.0)?;
        if is_new && looks {
            prefetch_around(&meta.layout, &body, place.1, only.as_ref());
        }
        let mut own = (is_new, None);
        let visited = probe.visit_in(meta, model, &body, place, limit(*uses_row_codes, list, reach), |scored| {
            offer((node, scored), (only.as_ref(), options.slack), (list, offered), absent, reach, observer);
            expected.leave_out(scored, reach, within, list.bound());
            look_ahead(list, meta, reader, likely, width, reach);
            if let (true, Some(only)) = (is_new, only.as_ref()) {
                own = only.look(scored.header.row_id, scored.node.values());
            }
            own.0
        })?;
        let mut undecided: Vec<ByTags> = own.1.map(|row| (node, visited, row)).into_iter().collect();
        if own.0 && undecided.is_empty() {
            keep(node, &visited, state, nearest, observer)?;
        }
        stats.distances += u64::from(own.0);
        if is_new && looks {
            let sought = Sought { probe, only: only.as_ref(), absent };
            look_around(node, &body, state, &sought, (nearest, observer), (&mut undecided, stats))?;
            let take = |other, scored: &mut Scored<'_>| {
                offer((other, scored), (only.as_ref(), options.slack), (list, offered), absent, reach, observer);
                expected.leave_out(scored, reach, within, list.bound());
            };
            stats.estimates += expand_around(node, &body, state, (probe, only.as_ref()), take)?;
        }
        drop(body);
        self.visited.push(node);
        stats.hops += 1;
        stats.estimates += visited.degree() as u64;
        reader.release();
        if observer.is_enough() {
            return Ok(false);
        }
        let Some(only) = &self.only else { return Ok(true) };
        decide(undecided, only, (state, reader), (&mut self.nearest, observer), &mut stats.pages_read)?;
        Ok(!self.is_over())
    }
}
