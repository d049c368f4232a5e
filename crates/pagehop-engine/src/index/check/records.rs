//! Checks records: each belongs to one node, each page of parts to one record, and each node that
//! names a record has it. Where ids are texts, the record of each node has one (`texts.rs`), and
//! tags are those of the words of its node (`tags.rs`).

use std::collections::HashSet;

use super::tags;
use super::texts::Texts;
use crate::columns::RowValues;
use crate::index::state::State;
use crate::page::kind::{PageKind, kind};
use crate::page::layout::FreeLink;
use crate::page::node::{FLAGS_DEAD, FLAGS_FREE, FLAGS_LIVE, FLAGS_UNLINKED, NodeRef};
use crate::page::record_pages::{self, RecordPlace};
use crate::page::{PageId, Reader};
use crate::{Error, IdKind};

/// What was read of records.
#[derive(Default)]
struct RecordCheck {
    /// Records on pages.
    records: HashSet<RecordPlace>,
    parts: HashSet<PageId>,
    listed: HashSet<PageId>,
}

/// Checks all records of an index.
///
/// # Errors
///
/// [`Error::Corrupt`]; any error of the reader.
pub(crate) fn check<R: Reader>(state: &State, reader: &mut R) -> Result<(), Error> {
    empty_pages(state, reader)?;
    if !state.meta.has_places() {
        return Ok(());
    }
    let mut found = RecordCheck::default();
    let pages = (1..state.meta.page_count).map(PageId);
    for page in pages.clone() {
        found.look(reader, page)?;
        reader.release();
    }
    found.lists(state, reader)?;
    let mut texts = Texts::default();
    for page in pages {
        let owned = named(state, reader, page)?;
        reader.release();
        for Owned { place, row_id, is_live, values } in owned {
            if let Some(place) = place {
                found.take(reader, page, place)?;
            }
            if state.meta.has_tags {
                tags::check(state, reader, page, RowValues(&values))?;
            }
            if state.meta.id_kind == IdKind::Text {
                texts.take(&state.meta, reader, (page, row_id, is_live), place)?;
            }
        }
    }
    texts.finish(&state.meta, reader)?;
    if let Some(place) = found.records.iter().min() {
        return Err(Error::corrupt(place.page, format!("no row names record {}", place.number)));
    }
    match found.parts.iter().min() {
        Some(page) => Err(Error::corrupt(*page, "it belongs to no record")),
        None => Ok(()),
    }
}

/// Checks that the list of empty pages has pages without records alone, each once.
fn empty_pages<R: Reader>(state: &State, reader: &mut R) -> Result<(), Error> {
    let mut page = PageId(state.meta.change.spare_head);
    for _ in 0..state.meta.page_count {
        if page.0 == 0 {
            return Ok(());
        }
        let link = {
            let body = reader.finish(page)?;
            let link = FreeLink::read(&body);
            if !record_pages::entries(page, &body)?.is_empty() || !link.listed {
                return Err(Error::corrupt(page, "the list of empty pages leads to it, and it is none"));
            }
            link
        };
        reader.release();
        page = PageId(link.next);
    }
    Err(Error::corrupt(page, "the list of empty pages goes in circles"))
}

/// A node that may own a record.
struct Owned {
    place: Option<RecordPlace>,
    row_id: u64,
    is_live: bool,
    values: Vec<u8>,
}

/// The nodes on a page, and the records that they own: all but free ones, and of a retired graph
/// the dead ones only.
fn named<R: Reader>(state: &State, reader: &R, page: PageId) -> Result<Vec<Owned>, Error> {
    let layout = &state.meta.layout;
    let body = reader.finish(page)?;
    if !state.meta.has_nodes(&body) {
        return Ok(Vec::new());
    }
    let is_retired = page.0 < state.meta.change.retired_end;
    let owns = |flags: u8| match is_retired {
        true => matches!(flags, FLAGS_DEAD | FLAGS_UNLINKED),
        false => flags != FLAGS_FREE,
    };
    let nodes = (0..layout.nodes_per_page).map(|slot| NodeRef::new(layout, &body, slot));
    let owned = nodes.map(|node| (node, node.header())).filter(|(_, header)| owns(header.flags));
    let owned = owned.map(|(node, header)| Owned {
        place: node.values().last_key().map(RecordPlace::of_key),
        row_id: header.row_id,
        is_live: header.flags == FLAGS_LIVE,
        values: node.values().0.to_vec(),
    });
    Ok(owned.collect())
}

impl RecordCheck {
    fn look<R: Reader>(&mut self, reader: &R, page: PageId) -> Result<(), Error> {
        let body = reader.finish(page)?;
        match kind(&body) {
            Some(PageKind::Records) => {
                let entries = record_pages::entries(page, &body)?;
                let taken = (0..entries.len()).filter(|number| entries[*number].0 > 0);
                self.records.extend(taken.map(|number| RecordPlace { page, number: number as u16 }));
                if FreeLink::read(&body).listed {
                    self.listed.insert(page);
                }
            }
            Some(PageKind::RecordPart) => drop(self.parts.insert(page)),
            _ => {}
        }
        Ok(())
    }

    /// Checks that the lists of pages with room and of empty pages have those that are marked, each
    /// once.
    fn lists<R: Reader>(&mut self, state: &State, reader: &mut R) -> Result<(), Error> {
        for first in [state.meta.change.records_head, state.meta.change.spare_head] {
            let mut page = PageId(first);
            while page.0 != 0 {
                if !self.listed.remove(&page) {
                    return Err(Error::corrupt(page, "a list of pages of records leads to it, or to it again"));
                }
                page = PageId(FreeLink::read(&reader.finish(page)?).next);
                reader.release();
            }
        }
        match self.listed.iter().min() {
            Some(page) => Err(Error::corrupt(*page, "it is in no list of pages of records")),
            None => Ok(()),
        }
    }

    /// Takes what belongs to a record that a node on `page` names.
    fn take<R: Reader>(&mut self, reader: &mut R, page: PageId, place: RecordPlace) -> Result<(), Error> {
        if !self.records.remove(&place) {
            let what = format!("a row names record {} of page {}, which is another's", place.number, place.page.0);
            return Err(Error::corrupt(page, what));
        }
        let (count, mut part) = {
            let body = reader.finish(place.page)?;
            let record = record_pages::read_record(place, &body)?;
            (record_pages::parts_of(record.length), PageId(record.parts))
        };
        reader.release();
        for _ in 0..count {
            if !self.parts.remove(&part) {
                let what = format!("record {} has a part on page {}, which is another's", place.number, part.0);
                return Err(Error::corrupt(place.page, what));
            }
            part = PageId(record_pages::next_part(&reader.finish(part)?));
            reader.release();
        }
        Ok(())
    }
}
