//! A cursor over the rows that postings name: the second phase, with other candidates.
//!
//! The frontier has the best candidates by estimate, of the leaves that may have the nearest
//! expected rows. When it is used up, or when more rows are taken than were expected, the postings
//! are read again for several times as many. Until then rows are certain as far as no candidate
//! that was not kept may be nearer.

use std::cmp::Reverse;

use super::cursor::{Cursor, Phase};
use super::filtered::{SHORTLIST_MIN, SHORTLIST_PER_ROW, SLACK_OF_POSTINGS, SLACK_OF_SOME};
use super::gather::{Extent, Gather};
use super::nearest::Near;
use super::observer::Observer;
use super::tags::Undecided;
use super::visit::Visited;
use super::walk::{EVIDENCE_ROWS, Walk};
use super::walls;
use crate::Error;
use crate::graph::{key, key_id};
use crate::ids::NodeId;
use crate::page::meta::Meta;
use crate::page::node::with_node;
use crate::page::{Pages, Reader};

/// Growth of the number of candidates that are kept, each time the postings are read again.
const GROWTH: usize = 8;
/// Growth of the number of rows that leaves are chosen for, each time more are taken.
const ROWS_GROWTH: usize = 4;
const REPLACED: &str = "it was trained again during the search; try again";
/// Candidates whose pages are read ahead.
const AHEAD: usize = 8;
/// Bytes of a candidate that is gathered: its key in the list, then in the frontier, and the node
/// and a control byte in the set of those that were seen.
const CANDIDATE_BYTES: usize = 2 * size_of::<u64>() + size_of::<NodeId>() + 1;
/// Bytes that may be gathered however little memory there is: some 3,000 candidates.
const GATHERED_BYTES_MIN: usize = 64 << 10;

impl<P: Pages> Cursor<'_, P> {
    /// Begins the phase, and gathers candidates. Rows that were found and not returned wait for
    /// their turn; those that were returned do not come again.
    pub(super) fn begin_postings(&mut self) -> Result<(), Error> {
        self.phase = Phase::Postings;
        self.second.reset(&self.met);
        self.second.seen.extend(&self.walk.visited);
        self.second.seen.extend(self.met.rows.iter().map(|row| row.node));
        let slack = self.asked.slack;
        let keep = match slack.is_finite() {
            true => SHORTLIST_MIN.max(SHORTLIST_PER_ROW * self.expected),
            false => self.expected.max(self.asked.search_list),
        };
        if slack.is_infinite() {
            self.second.visits_min = keep;
        }
        self.second.covered = self.second.out + self.expected.max(EVIDENCE_ROWS);
        self.gather(keep)
    }

    /// Reads the postings again if more rows were taken than leaves were chosen for; `false` if
    /// there was no memory for it, and the last phase has begun.
    pub(super) fn cover_more(&mut self) -> Result<bool, Error> {
        if self.second.is_partial && self.second.out >= self.second.covered {
            self.second.covered *= ROWS_GROWTH;
            self.gather(self.second.kept)?;
        }
        Ok(matches!(self.phase, Phase::Postings))
    }

    /// Adds the nearest `keep` candidates, and more, that were not seen to the frontier. If they
    /// may take more memory than there is, the last phase begins instead.
    fn gather(&mut self, keep: usize) -> Result<(), Error> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let keep = keep.max(2 * self.second.covered);
        // The list keeps up to twice as many.
        let room = self.memory_max.saturating_sub(self.memory_bytes()).max(GATHERED_BYTES_MIN);
        let most = room / (2 * CANDIDATE_BYTES);
        if filter.candidates(keep) > most {
            self.begin_sequential();
            return Ok(());
        }
        let mut list = std::mem::take(&mut self.walk.shortlist);
        let Self { state, reader, walk, stats, .. } = self;
        let Walk { probe, walls, .. } = walk;
        let (k, width) = (self.second.covered, walls::width(self.asked.slack));
        let extent = Extent { k, width, reach_min: 0.0, reads_max: self.reads_max };
        let gathered = Gather { state, reader, probe, walls, filter, stats }.run(keep.min(most), extent, &mut list);
        let gathered = match gathered {
            Ok(gathered) => gathered,
            Err(error) => {
                // The pages of a graph that was replaced become free while searches may still use
                // it.
                let is_replaced = Meta::read(reader)?.change.model_start != state.meta.change.model_start;
                return Err(if is_replaced { Error::busy(REPLACED) } else { error });
            }
        };
        let is_cut = list.is_cut();
        if is_cut && keep > most {
            // There were more than was estimated.
            self.begin_sequential();
            return Ok(());
        }
        let mut frontier = std::mem::take(&mut self.second.frontier).into_vec();
        let keys = list.sorted();
        let new = keys.iter().copied().filter(|open| self.second.seen.insert(key_id(*open)));
        frontier.extend(new.map(Reverse));
        self.second.is_partial = gathered.reach.is_some();
        self.options.slack =
            self.asked.slack * if self.second.is_partial { SLACK_OF_SOME } else { SLACK_OF_POSTINGS };
        self.second.beyond = keys.last().copied().filter(|_| is_cut || self.second.is_partial);
        self.second.frontier = frontier.into();
        self.second.kept = keep;
        list.clear();
        self.walk.shortlist = list;
        Ok(())
    }

    /// Visits the nearest candidate; `false` if there is none left.
    pub(super) fn visit_posting(&mut self) -> Result<bool, Error> {
        let Some(Reverse(open)) = self.second.frontier.pop() else {
            if self.second.beyond.is_none() {
                return Ok(false);
            }
            self.second.visits_min = 0;
            self.second.covered = self.second.covered.saturating_mul(ROWS_GROWTH);
            self.gather(self.second.kept.saturating_mul(GROWTH))?;
            return Ok(true);
        };
        let layout = self.state.meta.layout;
        for Reverse(next) in self.second.frontier.iter().take(AHEAD) {
            let (page, slot) = layout.place(key_id(*next));
            self.reader.start(page, layout.place_bytes(slot)[1].clone());
        }
        let Self { state, reader, walk, met, second, filter, stats, .. } = self;
        let node = key_id(open);
        let filter = filter.as_ref();
        let seen = with_node(&layout, &*reader, node, |found, header| {
            let (row_id, values) = (header.row_id, found.values());
            let passes = filter.is_none_or(|filter| filter.test.passes(row_id, values));
            if !passes || state.rows(node, header).next().is_none() {
                return None;
            }
            let undecided = filter.filter(|filter| filter.needs_tags_in_runs);
            let undecided = undecided.and_then(|filter| Undecided::new(&filter.test, row_id, values));
            Some((Visited { header: *header, distance: walk.probe.distance(found, header) }, undecided))
        })?;
        reader.release();
        if let Some((visited, undecided)) = seen {
            let passes = match (undecided, filter) {
                (Some(row), Some(filter)) => {
                    row.passes(&filter.test, node, state, reader, &mut stats.pages_read)?
                }
                _ => true,
            };
            for (at, row_id) in state.rows(node, &visited.header).filter(|_| passes).enumerate() {
                second.waiting.push(Reverse(key(visited.distance, met.rows.len() as u32)));
                met.visit_row(node, Near { distance: visited.distance, row_id, node, is_first: at == 0 }, &visited);
            }
        }
        walk.visited.push(node);
        second.visits_min = second.visits_min.saturating_sub(1);
        self.stats.hops += 1;
        Ok(true)
    }
}
