//! A search that can be asked for more: the rows of an index in order of distance, for as long as the caller
//! likes, without starting over. This is what a scan with filters or an unknown limit needs.
//!
//! The frontier is unbounded. A visited row is handed out once no unexpanded estimate is nearer than `1 + slack`
//! times the distance of the tenth row waiting, the same evidence on which [`Searcher`](super::search::Searcher) stops; so rows come in
//! order, except that one which its estimate had hidden may come after a farther one.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use std::sync::Arc;

use super::search::EVIDENCE_ROWS;
use super::state::{Newest, State};
use super::visit::Probe;
use crate::graph::{key, key_distance, key_id};
use crate::page::layout::NodeId;
use crate::page::{PageId, Pages, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, Hit, SearchOptions, Stats};

/// A search in progress. Every row comes at most once; when `None` comes, every reachable row has come. It sees
/// the rows that were there when it began, however long it lives, and keeps `vacuum` from taking them.
pub struct Cursor<'i, P: Pages + 'i> {
    state: Arc<State>,
    reader: P::Reader<'i>,
    probe: Probe,
    to_distance: ToDistance,
    slack: f32,
    beam_width: usize,
    /// Unexpanded candidates, the nearest on top.
    frontier: BinaryHeap<Reverse<u64>>,
    /// Every node that was ever offered.
    seen: HashSet<NodeId>,
    /// Visited rows not handed out: keys of distance and position in `rows`.
    waiting: BTreeSet<u64>,
    rows: Vec<u64>,
    pages: HashSet<PageId>,
    stats: Stats,
}

impl<'i, P: Pages> Cursor<'i, P> {
    pub(crate) fn new(
        pages: &'i P,
        newest: &Newest,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Self, Error> {
        options.validate(1)?;
        let mut probe = Probe::default();
        let mut reader = pages.reader();
        let state = newest.renew(&mut reader)?;
        let to_distance = probe.prepare(&state.meta, &state.model, query)?;
        let mut seen = HashSet::new();
        let entries = probe.entries(&state.model, &state.entries).filter(|(_, entry)| seen.insert(*entry));
        let frontier = entries.map(|(estimate, entry)| Reverse(key(estimate, entry))).collect();
        Ok(Self {
            state,
            reader,
            probe,
            to_distance,
            slack: options.slack,
            beam_width: options.beam_width,
            frontier,
            seen,
            waiting: BTreeSet::new(),
            rows: Vec::new(),
            pages: HashSet::new(),
            stats: Stats::default(),
        })
    }

    /// The next row, or `None` once every reachable row has come.
    ///
    /// # Errors
    ///
    /// As [`Index::search`](crate::Index::search); the cursor must not be used after one.
    pub fn next_hit(&mut self) -> Result<Option<Hit>, Error> {
        loop {
            if self.nearest_is_certain()
                && let Some(nearest) = self.waiting.pop_first()
            {
                let row_id = self.rows[key_id(nearest) as usize];
                return Ok(Some(Hit { row_id, distance: self.to_distance.apply(key_distance(nearest)) }));
            }
            match self.frontier.pop() {
                Some(Reverse(open)) => self.expand(key_id(open))?,
                None if self.waiting.is_empty() => return Ok(None),
                None => {}
            }
        }
    }

    /// Whether no candidate left may be nearer than the nearest row waiting, by the evidence a search ends on.
    fn nearest_is_certain(&self) -> bool {
        let Some(Reverse(open)) = self.frontier.peek() else { return true };
        let evidence = self.waiting.iter().nth(EVIDENCE_ROWS - 1);
        evidence.is_some_and(|key| key_distance(*open) > key_distance(*key) * (1.0 + self.slack))
    }

    /// What the search has cost so far.
    pub fn stats(&self) -> Stats {
        Stats { pages_read: self.pages.len() as u64, pages_missed: self.reader.pages_missed(), ..self.stats }
    }

    fn expand(&mut self, node: NodeId) -> Result<(), Error> {
        let Self { frontier, seen, state, .. } = self;
        let offer = |_, estimate: f32, neighbor: NodeId| {
            if seen.insert(neighbor) {
                frontier.push(Reverse(key(estimate, neighbor)));
            }
        };
        let visited = self.probe.visit(&state.meta, &state.model, &self.reader, node, offer, |_, _| ())?;
        if visited.header.is_visible(state.snapshot) {
            self.waiting.insert(key(visited.distance, self.rows.len() as u32));
            self.rows.push(visited.header.row_id);
        }
        self.pages.insert(state.meta.layout.place(node).0);
        self.stats.hops += 1;
        self.stats.estimates += visited.degree() as u64;
        self.stats.distances += 1;
        // A heap gives its best few only by giving them up; the first levels hold most of them.
        for Reverse(open) in self.frontier.iter().take(self.beam_width) {
            self.reader.start(self.state.meta.layout.place(key_id(*open)).0, 0..0);
        }
        self.reader.release();
        Ok(())
    }
}
