//! Pages of records: what an index keeps of rows outside of their nodes (`row_record.rs`), so that
//! a walk does not read it.
//!
//! A node names the place of its row's record: a page and the number of an entry on it. A record
//! stays in its place as long as the node exists, so a reader that sees the row finds its record,
//! whatever is committed at the same time. A long record has its first bytes on pages of parts, and
//! the rest on the page of records.
//!
//! Pages of records with room form a list, like pages of nodes with free slots. Empty pages form
//! another list.

use super::fields::{Fields, FieldsMut};
use super::kind::{self, PageKind};
use super::layout::FreeLink;
use super::{BODY_BYTES, PageId, PageSink, Reader};
use crate::Error;

/// Most bytes of a record, and so of a payload: the row's tags and its text id count, too.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of a record on a page of parts.
pub(crate) const PART_BYTES: usize = 8108;
/// A page of records joins the list of pages with room when it has at least this many free bytes.
pub(crate) const ROOM_LISTED: usize = 2048;
/// The first page of that list leaves it when it has fewer free bytes than this.
pub(crate) const ROOM_MIN: usize = 256;

const COUNT_AT: usize = 2;
/// Position of the offset at which records begin. They end at the end of the body.
const LOW_AT: usize = 8;
const NEXT_AT: usize = 4;
const FIRST_AT: usize = 40;
/// Bytes of an entry: the offset and the length of what lies on the page of a record.
const ENTRY_BYTES: usize = 4;
/// Bytes on the page before the rest of a record: its length, and the first page of parts.
const RECORD_HEADER_BYTES: usize = 8;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordPlace {
    pub(crate) page: PageId,
    pub(crate) number: u16,
}

impl RecordPlace {
    /// The place as the number that a node stores.
    pub(crate) fn key(self) -> u64 {
        u64::from(self.page.0) << 16 | u64::from(self.number)
    }

    pub(crate) fn of_key(key: u64) -> Self {
        // The reader of the page refuses a page beyond the end.
        Self { page: PageId(u32::try_from(key >> 16).unwrap_or(u32::MAX)), number: key as u16 }
    }
}

/// A record, as it lies on its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord<'a> {
    pub(crate) length: usize,
    /// First page of its parts; 0 if there are none.
    pub(crate) parts: u32,
    /// The bytes after those of the parts.
    pub(crate) rest: &'a [u8],
}

/// Pages of parts that a record of this length takes.
pub(crate) fn parts_of(length: usize) -> usize {
    length / PART_BYTES
}

/// What lies on the page of a record, whose first page of parts is `parts`, 0 if there are none.
pub(crate) fn on_page(record: &[u8], parts: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RECORD_HEADER_BYTES + PART_BYTES);
    bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&parts.to_le_bytes());
    bytes.extend_from_slice(&record[parts_of(record.len()) * PART_BYTES..]);
    bytes
}

/// Makes a body a page of parts with the bytes `part`. `next` is the next page of parts; 0 if there
/// is none.
pub(crate) fn write_part(body: &mut [u8], part: &[u8], next: u32) {
    kind::clear(body, PageKind::RecordPart);
    FieldsMut::at(body, NEXT_AT).u32(next);
    body[FIRST_AT..FIRST_AT + part.len()].copy_from_slice(part);
}

/// Makes a body an empty page of records.
pub(crate) fn init(body: &mut [u8]) {
    kind::clear(body, PageKind::Records);
    set_head(body, 0, BODY_BYTES);
}

