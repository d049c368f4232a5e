//! What a search meets, step by step, and what one that ends earlier would have found.
//!
//! Candidates are expanded in order of their estimates. Neither the list nor the slack changes that order, they say where it ends: at the
//! first candidate that is not among the best so many of all that were met, or at the first that is too far. So a search with a long list
//! and much slack tells of all that have less of either. Entry points of other clusters, which a search takes up before it gives
//! up, are taken up at the end of the longest alone: one that ends earlier finds no less than is told here.

use super::search::{Near, Rest};
use super::visit::Visited;
use crate::page::layout::NodeId;

/// Takes down the course of a search.
#[derive(Debug, Default)]
pub(super) struct Trace {
    steps: Vec<Step>,
    /// Distance and id of each row met, and the steps it took.
    rows: Vec<(f32, u64, usize)>,
    /// It is enough to have met so many rows that are no farther than this.
    goal: Option<(f32, usize)>,
    /// How many of these were met.
    reached: usize,
}

/// A candidate that was expanded.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// How many of all candidates met were better.
    rank: usize,
    /// The least slack with which a search does not end before it.
    slack: f32,
}

impl Trace {
    /// Starts over.
    pub(super) fn begin(&mut self, goal: Option<(f32, usize)>) {
        self.steps.clear();
        self.rows.clear();
        self.goal = goal;
        self.reached = 0;
    }

    /// Steps of a search that keeps `capacity` candidates.
    pub(super) fn steps_of_list(&self, capacity: usize) -> usize {
        self.steps.iter().position(|step| step.rank >= capacity).unwrap_or(self.steps.len())
    }

    /// Steps of a search with `slack`.
    pub(super) fn steps_with(&self, slack: f32) -> usize {
        self.steps.iter().position(|step| step.slack > slack).unwrap_or(self.steps.len())
    }

    /// How many steps it took to meet the first, the second, ... of up to `k` rows that are no farther than `farthest`.
    pub(super) fn steps_to(&self, farthest: f32, k: usize) -> Vec<usize> {
        let near: Vec<_> = self.rows.iter().filter(|row| row.0 <= farthest).collect();
        // A node that two edges led to under different estimates is met twice.
        let is_new = |at: &usize| near[..*at].iter().all(|before| before.1 != near[*at].1);
        (0..near.len()).filter(is_new).take(k).map(|at| near[at].2).collect()
    }
}

impl Rest for Trace {
    #[inline]
    fn expand(&mut self, estimate: f32, rank: usize, farthest: f32) {
        let slack = match farthest {
            // No slack makes anything of a distance of 0.
            0.0 if estimate > 0.0 => f32::INFINITY,
            0.0 => -1.0,
            _ => estimate / farthest - 1.0,
        };
        self.steps.push(Step { rank, slack });
    }

    #[inline]
    fn turn_away(&mut self, _: f32, _: NodeId) {}

    #[inline]
    fn meet(&mut self, _: NodeId, row: Near, _: &Visited) {
        let is_near = self.goal.is_some_and(|(farthest, _)| row.distance <= farthest);
        if is_near && self.rows.iter().all(|before| before.1 != row.row_id) {
            self.reached += 1;
        }
        self.rows.push((row.distance, row.row_id, self.steps.len()));
    }

    #[inline]
    fn is_enough(&self) -> bool {
        self.goal.is_some_and(|(_, count)| self.reached >= count)
    }
}
