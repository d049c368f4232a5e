//! The found ids as a .npy matrix of int64. The file gets its name when it is complete.

use std::path::Path;

use pagehop_engine::SearchResult;

use crate::errors::Error;
use crate::formats::NewNpy;

/// A matrix of `k` ids for each query.
pub(super) struct IdsFile {
    k: usize,
    array: NewNpy,
}

impl IdsFile {
    /// Begins a matrix, to appear at `path`.
    pub(super) fn create(path: &Path, k: usize) -> Result<Self, Error> {
        Ok(Self { k, array: NewNpy::create(path, "<i8", Some(k))? })
    }

    /// Appends the result of the next query.
    pub(super) fn write(&mut self, result: &SearchResult) -> Result<(), Error> {
        let mut row = Vec::with_capacity(8 * self.k);
        for at in 0..self.k {
            let id = match result.hits.get(at).map(|hit| (hit.row_id, i64::try_from(hit.row_id))) {
                None => -1,
                Some((_, Ok(id))) => id,
                Some((id, Err(_))) => {
                    return Err(Error::Failure(format!(
                        "row id {id} is too large for the int64 of {}; use --json instead",
                        self.array.path().display()
                    )));
                }
            };
            row.extend(id.to_le_bytes());
        }
        self.array.rows(1, &row)
    }

    /// Completes the matrix under its name.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.array.finish()
    }
}