/// The offset and length of each record, by its number; both are 0 if the number is free.
///
/// # Errors
///
/// [`Error::Corrupt`] if the page is not a page of records, or a record lies outside of its area.
pub(crate) fn entries(page: PageId, body: &[u8]) -> Result<Vec<(usize, usize)>, Error> {
    kind::expect_kind(page, body, PageKind::Records)?;
    let (count, low) = head(body);
    let start = FIRST_AT + count * ENTRY_BYTES;
    if start > low || low > BODY_BYTES {
        return Err(Error::corrupt(page, format!("{count} records from byte {low} on")));
    }
    let entries = (0..count).map(|number| {
        let mut fields = Fields::at(body, FIRST_AT + number * ENTRY_BYTES);
        let (offset, length) = (usize::from(fields.u16()), usize::from(fields.u16()));
        let is_free = offset == 0 && length == 0;
        if !is_free && (offset < low || offset + length > BODY_BYTES || length < RECORD_HEADER_BYTES) {
            let what = format!("record {number} has {length} bytes at {offset}, records begin at {low}");
            return Err(Error::corrupt(page, what));
        }
        Ok((offset, length))
    });
    entries.collect()
}

/// The record in a place.
///
/// # Errors
///
/// [`Error::Corrupt`] if there is none, or the page is not a page of records.
pub(crate) fn read_record(place: RecordPlace, body: &[u8]) -> Result<StoredRecord<'_>, Error> {
    let bad = |what: &str| Error::corrupt(place.page, format!("record {}: {what}", place.number));
    let entries = entries(place.page, body)?;
    let (offset, bytes) = entries.get(usize::from(place.number)).copied().unwrap_or_default();
    if offset == 0 {
        return Err(bad("a row names it, and it does not exist"));
    }
    let mut fields = Fields::at(body, offset);
    let (length, parts) = (fields.u32() as usize, fields.u32());
    let rest = &body[offset + RECORD_HEADER_BYTES..offset + bytes];
    let is_right = length <= PAYLOAD_BYTES_MAX && length % PART_BYTES == rest.len();
    if !is_right || (parts == 0) != (parts_of(length) == 0) {
        return Err(bad("its length contradicts its bytes"));
    }
    Ok(StoredRecord { length, parts, rest })
}

/// The room for another record and its entry, in bytes.
///
/// # Errors
///
/// Those of [`entries`].
pub(crate) fn room(page: PageId, body: &[u8]) -> Result<usize, Error> {
    let entries = entries(page, body)?;
    let used: usize = entries.iter().map(|entry| entry.1).sum();
    let entry = if entries.iter().any(|entry| entry.0 == 0) { 0 } else { ENTRY_BYTES };
    Ok((BODY_BYTES - FIRST_AT).saturating_sub(entries.len() * ENTRY_BYTES + used + entry))
}

/// Puts a record on a page, and returns its number; `None` if there is no room.
///
/// # Errors
///
/// Those of [`entries`].
pub(crate) fn put(page: PageId, body: &mut [u8], record: &[u8]) -> Result<Option<u16>, Error> {
    if room(page, body)? < record.len() {
        return Ok(None);
    }
    let mut entries = entries(page, body)?;
    let number = entries.iter().position(|entry| entry.0 == 0).unwrap_or(entries.len());
    if number == entries.len() {
        entries.push((0, 0));
    }
    let mut low = head(body).1;
    if FIRST_AT + entries.len() * ENTRY_BYTES + record.len() > low {
        low = pack(body, &mut entries);
    }
    low -= record.len();
    body[low..low + record.len()].copy_from_slice(record);
    entries[number] = (low, record.len());
    write_entries(body, &entries, low);
    Ok(Some(number as u16))
}

/// Takes a record off its page.
///
/// # Errors
///
/// [`Error::Corrupt`] if there is none; those of [`entries`].
pub(crate) fn remove(place: RecordPlace, body: &mut [u8]) -> Result<(), Error> {
    read_record(place, body)?;
    let mut entries = entries(place.page, body)?;
    let (offset, length) = std::mem::take(&mut entries[usize::from(place.number)]);
    body[offset..offset + length].fill(0);
    let (count, mut low) = head(body);
    while entries.last().is_some_and(|entry| entry.0 == 0) {
        entries.pop();
    }
    if offset == low {
        low = entries.iter().filter(|entry| entry.0 > 0).map(|entry| entry.0).min().unwrap_or(BODY_BYTES);
    }
    body[FIRST_AT..FIRST_AT + count * ENTRY_BYTES].fill(0);
    write_entries(body, &entries, low);
    Ok(())
}

