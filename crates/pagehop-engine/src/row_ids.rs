//! What row ids are, and who decides which rows a reader sees.

/// Most rows that share a node under [`RowIds::Tids`].
pub const TIDS_MAX: usize = 3;
/// Ids under [`RowIds::Tids`] are below it.
pub const TID_END: u64 = 1 << 48;

/// What row ids are, and who decides which rows a reader sees. Fixed for the life of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowIds {
    /// Any numbers of the user's. The index maps them to nodes, and shows each reader the rows of its snapshot.
    #[default]
    Mapped,
    /// Where the host keeps the rows: numbers from 1 to 2^48 - 1, as PostgreSQL's tids. The host decides which rows
    /// are seen, and names them with their vectors; there is no map. Up to [`TIDS_MAX`] rows with the same code
    /// share a node: the versions of a row whose vector did not change.
    Tids,
}
