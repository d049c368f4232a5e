//! Payloads of rows by id, and of the rows that a search found.

use crate::index::open::Index;
use crate::index::rows::{AHEAD, find};
use crate::index::state::State;
use crate::page::node::with_node;
use crate::page::payload::{self, PayloadPlace};
use crate::page::{Pages, Reader};
use crate::{Error, SearchResult, row_ids};

/// The payload of each row, in order; `None` of a row without one.
pub type Payloads = Vec<Option<Vec<u8>>>;

/// How often a search is repeated because its rows were replaced before their payloads were read.
const SEARCHES_MAX: usize = 100;

impl<P: Pages> Index<P> {
    /// Whether rows have payloads.
    pub fn keeps_payloads(&self) -> bool {
        self.newest().known().meta.keeps_payloads
    }

    /// The payloads of rows, in the order of `ids`, which may repeat; `None` of a row that was
    /// added without one. Each is as of its newest commit. Reads about three pages a row.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index keeps no payloads, or an id is not in it, which the error
    /// names; those of [`Index::ids`].
    pub fn payloads(&self, ids: &[u64]) -> Result<Payloads, Error> {
        self.expect_payloads()?;
        let (mut payloads, mut unknown) = (Vec::with_capacity(ids.len()), Vec::new());
        for part in ids.chunks(AHEAD) {
            let found = self.settled(|state, reader| {
                let found = part.iter().map(|id| payload_of(state, reader, *id, state.snapshot));
                found
                    .collect::<Result<Vec<Found>, Error>>()
                    .map(|found| (!found.contains(&Found::Changed)).then_some(found))
            })?;
            for (id, found) in part.iter().zip(found) {
                match found {
                    Found::Row(payload) => payloads.push(payload),
                    _ => unknown.push(*id),
                }
            }
        }
        if unknown.is_empty() { Ok(payloads) } else { Err(row_ids::unknown(&unknown)) }
    }

    /// The payloads of the rows that a search found, nearest first: those that the rows had then.
    /// `None` if one of the rows was replaced or deleted since: the search is to be repeated.
    ///
    /// # Errors
    ///
    /// As [`Index::payloads`].
    pub fn payloads_of(&self, result: &SearchResult) -> Result<Option<Payloads>, Error> {
        self.expect_payloads()?;
        let mut payloads = Vec::with_capacity(result.hits.len());
        for part in result.hits.chunks(AHEAD) {
            let found = self.settled(|state, reader| {
                // Rows of a graph that was trained later do not say when they were added.
                if state.meta.change.retired_at > result.snapshot {
                    return Ok(Some(vec![Found::Changed]));
                }
                let found = part.iter().map(|hit| payload_of(state, reader, hit.row_id, result.snapshot));
                found.collect::<Result<Vec<Found>, Error>>().map(Some)
            })?;
            for found in found {
                let Found::Row(payload) = found else { return Ok(None) };
                payloads.push(payload);
            }
        }
        Ok(Some(payloads))
    }

    /// The result of `search`, and the payloads of the rows that it found. Repeats the search while
    /// other commits replace or delete these rows in between.
    ///
    /// # Errors
    ///
    /// Those of `search` and of [`Index::payloads_of`]; [`Error::Busy`] if commits replace these
    /// rows all the time.
    pub fn with_payloads(
        &self,
        mut search: impl FnMut() -> Result<SearchResult, Error>,
    ) -> Result<(SearchResult, Payloads), Error> {
        for _ in 0..SEARCHES_MAX {
            let result = search()?;
            if let Some(payloads) = self.payloads_of(&result)? {
                return Ok((result, payloads));
            }
        }
        Err(Error::busy("the rows that searches found were replaced all the time; try again"))
    }

    fn expect_payloads(&self) -> Result<(), Error> {
        match self.keeps_payloads() {
            true => Ok(()),
            false => Err(Error::argument("this index keeps no payloads: it must be built or created to keep them")),
        }
    }
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    Row(Option<Vec<u8>>),
    /// Another commit has replaced the row, or is about to.
    Changed,
    Unknown,
}

/// The payload of a row that a reader of `snapshot` sees.
fn payload_of(state: &State, reader: &mut impl Reader, id: u64, snapshot: u64) -> Result<Found, Error> {
    let Some(node) = find(state, reader, id)? else { return Ok(Found::Unknown) };
    let (place, is_its_row) = with_node(&state.meta.layout, reader, node, |node, header| {
        (node.values().last_key(), header.row_id == id && header.is_visible(snapshot))
    })?;
    reader.release();
    if !is_its_row {
        return Ok(Found::Changed);
    }
    Ok(Found::Row(place.map(|place| payload::read(reader, PayloadPlace::of_key(place))).transpose()?))
}
