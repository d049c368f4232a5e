//! The record of a row (`record_pages.rs`): the tags that its words do not have, its text id, and
//! the user's payload. An index has some or all of them.

use super::record_pages::{self, RecordPlace};
use super::{PageId, Reader, text_record};
use crate::columns::tags::{TagSets, says_all};
use crate::columns::{COLUMNS_MAX, RowValues, TAGS_MAX, tag_columns, tags};
use crate::{Column, ColumnKind, Error};

/// The parts that the records of an index have besides payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordShape {
    pub(crate) tags: bool,
    pub(crate) texts: bool,
}

/// A record, or its first bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowRecord<'a> {
    /// A list for each column of tags; empty in an index without such columns.
    pub(crate) sets: TagSets,
    pub(crate) text: Option<&'a str>,
    pub(crate) payload: Option<&'a [u8]>,
}

impl RecordShape {
    /// The record of a row; `None` if it needs none. [`record_pages::check_length`] limits the
    /// whole record.
    pub(crate) fn encode(self, sets: &[Vec<u64>], text: Option<&str>, payload: Option<&[u8]>) -> Option<Vec<u8>> {
        if !self.tags {
            return match text {
                Some(text) => Some(text_record::encode(text, payload)),
                None => payload.map(<[u8]>::to_vec),
            };
        }
        if text.is_none() && payload.is_none() && sets.iter().all(Vec::is_empty) {
            return None;
        }
        let mut record = vec![sets.len() as u8];
        for set in sets {
            record.extend_from_slice(&(set.len() as u16).to_le_bytes());
            set.iter().for_each(|tag| record.extend_from_slice(&tag.to_le_bytes()));
        }
        match text {
            Some(text) => record.extend_from_slice(&text_record::encode(text, payload)),
            None => {
                record.push(u8::from(payload.is_some()));
                record.extend_from_slice(payload.unwrap_or_default());
            }
        }
        Some(record)
    }

    /// Decodes a record from `start`, its first bytes. Returns the rest of `start`, which is part
    /// of the payload, too.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is not such a record.
    pub(crate) fn decode(self, place: RecordPlace, start: &[u8]) -> Result<RowRecord<'_>, Error> {
        let (sets, rest) = if self.tags { split_tags(place, start)? } else { (TagSets::new(), start) };
        if self.texts {
            let (text, payload) = text_record::decode(place, rest)?;
            return Ok(RowRecord { sets, text: Some(text), payload });
        }
        let payload = match (self.tags, rest.split_first()) {
            (false, _) => Some(rest),
            (true, Some((0, []))) => None,
            (true, Some((1, payload))) => Some(payload),
            _ => return Err(bad(place, "it does not say whether it has a payload")),
        };
        Ok(RowRecord { sets, text: None, payload })
    }

    /// Reads the text id of a record. Reads two pages at most, however long the payload is.
    ///
    /// # Errors
    ///
    /// Those of [`RecordShape::decode`]; any error of the reader.
    pub(crate) fn read_text<R: Reader>(self, reader: &mut R, place: RecordPlace) -> Result<String, Error> {
        let start = record_pages::read_start(reader, place)?;
        Ok(self.decode(place, &start)?.text.unwrap_or_default().to_owned())
    }
}

fn bad(place: RecordPlace, what: &str) -> Error {
    Error::corrupt(place.page, format!("record {}: {what}", place.number))
}

/// The tags that a record begins with, and the bytes after them.
fn split_tags(place: RecordPlace, start: &[u8]) -> Result<(TagSets, &[u8]), Error> {
    let damaged = || bad(place, "its tags are damaged");
    let (count, mut rest) = start.split_first().ok_or_else(damaged)?;
    if !(1..=COLUMNS_MAX).contains(&usize::from(*count)) {
        return Err(damaged());
    }
    let (mut sets, mut tags) = (TagSets::with_capacity((*count).into()), 0);
    for _ in 0..*count {
        let (length, after) = rest.split_first_chunk().ok_or_else(damaged)?;
        let length = usize::from(u16::from_le_bytes(*length));
        tags += length;
        if length == 1 || tags > TAGS_MAX {
            return Err(damaged());
        }
        let (set, after) = after.split_at_checked(8 * length).ok_or_else(damaged)?;
        let (words, _): (&[[u8; 8]], _) = set.as_chunks();
        let set: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let is_tag = |tag: &u64| *tag > 0 && says_all(*tag);
        if !set.is_sorted_by(|a, b| a < b) || !set.iter().all(is_tag) {
            return Err(damaged());
        }
        sets.push(set);
        rest = after;
    }
    Ok((sets, rest))
}

