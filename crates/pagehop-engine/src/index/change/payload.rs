//! Payloads of rows that are added and of nodes that are freed.
//!
//! A payload belongs to one node. It is written before its node, and goes when the slot of the node
//! becomes free. When the model is trained again, the payloads of live rows stay where they are and
//! belong to the new nodes; those of dead nodes go with the retired graph.

use std::collections::HashMap;

use super::Change;
use super::encode::Encoded;
use super::graph::Graph;
use super::steps::Steps;
use crate::Error;
use crate::columns::tags::check_count;
use crate::columns::{ColumnRows, RowValues, set_last_key};
use crate::ids::NodeId;
use crate::page::kind;
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_DEAD, FLAGS_UNLINKED, NodeRef};
use crate::page::payload::{self, PART_BYTES, PayloadPlace, ROOM_LISTED, ROOM_MIN, Record};
use crate::page::{PageId, PagesMut, Reader};

/// Pages of the list that are tried for a payload before it gets a new page.
const PAGES_TRIED: usize = 4;

impl<W: PagesMut> Steps<'_, W> {
    /// Writes a payload, and returns its place as a node names it.
    pub(super) fn keep_payload(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        payload::check_length(bytes)?;
        let mut parts = 0;
        for part in bytes.chunks_exact(PART_BYTES).rev() {
            let page = self.empty_payload_page()?;
            self.step(&[page], &mut |bodies| {
                payload::write_part(bodies[0], part, parts);
                Ok(())
            })?;
            parts = page.0;
        }
        let record = payload::record(bytes, parts);
        let page = self.page_with_room(record.len())?;
        let mut number = None;
        self.step_meta(&[page], &mut |meta, bodies| {
            let body = &mut *bodies[0];
            number = payload::put(page, body, &record)?;
            unlist_if_full(meta, page, body)
        })?;
        let number = number.ok_or_else(|| Error::corrupt(page, "a payload does not fit the room that it has"))?;
        Ok(PayloadPlace { page, number }.key())
    }

    /// A page without payloads, which is in no list.
    fn empty_payload_page(&mut self) -> Result<PageId, Error> {
        let first = PageId(self.meta().change.payload_empty);
        if first.0 == 0 {
            return self.allocate(1);
        }
        self.step_meta(&[first], &mut |meta, bodies| {
            if !payload::entries(first, bodies[0])?.is_empty() {
                return Err(Error::corrupt(first, "it has payloads, and is in the list of pages without any"));
            }
            meta.change.payload_empty = FreeLink::read(bodies[0]).next;
            FreeLink::default().write(bodies[0]);
            Ok(())
        })?;
        Ok(first)
    }

    fn page_with_room(&mut self, bytes: usize) -> Result<PageId, Error> {
        let mut page = PageId(self.meta().change.payload_head);
        for _ in 0..PAGES_TRIED {
            if page.0 == 0 {
                break;
            }
            let next = {
                let reader = self.reader();
                let body = reader.finish(page)?;
                if payload::room(page, &body)? >= bytes {
                    return Ok(page);
                }
                FreeLink::read(&body).next
            };
            page = PageId(next);
        }
        self.pass_first_page()?;
        let page = self.empty_payload_page()?;
        self.step_meta(&[page], &mut |meta, bodies| {
            payload::init(bodies[0]);
            list(meta, page, bodies[0]);
            Ok(())
        })?;
        Ok(page)
    }

    /// Takes the first page off the list, whose room was too small for a payload: pages behind it
    /// have their turn. It comes back when a payload on it is freed.
    fn pass_first_page(&mut self) -> Result<(), Error> {
        let first = PageId(self.meta().change.payload_head);
        if first.0 == 0 {
            return Ok(());
        }
        self.step_meta(&[first], &mut |meta, bodies| {
            kind::expect_kind(first, bodies[0], kind::PageKind::Payload)?;
            meta.change.payload_head = FreeLink::read(bodies[0]).next;
            FreeLink::default().write(bodies[0]);
            Ok(())
        })
    }

    /// The payload in a place that a node names.
    pub(super) fn payload(&self, place: u64) -> Result<Vec<u8>, Error> {
        payload::read(&mut self.reader(), PayloadPlace::of_key(place))
    }

    /// The place of a node's payload, if it has one.
    pub(super) fn payload_of(&self, node: NodeId) -> Result<Option<u64>, Error> {
        if !self.meta().has_places() {
            return Ok(None);
        }
        self.look(node, |found, _| found.values().last_key())
    }

    /// Frees the place of a payload.
    pub(super) fn free_payload(&mut self, place: u64) -> Result<(), Error> {
        let place = PayloadPlace::of_key(place);
        let (count, mut part) = {
            let reader = self.reader();
            let body = reader.finish(place.page)?;
            let Record { length, parts, .. } = payload::read_record(place, &body)?;
            (payload::parts_of(length), PageId(parts))
        };
        for _ in 0..count {
            let mut next = 0;
            self.step_meta(&[part], &mut |meta, bodies| {
                let body = &mut *bodies[0];
                kind::expect_kind(part, body, kind::PageKind::PayloadPart)?;
                next = payload::next_part(body);
                payload::init(body);
                list_empty(meta, part, body);
                Ok(())
            })?;
            part = PageId(next);
        }
        self.step_meta(&[place.page], &mut |meta, bodies| {
            let body = &mut *bodies[0];
            payload::remove(place, body)?;
            match FreeLink::read(body).listed {
                true => {}
                false if payload::entries(place.page, body)?.is_empty() => list_empty(meta, place.page, body),
                false if payload::room(place.page, body)? >= ROOM_LISTED => list(meta, place.page, body),
                false => {}
            }
            Ok(())
        })
    }

    /// Frees the payloads of the dead nodes on a page of a retired graph. Those of the others
    /// belong to the graph that followed.
    pub(super) fn free_payloads_of_dead(&mut self, page: PageId) -> Result<(), Error> {
        if !self.meta().has_places() {
            return Ok(());
        }
        let layout = self.layout();
        let places: Vec<u64> = {
            let reader = self.reader();
            let body = reader.finish(page)?;
            let nodes = (0..layout.nodes_per_page).map(|slot| NodeRef::new(&layout, &body, slot));
            let dead = nodes.filter(|node| matches!(node.header().flags, FLAGS_DEAD | FLAGS_UNLINKED));
            dead.filter_map(|node| node.values().last_key()).collect()
        };
        places.into_iter().try_for_each(|place| self.free_payload(place))
    }
}

