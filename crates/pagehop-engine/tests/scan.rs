//! The scan of a calibration or an audit reads each page of nodes once, on any number of threads.

mod support;

use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

use pagehop_engine::{Error, Index, Metric, PageId, Pages, Progress, Reader, SearchOptions};
use pagehop_sim::MemPages;
use support::{Rows, embeddings, no_progress, options};

const DIM: usize = 48;
const ROWS: usize = 3000;
const QUERIES: usize = 70;

/// Pages that record what each reader finishes, in the order in which the readers are made.
struct Noted {
    pages: MemPages,
    readers: Mutex<Vec<Vec<u32>>>,
}

struct NotedReader<'p> {
    noted: &'p Noted,
    inner: <MemPages as Pages>::Reader<'p>,
    number: usize,
}

impl Pages for Noted {
    type Reader<'p> = NotedReader<'p>;

    fn reader(&self) -> NotedReader<'_> {
        let mut readers = self.readers.lock().unwrap();
        readers.push(Vec::new());
        NotedReader { noted: self, inner: self.pages.reader(), number: readers.len() - 1 }
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }
}

impl Reader for NotedReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    fn start(&self, page: PageId, bytes: Range<usize>) {
        self.inner.start(page, bytes);
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.noted.readers.lock().unwrap()[self.number].push(page.0);
        self.inner.finish(page)
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

/// The pages that the readers of a scan on `threads` threads finish during `call`, which makes one
/// reader before them.
fn scanned(index: &Index<Noted>, threads: usize, call: impl FnOnce()) -> Vec<u32> {
    index.pages().readers.lock().unwrap().clear();
    call();
    let readers = index.pages().readers.lock().unwrap();
    let mut pages: Vec<u32> = readers[1..=threads].concat();
    pages.sort_unstable();
    pages
}

#[test]
fn a_calibration_and_an_audit_read_the_index_once_for_all_samples() {
    let rows = Rows::new(DIM, embeddings(DIM, ROWS, 1));
    let pages = support::built(&rows, &options(Metric::L2)).unwrap();
    let index = Index::open(Noted { pages, readers: Mutex::default() }).unwrap();
    let queries = embeddings(DIM, QUERIES, 2);
    let mut expected = None;
    for threads in [1, 2, 5] {
        for given in [Some(&queries[..]), None] {
            let calibrated = scanned(&index, threads, || {
                index.calibrate(given, threads, &mut no_progress()).unwrap().expect("there are enough rows");
            });
            let audited = scanned(&index, threads, || {
                index.recall(10, 50, given, &SearchOptions::default(), threads, &mut no_progress()).unwrap();
            });
            assert_eq!(calibrated, audited, "{threads} threads");
            let all = expected.get_or_insert_with(|| calibrated.clone());
            assert_eq!(calibrated, *all, "{threads} threads");
        }
    }
    let all = expected.unwrap();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "a page was read twice");
    assert!(all.len() > 5 * 16 && all.len() as u32 <= index.pages().page_count(), "{} pages", all.len());
}

/// The search for samples comes first, and each of its reads may come from a cold disk.
#[test]
fn a_calibration_can_be_stopped_in_every_part_of_it() {
    let rows = Rows::new(DIM, embeddings(DIM, ROWS, 1));
    let pages = support::built(&rows, &options(Metric::L2)).unwrap();
    let index = Index::open(Noted { pages, readers: Mutex::default() }).unwrap();
    let mut calls = Vec::new();
    let mut note = |progress: Progress| {
        let read: usize = index.pages().readers.lock().unwrap().iter().map(Vec::len).sum();
        calls.push((progress.phase, read));
        ControlFlow::Continue(())
    };
    index.calibrate(None, 1, &mut note).unwrap();
    println!("{} calls of the progress callback", calls.len());
    assert!(calls.iter().any(|(phase, _)| *phase == "search"));
    // A search with the longest list visits each of the 3,000 rows, and 16 searches run between two
    // calls.
    let mut before = 0;
    for (at, (phase, read)) in calls.iter().enumerate() {
        let most = if *phase == "scan" { 128 } else { 16 * 2 * ROWS };
        assert!(read - before <= most, "{phase}: {} pages between two calls", read - before);
        before = *read;
        if at % 10 == 0 {
            let mut left = at;
            let stopped = index.calibrate(None, 1, &mut |_| {
                left = left.wrapping_sub(1);
                if left == usize::MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(matches!(stopped, Err(Error::Interrupted)), "{phase}, call {at}: {stopped:?}");
        }
    }
}
