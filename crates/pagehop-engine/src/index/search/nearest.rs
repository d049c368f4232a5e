//! The nearest rows that a search has visited.

use crate::Hit;
use crate::ids::NodeId;
use crate::index::search::visit::Probe;
use crate::index::state::State;
use crate::page::node::{NodeHeader, NodeRef};
use crate::quantize::prepare::ToDistance;

/// The rows of the `k` nearest visited nodes, nearest first; equal distances are in order of row
/// id.
///
/// Where a host owns the rows, those with the same vector may share a node: these count as one when
/// the search decides whether to stop, since a second version of a row says nothing about rows that
/// are farther away. Elsewhere each row has a node.
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    k: usize,
    /// Nodes beyond the `k` nearest whose rows are kept, too: see `rerank.rs`.
    spare: usize,
    /// The number of nodes with rows in `found`.
    nodes: usize,
    pub(crate) found: Vec<NearRow>,
}

/// A row among the nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NearRow {
    /// Squared distance in the inner space.
    pub(crate) distance: f32,
    pub(crate) row_id: u64,
    pub(crate) node: NodeId,
    /// Whether it is the first row of its node, which is the one that counts.
    pub(crate) is_first: bool,
}

impl NearRow {
    pub(crate) fn hit(&self, to_distance: ToDistance) -> Hit {
        Hit { row_id: self.row_id, distance: to_distance.apply(self.distance), node: self.node }
    }
}

impl Nearest {
    pub(crate) fn reset(&mut self, k: usize) {
        (self.k, self.spare) = (k, 0);
        self.nodes = 0;
        self.found.clear();
    }

    /// From now on keeps the rows of `spare` more nodes, which do not decide when a search ends.
    /// Each node must have one row.
    pub(crate) fn keep_spare(&mut self, spare: usize) {
        self.spare = spare;
    }

    /// The number of nodes that decide when a search ends.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    pub(crate) fn is_full(&self) -> bool {
        self.nodes >= self.k
    }

    /// Whether a row at this distance may be kept.
    pub(crate) fn wants(&self, distance: f32) -> bool {
        self.nodes < self.k + self.spare || self.found.last().is_none_or(|last| distance <= last.distance)
    }

    /// The largest estimate of a candidate that may still lead to one of the nearest rows.
    #[inline]
    pub(crate) fn reach(&self, slack: f32) -> f32 {
        let last = if self.spare == 0 { self.found.last() } else { self.found.get(self.k - 1) };
        match last {
            // An infinite slack times a distance of 0 would be NaN, so it is treated as no bound.
            Some(last) if self.is_full() && slack.is_finite() => last.distance * (1.0 + slack),
            _ => f32::INFINITY,
        }
    }

    /// Adds a row if it is among the nearest. A search may visit a node twice: a stale edge, made
    /// for an earlier row in its slot, gives it another estimate. The row is then kept once.
    pub(crate) fn keep(&mut self, row: NearRow) {
        let nearer = |other: &NearRow| {
            other.distance < row.distance || other.distance == row.distance && other.row_id < row.row_id
        };
        let at = self.found.partition_point(nearer);
        let is_there =
            self.found.get(at).is_some_and(|other| other.row_id == row.row_id && other.distance == row.distance);
        // Another row of the last node belongs to the result.
        let is_inside = |last: &NearRow| !row.is_first && last.distance == row.distance;
        let most = self.k + self.spare;
        let is_beyond = at == self.found.len() && self.nodes == most && !self.found.last().is_some_and(is_inside);
        if is_there || is_beyond {
            return;
        }
        self.found.insert(at, row);
        self.nodes += usize::from(row.is_first);
        while self.nodes > most {
            self.nodes -= usize::from(self.found.pop().is_some_and(|last| last.is_first));
        }
    }

    /// Keeps the visible rows of a node if they are among the nearest.
    pub(crate) fn keep_rows(&mut self, state: &State, probe: &Probe, node: NodeId, found: &NodeRef<'_>) {
        let header = found.header();
        if state.rows(node, &header).next().is_some() {
            self.keep_at(state, node, &header, probe.distance(found, &header));
        }
    }

    /// [`Nearest::keep_rows`] of a node whose distance is known.
    pub(crate) fn keep_at(&mut self, state: &State, node: NodeId, header: &NodeHeader, distance: f32) {
        let rows = state.rows(node, header).enumerate();
        rows.for_each(|(at, row_id)| self.keep(NearRow { distance, row_id, node, is_first: at == 0 }));
    }
}
