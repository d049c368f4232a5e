//! A search that can be asked for more: the rows of an index in order of distance, for as long as the caller
//! likes, without starting over. This is what a scan with filters or an unknown limit needs.
//!
//! ```text
//! first phase   a Searcher's search for the ten nearest: they are handed out as it found them
//!               what it turns away is written down, and not looked at again unless more rows are wanted
//!               then the search goes on for a few more and for twice as many, with what may now matter of what was turned away
//! second phase  after some dozens of rows the frontier is unbounded: all that was written down, less what was visited
//!               rows are handed out once the evidence is in for as many as there were; until then the nearest candidate is
//!               expanded
//! ```
//!
//! The evidence is what ends a search: no unexpanded estimate is nearer than `1 + slack` times the distance of the row. So
//! rows come in order, except that one which its estimate had hidden may come after a farther one. The fewer rows are searched for at a
//! time, the more often that happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::SEARCH_LIST_MAX;
use super::bound::Bound;
use super::node_set::NodeSet;
use super::search::{EVIDENCE_ROWS, Near, Rest, Walk, among_the_dead};
use super::state::{Newest, State};
use super::visit::Visited;
use crate::graph::{key, key_distance, key_id};
use crate::page::layout::NodeId;
use crate::page::{PageId, Pages, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, Metric, SearchOptions, Stats};

/// Rows that the first phase searches for: each time that it goes on costs a look at all that was turned away.
const WIDENED_ROWS: usize = 40;

/// The first phase ends at so many times the rows that were expected, at the least.
const WIDENED_TIMES: usize = 4;
/// Rows beyond the tenth that are searched for one by one, or beyond the hundredth by tens: whoever wants ten in order often asks for
/// a few more, and then ends.
const FEW: usize = 3;
/// Most rows that are searched for at a time: limits are looked at between rows.
const AT_ONCE: usize = 256;

/// How many rows are searched for when `k` were found, at first `first` of them, and more are wanted. A row that turns up after farther
/// ones were handed out is too late for whoever wants them in order; of rows that are searched for one by one many are.
fn wider(k: usize, first: usize) -> usize {
    let few = first / EVIDENCE_ROWS;
    match k {
        _ if k < first => first,
        _ if k < first + FEW * few => k + few,
        _ => k + k.min(AT_ONCE),
    }
}

/// One row that a cursor found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The user's id of the row.
    pub row_id: u64,
    /// Distance under the index's metric, as in [`Hit`](crate::Hit).
    pub distance: f32,
    /// How far `distance` may be from that of the vector which the user gave; under L2 how far their square roots
    /// may be apart. More has a probability of 5e-18: `docs/search.md`.
    pub error: f32,
}

impl Found {
    /// The least and the most that the true distance may be; under L2 the distance itself, not its square.
    ///
    /// "True" is that of the vectors as they were given, computed exactly or, in whichever order, with 32-bit floats.
    pub fn range(&self, metric: Metric) -> (f32, f32) {
        match metric {
            Metric::L2 => {
                let distance = self.distance.sqrt();
                ((distance - self.error).max(0.0), distance + self.error)
            }
            Metric::InnerProduct | Metric::Cosine => (self.distance - self.error, self.distance + self.error),
        }
    }
}

/// A search in progress. Every row comes at most once; when `None` comes, every reachable row has come. It sees
/// the rows that were there when it began, however long it lives, and keeps `vacuum` from taking them.
///
/// The first ten rows cost what [`Searcher`](super::Searcher) takes to find them, and so do those after them up to
/// `search_list`, from which on nothing bounds the candidates that are kept.
pub struct Cursor<'i, P: Pages + 'i> {
    newest: &'i Newest,
    state: Arc<State>,
    reader: P::Reader<'i>,
    options: SearchOptions,
    to_distance: ToDistance,
    bound: Bound,
    phase: Phase,
    /// Rows that will probably be taken.
    expected: usize,
    walk: Walk,
    met: Met,
    onward: Onward,
    stats: Stats,
    missed_before: u64,
}

/// How far a cursor has come.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing is visited.
    Begin,
    /// The walk has ended; so many of its nearest are handed out.
    First(usize),
    Second,
}

impl<'i, P: Pages> Cursor<'i, P> {
    pub(crate) fn new(
        pages: &'i P,
        newest: &'i Newest,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Self, Error> {
        options.validate(1)?;
        let mut reader = pages.reader();
        let mut walk = Walk::default();
        let state = newest.renew(&mut reader)?;
        let to_distance = walk.probe.prepare(&state.meta, &state.model, query)?;
        let bound = Bound::new(&state, query, &walk.probe, to_distance);
        let missed_before = reader.pages_missed();
        Ok(Self {
            newest,
            state,
            reader,
            options: options.clone(),
            to_distance,
            bound,
            phase: Phase::Begin,
            expected: EVIDENCE_ROWS,
            walk,
            met: Met::default(),
            onward: Onward::default(),
            stats: Stats::default(),
            missed_before,
        })
    }