/// Moves all records to the end of the page. Returns the offset of the first.
fn pack(body: &mut [u8], entries: &mut [(usize, usize)]) -> usize {
    let old = body.to_vec();
    body[FIRST_AT..].fill(0);
    let mut low = BODY_BYTES;
    for entry in entries.iter_mut().filter(|entry| entry.0 > 0) {
        low -= entry.1;
        body[low..low + entry.1].copy_from_slice(&old[entry.0..entry.0 + entry.1]);
        entry.0 = low;
    }
    low
}

fn head(body: &[u8]) -> (usize, usize) {
    let count = Fields::at(body, COUNT_AT).u16();
    (count.into(), Fields::at(body, LOW_AT).u16().into())
}

fn set_head(body: &mut [u8], count: usize, low: usize) {
    FieldsMut::at(body, COUNT_AT).u16(count as u16);
    FieldsMut::at(body, LOW_AT).u16(low as u16);
}

fn write_entries(body: &mut [u8], entries: &[(usize, usize)], low: usize) {
    set_head(body, entries.len(), low);
    let mut fields = FieldsMut::at(body, FIRST_AT);
    for (offset, length) in entries {
        fields.u16(*offset as u16);
        fields.u16(*length as u16);
    }
}

/// Reads the first bytes of a record: those of its first page of parts, or all.
///
/// # Errors
///
/// Those of [`read`].
pub(crate) fn read_start<R: Reader>(reader: &mut R, place: RecordPlace) -> Result<Vec<u8>, Error> {
    let (parts, rest) = {
        let body = reader.finish(place.page)?;
        let record = read_record(place, &body)?;
        (PageId(record.parts), record.rest.to_vec())
    };
    reader.release();
    if parts.0 == 0 {
        return Ok(rest);
    }
    let part = {
        let body = reader.finish(parts)?;
        kind::expect_kind(parts, &body, PageKind::RecordPart)?;
        body[FIRST_AT..FIRST_AT + PART_BYTES].to_vec()
    };
    reader.release();
    Ok(part)
}

/// Reads a record.
///
/// # Errors
///
/// [`Error::Corrupt`] if pages contradict each other; any error of the reader.
pub(crate) fn read<R: Reader>(reader: &mut R, place: RecordPlace) -> Result<Vec<u8>, Error> {
    let (length, mut page, rest) = {
        let body = reader.finish(place.page)?;
        let record = read_record(place, &body)?;
        (record.length, PageId(record.parts), record.rest.to_vec())
    };
    reader.release();
    let mut record = Vec::new();
    for _ in 0..parts_of(length) {
        let next = {
            let body = reader.finish(page)?;
            kind::expect_kind(page, &body, PageKind::RecordPart)?;
            record.extend_from_slice(&body[FIRST_AT..FIRST_AT + PART_BYTES]);
            next_part(&body)
        };
        reader.release();
        page = PageId(next);
    }
    record.extend_from_slice(&rest);
    Ok(record)
}

/// The page of parts after this one.
pub(crate) fn next_part(body: &[u8]) -> u32 {
    Fields::at(body, NEXT_AT).u32()
}

/// Refuses a record that is too long: all but its payload is short.
pub(crate) fn check_length(record: &[u8]) -> Result<(), Error> {
    if record.len() <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let what = format!("a payload has {} bytes, up to {PAYLOAD_BYTES_MAX} are kept", record.len());
    Err(Error::argument(what))
}

/// Writes pages of records of a new index to its sink.
pub(crate) struct RecordWriter<'s> {
    sink: &'s mut dyn PageSink,
    /// The page of records that is being filled; none if `body` is empty.
    page: PageId,
    body: Vec<u8>,
    /// The next page to write.
    next: u32,
    /// First page of the list of pages with room; 0 if it is empty.
    pub(crate) listed: u32,
}

