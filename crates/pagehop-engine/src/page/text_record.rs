//! The record of a row whose id is a text: the text, and the user's payload. Tags come before both
//! (`row_record.rs`).

use super::fields::Fields;
use super::record_pages::RecordPlace;
use crate::Error;
use crate::row_ids::TEXT_ID_BYTES_MAX;

/// Bytes before the text: its length, and whether there is a payload.
const HEADER_BYTES: usize = 3;

/// The text and the payload of a row.
pub(crate) fn encode(text: &str, payload: Option<&[u8]>) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEADER_BYTES + text.len() + payload.map_or(0, <[u8]>::len));
    record.extend_from_slice(&(text.len() as u16).to_le_bytes());
    record.push(u8::from(payload.is_some()));
    record.extend_from_slice(text.as_bytes());
    record.extend_from_slice(payload.unwrap_or_default());
    record
}

/// The text of a record, from `start`, its first bytes; and the rest of `start`, which is part of
/// the payload.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not such a record.
pub(crate) fn decode(place: RecordPlace, start: &[u8]) -> Result<(&str, Option<&[u8]>), Error> {
    let bad = |what: &str| Error::corrupt(place.page, format!("record {}: {what}", place.number));
    if start.len() < HEADER_BYTES {
        return Err(bad("it has no text id"));
    }
    let mut fields = Fields::at(start, 0);
    let length = usize::from(fields.u16());
    let [has_payload] = fields.bytes();
    let text = start.get(HEADER_BYTES..HEADER_BYTES + length);
    let text = text.filter(|text| (1..=TEXT_ID_BYTES_MAX).contains(&text.len()));
    let text = text.and_then(|text| std::str::from_utf8(text).ok()).ok_or_else(|| bad("its text id is damaged"))?;
    let rest = &start[HEADER_BYTES + length..];
    match has_payload {
        0 if rest.is_empty() => Ok((text, None)),
        1 => Ok((text, Some(rest))),
        _ => Err(bad("it has a payload, and says that it has none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageId;
    use crate::random::Random;

    const PLACE: RecordPlace = RecordPlace { page: PageId(3), number: 5 };

    #[test]
    fn a_record_gives_back_text_and_payload() {
        let long = "\u{1F600}".repeat(256);
        for text in ["a", "doc-17/para-3", "\0", "\u{1F600}", &long] {
            for payload in [None, Some(&b""[..]), Some(&b"bytes"[..])] {
                let record = encode(text, payload);
                assert_eq!(decode(PLACE, &record).expect("a record"), (text, payload));
            }
        }
    }

    #[test]
    fn damaged_records_are_refused_or_are_other_records() {
        let mut random = Random::new(9, 0);
        for step in 0..20_000 {
            let mut record = encode("id \u{e9}", (step % 2 == 0).then_some(b"payload"));
            record.truncate(record.len().saturating_sub(random.below(3) as usize * random.below(9) as usize));
            if !record.is_empty() {
                let at = random.below(record.len() as u64) as usize;
                record[at] ^= random.below(256) as u8;
            }
            if let Ok((text, payload)) = decode(PLACE, &record) {
                assert_eq!(encode(text, payload), record, "step {step}");
            }
        }
        for bad in
            [&b""[..], &[1, 0], &[0, 0, 0], &[0, 0, 1, 7], &[1, 0, 2, b'a'], &[1, 0, 0, 0xff], &[255, 255, 1]]
        {
            assert!(decode(PLACE, bad).is_err(), "{bad:?}");
        }
    }
}
