//! Pages in memory: the sink a test builds into, and the pages it then searches.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use pagehop_engine::page::{PageSink, Pages, Reader};
use pagehop_engine::{BODY_BYTES, Error, PageId};

type Body = Box<[u8]>;

/// Pages in memory.
///
/// Nothing is ever cached: each page a search asks for counts once as missed, as if it had to come
/// from storage. So `pages_missed` of a search is the number of distinct pages it touched, started
/// for nothing included.
#[derive(Clone, Default)]
pub struct MemPages {
    bodies: Vec<Option<Body>>,
}

impl MemPages {
    /// No pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// The body of `page`, as it was written.
    ///
    /// # Panics
    ///
    /// If `page` was not written.
    pub fn body(&self, page: PageId) -> &[u8] {
        self.get(page).unwrap_or_else(|| panic!("page {} was not written", page.0))
    }

    /// The body of `page`, to be damaged.
    ///
    /// # Panics
    ///
    /// If `page` was not written.
    pub fn body_mut(&mut self, page: PageId) -> &mut [u8] {
        let body = self.bodies.get_mut(page.0 as usize).and_then(Option::as_deref_mut);
        body.unwrap_or_else(|| panic!("page {} was not written", page.0))
    }

    /// Puts `body` in place of `page`, whatever was there; bodies of any length are taken, so that
    /// a broken host can be played.
    pub fn put(&mut self, page: PageId, body: &[u8]) {
        let index = page.0 as usize;
        if index >= self.bodies.len() {
            self.bodies.resize(index + 1, None);
        }
        self.bodies[index] = Some(body.into());
    }

    /// Forgets every page from `count` on, like a file cut short.
    pub fn truncate(&mut self, count: u32) {
        self.bodies.truncate(count as usize);
    }

    pub(crate) fn get(&self, page: PageId) -> Option<&[u8]> {
        self.bodies.get(page.0 as usize)?.as_deref()
    }
}

impl PageSink for MemPages {
    /// # Panics
    ///
    /// If the order or the length breaks the contract of [`PageSink::write`].
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        assert_eq!(body.len(), BODY_BYTES, "page {} has a body of another length", page.0);
        let complete = self.get(PageId(0)).is_some();
        assert!(!complete, "page {} comes after page 0, which is the last", page.0);
        let expected = self.bodies.len();
        assert!(
            page.0 == 0 || page.0 as usize >= expected,
            "page {} comes after page {}: pages come in increasing order",
            page.0,
            expected.saturating_sub(1),
        );
        self.put(page, body);
        Ok(())
    }
}

impl Pages for MemPages {
    type Reader<'p> = MemReader<'p>;

    fn reader(&self) -> MemReader<'_> {
        MemReader::new(self)
    }

    fn page_count(&self) -> u32 {
        u32::try_from(self.bodies.len()).expect("ids are 32 bits wide")
    }
}

/// One search's view of [`MemPages`].
pub struct MemReader<'p> {
    pages: &'p MemPages,
    /// One bit per page: asked for already.
    asked: RefCell<Vec<u64>>,
    missed: Cell<u64>,
}

impl<'p> MemReader<'p> {
    pub(crate) fn new(pages: &'p MemPages) -> Self {
        let words = pages.bodies.len().div_ceil(64);
        Self { pages, asked: RefCell::new(vec![0; words]), missed: Cell::new(0) }
    }

    fn ask(&self, page: PageId) {
        if self.pages.get(page).is_none() {
            return;
        }
        let word = &mut self.asked.borrow_mut()[page.0 as usize / 64];
        let bit = 1 << (page.0 % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.missed.set(self.missed.get() + 1);
        }
    }
}

impl Reader for MemReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    fn start(&self, page: PageId, _bytes: Range<usize>) {
        self.ask(page);
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.ask(page);
        self.pages.get(page).ok_or_else(|| Error::corrupt(page, "the page does not exist"))
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        self.missed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_pages() -> MemPages {
        let mut pages = MemPages::new();
        for id in [1, 2, 0] {
            pages.write(PageId(id), &[id as u8; BODY_BYTES]).unwrap();
        }
        pages
    }

    #[test]
    fn gives_back_what_was_written() {
        let pages = three_pages();
        assert_eq!(pages.page_count(), 3);
        let reader = pages.reader();
        for id in 0..3 {
            assert_eq!(reader.finish(PageId(id)).unwrap(), [id as u8; BODY_BYTES]);
        }
    }

    #[test]
    fn counts_each_page_once_and_unknown_pages_never() {
        let pages = three_pages();
        let mut reader = pages.reader();
        reader.start(PageId(1), 0..64);
        reader.start(PageId(1), 0..64);
        reader.start(PageId(99), 0..64);
        assert_eq!(reader.pages_missed(), 1);
        reader.finish(PageId(1)).unwrap();
        reader.release();
        reader.finish(PageId(2)).unwrap();
        reader.finish(PageId(2)).unwrap();
        assert_eq!(reader.pages_missed(), 2);
        assert_eq!(pages.reader().pages_missed(), 0);
    }

    #[test]
    fn a_page_that_does_not_exist_is_corrupt() {
        let mut pages = three_pages();
        pages.truncate(2);
        let Err(Error::Corrupt { page, .. }) = pages.reader().finish(PageId(2)) else {
            panic!("page 2 is gone");
        };
        assert_eq!(page, PageId(2));
    }

    #[test]
    fn bytes_can_be_damaged() {
        let mut pages = three_pages();
        pages.body_mut(PageId(2))[7] ^= 0x10;
        assert_eq!(pages.body(PageId(2))[7], 2 ^ 0x10);
    }

    #[test]
    #[should_panic(expected = "increasing order")]
    fn refuses_a_build_that_goes_backwards() {
        let mut pages = MemPages::new();
        pages.write(PageId(2), &[0; BODY_BYTES]).unwrap();
        let _ = pages.write(PageId(1), &[0; BODY_BYTES]);
    }

    #[test]
    #[should_panic(expected = "after page 0")]
    fn refuses_pages_after_the_last() {
        let mut pages = three_pages();
        let _ = pages.write(PageId(3), &[0; BODY_BYTES]);
    }
}
