//! A cursor: returns the rows of an index in order of distance, for as long as the caller wants,
//! without starting over. A scan with filters or without a known limit needs this.
//!
//! ```text
//! first phase   search for the ten nearest rows, as a Searcher does, and return them
//!               record rejected candidates; they are not read again unless more rows are wanted
//!               then search for a few more rows, and for twice as many, with the rejected
//!               candidates that may now matter
//! second phase  after some dozens of rows: the frontier is unbounded, and has all recorded
//!               candidates that were not visited
//!               return rows in batches once no nearer row can be expected; until then expand the
//!               nearest candidate
//! ```
//!
//! At its limit of memory it reads every page, in order. At its limit of reads it ends. With a
//! filter, both phases find only rows that pass. If it is cheaper to read the postings of all rows
//! that may pass, the postings replace both. That is estimated for the rows that are searched for,
//! again as they become more. A walk that has cost twice what the postings would gives up for them.
//!
//! A row is returned once no unexpanded estimate is nearer than `1 + slack` times its distance, the
//! rule that also ends a search. So rows come in order, except that a row with a bad estimate may
//! come after a farther one. This happens more often if fewer rows are searched for at a time.
//!
//! | file | subject |
//! |---|---|
//! | `sequential.rs` | the phase at the limit of memory: the rows of one pass over all pages |
//! | `second_phase.rs` | the frontier after the walk, and rows that wait |
//! | `parts.rs` | the state that the phases share |
//! | `second_hop.rs` | a hop of the second phase |
//! | `postings.rs` | the second phase, with candidates from postings |
//! | `passes.rs` | the passes over all pages |

mod parts;
mod passes;
mod postings;
mod second_hop;
mod second_phase;
mod sequential;

use std::cmp::Reverse;

use crate::filter::Filter;
use crate::graph::key_id;
use crate::index::find::text_of;
use crate::index::open::Index;
use crate::index::search::bound::Bound;
use crate::index::search::cursor::parts::{CursorParts, Phase};
use crate::index::search::cursor::postings::Gathering;
use crate::index::search::cursor::second_phase::{SecondPhase, next_k};
use crate::index::search::cursor::sequential::Sequential;
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::filtered::planned;
use crate::index::search::found::Found;
use crate::index::search::met::{Met, Row};
use crate::index::search::nearest::NearRow;
use crate::index::search::plan::{list_capacity, plan};
use crate::index::search::rerank;
use crate::index::search::walk::{EVIDENCE_ROWS, Walk};
use crate::index::state::Newest;
use crate::memory::MakeRoom;
use crate::options::SEARCH_LIST_MAX;
use crate::page::{PageId, Pages, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Effort, Error, IdKind, SearchOptions, SearchPlan, Stats, row_ids};

/// Largest k of the first phase. Every increase of k costs a pass over all rejected candidates.
const WIDENED_ROWS: usize = 40;

/// The first phase continues at least up to this multiple of the expected rows.
const WIDENED_TIMES: usize = 4;

/// A search in progress. Every row comes at most once; after `None`, every reachable row has come.
/// A cursor sees the rows that were there when it was opened, and vacuum keeps them as long as it
/// is open.
///
/// The first ten rows cost as much as a search by [`Searcher`](crate::Searcher). Up to
/// `search_list` rows the list of candidates is bounded; beyond that it is not.
pub struct Cursor<'i, P: Pages + 'i> {
    newest: &'i Newest,
    to_distance: ToDistance,
    bound: Bound,
    phase: Phase,
    parts: CursorParts<'i, P>,
    missed_before: u64,
}

impl<P: Pages> Index<P> {
    /// A search that returns rows one by one, for as long as the caller wants.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`].
    pub fn cursor(&self, query: &[f32], options: &SearchOptions) -> Result<Cursor<'_, P>, Error> {
        Cursor::new(self.pages(), self.newest(), query, options)
    }
}

