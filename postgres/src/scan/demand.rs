//! The number of rows that a scan must return, and the k that it therefore searches for.
//!
//! Dead rows that wait for VACUUM come between the wanted rows: the number of nodes per row is
//! learned from scan to scan. The share of rows that meet a condition is learned from row to row:
//! the k grows with the estimated need of the scan.

use super::limit::{Passage, WantedRows};
use crate::options;
use crate::pages::open_indexes::NodesPerRow;

/// k of a search if the number of wanted rows is not known.
pub(super) const K_UNKNOWN: usize = 10;
/// Largest k that is searched for at once.
const K_MAX: usize = 1000;
/// Largest k that a search grows to, if more rows are needed than were searched for.
pub(super) const K_GROWN_MAX: usize = 2 * K_MAX;

/// The number of rows that a scan must return, and the outcome of its rows so far.
#[derive(Default)]
pub(super) struct Demand {
    pub(super) wanted: Option<WantedRows>,
    pub(super) returned: usize,
    /// Returned rows that were dead.
    pub(super) dead: usize,
    /// Rows that were found too late, and were left out.
    pub(super) late: usize,
    /// Rows that this scan holds back to order them. The executor may hold back others.
    pub(super) waiting: usize,
    /// The k that is searched for.
    pub(super) k: usize,
    /// Number of rows after which the demand is estimated again.
    look_after: usize,
}

impl Demand {
    /// The demand of a scan before its first row, if each row takes `nodes_per_row` nodes.
    pub(super) fn new(wanted: Option<WantedRows>, nodes_per_row: f32) -> Self {
        let mut demand = Self { wanted, ..Self::default() };
        demand.k = match demand.followed() {
            Some(rows) if rows.is_filtered => rows.count.clamp(K_UNKNOWN, K_MAX),
            Some(rows) => ((rows.count.min(K_MAX) as f32 * nodes_per_row).ceil() as usize).min(K_MAX),
            None => K_UNKNOWN,
        };
        demand.look_after = if demand.passage().is_some() { demand.k / 2 } else { usize::MAX };
        demand
    }

    /// The wanted rows, if k follows from their number. The k is ten if the user chose a list or a
    /// slack, or limits the reads or the memory of a scan.
    fn followed(&self) -> Option<WantedRows> {
        self.wanted.filter(|_| !options::is_effort_set() && !options::is_scan_limited())
    }

    /// Where the rows that meet a condition of the scan can be counted, if there is such a place.
    fn passage(&self) -> Option<Passage> {
        self.followed()?.passage.filter(|_| self.wanted.is_some_and(|wanted| wanted.is_filtered))
    }

    /// A larger k to search for, if the scan will probably take more rows than are searched for.
    /// The estimate uses the rows that have met the condition so far.
    ///
    /// The estimate is made in the middle of the remaining rows: a larger search may find rows
    /// before the last of these, which would come too late.
    ///
    /// # Safety
    ///
    /// The plan of the scan runs.
    #[inline]
    pub(super) unsafe fn more(&mut self) -> Option<usize> {
        let taken = self.returned + self.late;
        if taken < self.look_after {
            return None;
        }
        let passage = self.passage()?;
        // SAFETY: the caller says that the plan runs.
        let (arrived, held_back) = unsafe { (passage.arrived(), passage.held_back() + self.waiting) };
        let more = rows_left(self.wanted?.count, arrived, self.returned.saturating_sub(held_back));
        let k = taken.saturating_add(more).saturating_sub(held_back).min(2 * self.k);
        let is_more = k > self.k;
        self.k = self.k.max(k);
        let next = taken + (self.k.saturating_sub(taken) / 2).max(1);
        self.look_after = if self.k <= K_GROWN_MAX { next } else { usize::MAX };
        is_more.then_some(k)
    }

    /// Updates `nodes_per_row` with the `taken` nodes of this scan, if it returned exactly the
    /// wanted rows.
    ///
    /// A scan that returned more, for example for a cursor or below an OFFSET, is not counted: its
    /// dead rows belong to more rows than were wanted.
    pub(super) fn teach(&self, nodes_per_row: &NodesPerRow, taken: usize) {
        let living = self.returned - self.dead;
        let is_just =
            |wanted: &WantedRows| !wanted.is_filtered && living >= wanted.count && living - wanted.count <= 1;
        let Some(wanted) = self.wanted.filter(is_just) else { return };
        // The executor asks for one more row if it is not sure of the order.
        nodes_per_row.learn(wanted.count, taken.saturating_sub(living - wanted.count + self.late));
    }
}

/// Rows that will probably be taken until the `wanted` ones have met the condition, if it was
/// tested on `tested` rows, and `arrived` met it.
///
/// Rows that an OFFSET skips also come in parts of the LIMIT: pages with the same LIMIT are parts
/// of one search.
fn rows_left(wanted: usize, arrived: usize, tested: usize) -> usize {
    let left = wanted - arrived % wanted;
    // Counts one more row that meets the condition, because there may be hardly any.
    (left as f32 * (tested + 1) as f32 / (arrived + 1) as f32).ceil() as usize
}
