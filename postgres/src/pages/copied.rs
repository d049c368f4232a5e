//! A copy of the pages of an index in the memory of this process, which threads can search. The
//! buffer manager serves one thread of a backend.

use std::ops::Range;

use pagehop_engine::page::Reader;
use pagehop_engine::{BODY_BYTES, Error, PageId, Pages};

/// The bodies of all pages, one after another.
pub(crate) struct CopiedPages {
    bodies: Vec<u8>,
}

impl CopiedPages {
    /// Copies `pages`, which do not change during that time. `None` if it takes more than `memory`
    /// bytes, or more memory than the system gives.
    ///
    /// # Errors
    ///
    /// Any error of the reads.
    pub(crate) fn of(pages: &impl Pages, memory: u64) -> Result<Option<Self>, Error> {
        let count = pages.page_count();
        let bytes = u64::from(count) * BODY_BYTES as u64;
        let mut bodies = Vec::new();
        if bytes > memory || bodies.try_reserve_exact(bytes as usize).is_err() {
            return Ok(None);
        }
        let mut reader = pages.reader();
        for page in 0..count {
            bodies.extend_from_slice(&reader.finish(PageId(page))?);
            reader.release();
        }
        Ok(Some(Self { bodies }))
    }

    #[inline]
    fn body(&self, page: PageId) -> Option<&[u8]> {
        let first = page.0 as usize * BODY_BYTES;
        self.bodies.get(first..first + BODY_BYTES)
    }
}

impl Pages for CopiedPages {
    type Reader<'p> = &'p Self;

    fn reader(&self) -> &Self {
        self
    }

    fn page_count(&self) -> u32 {
        (self.bodies.len() / BODY_BYTES) as u32
    }
}

impl Reader for &CopiedPages {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    #[inline]
    fn start(&self, page: PageId, bytes: Range<usize>) {
        if let Some(body) = self.body(page) {
            pagehop_kernels::prefetch(&body[bytes]);
        }
    }

    #[inline]
    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.body(page).ok_or_else(|| Error::corrupt(page, format!("the index has {} blocks", self.page_count())))
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        0
    }
}
