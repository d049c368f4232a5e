//! Rows by their id: the node of each, as of the newest commit.
//!
//! Pages of the map may be newer than a reader's snapshot, and those of one commit become visible
//! one after the other. Only a split moves ids between pages of the map, and every split adds a
//! page, which is counted before the pages that lost ids are visible. So a look-up in the map
//! counts if the number of pages is that of the newest commit before and after it.

use std::sync::Arc;

use crate::Error;
use crate::ids::NodeId;
use crate::index::state::{Newest, State};
use crate::page::meta::Meta;
use crate::page::node::with_node;
use crate::page::record_pages::RecordPlace;
use crate::page::{PageId, Pages, Reader, id_map};
use crate::row_ids::{self, IdKey, IdKind, RowId};
use crate::text_ids;

/// How often rows are looked up again because a commit becomes visible: some seconds. Mostly that
/// takes microseconds; after the death of a writer, as long as the next one needs to read the log.
const TRIES_MAX: usize = 1_000_000;

/// Nodes whose pages are being read while those before them are decoded.
pub(crate) const AHEAD: usize = 16;

/// The outcome of a look-up of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Looked<T> {
    Row(T),
    /// Another commit has replaced the row, or is about to.
    Changed,
    Unknown,
}

/// Refuses ids of another kind than those of an index.
pub(crate) fn expect_ids<I: RowId>(newest: &Newest) -> Result<(), Error> {
    row_ids::check_kind(newest.known().meta.id_kind, I::KIND)
}

/// The result of `look` in the newest state, once it finds something and no commit became visible
/// at the same time.
pub(crate) fn settled<P: Pages, T>(
    pages: &P,
    newest: &Newest,
    look: impl FnMut(&State, &mut P::Reader<'_>) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    looked_up(pages, newest, true, look)
}

/// The result of `look` in the newest state. If it goes `by_map`, no commit may become visible
/// during the call. Nodes that a search found stay where they are as long as a reader sees their
/// rows; so they are read even if a writer died while it showed a commit.
pub(crate) fn looked_up<P: Pages, T>(
    pages: &P,
    newest: &Newest,
    by_map: bool,
    mut look: impl FnMut(&State, &mut P::Reader<'_>) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let mut reader = pages.reader();
    let mut last = None;
    for _ in 0..TRIES_MAX {
        let state: Arc<State> = newest.renew(&mut reader)?;
        let before = pages.page_count();
        let found = look(&state, &mut reader);
        reader.release();
        let is_settled = pages.page_count() == before && state.meta.page_count == before;
        match found {
            Ok(Some(found)) if is_settled || !by_map => return Ok(found),
            // Pages of two commits may contradict each other. Pages of one may not.
            Err(error) if is_settled && last == Some(state.meta.change.commit) => return Err(error),
            Err(Error::Corrupt { .. }) | Ok(_) => {}
            Err(error) => return Err(error),
        }
        last = Some(state.meta.change.commit);
        std::thread::yield_now();
    }
    Err(Error::busy("the index changed too often while rows were looked up; try again"))
}

/// The root of the map; `None` if there are no rows.
///
/// # Errors
///
/// [`Error::Argument`] if the host owns the row ids.
pub(crate) fn root(meta: &Meta) -> Result<Option<PageId>, Error> {
    match (meta.id_kind, meta.change.id_root) {
        (IdKind::HostOwned, _) => Err(Error::argument("the host of this index owns its row ids")),
        (_, 0) => Ok(None),
        (_, root) => Ok(Some(PageId(root))),
    }
}

/// The node of the row with a number.
pub(crate) fn find(meta: &Meta, reader: &mut impl Reader, number: u64) -> Result<Option<NodeId>, Error> {
    let found = match root(meta)? {
        Some(root) => id_map::find(reader, root, number)?.1,
        None => None,
    };
    reader.release();
    Ok(found)
}

/// The number and the node of the row with an id, for a reader of `snapshot`.
pub(crate) fn find_id(
    meta: &Meta,
    reader: &mut impl Reader,
    id: IdKey<'_>,
    snapshot: u64,
) -> Result<Looked<(u64, NodeId)>, Error> {
    match id {
        IdKey::Int(number) => {
            Ok(find(meta, reader, number)?.map_or(Looked::Unknown, |node| Looked::Row((number, node))))
        }
        IdKey::Text(text) => find_text(meta, reader, text, snapshot),
    }
}

fn find_text(
    meta: &Meta,
    reader: &mut impl Reader,
    text: &str,
    snapshot: u64,
) -> Result<Looked<(u64, NodeId)>, Error> {
    for number in text_ids::numbers(text_ids::hash(meta.seed, text)) {
        let Some(node) = find(meta, reader, number)? else { continue };
        match text_of(meta, reader, (number, node), snapshot)? {
            Some(of_row) if of_row == text => return Ok(Looked::Row((number, node))),
            Some(_) => {}
            None => return Ok(Looked::Changed),
        }
    }
    Ok(Looked::Unknown)
}

/// The place of the record of the row with this number in `node`, and `None` if a reader of
/// `snapshot` does not see that row there.
pub(crate) fn place_of(
    meta: &Meta,
    reader: &mut impl Reader,
    (number, node): (u64, NodeId),
    snapshot: u64,
) -> Result<Option<Option<RecordPlace>>, Error> {
    let (place, is_its_row) = with_node(&meta.layout, reader, node, |node, header| {
        (node.values().last_key(), header.row_id == number && header.is_visible(snapshot))
    })?;
    reader.release();
    Ok(is_its_row.then(|| place.map(RecordPlace::of_key)))
}

/// The text of the row with this number in `node`, and `None` if a reader of `snapshot` does not
/// see that row there.
pub(crate) fn text_of(
    meta: &Meta,
    reader: &mut impl Reader,
    (number, node): (u64, NodeId),
    snapshot: u64,
) -> Result<Option<String>, Error> {
    let Some(place) = place_of(meta, reader, (number, node), snapshot)? else { return Ok(None) };
    let page = meta.layout.place(node).0;
    read_text(meta, reader, (number, page), place).map(Some)
}

/// The text of the row with this number, which a node on `page` says is at `place`.
///
/// # Errors
///
/// [`Error::Corrupt`] if there is none, or one that does not lead to this number.
pub(crate) fn read_text(
    meta: &Meta,
    reader: &mut impl Reader,
    (number, page): (u64, PageId),
    place: Option<RecordPlace>,
) -> Result<String, Error> {
    let place = place.ok_or_else(|| Error::corrupt(page, format!("row {number} has no text id")))?;
    let text = meta.record_shape().read_text(reader, place)?;
    if text_ids::numbers(text_ids::hash(meta.seed, &text)).any(|of_text| of_text == number) {
        return Ok(text);
    }
    let what = format!("record {} has the id {text:?}, which does not lead to row {number}", place.number);
    Err(Error::corrupt(place.page, what))
}
