//! How many rows a scan is to return, and the k that it therefore searches for.
//!
//! Dead rows that wait for VACUUM are in the way of the rows that are wanted: how many nodes a row
//! takes is learned scan by scan. How many rows meet a condition is learned row by row: the k grows
//! with what the scan seems to need.

use super::limit::{Passage, WantedRows};
use crate::options;
use crate::pages::open_indexes::NodesPerRow;

/// k of a search where it is not known how many rows are wanted.
pub(super) const K_UNKNOWN: usize = 10;
/// Largest k that is searched for at once.
const K_MAX: usize = 1000;
/// Largest k that a search grows to, where more rows are needed than were searched for.
pub(super) const K_GROWN_MAX: usize = 2 * K_MAX;

/// How many rows a scan is to return, and what became of them.
#[derive(Default)]
pub(super) struct Demand {
    pub(super) wanted: Option<WantedRows>,
    pub(super) returned: usize,
    /// Returned rows that were dead.
    pub(super) dead: usize,
    /// Rows that were found too late to be returned.
    pub(super) late: usize,
    /// Rows that wait for their order before the executor gets them, beside those that it holds
    /// back.
    pub(super) waiting: usize,
    /// The k that is searched for.
    pub(super) k: usize,
    /// After this many rows it is looked at whether that is enough.
    look_after: usize,
}

impl Demand {
    /// Of a scan that is about to return its first row, where each row takes `nodes_per_row`
    /// nodes.
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

    /// The rows that are wanted, if they decide the k. With a list or a slack that the user chose
    /// it is ten, and so it is where the user limits what a scan may read or keep.
    fn followed(&self) -> Option<WantedRows> {
        self.wanted.filter(|_| !options::is_effort_set() && !options::is_scan_limited())
    }

    /// Where it can be seen which rows meet a condition of the scan, if there is one.
    fn passage(&self) -> Option<Passage> {
        self.followed()?.passage.filter(|_| self.wanted.is_some_and(|wanted| wanted.is_filtered))
    }

    /// A larger k to search for, if by the rows that have met the condition so far more rows will
    /// be taken than are searched for.
    ///
    /// It is looked for in the middle of the rows that are left, as the last of them are those
    /// before which a larger search may find others, which would be late.
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
        let k = (taken + more).saturating_sub(held_back).min(2 * self.k);
        let is_more = k > self.k;
        self.k = self.k.max(k);
        let next = taken + (self.k.saturating_sub(taken) / 2).max(1);
        self.look_after = if self.k <= K_GROWN_MAX { next } else { usize::MAX };
        is_more.then_some(k)
    }

    /// Teaches `nodes_per_row` what this scan took, if it returned just what was wanted: `taken`
    /// nodes.
    ///
    /// A scan that went on, as that of a cursor or below an OFFSET, says nothing: its dead rows are
    /// those of more rows than were wanted.
    pub(super) fn teach(&self, nodes_per_row: &NodesPerRow, taken: usize) {
        let living = self.returned - self.dead;
        let is_just =
            |wanted: &WantedRows| !wanted.is_filtered && living >= wanted.count && living - wanted.count <= 1;
        let Some(wanted) = self.wanted.filter(is_just) else { return };
        // The executor asks for one row more where it is not sure of the order.
        nodes_per_row.learn(wanted.count, taken.saturating_sub(living - wanted.count + self.late));
    }
}

/// Rows that will probably be taken until the `wanted` ones have met the condition, if it was
/// tested on `tested` rows, and `arrived` met it.
///
/// Of rows that an OFFSET skips, too, as many as the LIMIT are wanted at a time: pages with the
/// same LIMIT are parts of one search.
fn rows_left(wanted: usize, arrived: usize, tested: usize) -> usize {
    let left = wanted - arrived % wanted;
    // As if one row more had met it: the condition may be one that hardly any row meets.
    (left as f32 * (tested + 1) as f32 / (arrived + 1) as f32).ceil() as usize
}
