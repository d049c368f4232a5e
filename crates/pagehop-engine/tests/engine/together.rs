//! Searches that take turns while their pages are read.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::support;
use crate::support::{Rows, embeddings, no_progress, options};
use pagehop_engine::{
    Batch, Effort, Error, Index, Metric, PageId, Pages, Reader, RowParts, SearchOptions, SearchResult,
};
use pagehop_sim::MemPages;

const DIM: usize = 24;
const QUERIES: usize = 60;

/// Pages that arrive after some calls of `is_ready`, in another order than they were started.
struct SlowPages {
    pages: MemPages,
    /// The page that cannot be read, if there is one.
    broken: AtomicU32,
    at_once: usize,
}

struct SlowReader<'p> {
    pages: &'p SlowPages,
    inner: <MemPages as Pages>::Reader<'p>,
    /// The number of calls of `is_ready` until each started page arrives.
    coming: RefCell<HashMap<PageId, u32>>,
    asked: Cell<u32>,
}

impl Pages for SlowPages {
    type Reader<'p> = SlowReader<'p>;

    fn reader(&self) -> SlowReader<'_> {
        let (inner, coming) = (self.pages.reader(), RefCell::default());
        SlowReader { pages: self, inner, coming, asked: Cell::new(0) }
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }
}

impl Reader for SlowReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    fn start(&self, page: PageId, bytes: Range<usize>) {
        self.inner.start(page, bytes);
        // Each page takes another time, and one in eight is not read ahead.
        let asked = self.asked.replace(self.asked.get() + 1);
        if asked % 8 != 7 {
            self.coming.borrow_mut().entry(page).or_insert(asked * 7919 % 23);
        }
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.coming.borrow_mut().insert(page, 0);
        if self.pages.broken.load(Relaxed) == page.0 {
            return Err(Error::corrupt(page, "it is broken"));
        }
        self.inner.finish(page)
    }

    fn is_ready(&self, page: PageId) -> bool {
        match self.coming.borrow_mut().get_mut(&page) {
            Some(looks) => {
                *looks = looks.saturating_sub(1);
                *looks == 0
            }
            None => false,
        }
    }

    fn searches_at_once(&self) -> usize {
        self.pages.at_once
    }

    fn snapshot(&mut self, renew: bool) -> u64 {
        self.inner.snapshot(renew)
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn pages_missed(&self) -> u64 {
        self.inner.pages_missed()
    }
}

fn slow_index(at_once: usize) -> Index<SlowPages> {
    let rows = Rows::new(DIM, embeddings(DIM, 2000, 1));
    let pages = support::built(&rows, &options(Metric::L2)).unwrap();
    Index::open(SlowPages { pages, broken: AtomicU32::new(u32::MAX), at_once }).unwrap()
}

/// The answers of a batch on one thread, or the first error.
fn answers(
    index: &Index<SlowPages>,
    queries: &[f32],
    options: &SearchOptions,
) -> Result<Vec<SearchResult>, (usize, Error)> {
    let plan = index.options(7, &Effort::Settings { search_list: Some(40), slack: None }).unwrap();
    let plan = pagehop_engine::SearchPlan { options: Some(options.clone()), ..plan };
    let batch = Batch { queries, k: 7, plan: &plan, filter: None, threads: 1, parts: RowParts::default() };
    let mut results = vec![SearchResult::default(); QUERIES];
    let write = |place: &mut SearchResult, result, _| {
        *place = result;
        Ok(())
    };
    index.search_batch(&batch, &mut no_progress(), &mut results, write)?;
    Ok(results)
}

#[test]
fn searches_that_take_turns_answer_as_alone() {
    let queries = embeddings(DIM, QUERIES, 2);
    for at_once in [1, 2, 7, 100] {
        let index = slow_index(at_once);
        for slack in [0.1, f32::INFINITY] {
            let options = SearchOptions { slack, search_list: 40, ..SearchOptions::default() };
            let together = answers(&index, &queries, &options).unwrap();
            for (query, result) in queries.chunks_exact(DIM).zip(together) {
                let alone = index.search_with(query, 7, &options).unwrap();
                assert_eq!(result.hits, alone.hits, "{at_once} at once, slack {slack}");
                let work = |stats: &pagehop_engine::Stats| (stats.hops, stats.estimates, stats.pages_read);
                assert_eq!(work(&result.stats), work(&alone.stats), "{at_once} at once, slack {slack}");
            }
        }
    }
}

#[test]
fn a_page_that_cannot_be_read_fails_a_query_that_needs_it() {
    let queries = embeddings(DIM, QUERIES, 2);
    let options = SearchOptions { search_list: 40, ..SearchOptions::default() };
    for at_once in [1, 16] {
        let index = slow_index(at_once);
        let mut failed = 0;
        for broken in (0..index.pages().page_count()).step_by(19) {
            index.pages().broken.store(broken, Relaxed);
            let Err((at, error)) = answers(&index, &queries, &options) else { continue };
            assert!(matches!(&error, Error::Corrupt { page, .. } if page.0 == broken), "{error:?}");
            let alone = index.search_with(&queries[at * DIM..][..DIM], 7, &options);
            assert!(alone.is_err(), "query {at} does not need page {broken}");
            failed += 1;
        }
        assert!(failed > 0);
    }
}
