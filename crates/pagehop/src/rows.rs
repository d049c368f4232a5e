//! Rows in memory, as a source to build from.

use pagehop_engine::{ColumnRows, EachChunk, Error, VectorSource};

/// Most rows in a chunk of a scan.
const CHUNK_ROWS: usize = 8192;

/// Rows in memory. Sources of other kinds implement [`VectorSource`].
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    dim: usize,
    ids: &'a [u64],
    vectors: &'a [f32],
    columns: Option<&'a ColumnRows>,
}

impl<'a> Rows<'a> {
    /// Rows with these ids. Their vectors follow one another in the order of the ids.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if there are not `dim` components for each id.
    pub fn new(dim: usize, ids: &'a [u64], vectors: &'a [f32]) -> Result<Self, Error> {
        if ids.len().checked_mul(dim) != Some(vectors.len()) {
            let what = format!("{} components for {} rows of {dim} dimensions", vectors.len(), ids.len());
            return Err(Error::argument(what));
        }
        Ok(Self { dim, ids, vectors, columns: None })
    }

    /// The same rows with values of columns, in the same order.
    #[must_use]
    pub fn with_columns(self, columns: &'a ColumnRows) -> Self {
        Self { columns: Some(columns), ..self }
    }
}

impl VectorSource for Rows<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.ids.len() as u64)
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let chunks = self.ids.chunks(CHUNK_ROWS).zip(self.vectors.chunks(CHUNK_ROWS * self.dim.max(1)));
        for (ids, vectors) in chunks {
            each(ids, vectors)?;
        }
        Ok(())
    }

    fn columns(&self) -> Option<&ColumnRows> {
        self.columns
    }
}