/// Reads the tags of a row that its words do not say; a list for each column of tags. Reads two
/// pages at most, and none if the words say all. The node is on `page`.
///
/// # Errors
///
/// [`Error::Corrupt`] if they are not those of the row's `values`; any error of the reader.
pub(crate) fn read_tags<R: Reader>(
    reader: &mut R,
    shape: RecordShape,
    columns: &[Column],
    (page, values): (PageId, RowValues<'_>),
) -> Result<TagSets, Error> {
    let mut of_tags = (0..columns.len()).filter(|column| columns[*column].kind == ColumnKind::Tags);
    let says_all = |column| values.key(column).is_none_or(says_all);
    if of_tags.all(says_all) {
        return Ok(vec![Vec::new(); tag_columns(columns)]);
    }
    let place = values.last_key().map(RecordPlace::of_key);
    let place = place.ok_or_else(|| Error::corrupt(page, "a row with several tags names no record"))?;
    let start = record_pages::read_start(reader, place)?;
    let sets = shape.decode(place, &start)?.sets;
    check_tags(place, &sets, columns, values)?;
    Ok(sets)
}

/// Refuses tags of a record that are not those of the words of its row.
///
/// # Errors
///
/// [`Error::Corrupt`].
pub(crate) fn check_tags(
    place: RecordPlace,
    sets: &[Vec<u64>],
    columns: &[Column],
    values: RowValues<'_>,
) -> Result<(), Error> {
    let of_tags = columns.iter().enumerate().filter(|column| column.1.kind == ColumnKind::Tags);
    let words = of_tags.map(|(column, _)| values.key(column).filter(|word| !says_all(*word)));
    let of_sets = sets.iter().map(|set| (!set.is_empty()).then(|| tags::word(set)));
    if words.eq(of_sets) { Ok(()) } else { Err(bad(place, "its tags are not those of its row")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const PLACE: RecordPlace = RecordPlace { page: PageId(3), number: 5 };
    const SHAPES: [RecordShape; 4] = [
        RecordShape { tags: false, texts: false },
        RecordShape { tags: false, texts: true },
        RecordShape { tags: true, texts: false },
        RecordShape { tags: true, texts: true },
    ];

    fn record(shape: RecordShape, sets: &[Vec<u64>], payload: Option<&[u8]>) -> Option<Vec<u8>> {
        let sets = if shape.tags { sets } else { &[] };
        shape.encode(sets, shape.texts.then_some("id"), payload)
    }

    #[test]
    fn a_record_gives_back_what_is_in_it() {
        let long: Vec<u64> = (1..=TAGS_MAX as u64).collect();
        for shape in SHAPES {
            for sets in [vec![vec![]], vec![vec![], vec![3, 9]], vec![vec![1, 2], long.clone()]] {
                // More tags than a row can have.
                let is_too_long = shape.tags && sets.iter().map(Vec::len).sum::<usize>() > TAGS_MAX;
                for payload in [None, Some(&b""[..]), Some(&b"bytes"[..])] {
                    let Some(record) = record(shape, &sets, payload) else { continue };
                    let found = shape.decode(PLACE, &record);
                    assert_eq!(found.is_err(), is_too_long, "{shape:?}");
                    let Ok(found) = found else { continue };
                    assert_eq!(found.sets, if shape.tags { sets.clone() } else { vec![] });
                    assert_eq!((found.text, found.payload), (shape.texts.then_some("id"), payload));
                }
            }
        }
        assert_eq!(SHAPES[2].encode(&[vec![]], None, None), None);
    }

    #[test]
    fn damaged_records_are_refused_or_are_other_records() {
        let mut random = Random::new(9, 0);
        for step in 0..20_000 {
            let shape = SHAPES[2 + step % 2];
            let sets = [vec![3, 1 << 40, u64::MAX >> 1], vec![], vec![1, 2]];
            let mut bytes = record(shape, &sets, (step % 3 == 0).then_some(b"payload")).expect("a record");
            bytes.truncate(bytes.len().saturating_sub(random.below(3) as usize * random.below(40) as usize));
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= random.below(256) as u8;
            }
            if let Ok(found) = shape.decode(PLACE, &bytes) {
                assert_eq!(shape.encode(&found.sets, found.text, found.payload).unwrap_or_default(), bytes);
            }
        }
    }
}