    /// Starts over, as a new cursor would, in the buffers of this one. It
    /// sees the rows that are there now.
    ///
    /// # Errors
    ///
    /// As [`Index::search`](crate::Index::search); the cursor must not be used again until another rescan succeeds.
    pub fn rescan(&mut self, query: &[f32], options: &SearchOptions) -> Result<(), Error> {
        options.validate(1)?;
        self.options = options.clone();
        self.state = self.newest.renew(&mut self.reader)?;
        self.to_distance = self.walk.probe.prepare(&self.state.meta, &self.state.model, query)?;
        self.bound = Bound::new(&self.state, query, &self.walk.probe, self.to_distance);
        self.phase = Phase::Begin;
        self.expected = EVIDENCE_ROWS;
        self.walk.visited.clear();
        self.stats = Stats::default();
        self.missed_before = self.reader.pages_missed();
        Ok(())
    }

    /// Says, before the first row, how many will probably be taken: so many are searched for together, and the options should be those
    /// for so many. Without a word it is ten.
    pub fn expect(&mut self, rows: usize) {
        self.expected = rows.clamp(1, SEARCH_LIST_MAX);
    }

    /// The next row, or `None` once every reachable row has come.
    ///
    /// # Errors
    ///
    /// As [`Index::search`](crate::Index::search); after one only [`Cursor::rescan`] makes the cursor usable again.
    pub fn next_hit(&mut self) -> Result<Option<Found>, Error> {
        let found = self.advance()?;
        self.reader.pause();
        Ok(found)
    }

