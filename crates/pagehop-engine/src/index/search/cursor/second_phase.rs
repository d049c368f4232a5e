//! The second phase of a cursor: a frontier without a bound, and rows that wait until no nearer row
//! can come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::{key, key_distance, key_id};
use crate::ids::NodeId;
use crate::index::node_set::NodeSet;
use crate::index::search::met::Met;
use crate::index::search::walk::{EVIDENCE_ROWS, Walk};
use crate::index::state::State;
use crate::memory::MakeRoom;
use crate::{Error, SearchOptions};

/// Number of small steps by which k grows after the first search. A small step is a tenth of the
/// first k: 1 after a search for 10 rows, 10 after one for 100. A caller that needs ten rows often
/// takes a few more and then stops.
const FEW: usize = 3;
/// Largest step of k. Callers check their limits only between rows, so a step must not be long.
const AT_ONCE: usize = 256;

/// The next k to search for, given the current k and the k of the first search. After the small
/// steps, k doubles. If it grew by one each time, a row would often be found after farther rows
/// were returned, which is too late for a caller that needs rows in order.
pub(super) fn next_k(k: usize, first: usize) -> usize {
    let few = first / EVIDENCE_ROWS;
    match k {
        _ if k < first => first,
        _ if k < first + FEW * few => k + few,
        _ => k + k.min(AT_ONCE),
    }
}

/// The state of the second phase.
#[derive(Debug, Default)]
pub(super) struct SecondPhase {
    /// Keys of estimate and node: the unexpanded candidates, nearest first.
    pub(super) frontier: BinaryHeap<Reverse<u64>>,
    /// Candidates with this key or a larger one may be missing from the frontier
    /// (`postings.rs`).
    pub(super) beyond: Option<u64>,
    /// Nodes to visit, if that many exist, before any row counts as certain.
    pub(super) visits_min: usize,
    /// How many candidates from postings were asked for when they were last gathered.
    pub(super) kept: usize,
    /// Whether leaves of postings remain that were not read.
    pub(super) is_partial: bool,
    /// Number of rows to return for which the leaves that were read are enough.
    pub(super) covered: usize,
    /// Every node that was visited or is in the frontier.
    pub(super) seen: NodeSet,
    /// Nodes that were not visited, but whose rows were found on the page of a visited node.
    pub(super) found: NodeSet,
    /// Rows that were found and not returned, while a nearer one may still be found: keys of
    /// distance and position in [`Met::rows`].
    pub(super) waiting: BinaryHeap<Reverse<u64>>,
    /// The same keys of rows that can be returned, since no nearer row can be found any more. They
    /// are returned once there are enough of them.
    certain: BinaryHeap<Reverse<u64>>,
    /// Number of certain rows to return before the search continues.
    ready: usize,
    /// The number of rows returned in both phases.
    pub(super) out: usize,
}

impl SecondPhase {
    /// Clears the state, and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.frontier.clear();
        self.seen.clear();
        self.found.clear();
        self.waiting.clear();
        self.certain.clear();
        (self.ready, self.out) = (0, 0);
    }

    /// Clears the state except the rows that were found and not returned.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn reset(&mut self, met: &Met) -> Result<(), Error> {
        self.waiting.clear();
        self.certain.clear();
        self.ready = 0;
        (self.beyond, self.visits_min, self.is_partial) = (None, 0, false);
        self.frontier.clear();
        self.out = met.rows.iter().filter(|row| row.is_returned).count();
        self.waiting.make_room(met.rows.len() - self.out)?;
        for (at, row) in met.rows.iter().enumerate().filter(|(_, row)| !row.is_returned) {
            self.waiting.push(Reverse(key(row.near.distance, at as u32)));
        }
        self.seen.clear();
        Ok(())
    }

    /// Starts the second phase from the state of the walk.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn begin(&mut self, state: &State, walk: &Walk, met: &mut Met) -> Result<(), Error> {
        self.reset(met)?;
        let candidates = met.rejected.len() + walk.list.all().count() + state.entries.len();
        self.seen.make_room(walk.visited.len() + candidates)?;
        self.seen.extend(&walk.visited);
        self.found.clear();
        self.found.make_room(met.rows.len().saturating_sub(walk.visited.len()))?;
        self.found.extend(met.rows.iter().map(|row| row.node).filter(|node| !self.seen.contains(node)));
        let mut frontier = std::mem::take(&mut self.frontier).into_vec();
        frontier.clear();
        frontier.make_room(candidates)?;
        let open = walk.list.open().chain(walk.entries(state)).map(|(estimate, node)| key(estimate, node));
        let open = met.rejected.drain(..).chain(open).filter(|open| self.seen.insert(key_id(*open)));
        frontier.extend(open.map(Reverse));
        self.frontier = frontier.into();
        Ok(())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let keys = self.frontier.len() + self.waiting.len() + self.certain.len();
        // The hash table has one control byte per entry.
        let nodes = self.seen.len() + self.found.len();
        keys * size_of::<u64>() + nodes * (size_of::<NodeId>() + 1)
    }

    /// Ids of the rows that were returned.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn returned(&self, met: &Met) -> Result<Vec<u64>, Error> {
        let (mut is_returned, mut row_ids) = (Vec::new(), Vec::new());
        is_returned.make_room(met.rows.len())?;
        is_returned.resize(met.rows.len(), true);
        for Reverse(row) in self.waiting.iter().chain(&self.certain) {
            is_returned[key_id(*row) as usize] = false;
        }
        row_ids.make_room(is_returned.iter().filter(|is| **is).count())?;
        row_ids.extend(met.rows.iter().zip(is_returned).filter(|(_, is)| *is).map(|(row, _)| row.near.row_id));
        Ok(row_ids)
    }

    /// Takes the position of the next row to return, the nearest of a batch of certain rows. `None`
    /// if a candidate must be expanded first, or if nothing is left.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn take_nearest(&mut self, options: &SearchOptions) -> Result<Option<usize>, Error> {
        if self.ready == 0 {
            while self.nearest_is_certain(options) {
                self.certain.make_room(1)?;
                let Some(row) = self.waiting.pop() else { break };
                self.certain.push(row);
            }
            let is_last = self.frontier.is_empty() && self.beyond.is_none();
            if is_last || self.certain.len() >= next_k(self.out, EVIDENCE_ROWS) - self.out {
                self.ready = self.certain.len();
            }
        }
        let Some(ready) = self.ready.checked_sub(1) else { return Ok(None) };
        self.ready = ready;
        self.out += 1;
        Ok(self.certain.pop().map(|Reverse(row)| key_id(row) as usize))
    }

    /// The position of the nearest row that was not returned.
    pub(super) fn nearest(&self) -> Option<usize> {
        let (certain, waiting) = (self.certain.peek(), self.waiting.peek());
        let nearest = certain.into_iter().chain(waiting).map(|Reverse(row)| row).min()?;
        Some(key_id(*nearest) as usize)
    }

    /// Whether no candidate is left that may be nearer than the nearest waiting row, by the rule
    /// that ends a search. If the slack is infinite, it counts as 0 in this phase.
    fn nearest_is_certain(&self, options: &SearchOptions) -> bool {
        let Some(open) = self.frontier.peek().map(|Reverse(open)| *open).or(self.beyond) else { return true };
        if self.visits_min > 0 {
            return false;
        }
        let slack = if options.slack.is_finite() { options.slack } else { 0.0 };
        self.waiting.peek().is_some_and(|Reverse(key)| key_distance(open) > key_distance(*key) * (1.0 + slack))
    }
}
