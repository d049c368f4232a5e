//! One transaction in the log: a block that is whole, and committed, or not there.
//!
//! The block's header is written last and its checksum covers everything, the checksum of the block
//! before included: a block of a failed commit never continues another history.

use std::io;
use std::sync::Arc;

use pagehop_engine::Error;
use pagehop_kernels::crc32c;

use crate::disk::storage::StorageFile;
use crate::header::{u32_at, u64_at};
use crate::log::log_file::{BLOCK_MAGIC, Header, Log};
use crate::log::record::{Kind, RECORD_BYTES, RecordHeader, Records};

/// Bytes in front of a block's records.
pub(crate) const BLOCK_BYTES: usize = 40;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// A record in a block, as recovery needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) page: u32,
    pub(crate) kind: Kind,
    pub(crate) lsn: u64,
}

/// A block that is whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The position of the block, which is the number of its commit.
    pub(crate) lsn: u64,
    pub(crate) length: u64,
    /// Pages of the index after the commit.
    pub(crate) page_count: u32,
    pub(crate) checksum: u32,
    pub(crate) entries: Vec<Entry>,
}

struct BlockHeader {
    lsn: u64,
    length: u64,
    page_count: u32,
    records: u32,
    before: u32,
}

impl BlockHeader {
    /// The header's bytes, of which the first eight are left for the magic and the checksum.
    fn to_bytes(&self, records_checksum: u32) -> ([u8; BLOCK_BYTES], u32) {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.page_count.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.records.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.before.to_le_bytes());
        let checksum = crc32c(&bytes[8..], records_checksum);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    fn from_bytes(bytes: &[u8; BLOCK_BYTES]) -> Option<Self> {
        let header = Self {
            lsn: u64_at(bytes, 8),
            length: u64_at(bytes, 16),
            page_count: u32_at(bytes, 24),
            records: u32_at(bytes, 28),
            before: u32_at(bytes, 32),
        };
        (u32_at(bytes, 0) == BLOCK_MAGIC && header.length >= BLOCK_BYTES as u64).then_some(header)
    }
}

/// The end of the blocks of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) lsn: u64,
    /// Checksum of the last block; 0 without one.
    pub(crate) checksum: u32,
    /// The last block's position and page count.
    pub(crate) last: Option<(u64, u32)>,
}

/// Gives every whole block to `each`, oldest first, up to the first that is not whole.
pub(crate) fn scan(log: &Log, header: &Header, mut each: impl FnMut(&Block)) -> Result<End, Error> {
    let mut end = End { lsn: header.start, checksum: 0, last: None };
    let Some(file) = log.file()? else { return Ok(end) };
    let mut buffer = Vec::new();
    while let Some(block) = read_block(&*file, header.offset(end.lsn), end, &mut buffer)
        .map_err(|error| log.refused(&format!("read of position {}", end.lsn), error))?
    {
        end = End {
            lsn: block.lsn + block.length,
            checksum: block.checksum,
            last: Some((block.lsn, block.page_count)),
        };
        each(&block);
    }
    Ok(end)
}

/// The block at `offset` of the file that continues the log from `end` on.
fn read_block(file: &dyn StorageFile, offset: u64, end: End, buffer: &mut Vec<u8>) -> io::Result<Option<Block>> {
    let mut bytes = [0; BLOCK_BYTES];
    if file.read_at(&mut bytes, offset)? < BLOCK_BYTES {
        return Ok(None);
    }
    let Some(header) = BlockHeader::from_bytes(&bytes) else { return Ok(None) };
    if header.lsn != end.lsn || header.before != end.checksum || header.lsn.checked_add(header.length).is_none() {
        return Ok(None);
    }
    let mut entries = Vec::new();
    let (mut checksum, mut done) = (0, BLOCK_BYTES as u64);
    let (mut parsed, mut kept) = (done, 0);
    while done < header.length {
        let wanted = usize::try_from(header.length - done).map_or(PIECE, |left| left.min(PIECE));
        buffer.resize(kept + wanted, 0);
        if file.read_at(&mut buffer[kept..], offset + done)? < wanted {
            return Ok(None);
        }
        checksum = crc32c(&buffer[kept..], checksum);
        done += wanted as u64;
        let Some(used) = parse(buffer, header.lsn + parsed, header.page_count, &mut entries) else {
            return Ok(None);
        };
        parsed += used as u64;
        buffer.copy_within(used.., 0);
        kept = buffer.len() - used;
    }
    let is_whole = header.to_bytes(checksum).0 == bytes
        && parsed == header.length
        && u32::try_from(entries.len()) == Ok(header.records);
    let checksum = u32_at(&bytes, 4);
    let Block { lsn, length, page_count, .. } =
        Block { lsn: header.lsn, length: header.length, page_count: header.page_count, checksum, entries: vec![] };
    Ok(is_whole.then_some(Block { lsn, length, page_count, checksum, entries }))
}

