//! Pages of a file that is not an index yet, read back to be measured before it becomes one.
//!
//! They were just written, so the system's page cache has them: they are looked at there, and nothing is copied. Nobody else knows the
//! file, and whether it is whole is for those to ask who open it later.

use std::fs::File;
use std::io;
use std::ops::Range;

use pagehop_engine::{Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId, Pages, Reader};
use pagehop_kernels::prefetch;

use crate::mapping::Bytes;

/// The pages that were written, all of them.
pub(crate) struct SunkPages {
    bytes: Bytes,
}

/// A reader of one thread.
pub(crate) struct SunkReader<'p>(&'p SunkPages);

impl SunkPages {
    /// The first `page_count` pages of `file`, to which nobody may write while they are here.
    pub(crate) fn new(file: &File, page_count: u32) -> io::Result<Self> {
        Ok(Self { bytes: Bytes::of_file(file, page_count as usize * PAGE_BYTES)? })
    }

    fn body(&self, page: PageId) -> Option<&[u8]> {
        let start = page.0 as usize * PAGE_BYTES;
        self.bytes.all().get(start + HOST_HEADER_BYTES..start + PAGE_BYTES)
    }
}

impl Pages for SunkPages {
    type Reader<'p> = SunkReader<'p>;

    fn reader(&self) -> SunkReader<'_> {
        SunkReader(self)
    }

    fn page_count(&self) -> u32 {
        (self.bytes.all().len() / PAGE_BYTES) as u32
    }
}

impl Reader for SunkReader<'_> {
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
