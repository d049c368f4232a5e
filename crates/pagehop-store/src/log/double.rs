//! The double-write area: pages on their way into the index.
//!
//! A checkpoint writes pages over older ones, and a loss of power may leave one half written. So each chunk of
//! pages is first made durable here: a torn page is then read from its image. The area always holds the last
//! chunk that was begun, so an image is never older than what is in the index.

use pagehop_engine::{Error, PAGE_BYTES, PageId};
use pagehop_kernels::crc32c;

use super::{Identity, Log, u32_at, u64_at};
use crate::header;
use crate::storage::StorageFile;

const MAGIC: &[u8; 8] = b"PHOPDBL\0";

/// Where the area begins in the file.
pub(crate) const AT: u64 = 8192;
/// Pages of a chunk.
pub(crate) const CHUNK_PAGES: usize = 1024;
/// Bytes of the chunk's header, which lists its pages.
const HEAD_BYTES: usize = 12_288;
const FIELDS_BYTES: usize = 64;
const FIELD_BYTES: usize = 8;
/// Bytes of the whole area.
pub(crate) const BYTES: u64 = HEAD_BYTES as u64 + (CHUNK_PAGES * PAGE_BYTES) as u64;

const _: () = assert!(FIELDS_BYTES + CHUNK_PAGES * FIELD_BYTES <= HEAD_BYTES);

/// A chunk in the area.
pub(crate) struct Chunk {
    /// Start of the log that was being checkpointed.
    pub(crate) start: u64,
    /// Each page and the checksum of its image.
    pages: Vec<(u32, u32)>,
}

impl Log {
    /// Writes the sealed pages in `images`, at most [`CHUNK_PAGES`], to the area; not yet durable.
    pub(crate) fn write_chunk(
        &self,
        file: &dyn StorageFile,
        identity: Identity,
        start: u64,
        images: &[u8],
    ) -> Result<(), Error> {
        let pages = images.len() / PAGE_BYTES;
        assert!(images.len().is_multiple_of(PAGE_BYTES) && pages <= CHUNK_PAGES);
        let mut head = vec![0; HEAD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        head[12..16].copy_from_slice(&(pages as u32).to_le_bytes());
        head[16..24].copy_from_slice(&start.to_le_bytes());
        head[24..30].copy_from_slice(&identity);
        for (field, image) in
            head[FIELDS_BYTES..].chunks_exact_mut(FIELD_BYTES).zip(images.chunks_exact(PAGE_BYTES))
        {
            field[..4].copy_from_slice(&image[4..8]);
            field[4..].copy_from_slice(&image[..4]);
        }
        let checksum = crc32c(&head[12..], 0);
        head[8..12].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&head, AT)
            .and_then(|()| file.write_all_at(images, AT + HEAD_BYTES as u64))
            .map_err(|error| self.refused("write of a checkpoint's pages to the front", error))
    }

    /// The chunk in the area, if it is one of this index.
    pub(crate) fn read_chunk(&self, file: &dyn StorageFile, identity: Identity) -> Result<Option<Chunk>, Error> {
        let mut head = vec![0; HEAD_BYTES];
        let have = file.read_at(&mut head, AT).map_err(|error| self.refused("read", error))?;
        let pages = u32_at(&head, 12) as usize;
        let is_whole = have == HEAD_BYTES
            && head[..8] == *MAGIC
            && u32_at(&head, 8) == crc32c(&head[12..], 0)
            && head[24..30] == identity
            && pages <= CHUNK_PAGES;
        let fields = head[FIELDS_BYTES..].chunks_exact(FIELD_BYTES).take(pages);
        let pages = fields.map(|field| (u32_at(field, 0), u32_at(field, 4))).collect();
        Ok(is_whole.then(|| Chunk { start: u64_at(&head, 16), pages }))
    }

    /// Reads the image at `place` of `chunk`; its page if the image is whole.
    pub(crate) fn read_image(
        &self,
        file: &dyn StorageFile,
        chunk: &Chunk,
        place: usize,
        bytes: &mut [u8; PAGE_BYTES],
    ) -> Result<Option<u32>, Error> {
        let at = AT + (HEAD_BYTES + place * PAGE_BYTES) as u64;
        let have = file.read_at(bytes, at).map_err(|error| self.refused("read", error))?;
        let (page, checksum) = chunk.pages[place];
        let is_whole =
            have == PAGE_BYTES && u32_at(bytes, 0) == checksum && header::verify(PageId(page), bytes).is_ok();
        Ok(is_whole.then_some(page))
    }
}

impl Chunk {
    /// Pages in the chunk.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Where in the chunk the image of `page` is.
    pub(crate) fn place_of(&self, page: u32) -> Option<usize> {
        self.pages.iter().position(|&(listed, _)| listed == page)
    }
}