/// Takes the whole records at the front of `bytes`, of which the first is at `lsn`. Returns the
/// number of bytes taken.
fn parse(bytes: &[u8], lsn: u64, page_count: u32, entries: &mut Vec<Entry>) -> Option<usize> {
    let mut at = 0;
    while bytes.len() - at >= RECORD_BYTES {
        let here = lsn + at as u64;
        let header = RecordHeader::from_bytes(&bytes[at..], here)?;
        if header.page >= page_count {
            return None;
        }
        if bytes.len() - at < RECORD_BYTES + header.length {
            break;
        }
        entries.push(Entry { page: header.page, kind: header.kind, lsn: here });
        at += RECORD_BYTES + header.length;
    }
    Some(at)
}

/// Writes a block into the log.
pub(crate) struct BlockWriter<'l> {
    log: &'l Log,
    file: Arc<dyn StorageFile>,
    /// Position of the block, in the log and in the file.
    lsn: u64,
    offset: u64,
    reserved: u64,
    /// Bytes of records that were written, and the checksum of all so far.
    written: u64,
    checksum: u32,
    entries: Vec<Entry>,
}

/// A block that was written.
pub(crate) struct Written {
    pub(crate) length: u64,
    pub(crate) checksum: u32,
    pub(crate) reserved: u64,
}

impl<'l> BlockWriter<'l> {
    /// Begins a block at `lsn`, which lies at `offset` of the file; space is reserved up to
    /// `reserved`.
    pub(crate) fn new(log: &'l Log, file: Arc<dyn StorageFile>, lsn: u64, offset: u64, reserved: u64) -> Self {
        Self { log, file, lsn, offset, reserved, written: 0, checksum: 0, entries: Vec::new() }
    }

    /// Appends records.
    pub(crate) fn append(&mut self, mut records: Records) -> Result<(), Error> {
        let here = BLOCK_BYTES as u64 + self.written;
        records.place(self.lsn + here, |page, kind, lsn| self.entries.push(Entry { page, kind, lsn }));
        let (bytes, at) = (records.bytes(), self.offset + here);
        self.reserved = self.log.reserve(&*self.file, self.reserved, at + bytes.len() as u64);
        self.file.write_all_at(bytes, at).map_err(|error| self.refused(error))?;
        self.checksum = crc32c(bytes, self.checksum);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Writes the block's header: the block is then whole, though not yet durable.
    pub(crate) fn finish(self, page_count: u32, before: u32) -> Result<(Written, Vec<Entry>), Error> {
        let length = BLOCK_BYTES as u64 + self.written;
        let records = self.entries.len() as u32;
        let header = BlockHeader { lsn: self.lsn, length, page_count, records, before };
        let (bytes, checksum) = header.to_bytes(self.checksum);
        self.file.write_all_at(&bytes, self.offset).map_err(|error| self.refused(error))?;
        Ok((Written { length, checksum, reserved: self.reserved }, self.entries))
    }

    fn refused(&self, error: io::Error) -> Error {
        self.log.refused("write of a commit to the end", error)
    }
}

/// Makes sure that the bytes at `offset` of the file are not a block.
pub(crate) fn erase(file: &dyn StorageFile, offset: u64) -> io::Result<()> {
    file.write_all_at(&[0; BLOCK_BYTES], offset)?;
    file.sync()
}
