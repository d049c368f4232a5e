//! Pages of a file that is not an index yet, read back to be measured before it becomes one.
//!
//! They were just written, so the system's page cache has them: each read copies one from there, and nothing else is kept.

use std::cell::RefCell;
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
pub(crate) struct SunkReader<'p> {
    pages: &'p SunkPages<'p>,
    /// Memory of pages that were given back.
    spare: RefCell<Vec<Box<PageBuffer>>>,
}

/// A page that was read. Its memory is the reader's again when it is dropped.
pub(crate) struct SunkPage<'r> {
    buffer: Option<Box<PageBuffer>>,
    spare: &'r RefCell<Vec<Box<PageBuffer>>>,
}

impl Deref for SunkPage<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("it goes with the page").0[HOST_HEADER_BYTES..]
    }
}

impl Drop for SunkPage<'_> {
    fn drop(&mut self) {
        self.spare.borrow_mut().extend(self.buffer.take());
    }
}

impl Pages for SunkPages<'_> {
    type Reader<'p>
        = SunkReader<'p>
    where
        Self: 'p;

    fn reader(&self) -> SunkReader<'_> {
        SunkReader { pages: self, spare: RefCell::default() }
    }

    fn page_count(&self) -> u32 {
        self.page_count
    }
}

impl Reader for SunkReader<'_> {
    type Guard<'r>
        = SunkPage<'r>
    where
        Self: 'r;

    fn start(&self, _: PageId, _: Range<usize>) {}

    fn finish(&self, page: PageId) -> Result<SunkPage<'_>, Error> {
        let SunkPages { file, target, page_count } = *self.pages;
        if page.0 >= page_count {
            return Err(Error::corrupt(page, format!("there are {page_count} pages")));
        }
        let spare = self.spare.borrow_mut().pop();
        let mut buffer = spare.unwrap_or_else(PageBuffer::new);
        let read = file.read_exact_at(&mut buffer.0, u64::from(page.0) * PAGE_BYTES as u64);
        read.map_err(|error| Error::io(format!("read of page {} of {}", page.0, target.display()), error))?;
        match header::verify(page, &buffer.0) {
            Ok(()) => Ok(SunkPage { buffer: Some(buffer), spare: &self.spare }),
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
