//! Searches for the nearest rows that pass a filter.
//!
//! ```text
//! read     postings of rows that may pass, those of near cells first: test the filter, estimate
//!          the distances, keep the best; then visit their nodes in order of estimate, and stop as
//!          a walk does
//! walk     as without a filter, but only rows that pass are found; a list that is longer in
//!          proportion; page neighbors of visited nodes are looked at, too
//! ```
//!
//! A walk that costs more than the postings would, because rows that pass are far from the query,
//! gives up, and the postings are read. If there are no postings to read, every row is read, also
//! before a walk that is expected to cost more. So fewer than `k` rows come only if fewer pass.

use std::ops::Range;
use std::sync::Arc;

use crate::filter::{Filter, GivenIds, Test};
use crate::graph::{key_distance, key_id};
use crate::ids::NodeId;
use crate::index::find::{AHEAD, Looked, find_id, settled};
use crate::index::open::Index;
use crate::index::search::filter::gather::{Gather, GatherExtent, Gathered};
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::filter::slack;
use crate::index::search::filter::tags::{self, Undecided};
use crate::index::search::observer::Unobserved;
use crate::index::search::plan::list_capacity;
use crate::index::search::rerank;
use crate::index::search::searcher::Searcher;
use crate::index::search::walk::{EVIDENCE_ROWS, Walk};
use crate::index::state::{Newest, State};
use crate::options::SEARCH_LIST_MAX;
use crate::page::node::{NodeRef, with_node};
use crate::page::{PageId, Pages, Reader, read_ahead};
use crate::row_ids::{RowId, check_kind};
use crate::{Error, IdKind, SearchOptions, SearchResult, Stats};

/// Candidates from postings that are kept: at least this number, and this number for each row that
/// is searched for.
pub(crate) const SHORTLIST_MIN: usize = 256;
pub(crate) const SHORTLIST_PER_ROW: usize = 8;
/// Pages of nodes, or visited nodes, between two looks at whether the caller wants to go on.
const LOOK_PAGES: usize = 64;
/// Ratio between the distance of the last row and its estimate above which more leaves are read:
/// dead rows, and rows without the tag, have postings that seem to pass.
const FARTHER: f32 = 1.2;

impl<P: Pages> Index<P> {
    /// Prepares a filter over this index; see [`Searcher::plan_filter`].
    ///
    /// # Errors
    ///
    /// Those of [`Searcher::plan_filter`].
    pub fn plan_filter(&self, filter: &Filter) -> Result<FilterPlan, Error> {
        self.searcher().plan_filter(filter)
    }
}