    fn advance(&mut self) -> Result<Option<Found>, Error> {
        loop {
            match self.phase {
                Phase::Begin => self.phase = self.search()?,
                Phase::First(handed) if handed < self.walk.nearest.found.len() => {
                    self.phase = Phase::First(handed + 1);
                    let row = *self.met.hand_out().expect("more rows were met than are out");
                    return Ok(Some(self.found(&row)));
                }
                Phase::First(handed) => self.go_on(handed)?,
                Phase::Second => {
                    if let Some(row) = self.onward.hand_out(&self.options) {
                        return Ok(Some(self.found(&self.met.rows[row])));
                    }
                    match self.onward.frontier.pop() {
                        Some(Reverse(open)) => self.expand(key_id(open))?,
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// Rows that were met and not handed out, the nearest first; in the second phase the nearest alone. One that was not
    /// met yet may still come before them.
    pub fn upcoming(&self) -> impl Iterator<Item = Found> {
        let rows = match self.phase {
            Phase::Begin => &[],
            Phase::First(_) => &self.met.rows[self.met.first..],
            Phase::Second => match self.onward.nearest() {
                Some(row) => std::slice::from_ref(&self.met.rows[row]),
                None => &[],
            },
        };
        rows.iter().filter(|row| !row.is_out).map(|row| self.found(row))
    }

    /// Whether its buffers are those of a search, not of a scan that went on and on.
    pub fn is_small(&self) -> bool {
        !matches!(self.phase, Phase::Second)
    }

    /// Row ids that come next, as far as they are known, the nearest first.
    pub fn ahead(&self) -> impl Iterator<Item = u64> + Clone {
        let handed = if let Phase::First(handed) = self.phase { handed } else { usize::MAX };
        // Beyond those that are expected it is unlikely that any are taken.
        let likely = if handed < self.expected { self.expected - handed } else { usize::MAX };
        self.walk.nearest.found.iter().skip(handed).take(likely).map(|near| near.row_id)
    }

    /// The first phase has handed out all it has found: it searches for one more, or the second begins.
    fn go_on(&mut self, handed: usize) -> Result<(), Error> {
        let Self { state, reader, walk, met, options, stats, .. } = self;
        let (k, is_short) = (walk.nearest.k(), !walk.nearest.is_full() || handed < EVIDENCE_ROWS);
        let first = self.expected.max(EVIDENCE_ROWS);
        let most = WIDENED_ROWS.max(WIDENED_TIMES * first);
        let most = if options.slack.is_finite() { most } else { most.min(options.search_list) };
        if is_short || k >= most {
            self.onward.begin(walk, met);
            self.phase = Phase::Second;
            return Ok(());
        }
        walk.widen(wider(k, first), state, reader, options, met, stats)?;
        met.arrange();
        Ok(())
    }

    /// Nodes whose rows were handed out; in a scan that went far, the rows.
    pub fn taken(&self) -> usize {
        match self.phase {
            Phase::Begin => 0,
            Phase::First(_) => self.met.rows.iter().filter(|row| row.is_out && row.near.is_first).count(),
            Phase::Second => self.onward.out,
        }
    }

    /// Nodes visited so far, each on a page that was read.
    pub fn hops(&self) -> u64 {
        self.stats.hops
    }

    /// Bytes that grow with the search.
    pub fn memory_bytes(&self) -> usize {
        self.walk.visited.capacity() * size_of::<NodeId>() + self.met.memory_bytes() + self.onward.memory_bytes()
    }

    /// What the search has cost so far. It lists the pages to count them: ask once, at the end.
    pub fn stats(&self) -> Stats {
        let mut pages: Vec<PageId> = self.walk.pages(&self.state.meta).collect();
        pages.sort_unstable();
        pages.dedup();
        Stats {
            pages_read: pages.len() as u64,
            pages_missed: self.reader.pages_missed() - self.missed_before,
            distances: self.stats.hops,
            ..self.stats
        }
    }

    /// The first phase, as [`Searcher`](super::Searcher) does it.
    fn search(&mut self) -> Result<Phase, Error> {
        let Self { state, walk, met, options, .. } = self;
        met.turned_away.clear();
        met.rows.clear();
        met.first = 0;
        let capacity = among_the_dead(self.expected, options, state);
        walk.begin(state, capacity, self.expected, state.meta.change.dead_rows == 0);
        walk.run(state, &mut self.reader, options, met, &mut self.stats)?;
        met.arrange();
        // Too few are no answer: nodes without a row to see took the places of others. The second phase has room.
        let enough = walk.nearest.found.len() as u64 >= state.meta.rows.min(self.expected as u64);
        Ok(Phase::First(if enough { 0 } else { usize::MAX }))
    }

    /// One hop of the second phase.
    fn expand(&mut self, node: NodeId) -> Result<(), Error> {
        let Self { onward: Onward { frontier, seen, waiting, .. }, state, met, reader, .. } = self;
        let (meta, model) = (&state.meta, &*state.model);
        // The nearest of the others is likely the next: its bytes travel while this node is scored.
        if let Some(Reverse(likely)) = frontier.peek() {
            let (page, slot) = meta.layout.place(key_id(*likely));
            reader.start(page, meta.layout.slot_bytes(slot));
        }
        let offer = |_, estimate: f32, neighbor: NodeId| {
            if seen.insert(neighbor) {
                frontier.push(Reverse(key(estimate, neighbor)));
            }
        };
        let visited = self.walk.probe.visit(meta, model, reader, node, offer, |_, _| ())?;
        for (at, row_id) in state.rows(node, &visited.header).enumerate() {
            waiting.push(Reverse(key(visited.distance, met.rows.len() as u32)));
            met.meet(node, Near { distance: visited.distance, row_id, is_first: at == 0 }, &visited);
        }
        self.walk.visited.push(node);
        self.stats.hops += 1;
        self.stats.estimates += visited.degree() as u64;
        // A heap gives its best few only by giving them up; the first levels hold most of them.
        for Reverse(open) in frontier.iter().take(self.options.beam_width) {
            reader.start(meta.layout.place(key_id(*open)).0, 0..0);
        }
        reader.release();
        Ok(())
    }

    fn found(&self, row: &Row) -> Found {
        let Row { near: Near { distance, row_id, .. }, step, norm_sq, .. } = *row;
        let error = self.bound.error(distance, step, norm_sq);
        Found { row_id, distance: self.to_distance.apply(distance), error }
    }
}

/// A row that was visited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) near: Near,
    node: NodeId,
    step: f32,
    norm_sq: f32,
    /// Whether the first phase handed it out.
    is_out: bool,
}

/// What was met and not handed out.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Keys of estimate and node: candidates that the walk did not keep, some of them visited, some there twice.
    pub(super) turned_away: Vec<u64>,
    /// Rows; a walk may visit a node twice. Arranged at the end of a walk, in the order of visits beyond.
    pub(super) rows: Vec<Row>,
    /// Where the rows begin of which any may be inside yet, as they were arranged.
    first: usize,
}

impl Met {
    /// The nearest row that was not handed out, which then is; of rows equally near the first id's.
    fn hand_out(&mut self) -> Option<&Row> {
        let at = self.first + self.rows[self.first..].iter().position(|row| !row.is_out)?;
        self.first = at + 1;
        self.rows[at].is_out = true;
        Some(&self.rows[at])
    }

    /// Sorts what was met, the nearest first, and keeps one of rows that are there twice.
    fn arrange(&mut self) {
        self.rows.sort_unstable_by_key(|row| (row.node, row.near.row_id));
        self.rows.dedup_by(|row, first| {
            let is_same = (row.node, row.near.row_id) == (first.node, first.near.row_id);
            first.is_out |= is_same && row.is_out;
            is_same
        });
        self.rows.sort_unstable_by(|Row { near: a, .. }, Row { near: b, .. }| {
            a.distance.total_cmp(&b.distance).then(a.row_id.cmp(&b.row_id))
        });
        self.first = 0;
    }

    fn memory_bytes(&self) -> usize {
        self.turned_away.capacity() * size_of::<u64>() + self.rows.capacity() * size_of::<Row>()
    }
}

impl Rest for Met {
    #[inline]
    fn turn_away(&mut self, estimate: f32, node: NodeId) {
        self.turned_away.push(key(estimate, node));
    }

    #[inline]
    fn meet(&mut self, node: NodeId, near: Near, visited: &Visited) {
        let (step, norm_sq) = (visited.header.step, visited.header.norm_sq);
        self.rows.push(Row { near, node, step, norm_sq, is_out: false });
    }
}

/// The second phase.
#[derive(Debug, Default)]
struct Onward {
    /// Keys of estimate and node: unexpanded candidates, the nearest on top.
    frontier: BinaryHeap<Reverse<u64>>,
    /// Every node that was visited or is in the frontier.
    seen: NodeSet,
    /// Keys of distance and position in [`Met::rows`]: rows visited that are not certain.
    waiting: BinaryHeap<Reverse<u64>>,
    /// The same of rows that are, and are handed out when there are enough of them.
    certain: BinaryHeap<Reverse<u64>>,
    /// How many of these are to be handed out before others are looked for.
    ready: usize,
    /// Rows that were handed out, in both phases.
    out: usize,
}

impl Onward {
    /// Takes over from the walk.
    fn begin(&mut self, walk: &Walk, met: &mut Met) {
        self.waiting.clear();
        self.certain.clear();
        self.ready = 0;
        self.out = met.rows.iter().filter(|row| row.is_out).count();
        for (at, row) in met.rows.iter().enumerate().filter(|(_, row)| !row.is_out) {
            self.waiting.push(Reverse(key(row.near.distance, at as u32)));
        }
        self.seen.clear();
        self.seen.reserve(walk.visited.len() + met.turned_away.len());
        self.seen.extend(&walk.visited);
        let mut frontier = std::mem::take(&mut self.frontier).into_vec();
        frontier.clear();
        let open = walk.list.open().chain(walk.entries.iter().copied()).map(|(estimate, node)| key(estimate, node));
        let open = met.turned_away.drain(..).chain(open).filter(|open| self.seen.insert(key_id(*open)));
        frontier.extend(open.map(Reverse));
        self.frontier = frontier.into();
    }

    fn memory_bytes(&self) -> usize {
        let keys = self.frontier.capacity() + self.waiting.capacity() + self.certain.capacity();
        // A table has a byte of its own for each place.
        keys * size_of::<u64>() + self.seen.capacity() * (size_of::<NodeId>() + 1)
    }

    /// The position of a row that may be handed out, and then is: of some dozens that are certain the nearest. `None` if a candidate
    /// must be expanded before, or if there is nothing left.
    fn hand_out(&mut self, options: &SearchOptions) -> Option<usize> {
        if self.ready == 0 {
            while self.nearest_is_certain(options) {
                let Some(row) = self.waiting.pop() else { break };
                self.certain.push(row);
            }
            let is_last = self.frontier.is_empty();
            if is_last || self.certain.len() >= wider(self.out, EVIDENCE_ROWS) - self.out {
                self.ready = self.certain.len();
            }
        }
        self.ready = self.ready.checked_sub(1)?;
        self.out += 1;
        self.certain.pop().map(|Reverse(row)| key_id(row) as usize)
    }

    /// The position of the nearest row that was not handed out.
    fn nearest(&self) -> Option<usize> {
        let (certain, waiting) = (self.certain.peek(), self.waiting.peek());
        let nearest = certain.into_iter().chain(waiting).map(|Reverse(row)| row).min()?;
        Some(key_id(*nearest) as usize)
    }

    /// Whether no candidate left may be nearer than the nearest row waiting, by the evidence on which a search for as many
    /// rows ends. A list that is searched to its end has, beyond its own length, no more slack than none.
    fn nearest_is_certain(&self, options: &SearchOptions) -> bool {
        let Some(Reverse(open)) = self.frontier.peek() else { return true };
        let slack = if options.slack.is_finite() { options.slack } else { 0.0 };
        self.waiting.peek().is_some_and(|Reverse(key)| key_distance(*open) > key_distance(*key) * (1.0 + slack))
    }
}
