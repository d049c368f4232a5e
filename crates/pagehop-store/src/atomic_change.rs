//! A change of an index file in one transaction.

use pagehop_engine::{Change, Error, Index};

use crate::index_file::IndexFile;
use crate::transaction::Transaction;

/// Changes an index by `work`, in one transaction.
///
/// # Errors
///
/// Those of [`IndexFile::begin`], of `work` and of [`Transaction::commit`]. The index is then
/// unchanged.
pub(crate) fn within<T>(
    index: &Index<IndexFile>,
    work: impl FnOnce(&mut Change<'_, Transaction<'_>>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut transaction = index.pages().begin()?;
    let mut change = index.change(&mut transaction)?;
    let report = work(&mut change)?;
    change.finish()?;
    transaction.commit()?;
    Ok(report)
}