/// Finds the `k` rows nearest to `query` among those that pass the filter. Fewer come only if fewer
/// pass. With `options` of `None` the answer is exact, and all rows that may pass are compared.
/// `look` is called while many rows are visited, and may end the search.
///
/// # Errors
///
/// Those of [`Index::search_with`](crate::Index::search_with); [`Error::Argument`] if the filter
/// was planned for an index with another number of columns; those of `look`.
pub(super) fn search_filtered<P: Pages>(
    searcher: &mut Searcher<'_, P>,
    query: &[f32],
    k: usize,
    options: Option<&SearchOptions>,
    filter: &FilterPlan,
    look: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<SearchResult, Error> {
    options.cloned().unwrap_or_default().validate(k)?;
    if filter.columns != searcher.newest.known().columns.columns.len() {
        return Err(Error::argument("the filter was planned for another index"));
    }
    let missed_before = searcher.reader.pages_missed();
    let mut stats = Stats::default();
    let every_page = searcher.state.node_pages(searcher.pages).len();
    let walks = options.filter(|SearchOptions { slack, .. }| {
        !filter.reads_postings(k, *slack) && filter.is_worth_a_walk(k, *slack, every_page)
    });
    let found = match walks {
        Some(options) => searcher.walk_filtered(query, k, options, (filter, filter.has_negated_tag), &mut stats)?,
        None => None,
    };
    let mut result = match found {
        Some(result) => result,
        None => searcher.select(query, (k, options), filter, look, &mut stats)?,
    };
    stats.pages_missed = searcher.reader.pages_missed() - missed_before;
    searcher.reader.pause();
    result.stats = stats;
    Ok(result)
}

/// Prepares a filter for searches in `state`, which is renewed if its pages have changed.
pub(super) fn planned<'p, P: Pages>(
    filter: &Filter,
    (pages, newest): (&'p P, &Newest),
    reader: &mut P::Reader<'p>,
    state: &mut Arc<State>,
) -> Result<FilterPlan, Error> {
    let known = newest.known();
    let filter = numbered(filter, pages, newest)?;
    let test = Test::new(&filter, &known.columns.columns)?;
    let (mut last, mut guesses) = (None, false);
    loop {
        let commit = state.meta.change.commit;
        let plan = FilterPlan::new(test.clone(), state, reader, guesses);
        reader.release();
        match plan {
            // Pages of two commits may contradict each other. Pages of one may not.
            Err(Error::Corrupt { .. }) if last != Some(commit) => last = Some(commit),
            // The next commit is becoming visible, or its writer died before it was.
            Err(Error::Corrupt { .. }) if !guesses && !pages.is_newest(state.snapshot) => guesses = true,
            plan => return plan,
        }
        *state = newest.renew(reader)?;
    }
}

impl<P: Pages> Searcher<'_, P> {
    /// Prepares a filter over this index, for searches one after another.
    ///
    /// Estimates how many rows pass, which reads a few pages for each condition. Later changes of
    /// the index make a plan slower at worst, never wrong, except that a text id stands for the row
    /// that had it now.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an unknown column, a value of another kind, a comparison that the
    /// column's kind does not have, NaN, or a filter that is nested too deep; [`Error::Corrupt`] if
    /// pages contradict each other; any error of the host.
    pub fn plan_filter(&mut self, filter: &Filter) -> Result<FilterPlan, Error> {
        self.state = self.newest.renew(&mut self.reader)?;
        planned(filter, (self.pages, self.newest), &mut self.reader, &mut self.state)
    }

    /// The answer of a walk; `None` if it found too few rows or became too expensive. Rows that may
    /// pass are kept until its end, unless it `looks_at_tags` during the walk. If too many of them
    /// do not pass, another walk does so.
    fn walk_filtered(
        &mut self,
        query: &[f32],
        k: usize,
        options: &SearchOptions,
        (filter, looks_at_tags): (&FilterPlan, bool),
        stats: &mut Stats,
    ) -> Result<Option<SearchResult>, Error> {
        self.renew()?;
        let asked = options;
        let state = self.state.clone();
        let running = self.running.get_or_insert_default();
        let walk = &mut running.walk;
        let to_distance = walk.probe.prepare(&state.meta, &state.model, query)?;
        let options = filter.walk_options(options);
        let capacity = list_capacity(k, &options, &state).min(SEARCH_LIST_MAX);
        running.longest = running.longest.max(capacity);
        walk.begin(&state, capacity, k, false);
        let spare = if looks_at_tags { 0 } else { tags::spare(filter, k) };
        walk.nearest.keep_spare(rerank::spare(&state) + spare);
        let hops_max = filter.hops_max(k, asked.slack).min(2 * state.node_pages(self.pages).len());
        walk.find_only(filter, hops_max, looks_at_tags, &state);
        walk.run(&state, &mut self.reader, &options, &mut Unobserved, stats)?;
        let gave_up = walk.visited.len() >= hops_max;
        let mut pages: Vec<PageId> = walk.pages(&state.meta).collect();
        stats.pages_read += rerank::distinct(&mut pages);
        let is_enough = walk.nearest.found.len() as u64 >= state.meta.rows.min(k as u64);
        if !is_enough || gave_up {
            return Ok(None);
        }
        if filter.needs_tags && !looks_at_tags {
            let (found, most) = (&mut walk.nearest.found, k + rerank::spare(&state));
            let is_whole =
                tags::retain(found, most, &filter.test, &state, &mut self.reader, &mut stats.pages_read)?;
            if !is_whole && found.len() < k {
                return self.walk_filtered(query, k, asked, (filter, true), stats);
            }
        }
        let mut pages = Vec::new();
        let hits =
            rerank::rerank(&state, &mut self.reader, query, k, &walk.nearest.found, to_distance, &mut pages)?;
        stats.pages_read += rerank::distinct(&mut pages);
        Ok(Some(SearchResult { hits, stats: Stats::default(), snapshot: state.snapshot }))
    }

    /// The answer of the postings, as of one commit.
    ///
    /// Nodes are valid for every snapshot, but trees and the map are those of the newest commit.
    /// Only splits and merges move postings to other pages. Those pages have the number of the
    /// commit, so a reader of an older one notices. An id leads to the newest node of its row
    /// alone, so no commit at all may become visible while ids are looked up. If one does, all is
    /// read again. Once that has read as many pages as there are, every row is read, which no
    /// commit disturbs.
    fn select(
        &mut self,
        query: &[f32],
        (k, options): (usize, Option<&SearchOptions>),
        filter: &FilterPlan,
        look: &mut dyn FnMut() -> Result<(), Error>,
        stats: &mut Stats,
    ) -> Result<SearchResult, Error> {
        let ids = filter.ids();
        let (mut pages_read, mut last) = (0, None);
        loop {
            self.state = self.newest.renew(&mut self.reader)?;
            let state = self.state.clone();
            let commit = state.meta.change.commit;
            // The second time no page needs to tell, if no commit became visible.
            let is_checked = last != Some(commit);
            let node_pages = state.node_pages(self.pages);
            let before = stats.pages_read;
            let slack = options.map(|options| options.slack);
            let by_runs = pages_read <= node_pages.len() && filter.is_worth_its_runs(k, slack, node_pages.len());
            let walk = &mut self.running.get_or_insert_default().walk;
            let needs_tags = if by_runs { filter.needs_tags_in_runs } else { filter.needs_tags };
            let mut search = Selection {
                state: &state,
                reader: &mut self.reader,
                walk,
                filter,
                k,
                look: &mut *look,
                stats,
                needs_tags,
                node_pages,
                newest: if is_checked { state.snapshot } else { u64::MAX },
            };
            let found = search.run(query, options, by_runs);
            self.reader.release();
            let is_settled = state.meta.id_kind == IdKind::HostOwned || self.pages.is_newest(state.snapshot);
            match found {
                Ok(found) if is_settled || !by_runs || is_checked && ids == 0 => return Ok(found),
                // Pages of two commits may contradict each other. Pages of one may not.
                Err(Error::Corrupt { .. }) if by_runs && !(is_settled && last == Some(commit)) => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            last = Some(commit);
            pages_read += 1 + ids + (stats.pages_read - before) as usize;
            std::thread::yield_now();
        }
    }
}

/// The filter with the numbers that its ids have in the newest commit.
fn numbered<P: Pages>(filter: &Filter, pages: &P, newest: &Newest) -> Result<Filter, Error> {
    let id_kind = newest.known().meta.id_kind;
    filter.with_numbers(&mut |given| {
        let texts = match given {
            GivenIds::Int(_) if id_kind == IdKind::HostOwned => {
                return Err(Error::argument("the host of this index owns its row ids: filter by them there"));
            }
            GivenIds::Int(ids) => return check_kind(id_kind, IdKind::Int).map(|()| ids.to_vec()),
            GivenIds::Text(texts) => texts,
        };
        check_kind(id_kind, IdKind::Text)?;
        let mut numbers = Vec::with_capacity(texts.len());
        for part in texts.chunks(AHEAD) {
            numbers.extend(settled(pages, newest, |state, reader| {
                let mut found = Vec::with_capacity(part.len());
                for text in part {
                    match find_id(&state.meta, reader, text.key(), state.snapshot)? {
                        Looked::Row((number, _)) => found.push(number),
                        Looked::Unknown => {}
                        Looked::Changed => return Ok(None),
                    }
                }
                Ok(Some(found))
            })?);
        }
        Ok(numbers)
    })
}

/// When a search by postings stops visiting nodes: when a walk with a list of this length would.
#[derive(Clone, Copy)]
struct Stop {
    /// The slack of the caller.
    slack: f32,
    /// Number of visited nodes that pass after which the search may stop.
    visits: usize,
}

/// A search among the rows that postings name, or among all rows.
struct Selection<'a, R: Reader> {
    state: &'a State,
    reader: &'a mut R,
    walk: &'a mut Walk,
    filter: &'a FilterPlan,
    k: usize,
    look: &'a mut dyn FnMut() -> Result<(), Error>,
    stats: &'a mut Stats,
    /// Whether the tags of some rows must be read to know whether they pass.
    needs_tags: bool,
    /// The pages that may hold nodes.
    node_pages: Range<u32>,
    /// See [`Gather::newest`].
    newest: u64,
}