impl<'i, P: Pages> Cursor<'i, P> {
    fn new(pages: &'i P, newest: &'i Newest, query: &[f32], options: &SearchOptions) -> Result<Self, Error> {
        options.validate(1)?;
        let mut reader = pages.reader();
        let mut walk = Walk::default();
        let state = newest.renew(&mut reader)?;
        let to_distance = walk.probe.prepare(&state.meta, &state.model, query)?;
        let bound = Bound::new(&state, query, &walk.probe, to_distance);
        let missed_before = reader.pages_missed();
        Ok(Self {
            newest,
            to_distance,
            bound,
            phase: Phase::Begin,
            parts: CursorParts::new(pages, state, reader, walk, options),
            missed_before,
        })
    }

    /// Starts a new search with the buffers of this cursor. It sees the rows of the newest commit.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`](crate::Index::search_with). After an error the cursor must
    /// not be used until a rescan succeeds.
    pub fn rescan(&mut self, query: &[f32], options: &SearchOptions) -> Result<(), Error> {
        self.renew()?;
        self.restart(query, options)
    }

    /// The first half of [`Cursor::rescan`]: takes the newest state, whose rows the cursor then
    /// sees. [`Cursor::restart`] must follow.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::rescan`].
    pub fn renew(&mut self) -> Result<(), Error> {
        self.parts.state = self.newest.renew(&mut self.parts.reader)?;
        Ok(())
    }

    /// How to search for the `k` nearest of the rows that this cursor sees; see
    /// [`Index::options`].
    ///
    /// # Errors
    ///
    /// Those of [`Index::options`].
    pub fn plan(&self, k: usize, effort: &Effort) -> Result<SearchPlan, Error> {
        plan(&self.parts.state.meta, k, effort)
    }

    /// Prepares a filter for this cursor as [`Index::plan_filter`] does, in the state that it has.
    /// [`Cursor::restart`] must follow, and then [`Cursor::only`].
    ///
    /// # Errors
    ///
    /// Those of [`Index::plan_filter`].
    pub fn plan_filter(&mut self, filter: &Filter) -> Result<FilterPlan, Error> {
        let CursorParts { pages, reader, state, .. } = &mut self.parts;
        planned(filter, (*pages, self.newest), reader, state)
    }

