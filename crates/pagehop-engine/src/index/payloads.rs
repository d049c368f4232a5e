//! Payloads of rows by id, and payloads and text ids of the rows that a search found.

use crate::columns::keeps_no_payloads;
use crate::index::find::{AHEAD, Looked, expect_ids, find_id, looked_up, place_of, read_text, settled};
use crate::index::open::Index;
use crate::index::state::State;
use crate::page::record_pages::{self, RecordPlace};
use crate::page::{Pages, Reader};
use crate::row_ids::{self, RowId};
use crate::{BODY_BYTES, Error, Hit, SearchResult};

/// The payload of each row, in order; `None` for a row without one.
pub type Payloads = Vec<Option<Vec<u8>>>;

/// The parts of rows that are read beside the ids and distances of a search's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowParts {
    /// The ids, of an index whose ids are texts.
    pub text_ids: bool,
    /// The payloads, of an index that keeps any.
    pub payloads: bool,
}

/// These parts of the rows that a search found, nearest first; `None` for a part that was not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadParts {
    /// The ids.
    pub text_ids: Option<Vec<String>>,
    /// The payloads.
    pub payloads: Option<Payloads>,
}

/// How often a search is repeated because its rows were replaced before parts of them were read.
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
    /// names, or is of another kind; those of [`Index::ids`].
    pub fn payloads<I: RowId>(&self, ids: &[I]) -> Result<Payloads, Error> {
        expect_ids::<I>(self.newest())?;
        self.expect_payloads()?;
        let (mut payloads, mut unknown) = (Vec::with_capacity(ids.len()), Vec::new());
        for part in ids.chunks(AHEAD) {
            let found = settled(self.pages(), self.newest(), |state, reader| {
                let found = part.iter().map(|id| payload_of_id(state, reader, id));
                found
                    .collect::<Result<Vec<Looked<Option<Vec<u8>>>>, Error>>()
                    .map(|found| (!found.contains(&Looked::Changed)).then_some(found))
            })?;
            for (id, found) in part.iter().zip(found) {
                match found {
                    Looked::Row(payload) => payloads.push(payload),
                    _ => unknown.push(id.clone()),
                }
            }
        }
        if unknown.is_empty() { Ok(payloads) } else { Err(row_ids::unknown(&unknown)) }
    }

    /// The payloads of the rows that a search found, nearest first: those that the rows had then.
    /// `None` if one of the rows was replaced or deleted since: the search is to be repeated. Reads
    /// about one page a row, beside that of its node, which the search has just read.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index keeps no payloads; [`Error::Corrupt`] and [`Error::Busy`]
    /// as [`Index::ids`]; any error of the host.
    pub fn payloads_of(&self, result: &SearchResult) -> Result<Option<Payloads>, Error> {
        self.expect_payloads()?;
        self.read_of(result, |state, reader, _, place| match place {
            Some(place) => read_payload(state, reader, place),
            None => Ok(None),
        })
    }

    /// The text ids of the rows that a search found, nearest first. `None` if one of the rows was
    /// replaced or deleted since: the search is to be repeated. Costs as much as
    /// [`Index::payloads_of`], however long payloads are.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if ids are not texts; else as [`Index::payloads_of`].
    pub fn text_ids_of(&self, result: &SearchResult) -> Result<Option<Vec<String>>, Error> {
        expect_ids::<String>(self.newest())?;
        self.read_of(result, |state, reader, hit, place| {
            let page = state.meta.layout.place(hit.node).0;
            read_text(&state.meta, reader, (hit.row_id, page), place)
        })
    }

    /// The result of `search`, and `parts` of the rows that it found, as the rows were then.
    /// Repeats the search while other commits replace or delete these rows in between.
    ///
    /// # Errors
    ///
    /// Those of `search`, of [`Index::text_ids_of`] and of [`Index::payloads_of`]; [`Error::Busy`]
    /// if commits replace these rows too often.
    pub fn search_and_read(
        &self,
        parts: RowParts,
        mut search: impl FnMut() -> Result<SearchResult, Error>,
    ) -> Result<(SearchResult, ReadParts), Error> {
        for _ in 0..SEARCHES_MAX {
            let result = search()?;
            if let Some(read) = self.parts_of(&result, parts)? {
                return Ok((result, read));
            }
        }
        Err(Error::busy("rows were replaced too often between search and read; try again"))
    }

    fn parts_of(&self, result: &SearchResult, parts: RowParts) -> Result<Option<ReadParts>, Error> {
        let mut read = ReadParts::default();
        if parts.text_ids {
            let Some(text_ids) = self.text_ids_of(result)? else { return Ok(None) };
            read.text_ids = Some(text_ids);
        }
        if parts.payloads {
            let Some(payloads) = self.payloads_of(result)? else { return Ok(None) };
            read.payloads = Some(payloads);
        }
        Ok(Some(read))
    }

    /// The result of `read` for the places of the records of rows that a search found; `None` if
    /// one of the rows was replaced or deleted since.
    fn read_of<T>(
        &self,
        result: &SearchResult,
        mut read: impl FnMut(&State, &mut P::Reader<'_>, &Hit, Option<RecordPlace>) -> Result<T, Error>,
    ) -> Result<Option<Vec<T>>, Error> {
        let mut all = Vec::with_capacity(result.hits.len());
        for part in result.hits.chunks(AHEAD) {
            let found = looked_up(self.pages(), self.newest(), false, |state, reader| {
                // Rows of a graph that was trained later do not have the commits that added them.
                if state.meta.change.retired_at > result.snapshot {
                    return Ok(Some(None));
                }
                let Some(places) = places_of(state, reader, part, result.snapshot)? else { return Ok(Some(None)) };
                let mut found = Vec::with_capacity(part.len());
                for (hit, place) in part.iter().zip(places) {
                    found.push(read(state, reader, hit, place)?);
                }
                Ok(Some(Some(found)))
            })?;
            let Some(found) = found else { return Ok(None) };
            all.extend(found);
        }
        Ok(Some(all))
    }

    fn expect_payloads(&self) -> Result<(), Error> {
        match self.keeps_payloads() {
            true => Ok(()),
            false => Err(keeps_no_payloads()),
        }
    }
}

