//! Records a search step by step, and derives what searches that end earlier would have found.
//!
//! Candidates are expanded in order of their estimates. List length and slack do not change this
//! order; they only decide where the search ends: at the first candidate that is not among the best
//! `search_list` of all candidates seen, or at the first that is too far. So one search with a long
//! list and much slack gives the results of all searches with less. One detail differs: entry
//! points of other clusters are only tried at the end of the longest search. A search that ends
//! earlier tries them too, so it finds at least what is derived here.

use std::collections::HashSet;

use crate::ids::NodeId;
use crate::index::search::nearest::NearRow;
use crate::index::search::observer::Observer;
use crate::index::search::visit::Visited;

/// The record of a search.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    steps: Vec<Step>,
    /// Distance and id of each visited row, and the number of steps until then.
    rows: Vec<(f32, u64, usize)>,
    /// A distance and a count: the search may stop once it has visited that many rows within that
    /// distance.
    goal: Option<(f32, usize)>,
    /// The ids of such rows visited so far.
    reached: HashSet<u64>,
}

/// A candidate that was expanded.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The number of better candidates among all that were seen.
    rank: usize,
    /// The smallest slack with which a search expands it.
    slack: f32,
}

impl Trace {
    /// Starts a new record.
    pub(crate) fn begin(&mut self, goal: Option<(f32, usize)>) {
        self.steps.clear();
        self.rows.clear();
        self.goal = goal;
        self.reached.clear();
    }

    /// Steps of a search whose list keeps `capacity` candidates.
    pub(crate) fn steps_of_list(&self, capacity: usize) -> usize {
        self.steps.iter().position(|step| step.rank >= capacity).unwrap_or(self.steps.len())
    }

    /// Steps of a search with `slack`.
    pub(crate) fn steps_with(&self, slack: f32) -> usize {
        self.steps.iter().position(|step| step.slack > slack).unwrap_or(self.steps.len())
    }

    /// Distances and ids of the visited rows, in order; a row may occur twice. If there is a goal
    /// like that of [`Trace::begin`], only until it is reached.
    pub(crate) fn rows_until(&self, goal: Option<(f32, usize)>) -> impl Iterator<Item = (f32, u64)> + use<'_> {
        let last = goal.and_then(|(farthest, count)| self.steps_to(farthest, count).get(count - 1).copied());
        let rows = self.rows.iter().take_while(move |row| last.is_none_or(|last| row.2 <= last));
        rows.map(|row| (row.0, row.1))
    }

    /// The number of steps until the first, second, ... of up to `k` rows within `farthest` was
    /// visited.
    pub(crate) fn steps_to(&self, farthest: f32, k: usize) -> Vec<usize> {
        // A stale edge gives a node another estimate, so a search may visit it twice.
        let mut seen = HashSet::with_capacity(k);
        let near = self.rows.iter().filter(|row| row.0 <= farthest && seen.insert(row.1));
        near.take(k).map(|row| row.2).collect()
    }
}

impl Observer for Trace {
    #[inline]
    fn expand(&mut self, estimate: f32, rank: usize, farthest: f32) {
        let slack = match farthest {
            // Slack is a factor on the distance: at a distance of 0, no finite slack is enough.
            0.0 if estimate > 0.0 => f32::INFINITY,
            0.0 => -1.0,
            _ => estimate / farthest - 1.0,
        };
        self.steps.push(Step { rank, slack });
    }

    #[inline]
    fn reject(&mut self, _: f32, _: NodeId) {}

    #[inline]
    fn visit_row(&mut self, _: NodeId, row: NearRow, _: &Visited) {
        if self.goal.is_some_and(|(farthest, _)| row.distance <= farthest) {
            self.reached.insert(row.row_id);
        }
        self.rows.push((row.distance, row.row_id, self.steps.len()));
    }

    #[inline]
    fn is_enough(&self) -> bool {
        self.goal.is_some_and(|(_, count)| self.reached.len() >= count)
    }
}
