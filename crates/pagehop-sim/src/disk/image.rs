//! The bytes of a file, in copy-on-write blocks, so that many versions of a file take little
//! memory.

use std::ops::Range;
use std::sync::Arc;

/// The unit that a disk writes atomically, in bytes.
pub(super) const SECTOR_BYTES: usize = 512;
/// The unit in which a file system allocates space, in bytes.
pub(super) const BLOCK_BYTES: usize = 4096;

type Block = [u8; BLOCK_BYTES];

/// Bytes and a length. Bytes that were never written are zeros.
#[derive(Clone, Default)]
pub(super) struct Image {
    blocks: Vec<Option<Arc<Block>>>,
    length: u64,
}

impl Image {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Truncates the bytes, or extends them with zeros.
    pub(super) fn set_length(&mut self, length: u64) {
        self.length = length;
        let (whole, rest) = (length as usize / BLOCK_BYTES, length as usize % BLOCK_BYTES);
        self.blocks.truncate(whole + usize::from(rest > 0));
        if rest > 0
            && let Some(Some(block)) = self.blocks.get_mut(whole)
        {
            Arc::make_mut(block)[rest..].fill(0);
        }
    }

    /// Fills the start of `buffer` and returns the number of bytes that were read.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let have = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        for (at, block, within) in pieces(offset, have) {
            let bytes = &mut buffer[at..at + within.len()];
            match self.blocks.get(block).and_then(Option::as_deref) {
                Some(block) => bytes.copy_from_slice(&block[within]),
                None => bytes.fill(0),
            }
        }
        have
    }

    /// Writes `bytes`. The length does not change.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        for (at, block, within) in pieces(offset, bytes.len()) {
            let length = within.len();
            self.block_mut(block)[within].copy_from_slice(&bytes[at..at + length]);
        }
    }

    /// Copies one sector from `other`. The lengths do not change.
    pub(super) fn take_sector(&mut self, other: &Self, sector: u64) {
        let (block, within) =
            (sector as usize * SECTOR_BYTES / BLOCK_BYTES, sector as usize * SECTOR_BYTES % BLOCK_BYTES);
        let theirs = match other.blocks.get(block).and_then(Option::as_deref) {
            Some(theirs) => theirs[within..within + SECTOR_BYTES].try_into().expect("a sector is of this length"),
            None => [0; SECTOR_BYTES],
        };
        self.block_mut(block)[within..within + SECTOR_BYTES].copy_from_slice(&theirs);
    }

    /// The number of blocks in the range `bytes` that have no space yet.
    pub(super) fn missing(&self, bytes: Range<u64>) -> u64 {
        let blocks = bytes.start / BLOCK_BYTES as u64..bytes.end.div_ceil(BLOCK_BYTES as u64);
        blocks.filter(|block| !matches!(self.blocks.get(*block as usize), Some(Some(_)))).count() as u64
    }

    /// The space that the blocks take, in bytes.
    pub(super) fn used(&self) -> u64 {
        self.blocks.iter().flatten().count() as u64 * BLOCK_BYTES as u64
    }

    fn block_mut(&mut self, block: usize) -> &mut Block {
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, None);
        }
        Arc::make_mut(self.blocks[block].get_or_insert_with(|| Arc::new([0; BLOCK_BYTES])))
    }
}

/// The numbers of the sectors that overlap `length` bytes at `offset`.
pub(super) fn sectors(offset: u64, length: usize) -> Range<u64> {
    offset / SECTOR_BYTES as u64..(offset + length as u64).div_ceil(SECTOR_BYTES as u64)
}

/// Splits a range of bytes at block boundaries. Each item has the position in the range, the number
/// of the block, and the range within the block.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset as usize + at;
        let within = place % BLOCK_BYTES;
        let end = BLOCK_BYTES.min(within + length - at);
        let piece = (at < length).then_some((at, place / BLOCK_BYTES, within..end));
        at += end - within;
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_gives_what_was_written_and_zeros_elsewhere() {
        let mut image = Image::default();
        image.write(&[7; 5000], 4000);
        image.set_length(10_000);
        let mut bytes = vec![1; 12_000];
        assert_eq!(image.read(&mut bytes, 0), 10_000);
        assert!(bytes[..4000].iter().all(|b| *b == 0) && bytes[4000..9000].iter().all(|b| *b == 7));
        assert!(bytes[9000..10_000].iter().all(|b| *b == 0) && bytes[10_000..].iter().all(|b| *b == 1));
        let copy = image.clone();
        image.set_length(4100);
        image.set_length(10_000);
        assert_eq!((image.read(&mut bytes[..200], 4000), &bytes[..200]), (200, &[[7; 100], [0; 100]].concat()[..]));
        assert_eq!((copy.read(&mut bytes[..200], 4000), &bytes[..200]), (200, &[7; 200][..]));
    }

    #[test]
    fn a_sector_is_taken_whole() {
        let (mut image, mut other) = (Image::default(), Image::default());
        other.write(&[3; 2048], 0);
        image.take_sector(&other, 1);
        image.set_length(2048);
        let mut bytes = [0; 2048];
        image.read(&mut bytes, 0);
        assert_eq!(bytes.iter().position(|b| *b == 3), Some(512));
        assert_eq!(bytes.iter().filter(|b| **b == 3).count(), 512);
        assert_eq!((image.used(), image.missing(0..4097)), (4096, 1));
    }
}
