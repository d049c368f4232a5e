//! An index beside the index: the same pages, with another page in the place of the meta page.
//!
//! What is built there is changed like any index, and no reader comes to it, until its meta page is
//! copied to page 0.

use std::ops::Range;

use crate::Error;
use crate::page::{ChangeStep, PageId, PagesMut, Reader};

/// The pages of a writer, with `root` for page 0.
pub(super) struct Shadow<'w, W> {
    pub(super) pages: &'w mut W,
    pub(super) root: PageId,
}

impl<W: PagesMut> PagesMut for Shadow<'_, W> {
    type Reader<'r>
        = ShadowReader<W::Reader<'r>>
    where
        Self: 'r;

    fn reader(&self) -> Self::Reader<'_> {
        ShadowReader { reader: self.pages.reader(), root: self.root }
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }

    fn commit_number(&self) -> u64 {
        self.pages.commit_number()
    }

    fn oldest_snapshot(&self) -> u64 {
        self.pages.oldest_snapshot()
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        self.pages.allocate(count)
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        let there: Vec<PageId> = pages.iter().map(|page| place(*page, self.root)).collect();
        self.pages.step(&there, change)
    }
}

/// See [`Shadow`].
pub(super) struct ShadowReader<R> {
    reader: R,
    root: PageId,
}

impl<R: Reader> Reader for ShadowReader<R> {
    type Guard<'g>
        = R::Guard<'g>
    where
        Self: 'g;

    fn start(&self, page: PageId, bytes: Range<usize>) {
        self.reader.start(place(page, self.root), bytes);
    }

    fn finish(&self, page: PageId) -> Result<Self::Guard<'_>, Error> {
        self.reader.finish(place(page, self.root))
    }

    fn is_ready(&self, page: PageId) -> bool {
        self.reader.is_ready(place(page, self.root))
    }

    fn snapshot(&mut self, renew: bool) -> u64 {
        self.reader.snapshot(renew)
    }

    fn release(&mut self) {
        self.reader.release();
    }

    fn pause(&mut self) {
        self.reader.pause();
    }

    fn pages_missed(&self) -> u64 {
        self.reader.pages_missed()
    }
}

fn place(page: PageId, root: PageId) -> PageId {
    if page.0 == 0 { root } else { page }
}