impl<R: Reader> Selection<'_, R> {
    /// The nearest rows, by the postings or by reading every row.
    fn run(
        &mut self,
        query: &[f32],
        options: Option<&SearchOptions>,
        by_postings: bool,
    ) -> Result<SearchResult, Error> {
        let to_distance = self.walk.probe.prepare(&self.state.meta, &self.state.model, query)?;
        self.reset();
        match by_postings {
            false => self.every_row()?,
            true => {
                // The rows of ids are all visited, since nothing says which of them are near.
                let options = options.filter(|_| self.filter.ids() == 0);
                let stop = Stop {
                    slack: options.map_or(f32::INFINITY, |options| options.slack),
                    visits: options.map_or(usize::MAX, |options| list_capacity(self.k, options, self.state)),
                };
                let enough = SHORTLIST_MIN.max(SHORTLIST_PER_ROW * self.k).max(stop.visits);
                let mut keep = if options.is_some() { enough } else { usize::MAX / 4 };
                let (k, meta) = (self.k.max(EVIDENCE_ROWS), &self.state.meta);
                let width = options.map_or(f32::INFINITY, |options| slack::width(options.slack, k, meta));
                let mut extent = GatherExtent { k, width, reach_min: 0.0, reads_max: u64::MAX };
                while let Some(more) = self.of_runs(keep, extent, stop)? {
                    (keep, extent) = more;
                    self.reset();
                }
            }
        }
        let (found, mut pages) = (&self.walk.nearest.found, Vec::new());
        let hits = rerank::rerank(self.state, self.reader, query, self.k, found, to_distance, &mut pages)?;
        self.stats.pages_read += rerank::distinct(&mut pages);
        Ok(SearchResult { hits, stats: Stats::default(), snapshot: self.state.snapshot })
    }

    fn reset(&mut self) {
        self.walk.nearest.reset(self.k.max(EVIDENCE_ROWS));
        self.walk.nearest.keep_spare(rerank::spare(self.state));
    }

    /// Visits the nearest `keep` candidates of the runs. If that was not enough, returns how many
    /// candidates to keep and which leaves to read.
    fn of_runs(
        &mut self,
        keep: usize,
        extent: GatherExtent,
        stop: Stop,
    ) -> Result<Option<(usize, GatherExtent)>, Error> {
        let mut list = std::mem::take(&mut self.walk.shortlist);
        let Walk { probe, walls, .. } = &mut *self.walk;
        let Self { state, reader, filter, stats, newest, .. } = self;
        let mut gather = Gather { state, reader: *reader, probe, walls, filter, stats, newest: *newest };
        let Gathered { reach } = gather.run(keep, extent, &mut list)?;
        let slack = slack::of_visits(stop.slack, self.k, reach.is_some(), &self.state.meta);
        let ended = self.visit_in_order(list.sorted(), Stop { slack, ..stop })?;
        let is_cut = list.is_cut();
        self.walk.shortlist = list;
        let farthest = self.walk.nearest.reach(0.0);
        let everything = GatherExtent { width: f32::INFINITY, ..extent };
        Ok(match reach {
            // Dead rows take places in the list, and so do rows that fail the test of ids.
            _ if !ended && is_cut => Some((keep.saturating_mul(8), everything)),
            Some(_) if farthest.is_infinite() => Some((keep, everything)),
            Some(reach) if farthest > FARTHER * reach => {
                Some((keep, GatherExtent { reach_min: farthest, ..extent }))
            }
            _ => None,
        })
    }

    /// Visits candidates in order of estimate until none can be near enough. Returns whether it
    /// stopped before the last of them.
    fn visit_in_order(&mut self, keys: &[u64], stop: Stop) -> Result<bool, Error> {
        let layout = self.state.meta.layout;
        let mut pages: Vec<PageId> = Vec::new();
        let (mut ended, mut passed) = (false, 0);
        for (at, candidate) in keys.iter().enumerate() {
            let is_enough = passed >= stop.visits && self.walk.nearest.found.len() >= self.k;
            if is_enough || key_distance(*candidate) > self.walk.nearest.reach(stop.slack) {
                ended = true;
                break;
            }
            if at % LOOK_PAGES == LOOK_PAGES - 1 {
                (self.look)()?;
            }
            for next in keys[at + 1..].iter().take(if at == 0 { 8 } else { 1 }) {
                let (page, slot) = layout.place(key_id(*next));
                self.reader.start(page, layout.place_bytes(slot)[1].clone());
            }
            if let Some(next) = keys.get(at + 8) {
                self.reader.start(layout.place(key_id(*next)).0, 0..0);
            }
            let node = key_id(*candidate);
            pages.push(layout.place(node).0);
            passed += usize::from(self.visit(node)?);
        }
        self.stats.hops += pages.len() as u64;
        self.stats.distances += pages.len() as u64;
        self.stats.pages_read += rerank::distinct(&mut pages);
        Ok(ended)
    }

    /// Keeps the rows of a node if they pass and are among the nearest. Returns whether they pass.
    fn visit(&mut self, node: NodeId) -> Result<bool, Error> {
        let Self { state, reader, walk, filter, stats, needs_tags, .. } = self;
        let Walk { probe, nearest, .. } = &mut **walk;
        let test = &filter.test;
        let (passes, undecided) = with_node(&state.meta.layout, *reader, node, |found, header| {
            let passes = test.passes(header.row_id, found.values());
            let undecided = match passes && *needs_tags {
                true => Undecided::new(test, header.row_id, found.values()),
                false => None,
            };
            if passes && undecided.is_none() {
                nearest.keep_rows(state, probe, node, found);
            }
            let is_seen = state.rows(node, header).next().is_some();
            let undecided = undecided.filter(|_| is_seen);
            (passes, undecided.map(|row| (row, *header, probe.distance(found, header))))
        })?;
        reader.release();
        let Some((row, header, distance)) = undecided else { return Ok(passes) };
        let passes = nearest.wants(distance) && row.passes(test, node, state, *reader, &mut stats.pages_read)?;
        if passes {
            nearest.keep_at(state, node, &header, distance);
        }
        Ok(passes)
    }

    /// Reads every row.
    fn every_row(&mut self) -> Result<(), Error> {
        let (layout, pages) = (self.state.meta.layout, self.node_pages.clone());
        for page in pages.clone() {
            read_ahead(self.reader, page, &pages);
            if (page as usize).is_multiple_of(LOOK_PAGES) {
                (self.look)()?;
            }
            let mut undecided = Vec::new();
            {
                let body = self.reader.finish(PageId(page))?;
                self.stats.pages_read += 1;
                for slot in 0..layout.nodes_per_page * usize::from(self.state.meta.has_nodes(&body)) {
                    let (found, node) = (NodeRef::new(&layout, &body, slot), layout.node_id(PageId(page), slot));
                    if self.filter.test.passes(found.header().row_id, found.values()) {
                        self.stats.distances += 1;
                        match self.needs_tags {
                            true => undecided.push(node),
                            false => {
                                let Walk { probe, nearest, .. } = &mut *self.walk;
                                nearest.keep_rows(self.state, probe, node, &found);
                            }
                        }
                    }
                }
            }
            self.reader.release();
            for node in undecided {
                self.visit(node)?;
            }
        }
        Ok(())
    }
}
