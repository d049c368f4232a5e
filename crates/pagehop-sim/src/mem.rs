//! Pages in memory: a test builds an index into them and then searches it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use pagehop_engine::page::{ChangeStep, PageSink, Pages, PagesMut, Reader, STEP_PAGES};
use pagehop_engine::{BODY_BYTES, Error, PageId};

type Body = Arc<[u8]>;

/// Pages in memory. A clone shares the pages that neither changes.
///
/// There is no cache: the first access of a search to a page counts as one missed page, as if the
/// page came from storage. So `pages_missed` of a search is the number of distinct pages that it
/// prefetched or read.
#[derive(Clone, Default)]
pub struct MemPages {
    bodies: Vec<Option<Body>>,
    /// The number of the last commit; `None` before the first.
    commit: Option<u64>,
}

impl MemPages {
    /// An empty set of pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// The body of `page`.
    ///
    /// # Panics
    ///
    /// If `page` was not written.
    pub fn body(&self, page: PageId) -> &[u8] {
        self.get(page).unwrap_or_else(|| panic!("page {} was not written", page.0))
    }

    /// The body of `page`, which a test can damage.
    ///
    /// # Panics
    ///
    /// If `page` was not written.
    pub fn body_mut(&mut self, page: PageId) -> &mut [u8] {
        let body = self.bodies.get_mut(page.0 as usize).and_then(Option::as_mut);
        Arc::make_mut(body.unwrap_or_else(|| panic!("page {} was not written", page.0)))
    }

    /// Replaces the body of `page`. A body of any length is accepted, so that a test can simulate a
    /// broken host.
    pub fn put(&mut self, page: PageId, body: &[u8]) {
        let index = page.0 as usize;
        if index >= self.bodies.len() {
            self.bodies.resize(index + 1, None);
        }
        self.bodies[index] = Some(body.into());
    }

    /// Starts a transaction that changes pages in place. Each step takes effect at once, as with a
    /// host that makes every step durable. Readers see the rows of the transaction only after
    /// [`MemWriter::commit`].
    pub fn writer(&mut self) -> MemWriter<'_> {
        let number = self.commit.unwrap_or(0) + 1;
        MemWriter { pages: self, number, oldest: number - 1, after_step: None, looks: Cell::new(0) }
    }

    /// Removes every page from `count` on, like a truncated file.
    pub fn truncate(&mut self, count: u32) {
        self.bodies.truncate(count as usize);
    }

    pub(crate) fn get(&self, page: PageId) -> Option<&[u8]> {
        self.shared(page).map(|body| &**body)
    }

    pub(crate) fn shared(&self, page: PageId) -> Option<&Body> {
        self.bodies.get(page.0 as usize)?.as_ref()
    }
}

impl PageSink for MemPages {
    /// # Panics
    ///
    /// If the order of pages or the length of `body` breaks the contract of [`PageSink::write`].
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        assert_eq!(body.len(), BODY_BYTES, "the body of page {} has the wrong length", page.0);
        let complete = self.get(PageId(0)).is_some();
        assert!(!complete, "page {} comes after page 0, which must be the last", page.0);
        let expected = self.bodies.len();
        assert!(
            page.0 == 0 || page.0 as usize >= expected,
            "page {} comes after page {}: pages must come in increasing order",
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

/// The reader of one search or one writer of [`MemPages`].
pub struct MemReader<'p> {
    pages: &'p MemPages,
    /// One bit per page: whether it was accessed before.
    accessed: RefCell<Vec<u64>>,
    missed: Cell<u64>,
    /// The writer's counter of page reads; `None` for a search. A writer sees rows that are not
    /// committed.
    writer: Option<&'p Cell<u64>>,
}

impl<'p> MemReader<'p> {
    pub(crate) fn new(pages: &'p MemPages) -> Self {
        let words = pages.bodies.len().div_ceil(64);
        Self { pages, accessed: RefCell::new(vec![0; words]), missed: Cell::new(0), writer: None }
    }

    fn count_access(&self, page: PageId) {
        if self.pages.get(page).is_none() {
            return;
        }
        let word = &mut self.accessed.borrow_mut()[page.0 as usize / 64];
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
        self.count_access(page);
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.count_access(page);
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

/// A function that is called after every step, with the pages as they are then.
pub type AfterStep<'p> = Box<dyn FnMut(&MemPages) + 'p>;

/// One transaction on [`MemPages`]. If it is dropped without a commit, its steps stay in the pages,
/// as on a host that crashed between two steps.
pub struct MemWriter<'p> {
    pages: &'p mut MemPages,
    number: u64,
    oldest: u64,
    after_step: Option<AfterStep<'p>>,
    looks: Cell<u64>,
}

impl<'p> MemWriter<'p> {
    /// Simulates a reader that still holds `snapshot`.
    pub fn with_oldest_snapshot(mut self, snapshot: u64) -> Self {
        self.oldest = snapshot;
        self
    }

    /// Calls `after_step` after every step.
    pub fn with_after_step(mut self, after_step: AfterStep<'p>) -> Self {
        self.after_step = Some(after_step);
        self
    }

    /// The number of page reads of the transaction so far. Together with the writes, this is the
    /// cost of a change.
    pub fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Makes the transaction's rows visible to readers.
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

    fn is_allocated(&self, _: PageId) -> Result<bool, Error> {
        Ok(true)
    }

    /// # Panics
    ///
    /// If the contract of [`PagesMut::step`] is broken: too many pages, or a page that is named
    /// twice.
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
    fn a_reader_sees_what_was_written() {
        let pages = three_pages();
        assert_eq!(pages.page_count(), 3);
        let reader = pages.reader();
        for id in 0..3 {
            assert_eq!(reader.finish(PageId(id)).unwrap(), [id as u8; BODY_BYTES]);
        }
    }

    #[test]
    fn each_page_counts_once_and_unknown_pages_never() {
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
    fn a_build_that_goes_backwards_is_refused() {
        let mut pages = MemPages::new();
        pages.write(PageId(2), &[0; BODY_BYTES]).unwrap();
        let _ = pages.write(PageId(1), &[0; BODY_BYTES]);
    }

    #[test]
    #[should_panic(expected = "after page 0")]
    fn pages_after_page_0_are_refused() {
        let mut pages = three_pages();
        let _ = pages.write(PageId(3), &[0; BODY_BYTES]);
    }
}
