//! Ids as users give them, and the numbers of their rows.
//!
//! A change has the index to itself, so a number stays that of its text until the change ends.

use std::borrow::Cow;

use super::Change;
use crate::Error;
use crate::columns::ColumnRows;
use crate::ids::NodeId;
use crate::index::find::{Looked, find, find_id, text_of};
use crate::page::PagesMut;
use crate::page::row_record::RecordShape;
use crate::row_ids::{self, IdKey, RowId};
use crate::text_ids::{self, NewNumbers};

/// The record of each row, if it has one.
pub(super) type Records<'c> = Cow<'c, [Option<Vec<u8>>]>;

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

    /// The records of rows with these ids, as the index keeps them: their tags, which `values`
    /// have, their text ids, and their payloads. `None` if no row has one.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for payloads of another number of rows, or that the index does not keep.
    pub(super) fn records<'c, I: RowId>(
        &self,
        ids: &[I],
        values: &ColumnRows,
        payloads: Option<&'c [Option<Vec<u8>>]>,
    ) -> Result<Option<Records<'c>>, Error> {
        self.check_payloads(ids.len(), payloads)?;
        let shape = self.graph.meta().record_shape();
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
    pub(super) fn check_payloads(&self, rows: usize, payloads: Option<&[Option<Vec<u8>>]>) -> Result<(), Error> {
        let Some(payloads) = payloads else { return Ok(()) };
        if !self.graph.meta().keeps_payloads {
            return Err(crate::columns::keeps_no_payloads());
        }
        if payloads.len() == rows {
            return Ok(());
        }
        Err(Error::argument(format!("there are {rows} ids, and columns or payloads of {} rows", payloads.len())))
    }
}
