//! Rows whose words leave open whether they pass a test of tags: their tags decide.
//!
//! The tags are on another page than the node, so they are read last: a walk reads those of the
//! rows that it ended with, other searches those of rows that would be among the nearest. As long
//! as a reader lives, vacuum keeps the records of the rows that it can see.

use crate::Error;
use crate::columns::RowValues;
use crate::filter::Test;
use crate::ids::NodeId;
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::nearest::NearRow;
use crate::index::state::State;
use crate::page::Reader;
use crate::page::node::with_node;
use crate::page::row_record::read_tags;

/// Fewest rows that a walk keeps beyond those that it searches for.
const SPARE_ROWS: usize = 8;

/// A row whose tags decide whether it passes.
#[derive(Clone, Debug)]
pub(crate) struct Undecided {
    row_id: u64,
    /// The values of its columns, as its node has them.
    values: Vec<u8>,
}

impl Undecided {
    /// The row, which may pass the test; `None` if it is certain that it passes.
    pub(crate) fn new(test: &Test, row_id: u64, values: RowValues<'_>) -> Option<Self> {
        (!test.surely_passes(row_id, values)).then(|| Self { row_id, values: values.0.to_vec() })
    }

    /// [`Undecided::new`] of a row that may pass, if tags `matter`.
    #[inline]
    pub(in crate::index::search) fn if_needed(
        matter: bool,
        test: &Test,
        row_id: u64,
        values: RowValues<'_>,
    ) -> Option<Self> {
        if matter { Self::new(test, row_id, values) } else { None }
    }

    /// Whether the row passes. Counts the page of its tags.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the tags are not those of the row; any error of the reader.
    pub(in crate::index::search) fn passes<R: Reader>(
        &self,
        test: &Test,
        node: NodeId,
        state: &State,
        reader: &mut R,
        pages_read: &mut u64,
    ) -> Result<bool, Error> {
        *pages_read += 1;
        let (meta, values) = (&state.meta, RowValues(&self.values));
        let of_node = (meta.layout.place(node).0, values);
        let sets = read_tags(reader, meta.record_shape(), &state.columns.columns, of_node)?;
        Ok(test.passes_with(self.row_id, values, &sets))
    }
}

/// Rows that a walk keeps beyond those that it searches for, in place of rows that do not pass.
pub(crate) fn spare(filter: &FilterPlan, k: usize) -> usize {
    if filter.needs_tags { SPARE_ROWS + k / 2 } else { 0 }
}

/// Keeps the nearest `most` rows that pass in `found`, which has those that may pass. Returns
/// whether there are `most` of them, or no row was removed.
///
/// # Errors
///
/// Those of [`Undecided::passes`].
pub(crate) fn retain<R: Reader>(
    found: &mut Vec<NearRow>,
    most: usize,
    test: &Test,
    state: &State,
    reader: &mut R,
    pages_read: &mut u64,
) -> Result<bool, Error> {
    let (mut kept, mut at) = (0, 0);
    while kept < most && at < found.len() {
        let near = found[at];
        let row = with_node(&state.meta.layout, reader, near.node, |node, header| {
            Undecided::new(test, header.row_id, node.values())
        })?;
        reader.release();
        let passes = row.map(|row| row.passes(test, near.node, state, reader, pages_read)).transpose()?;
        if passes.unwrap_or(true) {
            found[kept] = near;
            kept += 1;
        }
        at += 1;
    }
    found.truncate(kept);
    Ok(kept == most || kept == at)
}