    /// The second half of [`Cursor::rescan`], after [`Cursor::renew`].
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::rescan`].
    pub fn restart(&mut self, query: &[f32], options: &SearchOptions) -> Result<(), Error> {
        self.parts.filter = None;
        self.parts.set_options(options)?;
        self.to_distance = self.parts.walk.probe.prepare(&self.parts.state.meta, &self.parts.state.model, query)?;
        self.bound = Bound::new(&self.parts.state, query, &self.parts.walk.probe, self.to_distance);
        self.parts.expected = EVIDENCE_ROWS;
        if !self.is_small() {
            (self.parts.met, self.parts.second) = (Met::default(), SecondPhase::default());
        }
        self.parts.walk.clear();
        self.parts.met.clear();
        self.parts.second.clear();
        (self.phase, self.parts.sequential) = (Phase::Begin, Sequential::default());
        (self.parts.is_cut, self.parts.is_full) = (false, false);
        self.parts.stats = Stats::default();
        self.missed_before = self.parts.reader.pages_missed();
        Ok(())
    }

    /// Sets, before the first row, the number of rows that will probably be taken; 10 by default.
    /// The cursor searches for that many at once, and the options should be those for that k.
    pub fn expect(&mut self, rows: usize) {
        self.parts.expected = rows.clamp(1, SEARCH_LIST_MAX);
    }

    /// Raises, between rows, the number of rows that will probably be taken in all to `rows`; the
    /// options are those for that number. The cursor searches for all of them before the next row.
    /// The call does nothing if the cursor searches for that many already, or no longer can.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::next_hit`].
    pub fn expect_more(&mut self, rows: usize, options: &SearchOptions) -> Result<(), Error> {
        let rows = rows.min(SEARCH_LIST_MAX);
        if !self.is_walk() || rows <= self.parts.walk.nearest.k() {
            return Ok(());
        }
        self.parts.expected = rows;
        self.parts.set_options(options)?;
        let CursorParts { state, walk, filter, asked, options, .. } = &mut self.parts;
        walk.expect(rows, options, state);
        if let (Some(only), Some(filter)) = (&mut walk.only, filter) {
            only.hops_max = filter.hops_max(rows, asked.slack);
        }
        self.widen(rows)?;
        self.parts.reader.pause();
        Ok(())
    }

    /// To be called between rows, if more rows may be taken than can be searched for at once. From
    /// now on only the slack of the options counts.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::next_hit`].
    pub fn expect_any(&mut self, options: &SearchOptions) -> Result<(), Error> {
        if self.is_walk() {
            self.parts.set_options(options)?;
            let k = self.parts.walk.nearest.k();
            self.begin_second(k)?;
        }
        Ok(())
    }

    fn is_walk(&self) -> bool {
        matches!(self.phase, Phase::First(_)) && self.parts.walk.nearest.is_full()
    }

    /// Sets the approximate memory that the buffers may take, for this search and later ones. If
    /// they grow beyond it, all rows that were not returned come from scans of the index, in order
    /// of distance. Each scan finds as many rows as there is room for.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.parts.memory_max = bytes;
    }

    /// Sets the memory, about, with which this search and those that follow end as if no row were
    /// left. It is looked at before each node, but not within the search for the first rows.
    pub fn end_at_memory(&mut self, bytes: usize) {
        self.parts.memory_end = bytes;
    }

    /// Whether the search has ended at its limit of memory, so that rows may be left.
    pub fn is_full(&self) -> bool {
        self.parts.is_full
    }

    /// Sets the number of reads of pages, as [`Cursor::page_reads`] counts them, after which this
    /// search and those that follow end as if no row were left. The limit is tested before each
    /// node, leaf of postings and page, but not within the search for the first rows.
    pub fn limit_reads(&mut self, reads: u64) {
        self.parts.reads_max = reads;
    }

    /// Whether the search has ended at its limit of reads, so that rows may be left.
    pub fn is_cut(&self) -> bool {
        self.parts.is_cut
    }

    /// Makes this a search for rows that pass a filter, before the first row; the plan is one of
    /// this index. A rescan ends it.
    pub fn only(&mut self, filter: FilterPlan) {
        self.parts.options = filter.walk_options(&self.parts.asked);
        self.parts.filter = Some(filter);
    }

    /// The next row, or `None` once every reachable row has come.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`](crate::Index::search_with). After an error the cursor must
    /// not be used until [`Cursor::rescan`] succeeds.
    pub fn next_hit(&mut self) -> Result<Option<Found>, Error> {
        let found = self.advance()?;
        self.parts.reader.pause();
        Ok(found)
    }

    fn advance(&mut self) -> Result<Option<Found>, Error> {
        loop {
            let is_bounded = matches!(self.phase, Phase::Begin | Phase::First(_));
            if !is_bounded && (self.parts.ends_by_reads() || self.parts.ends_by_memory()) {
                return Ok(None);
            }
            match self.phase {
                Phase::Begin => self.phase = self.search()?,
                Phase::First(returned) if returned < self.parts.walk.nearest.found.len() => {
                    self.phase = Phase::First(returned + 1);
                    let row = *self.parts.met.take_nearest().expect("more rows were visited than returned");
                    return Ok(Some(self.found(&row)));
                }
                Phase::First(returned) => self.go_on(returned)?,
                Phase::Second | Phase::Postings if self.memory_bytes() > self.parts.memory_max => {
                    self.phase = self.begin_sequential()?;
                }
                Phase::Sequential => {
                    let row = passes::next(&mut self.parts)?;
                    return Ok(row.map(|row| self.found(&row)));
                }
                Phase::Second => {
                    if let Some(row) = self.parts.take_nearest()? {
                        return Ok(Some(self.found(&row)));
                    }
                    if self.parts.second_is_over() {
                        self.phase = self.begin_postings()?;
                        continue;
                    }
                    match self.parts.second.frontier.pop() {
                        Some(Reverse(open)) => second_hop::expand(&mut self.parts, key_id(open))?,
                        None => return Ok(None),
                    }
                }
                Phase::Postings => {
                    if postings::cover_more(&mut self.parts)? == Gathering::NoRoom {
                        self.phase = self.begin_sequential()?;
                        continue;
                    }
                    if let Some(row) = self.parts.take_nearest()? {
                        return Ok(Some(self.found(&row)));
                    }
                    match postings::visit(&mut self.parts)? {
                        Gathering::More => {}
                        Gathering::NoRoom => self.phase = self.begin_sequential()?,
                        Gathering::Over => return Ok(None),
                    }
                }
            }
        }
    }

    /// Rows that were visited and not returned, nearest first; in the second phase only the
    /// nearest. A row that was not visited yet may still come before them.
    pub fn upcoming(&self) -> impl Iterator<Item = Found> {
        let rows = match self.phase {
            Phase::Begin => &[],
            Phase::First(_) => &self.parts.met.rows[self.parts.met.first..],
            Phase::Sequential => self.parts.sequential.nearest().map_or(&[][..], std::slice::from_ref),
            Phase::Second | Phase::Postings => match self.parts.second.nearest() {
                Some(row) => std::slice::from_ref(&self.parts.met.rows[row]),
                None => &[],
            },
        };
        rows.iter().filter(|row| !row.is_returned).map(|row| self.found(row))
    }

    /// Whether the buffers are as small as those of a search: the second phase has not started, and
    /// few postings were kept.
    pub fn is_small(&self) -> bool {
        match self.phase {
            Phase::Postings => self.parts.is_small(),
            Phase::Second | Phase::Sequential => false,
            Phase::Begin | Phase::First(_) => true,
        }
    }

    /// The row ids that come next, as far as they are known, nearest first.
    pub fn ahead(&self) -> impl Iterator<Item = u64> + Clone {
        let returned = if let Phase::First(returned) = self.phase { returned } else { usize::MAX };
        // Rows beyond the expected number will probably not be taken.
        let likely = if returned < self.parts.expected { self.parts.expected - returned } else { usize::MAX };
        self.parts.walk.nearest.found.iter().skip(returned).take(likely).map(|near| near.row_id)
    }

    /// The first phase has returned all that it found: search for more, or start the second phase.
    fn go_on(&mut self, returned: usize) -> Result<(), Error> {
        let parts = &mut self.parts;
        let CursorParts { walk, options, .. } = parts;
        let (k, is_short) = (walk.nearest.k(), !walk.nearest.is_full() || returned < EVIDENCE_ROWS);
        let first = parts.expected.max(EVIDENCE_ROWS);
        let most = WIDENED_ROWS.max(WIDENED_TIMES * first);
        let most = if options.slack.is_finite() { most } else { most.min(options.search_list) };
        let next = next_k(k, first);
        if !is_short && k < most { self.widen(next) } else { self.begin_second(next) }
    }

    /// Walks on for the rows of `k` nodes, or reads postings if that is too expensive.
    fn widen(&mut self, k: usize) -> Result<(), Error> {
        let CursorParts { state, reader, walk, met, options, stats, .. } = &mut self.parts;
        walk.widen(k, state, reader, options, met, stats)?;
        met.arrange()?;
        if walk.is_over() && self.parts.has_postings() {
            self.phase = self.begin_postings()?;
        }
        Ok(())
    }

    /// Gives up the bounds of the first phase, for about `k` rows. What was cheaper for the first
    /// rows need not be for these.
    fn begin_second(&mut self, k: usize) -> Result<(), Error> {
        let CursorParts { filter, asked, .. } = &self.parts;
        self.phase = if filter.as_ref().is_some_and(|filter| filter.reads_postings(k, asked.slack)) {
            self.begin_postings()?
        } else {
            let CursorParts { state, walk, met, second, .. } = &mut self.parts;
            second.begin(state, walk, met)?;
            Phase::Second
        };
        Ok(())
    }

    fn begin_postings(&mut self) -> Result<Phase, Error> {
        let gathered = postings::begin(&mut self.parts)?;
        if gathered == Gathering::NoRoom { self.begin_sequential() } else { Ok(Phase::Postings) }
    }

    fn begin_sequential(&mut self) -> Result<Phase, Error> {
        passes::begin(&mut self.parts)?;
        Ok(Phase::Sequential)
    }

    /// The number of nodes whose rows were returned; in the second phase, the number of rows.
    pub fn taken(&self) -> usize {
        match self.phase {
            Phase::Begin => 0,
            Phase::First(_) => {
                self.parts.met.rows.iter().filter(|row| row.is_returned && row.near.is_first).count()
            }
            Phase::Second | Phase::Postings | Phase::Sequential => self.parts.second.out,
        }
    }

    /// The cursor's view of the pages, for counters that the host keeps there.
    pub fn reader(&self) -> &P::Reader<'i> {
        &self.parts.reader
    }

    /// The number of reads of pages so far: of nodes visited and of leaves of postings. A page that
    /// is read twice counts twice.
    pub fn page_reads(&self) -> u64 {
        self.parts.page_reads()
    }

    /// Approximate bytes of the rows and candidates of this search. Buffers may be larger.
    pub fn memory_bytes(&self) -> usize {
        self.parts.memory_bytes()
    }

    /// The cost of the search so far. Call it once, at the end: it sorts the visited pages to count
    /// them. Without memory for that, a page that was visited twice counts twice.
    pub fn stats(&self) -> Stats {
        let (visited, mut pages) = (self.parts.walk.visited.len(), Vec::<PageId>::new());
        let has_room = pages.make_room(visited).is_ok();
        pages.extend(self.parts.walk.pages(&self.parts.state.meta).filter(|_| has_room));
        let pages_visited = if has_room { rerank::distinct(&mut pages) } else { visited as u64 };
        Stats {
            pages_read: self.parts.stats.pages_read + pages_visited,
            pages_missed: self.parts.reader.pages_missed() - self.missed_before,
            ..self.parts.stats
        }
    }

    /// The first phase, which is the search of [`Searcher`](crate::Searcher).
    fn search(&mut self) -> Result<Phase, Error> {
        let parts = &mut self.parts;
        let CursorParts { state, walk, met, asked, options, filter, .. } = parts;
        met.clear();
        if filter.as_ref().is_some_and(|filter| filter.reads_postings(parts.expected, asked.slack)) {
            return self.begin_postings();
        }
        let capacity = list_capacity(parts.expected, options, state).min(SEARCH_LIST_MAX);
        walk.make_room(capacity)?;
        walk.begin(state, capacity, parts.expected, state.meta.change.dead_rows == 0 && filter.is_none());
        if let Some(filter) = filter {
            walk.find_only(filter, filter.hops_max(parts.expected, asked.slack), true, state);
        }
        walk.run(state, &mut parts.reader, options, met, &mut parts.stats)?;
        met.arrange()?;
        // If there are too few rows, nodes without a visible row took places in the list. The
        // second phase has no such limit.
        let enough = walk.nearest.found.len() as u64 >= state.meta.rows.min(parts.expected as u64);
        let is_over = walk.is_over();
        if (!enough || is_over) && parts.has_postings() {
            return self.begin_postings();
        }
        Ok(Phase::First(if enough { 0 } else { usize::MAX }))
    }

    /// The text id of a row that this cursor found, of an index whose ids are texts. Reads about
    /// one page.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if ids are not texts; [`Error::Corrupt`]; any error of the host.
    pub fn text_id(&mut self, found: &Found) -> Result<String, Error> {
        row_ids::check_kind(self.parts.state.meta.id_kind, IdKind::Text)?;
        // The reader of this cursor keeps the row from vacuum.
        let of_row = (found.row_id, found.node);
        let text = text_of(&self.parts.state.meta, &mut self.parts.reader, of_row, self.parts.state.snapshot)?;
        text.ok_or_else(|| Error::argument(format!("row {} was not found by this cursor", found.row_id)))
    }

    fn found(&self, row: &Row) -> Found {
        let Row { near: NearRow { distance, row_id, node, .. }, step, norm_sq, .. } = *row;
        let error = self.bound.error(distance, step, norm_sq);
        Found { row_id, distance: self.to_distance.apply(distance), error, node }
    }
}
