//! How many rows a scan is to return, and the k that it therefore searches for.
//!
//! Dead rows that wait for VACUUM are in the way of the rows that are wanted: how many nodes a row
//! takes is learned scan by scan.

use super::limit::WantedRows;
use crate::options;
use crate::pages::open_indexes::NodesPerRow;

/// k of a search where it is not known how many rows are wanted.
const K_UNKNOWN: usize = 10;
/// Largest k that is searched for at once.
const K_MAX: usize = 1000;

/// How many rows a scan is to return, and what became of them.
#[derive(Default)]
pub(super) struct Demand {
    pub(super) wanted: Option<WantedRows>,
    pub(super) returned: usize,
    /// Returned rows that were dead.
    pub(super) dead: usize,
    /// Rows that were found too late to be returned.
    pub(super) late: usize,
}

impl Demand {
    /// The k to search for, when each row takes `nodes_per_row` nodes.
    ///
    /// With a list or a slack that the user chose it is ten, and so it is where the user limits
    /// what a scan may read or keep.
    pub(super) fn k(&self, nodes_per_row: f32) -> usize {
        let follows_wanted = !options::is_effort_set() && !options::is_scan_limited();
        match self.wanted.filter(|_| follows_wanted) {
            Some(rows) if rows.is_filtered => rows.count.clamp(K_UNKNOWN, K_MAX),
            Some(rows) => ((rows.count.min(K_MAX) as f32 * nodes_per_row).ceil() as usize).min(K_MAX),
            None => K_UNKNOWN,
        }
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
