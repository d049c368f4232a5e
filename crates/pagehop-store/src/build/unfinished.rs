//! Pages of a file that is not an index yet, read back to be measured before it becomes one.
//!
//! They were just written, so the system's page cache has them: they are read from it without a
//! copy. No other process knows the file. Checksums are verified when the index is opened.

use std::fs::File;
use std::io;
use std::ops::Range;

use pagehop_engine::{Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId, Pages, Reader};
use pagehop_kernels::prefetch;

use crate::process::mapping::Bytes;

/// All pages, which were written before.
pub(crate) struct UnfinishedPages {
    bytes: Bytes,
}

/// A reader of one thread.
pub(crate) struct UnfinishedReader<'p>(&'p UnfinishedPages);

impl UnfinishedPages {
    /// The first `page_count` pages of `file`, which must not be written while these pages live.
    pub(crate) fn new(file: &File, page_count: u32) -> io::Result<Self> {
        Ok(Self { bytes: Bytes::of_file(file, page_count as usize * PAGE_BYTES)? })
    }

    fn body(&self, page: PageId) -> Option<&[u8]> {
        let start = page.0 as usize * PAGE_BYTES;
        self.bytes.all().get(start + HOST_HEADER_BYTES..start + PAGE_BYTES)
    }
}

impl Pages for UnfinishedPages {
    type Reader<'p> = UnfinishedReader<'p>;

    fn reader(&self) -> UnfinishedReader<'_> {
        UnfinishedReader(self)
    }

    fn page_count(&self) -> u32 {
        (self.bytes.all().len() / PAGE_BYTES) as u32
    }
}

impl Reader for UnfinishedReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    fn start(&self, page: PageId, bytes: Range<usize>) {
        if let Some(bytes) = self.0.body(page).and_then(|body| body.get(bytes)) {
            prefetch(bytes);
        }
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        let missing = || Error::corrupt(page, format!("there are {} pages", self.0.page_count()));
        self.0.body(page).ok_or_else(missing)
    }

    fn snapshot(&mut self, _: bool) -> u64 {
        0
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        0
    }
}
