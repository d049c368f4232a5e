//! What the walk of a cursor saw besides its answer: rows to return later, and candidates to return
//! to.

use crate::graph::key;
use crate::ids::NodeId;
use crate::index::search::nearest::Near;
use crate::index::search::observer::Observer;
use crate::index::search::visit::Visited;

/// A row that was visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) near: Near,
    pub(crate) node: NodeId,
    pub(crate) step: f32,
    pub(crate) norm_sq: f32,
    /// Whether the first phase returned it.
    pub(crate) is_returned: bool,
}

/// Candidates that were rejected, and rows that were visited.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Keys of estimate and node: candidates that the walk did not keep. Some were visited later,
    /// and some occur twice.
    pub(crate) rejected: Vec<u64>,
    /// The rows that were visited; a walk may visit a node twice. Sorted by [`Met::arrange`] at the
    /// end of a walk; the second phase appends in order of visits.
    pub(crate) rows: Vec<Row>,
    /// All rows before this position were returned. Only meaningful while `rows` is sorted.
    pub(crate) first: usize,
}

impl Met {
    /// Takes the nearest row that was not returned, and marks it as returned. Of equally near rows,
    /// the one with the smallest id.
    pub(crate) fn take_nearest(&mut self) -> Option<&Row> {
        let at = self.first + self.rows[self.first..].iter().position(|row| !row.is_returned)?;
        self.first = at + 1;
        self.rows[at].is_returned = true;
        Some(&self.rows[at])
    }

    /// Sorts the rows by distance, nearest first, and removes duplicates.
    pub(crate) fn arrange(&mut self) {
        self.rows.sort_unstable_by_key(|row| (row.node, row.near.row_id));
        self.rows.dedup_by(|row, first| {
            let is_same = (row.node, row.near.row_id) == (first.node, first.near.row_id);
            first.is_returned |= is_same && row.is_returned;
            is_same
        });
        self.rows.sort_unstable_by(|Row { near: a, .. }, Row { near: b, .. }| {
            a.distance.total_cmp(&b.distance).then(a.row_id.cmp(&b.row_id))
        });
        self.first = 0;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rejected.capacity() * size_of::<u64>() + self.rows.capacity() * size_of::<Row>()
    }
}

impl Observer for Met {
    #[inline]
    fn wants_rejected(&self) -> bool {
        true
    }

    #[inline]
    fn reject(&mut self, estimate: f32, node: NodeId) {
        self.rejected.push(key(estimate, node));
    }

    #[inline]
    fn visit_row(&mut self, node: NodeId, near: Near, visited: &Visited) {
        let (step, norm_sq) = (visited.header.step, visited.header.norm_sq);
        self.rows.push(Row { near, node, step, norm_sq, is_returned: false });
    }
}
