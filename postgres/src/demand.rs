//! What a scan is asked for, and what that takes where dead rows that wait for VACUUM are in the way.

use std::cell::Cell;

use crate::limit::Rows;

/// What a scan that took more than half of those before it adds to [`NodesPerRow`], and one that did not takes off; and the most that it comes to.
const STEP: f32 = 0.02;
const MAX: f32 = 3.0;

/// Nodes that were taken for each row that was wanted, in half of the scans of an index so far.
pub(crate) struct NodesPerRow(Cell<f32>);

impl Default for NodesPerRow {
    fn default() -> Self {
        Self(Cell::new(1.0))
    }
}

impl NodesPerRow {
    pub(crate) fn get(&self) -> f32 {
        self.0.get()
    }

    /// Learns from a scan that had all it wanted, when `taken` nodes were.
    pub(crate) fn learn(&self, demand: &Demand, taken: usize) {
        let living = demand.returned - demand.dead;
        let Some(wanted) = demand.wanted.filter(|wanted| !wanted.is_filtered && living >= wanted.count) else {
            return;
        };
        // The executor asks for a row more where it is not sure of the order.
        let taken = taken.saturating_sub(living - wanted.count + demand.late);
        let is_more = taken as f32 > wanted.count as f32 * self.get();
        self.0.set((self.get() + if is_more { STEP } else { -STEP }).clamp(1.0, MAX));
    }
}

/// What a scan is asked for, and what became of it.
#[derive(Default)]
pub(crate) struct Demand {
    pub(crate) wanted: Option<Rows>,
    pub(crate) returned: usize,
    /// Of those that were returned.
    pub(crate) dead: usize,
    /// Too late to be returned.
    pub(crate) late: usize,
}
