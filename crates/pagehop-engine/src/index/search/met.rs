//! Rows that a cursor visited and returns later, and candidates that it rejected and may need
//! later.

use crate::Error;
use crate::graph::{key, key_id};
use crate::ids::NodeId;
use crate::index::search::nearest::NearRow;
use crate::index::search::observer::Observer;
use crate::index::search::visit::{Scored, Visited};
use crate::memory::MakeRoom;
use crate::quantize::estimate::DEGREE_MAX;

/// A row that was visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) near: NearRow,
    pub(crate) node: NodeId,
    pub(crate) step: f32,
    pub(crate) norm_sq: f32,
    /// Whether it was returned, before the phase that reads every page.
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
    /// Buffers of [`Met::arrange`].
    nodes: Vec<NodeId>,
    order: Vec<u64>,
    arranged: Vec<Row>,
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

    /// Sorts the rows by distance, nearest first, and removes duplicates. Hardly any search needs
    /// more than to sort numbers, which are shorter than rows.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(crate) fn arrange(&mut self) -> Result<(), Error> {
        self.nodes.clear();
        self.order.clear();
        self.arranged.clear();
        self.nodes.make_room(self.rows.len())?;
        self.order.make_room(self.rows.len())?;
        self.arranged.make_room(self.rows.len())?;
        if self.has_node_twice() {
            self.rows.sort_unstable_by_key(|row| (row.node, row.near.row_id));
            self.rows.dedup_by(|row, first| {
                let is_same = (row.node, row.near.row_id) == (first.node, first.near.row_id);
                first.is_returned |= is_same && row.is_returned;
                is_same
            });
        }
        let Self { rows, order, arranged, .. } = self;
        order.extend(rows.iter().enumerate().map(|(at, row)| place_in_order(row.near.distance, at)));
        order.sort_unstable();
        if order.windows(2).any(|pair| pair[0] >> 32 == pair[1] >> 32) {
            rows.sort_unstable_by(|Row { near: a, .. }, Row { near: b, .. }| {
                a.distance.total_cmp(&b.distance).then(a.row_id.cmp(&b.row_id))
            });
        } else {
            arranged.extend(order.iter().map(|place| rows[key_id(*place) as usize]));
            std::mem::swap(rows, arranged);
        }
        self.first = 0;
        Ok(())
    }

    /// Whether a node occurs twice: it has two rows, or it was visited twice.
    fn has_node_twice(&mut self) -> bool {
        self.nodes.extend(self.rows.iter().map(|row| row.node));
        self.nodes.sort_unstable();
        self.nodes.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Clears all, and keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.rejected.clear();
        self.rows.clear();
        self.nodes.clear();
        self.order.clear();
        self.arranged.clear();
        self.first = 0;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let keys = self.rejected.len() + self.order.len();
        let rows = self.rows.len() + self.arranged.len();
        keys * size_of::<u64>() + rows * size_of::<Row>() + self.nodes.len() * size_of::<NodeId>()
    }
}

/// A number that has the order of `distance` by [`f32::total_cmp`], and then that of `at`.
fn place_in_order(distance: f32, at: usize) -> u64 {
    let bits = distance.to_bits();
    let ordered = if distance.is_sign_negative() { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | at as u64
}

impl Observer for Met {
    #[inline]
    fn make_room(&mut self, rejected: usize) -> Result<(), Error> {
        self.rejected.make_room(rejected)?;
        self.rows.make_room(1)
    }

    #[inline]
    fn reject(&mut self, estimate: f32, node: NodeId) {
        self.rejected.push(key(estimate, node));
    }

    /// Without a branch for each: no CPU could predict them.
    #[inline]
    fn reject_some(&mut self, scored: &Scored<'_>, rejected: u64) {
        let mut keys = [0; DEGREE_MAX];
        let mut count = 0;
        for (at, (estimate, neighbor)) in scored.neighbors().enumerate() {
            keys[count % DEGREE_MAX] = key(estimate, neighbor);
            count += (rejected >> at & 1) as usize;
        }
        self.rejected.extend_from_slice(&keys[..count]);
    }

    #[inline]
    fn visit_row(&mut self, node: NodeId, near: NearRow, visited: &Visited) {
        let (step, norm_sq) = (visited.header.step, visited.header.norm_sq);
        self.rows.push(Row { near, node, step, norm_sq, is_returned: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn rows_are_arranged_by_distance_and_id_and_each_comes_once() {
        let mut random = Random::new(31, 0);
        let distances = [-1.5, -0.0, 0.0, f32::MIN_POSITIVE, 1.0, 1.5, 2.0, f32::INFINITY, f32::NAN];
        for count in [0, 1, 2, 9, 60] {
            for nodes in [3, 40, 100_000] {
                let mut met = Met::default();
                for _ in 0..count {
                    let (node, version) = (random.below(nodes) as NodeId, random.below(2));
                    // Few distances are equal if there are many nodes.
                    let distance = match nodes {
                        100_000 => random.below(1_000_000) as f32 - 500_000.0,
                        _ => distances[node as usize % distances.len()],
                    };
                    let near = NearRow { distance, row_id: u64::from(node) * 2 + version, node, is_first: true };
                    let is_returned = random.below(2) == 1;
                    met.rows.push(Row { near, node, step: 0.0, norm_sq: 0.0, is_returned });
                }
                let mut expected: Vec<Row> = Vec::new();
                for row in &met.rows {
                    match expected.iter_mut().find(|other| other.near.row_id == row.near.row_id) {
                        Some(other) => other.is_returned |= row.is_returned,
                        None => expected.push(*row),
                    }
                }
                let order = |a: &Row, b: &Row| a.near.distance.total_cmp(&b.near.distance);
                expected.sort_by(|a, b| order(a, b).then(a.near.row_id.cmp(&b.near.row_id)));
                met.arrange().unwrap();
                let essence = |rows: &[Row]| -> Vec<(u64, bool)> {
                    rows.iter().map(|row| (row.near.row_id, row.is_returned)).collect()
                };
                assert_eq!(essence(&met.rows), essence(&expected), "{count} rows of {nodes} nodes");
            }
        }
    }
}