fn list(meta: &mut Meta, page: PageId, body: &mut [u8]) {
    FreeLink { listed: true, next: meta.change.payload_head }.write(body);
    meta.change.payload_head = page.0;
}

fn list_empty(meta: &mut Meta, page: PageId, body: &mut [u8]) {
    FreeLink { listed: true, next: meta.change.payload_empty }.write(body);
    meta.change.payload_empty = page.0;
}

/// Takes the first page of the list off it if it has hardly any room.
fn unlist_if_full(meta: &mut Meta, page: PageId, body: &mut [u8]) -> Result<(), Error> {
    if meta.change.payload_head == page.0 && payload::room(page, body)? < ROOM_MIN {
        meta.change.payload_head = FreeLink::read(body).next;
        FreeLink::default().write(body);
    }
    Ok(())
}

impl<W: PagesMut> Graph<'_, W> {
    /// Writes the payload of a row that is about to be inserted, and names it in the `values` of
    /// its node.
    pub(super) fn keep_payload(&mut self, values: &mut [u8], payload: Option<&[u8]>) -> Result<(), Error> {
        if !self.meta().has_places() {
            return Ok(());
        }
        let keep = |payload: &[u8]| self.in_section(|graph| graph.steps_mut().keep_payload(payload));
        let place = payload.map(keep).transpose()?;
        set_last_key(values, place);
        Ok(())
    }

    /// Whether the node `old` has this payload. Then `values`, those of a row that may replace it,
    /// name it, too.
    pub(super) fn has_payload(
        &self,
        old: NodeId,
        values: &mut [u8],
        payload: Option<&[u8]>,
    ) -> Result<bool, Error> {
        if !self.meta().has_places() {
            return Ok(true);
        }
        let place = self.steps().payload_of(old)?;
        set_last_key(values, place);
        match (place, payload) {
            (None, None) => Ok(true),
            (Some(place), Some(payload)) => Ok(self.steps().payload(place)? == payload),
            _ => Ok(false),
        }
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Readies rows that the index is about to be trained with: the rows that they replace are
    /// dead, and their payloads have places. Returns how many rows are replaced.
    pub(super) fn keep_payloads(
        &mut self,
        ids: &[u64],
        values: &mut ColumnRows,
        records: Option<&[Option<Vec<u8>>]>,
    ) -> Result<u64, Error> {
        if !self.graph.meta().has_places() {
            return Ok(0);
        }
        let last: HashMap<u64, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let mut replaced = 0;
        for (at, id) in ids.iter().enumerate().filter(|(at, id)| last[id] == *at) {
            if let Some(old) = self.graph.steps().find_row(*id)? {
                self.graph.steps_mut().map_row(*id, None, Some(old))?;
                replaced += 1;
            }
            if let Some(record) = records.and_then(|records| records[at].as_deref()) {
                let place = self.graph.steps_mut().keep_payload(record)?;
                values.set_place(at, Some(place));
            }
        }
        Ok(replaced)
    }

    /// Makes `encoded`, which is what the node of a row holds but for its new tags, a row with
    /// these keys of columns, and with `payload`, if one is given. Returns whether anything
    /// changes. What stays of the record is copied: each node has its own.
    pub(super) fn updated(
        &mut self,
        encoded: &mut Encoded,
        mut keys: Vec<Option<u64>>,
        payload: Option<Option<&[u8]>>,
    ) -> Result<bool, Error> {
        let meta = self.graph.meta();
        let (keeps, shape) = (meta.has_places(), meta.record_shape());
        let place = RowValues(&encoded.values).last_key().filter(|_| keeps);
        if keeps {
            keys.push(place);
        }
        let mut new = ColumnRows::default();
        new.push_keys(&keys);
        let old = place.map(|place| self.graph.steps().payload(place)).transpose()?;
        let (text, kept) = match (place, &old) {
            (Some(place), Some(old)) => {
                let old = shape.decode(PayloadPlace::of_key(place), old)?;
                (old.text, old.payload)
            }
            _ => (None, None),
        };
        check_count(encoded.sets.iter().map(Vec::len).sum())?;
        let record = shape.encode(&encoded.sets, text, payload.unwrap_or(kept));
        if new.bytes() == encoded.values && record == old {
            return Ok(false);
        }
        encoded.values = new.bytes().to_vec();
        self.graph.keep_payload(&mut encoded.values, record.as_deref())?;
        Ok(true)
    }
}
