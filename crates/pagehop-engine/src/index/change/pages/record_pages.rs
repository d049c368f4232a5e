//! Writes records to pages, and frees their places.
//!
//! A record belongs to one node. It is written before its node, and freed when the slot of the node
//! becomes free. When the model is trained again, records of live rows stay in their places and
//! belong to the new nodes. Records of dead nodes are freed with the retired graph.

use super::spare;
use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::page::kind;
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_DEAD, FLAGS_UNLINKED, NodeRef};
use crate::page::record_pages::{self, PART_BYTES, ROOM_LISTED, ROOM_MIN, RecordPlace, StoredRecord};
use crate::page::{PageId, PagesMut, Reader};

/// Pages of the list of pages with room that are tried for a record before it gets another page.
const PAGES_TRIED: usize = 4;

/// Writes a record. Returns its place, as the number that a node stores.
pub(in crate::index::change) fn keep<W: PagesMut>(steps: &mut Steps<'_, W>, bytes: &[u8]) -> Result<u64, Error> {
    record_pages::check_length(bytes)?;
    let mut parts = 0;
    for part in bytes.chunks_exact(PART_BYTES).rev() {
        let page = empty_page(steps)?;
        steps.step(&[page], &mut |bodies| {
            record_pages::write_part(bodies[0], part, parts);
            Ok(())
        })?;
        parts = page.0;
    }
    let rest = record_pages::on_page(bytes, parts);
    let page = page_with_room(steps, rest.len())?;
    let mut number = None;
    steps.step_meta(&[page], &mut |meta, bodies| {
        let body = &mut *bodies[0];
        number = record_pages::put(page, body, &rest)?;
        unlist_if_full(meta, page, body)
    })?;
    let number = number.ok_or_else(|| Error::corrupt(page, "a record does not fit the room that it has"))?;
    Ok(RecordPlace { page, number }.key())
}

/// A page without records that is in no list: the first of the list of empty pages, or a new one.
/// Pages of records outlive a graph that is retired, so those below its end serve, too.
fn empty_page<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<PageId, Error> {
    let first = PageId(steps.meta().change.spare_head);
    if first.0 != 0 && spare::take_first(steps, first)? {
        return Ok(first);
    }
    steps.allocate(1)
}

/// A page of records with at least `bytes` bytes of room: one of the first of the list of pages
/// with room, or else an empty page, which joins that list.
fn page_with_room<W: PagesMut>(steps: &mut Steps<'_, W>, bytes: usize) -> Result<PageId, Error> {
    let mut page = PageId(steps.meta().change.records_head);
    for _ in 0..PAGES_TRIED {
        if page.0 == 0 {
            break;
        }
        let next = {
            let reader = steps.reader();
            let body = reader.finish(page)?;
            if record_pages::room(page, &body)? >= bytes {
                return Ok(page);
            }
            FreeLink::read(&body).next
        };
        page = PageId(next);
    }
    pass_first_page(steps)?;
    let page = empty_page(steps)?;
    steps.step_meta(&[page], &mut |meta, bodies| {
        record_pages::init(bodies[0]);
        list(meta, page, bodies[0]);
        Ok(())
    })?;
    Ok(page)
}

/// Takes the first page off the list of pages with room, so that the next record does not try it
/// again: it had too little room. It joins the list again when enough of it is freed.
fn pass_first_page<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<(), Error> {
    let first = PageId(steps.meta().change.records_head);
    if first.0 == 0 {
        return Ok(());
    }
    steps.step_meta(&[first], &mut |meta, bodies| {
        kind::expect_kind(first, bodies[0], kind::PageKind::Records)?;
        meta.change.records_head = FreeLink::read(bodies[0]).next;
        FreeLink::default().write(bodies[0]);
        Ok(())
    })
}

/// Reads the record in a place that a node names.
pub(in crate::index::change) fn read<W: PagesMut>(steps: &Steps<'_, W>, place: u64) -> Result<Vec<u8>, Error> {
    record_pages::read(&mut steps.reader(), RecordPlace::of_key(place))
}

/// The place of a node's record; `None` if it has none.
pub(in crate::index::change) fn place_of<W: PagesMut>(
    steps: &Steps<'_, W>,
    node: NodeId,
) -> Result<Option<u64>, Error> {
    if !steps.meta().has_places() {
        return Ok(None);
    }
    steps.look(node, |found, _| found.values().last_key())
}

/// Frees the place of a record.
pub(super) fn free<W: PagesMut>(steps: &mut Steps<'_, W>, place: u64) -> Result<(), Error> {
    let place = RecordPlace::of_key(place);
    let (count, mut part) = {
        let reader = steps.reader();
        let body = reader.finish(place.page)?;
        let StoredRecord { length, parts, .. } = record_pages::read_record(place, &body)?;
        (record_pages::parts_of(length), PageId(parts))
    };
    for _ in 0..count {
        let mut next = 0;
        steps.step_meta(&[part], &mut |meta, bodies| {
            let body = &mut *bodies[0];
            kind::expect_kind(part, body, kind::PageKind::RecordPart)?;
            next = record_pages::next_part(body);
            spare::give(meta, part, body);
            Ok(())
        })?;
        part = PageId(next);
    }
    steps.step_meta(&[place.page], &mut |meta, bodies| {
        let body = &mut *bodies[0];
        record_pages::remove(place, body)?;
        match FreeLink::read(body).listed {
            true => {}
            false if record_pages::entries(place.page, body)?.is_empty() => spare::give(meta, place.page, body),
            false if record_pages::room(place.page, body)? >= ROOM_LISTED => list(meta, place.page, body),
            false => {}
        }
        Ok(())
    })
}

/// Frees the records of the dead nodes on a page of a retired graph. Records of live nodes belong
/// to the new graph.
pub(super) fn free_of_dead<W: PagesMut>(steps: &mut Steps<'_, W>, page: PageId) -> Result<(), Error> {
    if !steps.meta().has_places() {
        return Ok(());
    }
    let layout = steps.layout();
    let places: Vec<u64> = {
        let reader = steps.reader();
        let body = reader.finish(page)?;
        let nodes = (0..layout.nodes_per_page).map(|slot| NodeRef::new(&layout, &body, slot));
        let dead = nodes.filter(|node| matches!(node.header().flags, FLAGS_DEAD | FLAGS_UNLINKED));
        dead.filter_map(|node| node.values().last_key()).collect()
    };
    places.into_iter().try_for_each(|place| free(steps, place))
}

/// Puts a page at the front of the list of pages with room.
fn list(meta: &mut Meta, page: PageId, body: &mut [u8]) {
    FreeLink { listed: true, next: meta.change.records_head }.write(body);
    meta.change.records_head = page.0;
}

/// Takes a page off the list of pages with room if it is the first and has less than [`ROOM_MIN`].
fn unlist_if_full(meta: &mut Meta, page: PageId, body: &mut [u8]) -> Result<(), Error> {
    if meta.change.records_head == page.0 && record_pages::room(page, body)? < ROOM_MIN {
        meta.change.records_head = FreeLink::read(body).next;
        FreeLink::default().write(body);
    }
    Ok(())
}
