//! The last phase of a cursor that has reached its limit of memory: every page is read, in order
//! (`passes.rs`).
//!
//! A pass over the pages keeps the nearest rows of those that come after the pass before, as many
//! as the memory has room for, and returns them in order of distance. Then the next pass begins. So
//! the answer is complete, memory is bounded, and each pass costs a scan of the index. Rows that
//! the walk before did not find come first, nearest first.

use std::cmp::Ordering;

use crate::Error;
use crate::index::search::met::Row;
use crate::index::search::nearest::NearRow;
use crate::memory::MakeRoom;

/// Fewest rows that a pass keeps, even beyond the limit of memory.
const ROWS_MIN: usize = 1024;

/// The rows of one pass.
#[derive(Debug, Default)]
pub(super) struct Sequential {
    /// Rows that were not returned yet, the nearest last.
    pub(super) rows: Vec<Row>,
    /// Ids of the rows that were returned before the first pass, ascending.
    returned: Vec<u64>,
    /// The last row of the pass before.
    after: Option<NearRow>,
    /// Most rows of a pass.
    most: usize,
    /// Whether this pass has all remaining rows.
    pub(super) is_last: bool,
}

impl Sequential {
    /// Begins with an empty pass. A pass has room for rows in `bytes` of memory; rows with the ids
    /// in `returned` were returned before.
    pub(super) fn begin(&mut self, bytes: usize, mut returned: Vec<u64>) {
        returned.sort_unstable();
        // While it is filled, twice as many rows are in memory.
        let most = (bytes / (2 * size_of::<Row>())).max(ROWS_MIN);
        *self = Self { returned, most, ..Self::default() };
    }

    /// The nearest row of this pass that is not returned yet.
    pub(super) fn nearest(&self) -> Option<&Row> {
        self.rows.last()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>() + self.returned.len() * size_of::<u64>()
    }

    /// Keeps a row if it may be among the nearest of this pass. `farthest` is the last row that is
    /// kept, once some were left out.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn keep(&mut self, row: Row, farthest: &mut Option<NearRow>) -> Result<(), Error> {
        let is_before = |other: &Option<NearRow>| other.is_some_and(|other| order(&row.near, &other).is_le());
        if is_before(&self.after)
            || farthest.is_some_and(|farthest| order(&row.near, &farthest).is_gt())
            || self.returned.binary_search(&row.near.row_id).is_ok()
        {
            return Ok(());
        }
        self.rows.make_room(1)?;
        self.rows.push(row);
        if self.rows.len() == 2 * self.most {
            *farthest = Some(self.cut());
        }
        Ok(())
    }

    /// Keeps the nearest rows, and returns the last of them.
    fn cut(&mut self) -> NearRow {
        self.rows.select_nth_unstable_by(self.most - 1, |a, b| order(&a.near, &b.near));
        self.rows.truncate(self.most);
        self.rows[self.most - 1].near
    }

    /// Puts the rows of a pass in order.
    pub(super) fn arrange(&mut self, farthest: Option<NearRow>) {
        self.is_last = farthest.is_none() && self.rows.len() <= self.most;
        if self.rows.len() > self.most {
            self.cut();
        }
        self.rows.sort_unstable_by(|a, b| order(&b.near, &a.near));
        self.after = self.rows.first().map(|row| row.near).or(self.after);
    }
}

fn order(a: &NearRow, b: &NearRow) -> Ordering {
    a.distance.total_cmp(&b.distance).then(a.row_id.cmp(&b.row_id))
}
