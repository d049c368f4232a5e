//! Files of rows and of letters: appended through a buffer, read from the beginning to the end.

use crate::Error;
use crate::page::{Scratch, ScratchFile};
use crate::quantize::own::{self, OwnCode};

/// Bytes that a file collects before they are written, where many are written at once.
pub(super) const BUFFER_BYTES: usize = 32 << 10;
/// Bytes that are read at once, approximately.
const READ_BYTES: usize = 1 << 20;
/// Words before the planes of a row: its number, its step, its squared norm.
const ROW_WORDS: usize = 3;

/// Bytes of a row in a [`RowFile`].
pub(in crate::index::build) fn row_bytes(inner_dim: usize) -> usize {
    4 * ROW_WORDS + inner_dim + own::lo_bytes(inner_dim)
}

/// Bytes of a letter that offers `keys` edges.
pub(in crate::index::build) fn letter_bytes(keys: usize) -> usize {
    8 + 8 * keys
}

/// A scratch file that is being written, then read.
struct Buffered {
    file: Box<dyn ScratchFile>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are written at once.
    most: usize,
    written: u64,
}

impl Buffered {
    fn new(scratch: &dyn Scratch, most: usize) -> Result<Self, Error> {
        Ok(Self { file: scratch.file()?, buffer: Vec::new(), most, written: 0 })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.most { self.flush() } else { Ok(()) }
    }

    /// Writes what was collected, and gives its memory back.
    fn flush(&mut self) -> Result<(), Error> {
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            return Ok(());
        }
        self.file.append(&buffer)?;
        self.written += buffer.len() as u64;
        Ok(())
    }
}

/// A row in a [`RowFile`].
pub(super) struct FiledRow<'a> {
    pub(super) row: u32,
    pub(super) own: OwnCode,
    pub(super) hi: &'a [i8],
    pub(super) lo: &'a [u8],
}

/// Own codes of rows, in the order in which they came.
pub(super) struct RowFile {
    bytes: Buffered,
    inner_dim: usize,
}

impl RowFile {
    /// An empty file that collects `buffer` bytes, and holds up to twice as many.
    pub(super) fn new(scratch: &dyn Scratch, inner_dim: usize, buffer: usize) -> Result<Self, Error> {
        Ok(Self { bytes: Buffered::new(scratch, buffer)?, inner_dim })
    }

    /// Writes what was collected, and gives its memory back.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.bytes.flush()
    }

    /// Adds a row.
    pub(super) fn push(&mut self, record: &FiledRow<'_>) -> Result<(), Error> {
        let words = [record.row, record.own.step.to_bits(), record.own.norm_sq.to_bits()];
        self.bytes.push(bytemuck::cast_slice(&words))?;
        self.bytes.push(bytemuck::cast_slice(record.hi))?;
        self.bytes.push(record.lo)
    }

    /// Passes all rows to `each`.
    pub(super) fn scan(&mut self, each: &mut dyn FnMut(&FiledRow<'_>) -> Result<(), Error>) -> Result<(), Error> {
        self.bytes.flush()?;
        let row_bytes = row_bytes(self.inner_dim);
        let mut some = vec![0; (READ_BYTES / row_bytes).max(1) * row_bytes];
        let mut at = 0;
        while at < self.bytes.written {
            let length = (self.bytes.written - at).min(some.len() as u64) as usize;
            let some = &mut some[..length];
            self.bytes.file.read(at, some)?;
            for bytes in some.chunks_exact(row_bytes) {
                let (words, planes) = bytes.split_at(4 * ROW_WORDS);
                let [row, step, norm_sq]: [u32; ROW_WORDS] = bytemuck::pod_read_unaligned(words);
                let own = OwnCode { step: f32::from_bits(step), norm_sq: f32::from_bits(norm_sq) };
                let (hi, lo) = planes.split_at(self.inner_dim);
                each(&FiledRow { row, own, hi: bytemuck::cast_slice(hi), lo })?;
            }
            at += length as u64;
        }
        Ok(())
    }
}

/// Letters to rows: edges that another partition offers them.
pub(super) struct LetterFile {
    bytes: Buffered,
}

impl LetterFile {
    /// An empty file.
    pub(super) fn new(scratch: &dyn Scratch) -> Result<Self, Error> {
        Ok(Self { bytes: Buffered::new(scratch, BUFFER_BYTES)? })
    }

    /// Adds a letter to `row`: [keys](crate::graph::key), the most useful edge first.
    pub(super) fn push(&mut self, row: u32, keys: &[u64]) -> Result<(), Error> {
        self.bytes.push(bytemuck::cast_slice(&[u64::from(row) << 32 | keys.len() as u64]))?;
        self.bytes.push(bytemuck::cast_slice(keys))
    }

    /// All letters.
    pub(super) fn read(&mut self) -> Result<Letters, Error> {
        self.bytes.flush()?;
        let mut words = vec![0u64; self.bytes.written as usize / 8];
        for (i, part) in words.chunks_mut(READ_BYTES / 8).enumerate() {
            self.bytes.file.read((i * READ_BYTES) as u64, bytemuck::cast_slice_mut(part))?;
        }
        Ok(Letters { words })
    }
}

/// Letters in memory.
pub(super) struct Letters {
    words: Vec<u64>,
}

impl Letters {
    /// Each letter: its row and its keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u64])> {
        let mut left = &self.words[..];
        std::iter::from_fn(move || {
            let (head, rest) = left.split_first()?;
            let (keys, rest) = rest.split_at(*head as u32 as usize);
            left = rest;
            Some(((head >> 32) as u32, keys))
        })
    }
}
