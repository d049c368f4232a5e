//! The meaning of row ids, and whether the index or its host decides which rows are visible.

use crate::Error;

/// Largest number of rows that share a node under [`RowIds::HostOwned`].
pub const NODE_ROWS_MAX: usize = 3;
/// Upper bound of ids under [`RowIds::HostOwned`], exclusive.
pub const HOST_ROW_ID_END: u64 = 1 << 48;

/// The meaning of row ids, and whether the index or its host decides which rows are visible.
/// Chosen when the index is made; it never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowIds {
    /// Any 64-bit numbers that the user chooses. The index maps them to nodes, and shows each
    /// reader the rows of its snapshot.
    #[default]
    Mapped,
    /// Locations of rows in the host: numbers from 1 to 2^48 - 1. The host decides which rows are
    /// visible, and passes ids together with their vectors, so there is no map. Up to
    /// [`NODE_ROWS_MAX`] rows with the same code share a node: versions of one row whose vector did
    /// not change.
    HostOwned,
}

/// Refuses a number that is no row id under [`RowIds::HostOwned`].
pub(crate) fn check_hosted(row_id: u64) -> Result<(), Error> {
    if (1..HOST_ROW_ID_END).contains(&row_id) {
        return Ok(());
    }
    Err(Error::argument(format!("row id {row_id} is not between 1 and 2^48 - 1")))
}

/// Ids that an error names; of more it says how many there are.
const NAMED_MAX: usize = 10;

/// The error for ids that are not in an index.
pub(crate) fn unknown(ids: &[u64]) -> Error {
    let named: Vec<String> = ids.iter().take(NAMED_MAX).map(u64::to_string).collect();
    let more = ids.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let verb = if ids.len() == 1 { "is" } else { "are" };
    Error::argument(format!("{}{more} {verb} not in the index", named.join(", ")))
}
