//! Who gets an error of an operation may go on, as where a check begins again. So reads that an
//! operation began and did not take are released before it returns, whether it succeeds or not.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::support::hosted::{built, remove};
use crate::support::{Rows, embeddings, no_progress};
use pagehop_engine::page::{Pages, Reader};
use pagehop_engine::{Error, Index, Metric, PageId, SearchOptions};
use pagehop_sim::{MemPages, MemReader};

/// Pages that count the reads that readers left, and of which one may be damaged.
struct Watched {
    pages: MemPages,
    damaged: AtomicU32,
    left: AtomicU64,
}

/// A reader, and the pages that it began to read.
struct WatchedReader<'p> {
    of: &'p Watched,
    inner: MemReader<'p>,
    begun: RefCell<BTreeSet<u32>>,
}

impl Pages for Watched {
    type Reader<'p> = WatchedReader<'p>;

    fn reader(&self) -> WatchedReader<'_> {
        WatchedReader { of: self, inner: self.pages.reader(), begun: RefCell::default() }
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }
}

impl Reader for WatchedReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    fn start(&self, page: PageId, bytes: Range<usize>) {
        self.inner.start(page, bytes);
        self.begun.borrow_mut().extend((page.0 < self.of.page_count()).then_some(page.0));
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        if page.0 == self.of.damaged.load(Relaxed) {
            return Err(Error::corrupt(page, "it is damaged"));
        }
        self.begun.borrow_mut().remove(&page.0);
        self.inner.finish(page)
    }

    fn release(&mut self) {}

    fn pause(&mut self) {
        self.begun.borrow_mut().clear();
    }

    fn pages_missed(&self) -> u64 {
        self.inner.pages_missed()
    }
}

impl Drop for WatchedReader<'_> {
    fn drop(&mut self) {
        self.of.left.fetch_add(self.begun.borrow().len() as u64, Relaxed);
    }
}

/// An operation of an index, without its result.
type Operation<'a> = &'a dyn Fn() -> Result<(), Error>;

#[test]
fn an_operation_that_fails_leaves_no_read() {
    let mut rows = Rows::new(24, embeddings(24, 3000, 4));
    rows.ids = (1..=3000).collect();
    let mut pages = built(&rows, Metric::L2);
    remove(&mut pages, &(1..=1500).collect());
    let watched = Watched { pages, damaged: AtomicU32::new(u32::MAX), left: AtomicU64::new(0) };
    let index = Index::open(&watched).unwrap();
    let operations: [(&str, Operation<'_>); 5] = [
        ("check", &|| index.check(&mut no_progress()).map(drop)),
        ("edges", &|| index.in_edges_of_dead(1 << 13, &mut no_progress()).map(drop)),
        ("calibration", &|| index.calibrate(None, 1, &mut no_progress()).map(drop)),
        ("audit", &|| index.recall(10, 50, None, &SearchOptions::default(), 1, &mut no_progress()).map(drop)),
        ("scan", &|| index.search_exactly(rows.row(0), 10, 1, &mut no_progress()).map(drop)),
    ];
    let nodes = index.info().unwrap().pages / 2;
    for (name, operation) in operations {
        for damaged in [u32::MAX, nodes, nodes + 40] {
            watched.damaged.store(damaged, Relaxed);
            let done = operation();
            let left = watched.left.swap(0, Relaxed);
            // With so little memory for edges, not all pages are read.
            assert!(done.is_ok() == (damaged == u32::MAX) || name == "edges", "{name}, page {damaged}: {done:?}");
            assert_eq!(left, 0, "{name}, page {damaged}: {done:?}");
        }
    }
}
