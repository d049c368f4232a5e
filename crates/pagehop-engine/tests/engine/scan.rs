//! Passes over all pages or all rows. The scan of a calibration or an audit reads each page of
//! nodes once, on any number of threads; a check and a rebuild read ahead; all can be stopped.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

use crate::support;
use crate::support::{Rows, embeddings, no_progress, options};
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, EachChunk, Error, Index, Metric, PageId, Pages, Progress, Reader,
    SearchOptions, Value, VectorSource, build,
};
use pagehop_sim::MemPages;

const DIM: usize = 48;
const ROWS: usize = 3000;
const QUERIES: usize = 70;

/// Pages that record what each reader finishes, in the order in which the readers are made.
struct Noted {
    pages: MemPages,
    readers: Mutex<Vec<Vec<u32>>>,
    /// Pages that a reader has started and not finished.
    started: Mutex<HashSet<(usize, u32)>>,
    /// Pages that were finished without that: from storage, each is a wait of its own.
    waits: Mutex<usize>,
}

impl Noted {
    fn new(pages: MemPages) -> Self {
        Self { pages, readers: Mutex::default(), started: Mutex::default(), waits: Mutex::default() }
    }

    /// Pages that were finished since the last call, and those of them that were not started.
    fn finished(&self) -> (usize, usize) {
        let finished = self.readers.lock().unwrap().iter_mut().map(|reader| std::mem::take(reader).len()).sum();
        (finished, std::mem::take(&mut *self.waits.lock().unwrap()))
    }
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
        self.noted.started.lock().unwrap().insert((self.number, page.0));
        self.inner.start(page, bytes);
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.noted.readers.lock().unwrap()[self.number].push(page.0);
        let is_started = self.noted.started.lock().unwrap().remove(&(self.number, page.0));
        *self.noted.waits.lock().unwrap() += usize::from(!is_started);
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
    let index = Index::open(Noted::new(pages)).unwrap();
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
    let index = Index::open(Noted::new(pages)).unwrap();
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

/// A source whose rows have a number, a set of tags and a payload each.
struct Recorded {
    rows: Rows,
    columns: ColumnRows,
}

impl Recorded {
    fn new(count: usize) -> Self {
        let kinds = [("n", ColumnKind::Int), ("tags", ColumnKind::Tags)];
        let columns = kinds.map(|(name, kind)| Column { name: name.into(), kind });
        let mut columns = ColumnRows::new(columns.into()).unwrap();
        for row in 0..count {
            let tags = vec![format!("even {}", row % 2), format!("all {}", row % 7)];
            columns.push(&[Value::Int(row as i64 % 100), Value::Tags(tags)]).unwrap();
        }
        let payloads = (0..count).map(|row| Some(row.to_le_bytes().to_vec())).collect();
        let columns = columns.with_payloads(payloads);
        Self { rows: Rows::new(8, embeddings(8, count, 1)), columns }
    }
}

impl VectorSource for Recorded {
    fn dim(&self) -> usize {
        self.rows.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        self.rows.scan(each)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

/// Stops `work` at each call of its progress callback in `phase`. Returns how far each call was.
fn stopped_in(
    phase: &str,
    mut work: impl FnMut(&mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<(), Error>,
) -> Vec<u64> {
    let mut done = Vec::new();
    let mut note = |progress: Progress| {
        assert!(progress.done <= progress.total || progress.total == 0, "{progress:?}");
        done.extend((progress.phase == phase).then_some(progress.done));
        ControlFlow::Continue(())
    };
    work(&mut note).unwrap();
    // Of many calls only some are stopped, evenly spaced.
    for stop in (0..done.len()).step_by(done.len().div_ceil(2).max(1)) {
        let mut calls = 0;
        let stopped = work(&mut |progress| {
            calls += usize::from(progress.phase == phase);
            if calls > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(stopped, Err(Error::Interrupted)), "{phase}, call {stop}: {stopped:?}");
    }
    done
}

#[test]
fn columns_and_records_are_written_with_a_look_every_few_thousand() {
    const COUNT: usize = 9000;
    const MOST: u64 = 4096;
    let mut source = Recorded::new(COUNT);
    let mut pages = MemPages::new();
    let options = pagehop_engine::BuildOptions { calibrate: false, ..options(Metric::L2) };
    build(&mut source, &options, &mut pages, &mut no_progress()).unwrap();
    let index = Index::open(pages).unwrap();
    let mut built = |progress: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
        build(&mut source, &options, &mut MemPages::new(), progress).map(drop)
    };
    let rebuilt = |progress: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
        index.rebuild(1 << 30, 2, &mut MemPages::new(), progress).map(drop)
    };
    for records in [stopped_in("records", &mut built), stopped_in("records", rebuilt)] {
        assert_eq!(records, [0, MOST, 2 * MOST, COUNT as u64]);
    }
    // Rows of both columns; a row has two or three postings in that of tags.
    let columns = stopped_in("columns", built);
    assert_eq!((columns[0], columns[columns.len() - 1] > COUNT as u64), (0, true), "{columns:?}");
    assert!(columns.windows(2).all(|pair| pair[1] - pair[0] < MOST + 200), "{columns:?}");
    assert!(columns.len() > 8, "{columns:?}");
}

#[test]
fn a_check_and_a_rebuild_read_ahead() {
    let rows = Rows::new(DIM, embeddings(DIM, ROWS, 1));
    let pages = support::built(&rows, &options(Metric::L2)).unwrap();
    let index = Index::open(Noted::new(pages)).unwrap();
    index.pages().finished();
    index.check(&mut no_progress()).unwrap();
    let checked = index.pages().finished();
    let work = |progress: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
        index.rebuild(1 << 30, 2, &mut MemPages::new(), progress).map(drop)
    };
    work(&mut no_progress()).unwrap();
    let rebuilt = index.pages().finished();
    println!("pages finished, and not started before: check {checked:?}, rebuild {rebuilt:?}");
    // Those are pages of the model and of the map.
    for (finished, waits) in [checked, rebuilt] {
        assert!(finished > 160 && waits < finished / 8, "{finished} pages, {waits} waits");
    }
    let mut scanned = stopped_in("scan", work);
    assert!(scanned.pop().is_some_and(|all| all > 64));
    assert!(
        scanned.len() > 1 && scanned.iter().enumerate().all(|(at, done)| *done == 64 * at as u64),
        "{scanned:?}"
    );
}