impl<'s> RecordWriter<'s> {
    /// Writes pages from `first` on.
    pub(crate) fn new(sink: &'s mut dyn PageSink, first: PageId) -> Self {
        Self { sink, page: first, body: Vec::new(), next: first.0, listed: 0 }
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it is too long; any error of the sink.
    pub(crate) fn write(&mut self, record: &[u8]) -> Result<RecordPlace, Error> {
        check_length(record)?;
        let parts = parts_of(record.len());
        if parts > 0 || self.body.is_empty() {
            self.end_page()?;
        }
        let first = self.next;
        for (at, part) in record.chunks_exact(PART_BYTES).enumerate() {
            let mut body = vec![0; BODY_BYTES];
            let next = if at + 1 < parts { self.next + 1 } else { 0 };
            write_part(&mut body, part, next);
            self.sink.write(PageId(self.next), &body)?;
            self.next += 1;
        }
        let bytes = on_page(record, if parts > 0 { first } else { 0 });
        loop {
            if self.body.is_empty() {
                self.body = vec![0; BODY_BYTES];
                init(&mut self.body);
                self.page = PageId(self.next);
                self.next += 1;
            }
            if let Some(number) = put(self.page, &mut self.body, &bytes)? {
                return Ok(RecordPlace { page: self.page, number });
            }
            self.end_page()?;
        }
    }

    fn end_page(&mut self) -> Result<(), Error> {
        if self.body.is_empty() {
            return Ok(());
        }
        if room(self.page, &self.body)? >= ROOM_LISTED {
            FreeLink { listed: true, next: self.listed }.write(&mut self.body);
            self.listed = self.page.0;
        }
        self.sink.write(self.page, &self.body)?;
        self.body.clear();
        Ok(())
    }

    /// Writes the last page. Returns the page after it, and the first page of the list of pages
    /// with room.
    ///
    /// # Errors
    ///
    /// Any error of the sink.
    pub(crate) fn finish(mut self) -> Result<(PageId, u32), Error> {
        self.end_page()?;
        Ok((PageId(self.next), self.listed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_a_list_of_records_holds() {
        let mut body = vec![0; BODY_BYTES];
        init(&mut body);
        let page = PageId(3);
        let mut known: Vec<Option<Vec<u8>>> = Vec::new();
        let mut seed = 7u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for step in 0..4000 {
            let living: Vec<usize> = (0..known.len()).filter(|at| known[*at].is_some()).collect();
            if below(2) == 0 && !living.is_empty() {
                let at = living[below(living.len() as u64) as usize];
                remove(RecordPlace { page, number: at as u16 }, &mut body).expect("it is there");
                known[at] = None;
            } else {
                let record: Vec<u8> = (0..below(1500)).map(|_| below(256) as u8).collect();
                let before = room(page, &body).expect("a page");
                let number = put(page, &mut body, &on_page(&record, 0)).expect("a page");
                assert_eq!(number.is_some(), before >= record.len() + RECORD_HEADER_BYTES, "step {step}");
                if let Some(number) = number {
                    known.resize(known.len().max(usize::from(number) + 1), None);
                    assert!(known[usize::from(number)].replace(record).is_none());
                }
            }
            for (at, record) in known.iter().enumerate() {
                let found = read_record(RecordPlace { page, number: at as u16 }, &body);
                assert_eq!(found.ok().map(|found| found.rest), record.as_deref(), "step {step}, record {at}");
            }
        }
        known.iter().enumerate().filter(|entry| entry.1.is_some()).for_each(|(at, _)| {
            remove(RecordPlace { page, number: at as u16 }, &mut body).expect("it is there");
        });
        let mut empty = vec![0; BODY_BYTES];
        init(&mut empty);
        assert!(body == empty, "a page without records is as at first");
    }
}
