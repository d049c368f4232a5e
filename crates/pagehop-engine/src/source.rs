//! The source of rows for a build.

use crate::Error;
use crate::columns::ColumnRows;

/// Takes a chunk of consecutive rows: ids, and `ids.len() * dim` components in row order.
pub type EachChunk<'a> = &'a mut dyn FnMut(&[u64], &[f32]) -> Result<(), Error>;

/// Vectors that can be read several times, always in the same order.
pub trait VectorSource {
    /// Dimensions of each vector.
    fn dim(&self) -> usize;
    /// Number of rows that a scan passes, if it is known without a scan. A build that has no room
    /// for them is then refused before it reads any.
    fn row_count(&self) -> Option<u64> {
        None
    }
    /// Passes every row to `each`, in chunks of any size; a few thousand rows are good.
    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error>;
    /// The ids of all rows in their order, if they are texts
    /// ([`IdKind::Text`](crate::IdKind::Text)). The ids that [`VectorSource::scan`] passes then
    /// mean nothing.
    fn text_ids(&self) -> Option<&[String]> {
        None
    }
    /// The values of the rows' columns, in the order of rows, if the index has columns.
    fn columns(&self) -> Option<&ColumnRows> {
        None
    }
}
