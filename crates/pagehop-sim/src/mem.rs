//! Pages in memory: the sink a test builds into, and the pages it then searches.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use pagehop_engine::page::{ChangeStep, PageSink, Pages, PagesMut, Reader, STEP_PAGES};
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
    /// Number of the last commit; `None` before the first.
    commit: Option<u64>,
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

    /// Begins to change pages in place: every step counts at once, as with a host that makes steps durable one by
    /// one. Readers see rows of the commit only after [`MemWriter::commit`].
    pub fn writer(&mut self) -> MemWriter<'_> {
        let number = self.commit.unwrap_or(0) + 1;
        MemWriter { pages: self, number, oldest: number - 1, after_step: None, looks: Cell::new(0) }
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
    /// Where a writer counts its looks at pages. Its view sees rows of no commit yet.
    writer: Option<&'p Cell<u64>>,
}

impl<'p> MemReader<'p> {
    pub(crate) fn new(pages: &'p MemPages) -> Self {
        let words = pages.bodies.len().div_ceil(64);
        Self { pages, asked: RefCell::new(vec![0; words]), missed: Cell::new(0), writer: None }
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
        self.writer.inspect(|looks| looks.set(looks.get() + 1));
        self.pages.get(page).ok_or_else(|| Error::corrupt(page, "the page does not exist"))
    }

    fn snapshot(&mut self, _renew: bool) -> u64 {
        if self.writer.is_some() { u64::MAX } else { self.pages.commit.unwrap_or(0) }
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        self.missed.get()
    }
}

/// Called after every step with the pages as they are then.
pub type AfterStep<'p> = Box<dyn FnMut(&MemPages) + 'p>;

/// One transaction on [`MemPages`]. Dropped without a commit it leaves its steps behind, like a host that
/// crashed between two of them.
pub struct MemWriter<'p> {
    pages: &'p mut MemPages,
    number: u64,
    oldest: u64,
    after_step: Option<AfterStep<'p>>,
    looks: Cell<u64>,
}

impl<'p> MemWriter<'p> {
    /// Plays a reader that still has `snapshot`.
    pub fn with_oldest_snapshot(mut self, snapshot: u64) -> Self {
        self.oldest = snapshot;
        self
    }

    /// Looks at the pages after every step.
    pub fn with_after_step(mut self, after_step: AfterStep<'p>) -> Self {
        self.after_step = Some(after_step);
        self
    }

    /// How often the transaction looked at a page: what a change costs, but for what it writes.
    pub fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Shows the transaction's rows to readers.
    pub fn commit(self) {
        self.pages.commit = Some(self.number);
    }
}

impl PagesMut for MemWriter<'_> {
    type Reader<'w>
        = MemReader<'w>
    where
        Self: 'w;

    fn reader(&self) -> MemReader<'_> {
        MemReader { writer: Some(&self.looks), ..MemReader::new(self.pages) }
    }

    fn page_count(&self) -> u32 {
        Pages::page_count(self.pages)
    }

    fn commit_number(&self) -> u64 {
        self.number
    }

    fn oldest_snapshot(&self) -> u64 {
        self.oldest
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        let first = PagesMut::page_count(self);
        (first..first + count).for_each(|page| self.pages.put(PageId(page), &[0; BODY_BYTES]));
        Ok(PageId(first))
    }

    /// # Panics
    ///
    /// If the contract of [`PagesMut::step`] is broken: too many pages, or one twice.
    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        assert!(pages.len() <= STEP_PAGES, "a step of {} pages", pages.len());
        let mut copies = Vec::with_capacity(pages.len());
        for (at, page) in pages.iter().enumerate() {
            assert!(!pages[..at].contains(page), "a step names page {} twice", page.0);
            let body = self.pages.get(*page).ok_or_else(|| Error::corrupt(*page, "the page does not exist"))?;
            copies.push(body.to_vec());
        }
        let mut bodies: Vec<&mut [u8]> = copies.iter_mut().map(Vec::as_mut_slice).collect();
        change(&mut bodies)?;
        for (page, body) in pages.iter().zip(&copies) {
            self.pages.put(*page, body);
        }
        if let Some(after_step) = &mut self.after_step {
            after_step(self.pages);
        }
        Ok(())
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
