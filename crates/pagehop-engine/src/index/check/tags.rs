//! Checks the tags of rows: the record of a row has those of its words, and no others.

use crate::Error;
use crate::columns::RowValues;
use crate::index::state::State;
use crate::page::record_pages::{self, RecordPlace};
use crate::page::row_record::{check_tags, read_tags};
use crate::page::{PageId, Reader};

/// Checks the record of a node on `page`, if it needs one or names one.
///
/// # Errors
///
/// [`Error::Corrupt`] if it has none, or one of another row; any error of the reader.
pub(super) fn check<R: Reader>(
    state: &State,
    reader: &mut R,
    page: PageId,
    values: RowValues<'_>,
) -> Result<(), Error> {
    let (shape, columns) = (state.meta.record_shape(), &state.columns.columns);
    let Some(place) = values.last_key().map(RecordPlace::of_key) else {
        return read_tags(reader, shape, columns, (page, values)).map(|_| ());
    };
    let start = record_pages::read_start(reader, place)?;
    check_tags(place, &shape.decode(place, &start)?.sets, columns, values)
}
