//! Pages of a file that is not an index yet, read back to be measured before it becomes one.
//!
//! They were just written, so the system's page cache has them: each read copies one from there, and nothing else is kept.

use std::fs::File;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::Path;

use pagehop_engine::{Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId, Pages, Reader};

use crate::header;
use crate::pread::PageBuffer;

/// The pages that were written, all of them.
pub(crate) struct SunkPages<'s> {
    pub(crate) file: &'s File,
    pub(crate) target: &'s Path,
    pub(crate) page_count: u32,
}

/// A reader of one thread.
pub(crate) struct SunkReader<'p>(&'p SunkPages<'p>);

/// A page that was read.
pub(crate) struct SunkPage(Box<PageBuffer>);

impl Deref for SunkPage {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0.0[HOST_HEADER_BYTES..]
    }
}

impl Pages for SunkPages<'_> {
    type Reader<'p>
        = SunkReader<'p>
    where
        Self: 'p;

    fn reader(&self) -> SunkReader<'_> {
        SunkReader(self)
    }

    fn page_count(&self) -> u32 {
        self.page_count
    }
}

impl Reader for SunkReader<'_> {
    type Guard<'r>
        = SunkPage
    where
        Self: 'r;

    fn start(&self, _: PageId, _: Range<usize>) {}

    fn finish(&self, page: PageId) -> Result<SunkPage, Error> {
        if page.0 >= self.0.page_count {
            return Err(Error::corrupt(page, format!("there are {} pages", self.0.page_count)));
        }
        let mut buffer = PageBuffer::new();
        let bytes = &mut buffer.0;
        let read = self.0.file.read_exact_at(bytes, u64::from(page.0) * PAGE_BYTES as u64);
        let refused = |error| Error::io(format!("read of page {} of {}", page.0, self.0.target.display()), error);
        read.map_err(refused)?;
        match header::verify(page, bytes) {
            Ok(()) => Ok(SunkPage(buffer)),
            Err(fault) => Err(Error::corrupt(page, format!("{fault} as soon as it was written"))),
        }
    }

    fn snapshot(&mut self, _: bool) -> u64 {
        0
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        0
    }
}
