//! One change of a page, and the chain of a page's changes.
//!
//! A record names the position of the record before it of the same page, so that a page is made
//! again from its newest record alone: back along the chain to a full image or to the version that
//! was read, then forward. If a page is not whole, the chain back to an image or to the beginning
//! of the log still gives the newest version (`versions.rs` has the reason); the checksum of the
//! body, which each record carries, proves it. At most 63 records of runs of a page follow one
//! another. The next one is an image, which limits the length of the chain.

use pagehop_engine::{BODY_BYTES, Error, PageId};
use pagehop_kernels::crc32c;

use crate::disk::storage::StorageFile;
use crate::header::{u32_at, u64_at};
use crate::log::delta;
use crate::log::log_file::{Log, offset};

/// Bytes in front of a record's payload.
pub(crate) const RECORD_BYTES: usize = 24;

/// A chain of this many records without an image is refused: one more than a writer makes.
pub(crate) const CHAIN_MAX: u8 = 64;

/// Bytes that are read at once: most records are shorter.
const FIRST_READ: usize = 512;

/// The kind of a record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Runs over the page's previous version.
    Delta = 1,
    /// Runs over zeros.
    Image = 2,
    /// The whole body.
    Body = 3,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Delta, Self::Image, Self::Body].into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// The header of a record, before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) page: u32,
    /// For a delta, the position of the version that it changes, in this log or before it;
    /// otherwise 0.
    pub(crate) previous: u64,
    pub(crate) kind: Kind,
    /// Bytes of payload.
    pub(crate) length: usize,
    /// CRC-32C of the page's body after the change.
    pub(crate) body_checksum: u32,
}

impl RecordHeader {
    /// The header at the front of `bytes`; `None` if it is not a header. The checksum is not
    /// tested.
    pub(crate) fn from_bytes(bytes: &[u8], lsn: u64) -> Option<Self> {
        let kind = Kind::from_byte(bytes[18])?;
        let length = usize::from(u16::from_le_bytes([bytes[16], bytes[17]]));
        let (page, previous, body_checksum) = (u32_at(bytes, 4), u64_at(bytes, 8), u32_at(bytes, 20));
        let header = Self { page, previous, kind, length, body_checksum };
        let is_sane = length <= BODY_BYTES
            && bytes[19] == 0
            && header.previous < lsn
            && (kind == Kind::Delta || header.previous == 0)
            && (kind != Kind::Body || length == BODY_BYTES);
        is_sane.then_some(header)
    }
}

/// A record that was read and verified.
pub(crate) struct Record {
    pub(crate) header: RecordHeader,
    payload: Vec<u8>,
}

impl Record {
    /// Turns `body`, the version before, into the version of this record. `None` if the payload is
    /// invalid.
    pub(crate) fn apply(&self, body: &mut [u8]) -> Option<()> {
        match self.header.kind {
            Kind::Delta => delta::apply(&self.payload, body),
            Kind::Image => {
                body.fill(0);
                delta::apply(&self.payload, body)
            }
            Kind::Body => {
                body.copy_from_slice(&self.payload);
                Some(())
            }
        }
    }
}

/// Records of different pages; their positions are set at the end.
#[derive(Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// For each record its page, its kind, and the offset of its end.
    ends: Vec<(u32, Kind, usize)>,
}

impl Records {
    /// Appends the record of `page`, whose new body is `new`; `old` is the version before, with its
    /// position.
    pub(crate) fn push(&mut self, page: u32, old: Option<(&[u8], u64)>, new: &[u8]) {
        let kind = encode(page, old, new, &mut self.bytes);
        self.ends.push((page, kind, self.bytes.len()));
    }

    /// Completes the records, of which the first is at `lsn`. `each` gets page, kind and position.
    pub(crate) fn place(&mut self, lsn: u64, mut each: impl FnMut(u32, Kind, u64)) {
        let mut start = 0;
        for &(page, kind, end) in &self.ends {
            let at = lsn + start as u64;
            seal(&mut self.bytes[start..end], at);
            each(page, kind, at);
            start = end;
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends a record without its checksum: the runs from `old`, the version at `previous`, if it is
/// given and the runs are shorter than an image.
fn encode(page: u32, old: Option<(&[u8], u64)>, new: &[u8], out: &mut Vec<u8>) -> Kind {
    let at = out.len();
    out.resize(at + RECORD_BYTES, 0);
    let (mut kind, mut previous) = (Kind::Image, 0);
    match old {
        Some((old, before)) => {
            (kind, previous) = (Kind::Delta, before);
            delta::encode(old, new, out);
        }
        None => delta::encode(&[0; BODY_BYTES], new, out),
    }
    if out.len() - at - RECORD_BYTES >= BODY_BYTES {
        (kind, previous) = (Kind::Body, 0);
        out.truncate(at + RECORD_BYTES);
        out.extend_from_slice(new);
    }
    let length = u16::try_from(out.len() - at - RECORD_BYTES).expect("a body is shorter than that");
    let record = &mut out[at..];
    record[4..8].copy_from_slice(&page.to_le_bytes());
    record[8..16].copy_from_slice(&previous.to_le_bytes());
    record[16..18].copy_from_slice(&length.to_le_bytes());
    record[18] = kind as u8;
    record[20..24].copy_from_slice(&crc32c(new, 0).to_le_bytes());
    kind
}

/// Gives a record its checksum, now that its position is known.
fn seal(record: &mut [u8], lsn: u64) {
    let checksum = checksum(record, lsn);
    record[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The checksum of a record and its position: a record from before a checkpoint is not taken for a
/// present one.
fn checksum(record: &[u8], lsn: u64) -> u32 {
    crc32c(&record[4..], crc32c(&lsn.to_le_bytes(), 0))
}

/// The record of `page` at `lsn` in the log that begins at `start`.
pub(crate) fn read(log: &Log, file: &dyn StorageFile, page: u32, lsn: u64, start: u64) -> Result<Record, Error> {
    let refused = |error| log.refused(&format!("read of position {lsn}"), error);
    let damaged = || {
        let what = format!("its record at position {lsn} of {} is damaged", log.name());
        Error::corrupt(PageId(page), what)
    };
    let at = offset(start, lsn);
    let mut bytes = vec![0; FIRST_READ];
    let have = file.read_at(&mut bytes, at).map_err(refused)?;
    if have < RECORD_BYTES {
        return Err(damaged());
    }
    let header = RecordHeader::from_bytes(&bytes, lsn).ok_or_else(damaged)?;
    let whole = RECORD_BYTES + header.length;
    bytes.resize(whole, 0);
    if have < whole {
        let more = file.read_at(&mut bytes[have..], at + have as u64).map_err(refused)?;
        if more < whole - have {
            return Err(damaged());
        }
    }
    if u32_at(&bytes, 0) != checksum(&bytes, lsn) || header.page != page {
        return Err(damaged());
    }
    bytes.drain(..RECORD_BYTES);
    Ok(Record { header, payload: bytes })
}
