//! The records of rows: their tags, text ids and payloads, as the index keeps them on the pages of
//! records.

use std::borrow::Cow;
use std::collections::HashMap;

use super::encode::EncodedRow;
use super::graph::Graph;
use crate::Error;
use crate::columns::tags::check_count;
use crate::columns::{ColumnRows, RowValues, keeps_no_payloads, set_last_key};
use crate::ids::NodeId;
use crate::index::change::pages::record_pages;
use crate::index::change::pages::rows;
use crate::page::PagesMut;
use crate::page::meta::Meta;
use crate::page::record_pages::RecordPlace;
use crate::page::row_record::RecordShape;
use crate::row_ids::{IdKey, RowId};

/// The record of each row, if it has one.
pub(super) type Records<'c> = Cow<'c, [Option<Vec<u8>>]>;

/// The records of rows with these ids, as the index keeps them: their tags, which `values`
/// have, their text ids, and their payloads. `None` if no row has one.
///
/// # Errors
///
/// [`Error::Argument`] for payloads of another number of rows, or that the index does not keep.
pub(super) fn of_rows<'c, I: RowId>(
    meta: &Meta,
    ids: &[I],
    values: &ColumnRows,
    payloads: Option<&'c [Option<Vec<u8>>]>,
) -> Result<Option<Records<'c>>, Error> {
    check_payloads(meta, ids.len(), payloads)?;
    let shape = meta.record_shape();
    if shape == (RecordShape { tags: false, texts: false }) {
        return Ok(payloads.map(Cow::Borrowed));
    }
    let record = |(at, id): (usize, &I)| {
        let text = if let IdKey::Text(text) = id.key() { Some(text) } else { None };
        shape.encode(values.sets(at), text, payloads.and_then(|payloads| payloads[at].as_deref()))
    };
    Ok(Some(ids.iter().enumerate().map(record).collect()))
}

/// Refuses payloads of another number of rows, or that the index does not keep.
pub(super) fn check_payloads(meta: &Meta, rows: usize, payloads: Option<&[Option<Vec<u8>>]>) -> Result<(), Error> {
    let Some(payloads) = payloads else { return Ok(()) };
    if !meta.keeps_payloads {
        return Err(keeps_no_payloads());
    }
    if payloads.len() == rows {
        return Ok(());
    }
    Err(Error::argument(format!("there are {rows} ids, and columns or payloads of {} rows", payloads.len())))
}

/// Writes the record of a row that is about to be inserted, and names it in the `values` of
/// its node.
pub(super) fn keep<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    values: &mut [u8],
    record: Option<&[u8]>,
) -> Result<(), Error> {
    if !graph.meta().has_places() {
        return Ok(());
    }
    let keep = |record: &[u8]| graph.in_section(|graph| record_pages::keep(graph.steps_mut(), record));
    let place = record.map(keep).transpose()?;
    set_last_key(values, place);
    Ok(())
}

/// Whether the node `old` has this record. If so, `values`, those of a row that may replace it, get
/// the place of the record, too.
pub(super) fn is_kept<W: PagesMut>(
    graph: &Graph<'_, W>,
    old: NodeId,
    values: &mut [u8],
    record: Option<&[u8]>,
) -> Result<bool, Error> {
    if !graph.meta().has_places() {
        return Ok(true);
    }
    let place = record_pages::place_of(graph.steps(), old)?;
    set_last_key(values, place);
    match (place, record) {
        (None, None) => Ok(true),
        (Some(place), Some(record)) => Ok(record_pages::read(graph.steps(), place)? == record),
        _ => Ok(false),
    }
}

/// Prepares rows with which the index is about to be trained: marks the rows that they replace as
/// dead, and writes their records. Returns how many rows are replaced.
pub(super) fn keep_of_trained<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    ids: &[u64],
    values: &mut ColumnRows,
    records: Option<&[Option<Vec<u8>>]>,
) -> Result<u64, Error> {
    if !graph.meta().has_places() {
        return Ok(0);
    }
    let last: HashMap<u64, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut replaced = 0;
    for (at, id) in ids.iter().enumerate().filter(|(at, id)| last[id] == *at) {
        if let Some(old) = rows::find_row(graph.steps(), *id)? {
            rows::map_row(graph.steps_mut(), *id, None, Some(old))?;
            replaced += 1;
        }
        if let Some(record) = records.and_then(|records| records[at].as_deref()) {
            let place = record_pages::keep(graph.steps_mut(), record)?;
            values.set_place(at, Some(place));
        }
    }
    Ok(replaced)
}

/// Makes `encoded`, which is what the node of a row holds but for its new tags, a row with these
/// keys of columns, and with `payload`, if one is given. Returns whether anything changes. The rest
/// of the record is copied: each node has a record of its own.
pub(super) fn update<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    encoded: &mut EncodedRow,
    mut keys: Vec<Option<u64>>,
    payload: Option<Option<&[u8]>>,
) -> Result<bool, Error> {
    let meta = graph.meta();
    let (keeps, shape) = (meta.has_places(), meta.record_shape());
    let place = RowValues(&encoded.values).last_key().filter(|_| keeps);
    if keeps {
        keys.push(place);
    }
    let mut new = ColumnRows::default();
    new.push_keys(&keys);
    let old = place.map(|place| record_pages::read(graph.steps(), place)).transpose()?;
    let (text, kept) = match (place, &old) {
        (Some(place), Some(old)) => {
            let old = shape.decode(RecordPlace::of_key(place), old)?;
            (old.text, old.payload)
        }
        _ => (None, None),
    };
    check_count(encoded.sets.iter().map(Vec::len).sum())?;
    let record = shape.encode(&encoded.sets, text, payload.unwrap_or(kept));
    if new.bytes() == encoded.values && record == old {
        return Ok(false);
    }
    encoded.set_values(graph.model(), new.bytes());
    keep(graph, &mut encoded.values, record.as_deref())?;
    Ok(true)
}
