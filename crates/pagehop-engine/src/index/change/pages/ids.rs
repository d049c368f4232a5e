//! Ids as users give them, and the numbers of their rows.
//!
//! A change has the index to itself, so a number stays that of its text until the change ends.

use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::index::find::{Looked, find, find_id, text_of};
use crate::page::meta::Meta;
use crate::page::{PageId, PagesMut};
use crate::row_ids::{self, IdKey, RowId};
use crate::text_ids::{self, NewNumbers};

/// A change sees its own rows.
const SNAPSHOT: u64 = u64::MAX;

/// Refuses ids of another kind than those of the index.
pub(in crate::index::change) fn check_kind<I: RowId>(meta: &Meta) -> Result<(), Error> {
    row_ids::check_kind(meta.id_kind, I::KIND)
}

/// The number and the node of a row.
pub(in crate::index::change) fn find_row<W: PagesMut, I: RowId>(
    steps: &Steps<'_, W>,
    id: &I,
) -> Result<Option<(u64, NodeId)>, Error> {
    match find_id(steps.meta(), &mut steps.reader(), id.key(), SNAPSHOT)? {
        Looked::Row(found) => Ok(Some(found)),
        Looked::Unknown => Ok(None),
        Looked::Changed => Err(lost(steps.meta(), id)),
    }
}

fn lost<I: RowId>(meta: &Meta, id: &I) -> Error {
    let root = PageId(meta.change.id_root);
    Error::corrupt(root, format!("the map names a node for {id:?} that holds another row"))
}

/// The numbers of rows that are in the index.
///
/// # Errors
///
/// [`Error::Argument`] if an id is not in the index, which names it.
pub(in crate::index::change) fn numbers<W: PagesMut, I: RowId>(
    steps: &Steps<'_, W>,
    ids: &[I],
) -> Result<Vec<u64>, Error> {
    let (mut numbers, mut unknown) = (Vec::with_capacity(ids.len()), Vec::new());
    for id in ids {
        match find_row(steps, id)? {
            Some((number, _)) => numbers.push(number),
            None => unknown.push(id.clone()),
        }
    }
    if unknown.is_empty() { Ok(numbers) } else { Err(row_ids::unknown(&unknown)) }
}

/// The numbers of rows that are to be added.
///
/// # Errors
///
/// [`Error::Argument`] for a text that is not an id, or that gets no number.
pub(in crate::index::change) fn new_numbers<W: PagesMut, I: RowId>(
    steps: &Steps<'_, W>,
    ids: &[I],
) -> Result<Vec<u64>, Error> {
    let meta = steps.meta();
    let mut new = NewNumbers::default();
    let mut numbers = Vec::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        numbers.push(match id.key() {
            IdKey::Int(number) => number,
            IdKey::Text(text) => {
                text_ids::check(at, text)?;
                let known = |number| {
                    let reader = &mut steps.reader();
                    let Some(node) = find(meta, reader, number)? else { return Ok(None) };
                    let of_row = text_of(meta, reader, (number, node), SNAPSHOT)?;
                    of_row.map(|of_row| Some(of_row == text)).ok_or_else(|| lost(meta, id))
                };
                new.number(at, text, text_ids::hash(meta.seed, text), known)?.number()
            }
        });
    }
    Ok(numbers)
}
