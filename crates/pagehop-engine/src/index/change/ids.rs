//! Ids as users give them, and the numbers of their rows.
//!
//! A change has the index to itself, so a number stays that of its text until the change ends.

use std::borrow::Cow;

use super::Change;
use crate::columns::ColumnRows;
use crate::ids::NodeId;
use crate::index::find::{Looked, find, find_id, text_of};
use crate::page::{PagesMut, text_record};
use crate::row_ids::{self, IdKey, RowId};
use crate::text_ids::{self, NewNumbers};
use crate::{Error, RowIds};

/// A change sees its own rows.
const SNAPSHOT: u64 = u64::MAX;

impl<W: PagesMut> Change<'_, W> {
    pub(super) fn expect_ids<I: RowId>(&self) -> Result<(), Error> {
        row_ids::check_kind(self.graph.meta().row_ids, I::ROW_IDS)
    }

    /// The number and the node of a row.
    pub(super) fn find<I: RowId>(&self, id: &I) -> Result<Option<(u64, NodeId)>, Error> {
        let steps = self.graph.steps();
        match find_id(steps.meta(), &mut steps.reader(), id.key(), SNAPSHOT)? {
            Looked::Row(found) => Ok(Some(found)),
            Looked::Unknown => Ok(None),
            Looked::Changed => Err(self.lost(id)),
        }
    }

    fn lost<I: RowId>(&self, id: &I) -> Error {
        let root = crate::PageId(self.graph.meta().change.id_root);
        Error::corrupt(root, format!("the map names a node for {id:?} that holds another row"))
    }

    /// The numbers of rows that are in the index.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if an id is not in the index, which names it.
    pub(super) fn numbers<I: RowId>(&self, ids: &[I]) -> Result<Vec<u64>, Error> {
        let (mut numbers, mut unknown) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in ids {
            match self.find(id)? {
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
    /// [`Error::Argument`] for a text that is no id, or that gets no number.
    pub(super) fn new_numbers<I: RowId>(&self, ids: &[I]) -> Result<Vec<u64>, Error> {
        let meta = self.graph.meta();
        let mut new = NewNumbers::default();
        let mut numbers = Vec::with_capacity(ids.len());
        for (at, id) in ids.iter().enumerate() {
            numbers.push(match id.key() {
                IdKey::Int(number) => number,
                IdKey::Text(text) => {
                    text_ids::check(at, text)?;
                    let known = |number| {
                        let reader = &mut self.graph.steps().reader();
                        let Some(node) = find(meta, reader, number)? else { return Ok(None) };
                        let of_row = text_of(meta, reader, (number, node), SNAPSHOT)?;
                        of_row.map(|of_row| Some(of_row == text)).ok_or_else(|| self.lost(id))
                    };
                    new.number(at, text, text_ids::hash(meta.seed, text), known)?.number()
                }
            });
        }
        Ok(numbers)
    }

    /// What comes with rows, as the index keeps it: where ids are texts, they are kept with the
    /// payloads, which are given if `is_whole`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for payloads of another number of rows, or that the index does not keep.
    pub(super) fn with_ids<'c, I: RowId>(
        &self,
        ids: &[I],
        columns: Option<&'c ColumnRows>,
        is_whole: bool,
    ) -> Result<Option<Cow<'c, ColumnRows>>, Error> {
        let payloads = columns.and_then(ColumnRows::payloads);
        if I::ROW_IDS != RowIds::Text || payloads.is_none() && !is_whole {
            return Ok(columns.map(Cow::Borrowed));
        }
        if payloads.is_some() && !self.graph.meta().keeps_payloads {
            return Err(crate::columns::keeps_no_payloads());
        }
        if let Some(payloads) = payloads.filter(|payloads| payloads.len() != ids.len()) {
            let what = format!("there are {} ids, and columns or payloads of {} rows", ids.len(), payloads.len());
            return Err(Error::argument(what));
        }
        let record = |(at, id): (usize, &I)| match id.key() {
            IdKey::Text(text) => {
                let payload = payloads.and_then(|payloads| payloads[at].as_deref());
                Some(text_record::encode(text, payload))
            }
            IdKey::Int(_) => None,
        };
        let records = ids.iter().enumerate().map(record).collect();
        let columns = columns.map_or_else(ColumnRows::default, ColumnRows::without_payloads);
        Ok(Some(Cow::Owned(columns.with_payloads(records))))
    }
}