/// The places of the records of rows that a search of `snapshot` found, whose pages begin to be
/// read; `None` if one of the rows was replaced or deleted since.
fn places_of(
    state: &State,
    reader: &mut impl Reader,
    hits: &[Hit],
    snapshot: u64,
) -> Result<Option<Vec<Option<RecordPlace>>>, Error> {
    let mut places = Vec::with_capacity(hits.len());
    for hit in hits {
        // The row must still be there: vacuum may free the node of one that is gone at any time.
        let of_row = (hit.row_id, hit.node);
        let is_there = place_of(&state.meta, reader, of_row, state.snapshot)?.is_some();
        let Some(place) = place_of(&state.meta, reader, of_row, snapshot)?.filter(|_| is_there) else {
            return Ok(None);
        };
        if let Some(place) = place {
            reader.start(place.page, 0..BODY_BYTES);
        }
        places.push(place);
    }
    Ok(Some(places))
}

/// The payload of the newest row with an id.
fn payload_of_id<I: RowId>(
    state: &State,
    reader: &mut impl Reader,
    id: &I,
) -> Result<Looked<Option<Vec<u8>>>, Error> {
    let found = match find_id(&state.meta, reader, id.key(), state.snapshot)? {
        Looked::Row(found) => found,
        Looked::Changed => return Ok(Looked::Changed),
        Looked::Unknown => return Ok(Looked::Unknown),
    };
    Ok(match place_of(&state.meta, reader, found, state.snapshot)? {
        Some(Some(place)) => Looked::Row(read_payload(state, reader, place)?),
        Some(None) => Looked::Row(None),
        None => Looked::Changed,
    })
}

/// The user's payload at a place that a node names.
fn read_payload(state: &State, reader: &mut impl Reader, place: RecordPlace) -> Result<Option<Vec<u8>>, Error> {
    let bytes = record_pages::read(reader, place)?;
    Ok(state.meta.record_shape().decode(place, &bytes)?.payload.map(<[u8]>::to_vec))
}
