//! Training beside insertions: the host has the vectors, and a reader always finds all rows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::support::hosted::{built, change, check, insert, remove, row_ids};
use crate::support::{Rows, embeddings, metrics, no_progress};
use pagehop_engine::page::{BODY_BYTES, ChangeStep, NumberedStep, Pages, PagesMut};
use pagehop_engine::{
    CreateOptions, Error, HostRows, IdKind, Index, Metric, OnProgress, PageId, Scratch, SearchOptions,
    TrainingHost, create,
};
use pagehop_sim::{MemPages, MemReader, MemWriter};

/// The pages of an index whose rows the host has. Row `id` is at position `id - 1`.
struct Host<'p> {
    pages: &'p mut MemPages,
    rows: &'p Rows,
    /// The changes of others before each turn. It is told whether the turn is alone.
    others: &'p mut dyn FnMut(&mut MemPages, bool),
    after_step: &'p mut dyn FnMut(&MemPages),
    asked: Vec<u64>,
}

impl TrainingHost for Host<'_> {
    type Pages<'p> = MemWriter<'p>;

    fn turn<T>(
        &mut self,
        is_alone: bool,
        work: impl FnOnce(&mut MemWriter<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        (self.others)(self.pages, is_alone);
        work(&mut self.pages.writer().with_after_step(Box::new(&mut self.after_step)))
    }

    fn rows(&mut self, row_ids: &[u64]) -> Result<HostRows, Error> {
        self.asked.extend(row_ids);
        let vectors = row_ids.iter().flat_map(|id| self.rows.row(*id as usize - 1).to_vec()).collect();
        Ok(HostRows { row_ids: row_ids.to_vec(), vectors, values: Vec::new() })
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        None
    }
}

/// What others do during a training, and a check after each of its steps.
struct Beside<'a> {
    others: &'a mut dyn FnMut(&mut MemPages, bool),
    after_step: &'a mut dyn FnMut(&MemPages),
}

/// Trains with the rows of `known`. Also returns the rows that the host was asked for.
fn train_beside(
    pages: &mut MemPages,
    rows: &Rows,
    known: &[u64],
    beside: Beside<'_>,
    progress: OnProgress<'_>,
) -> (Result<bool, Error>, Vec<u64>) {
    let values = known.iter().flat_map(|id| rows.row(*id as usize - 1).to_vec()).collect();
    let mut source = Rows { ids: known.to_vec(), ..Rows::new(rows.dim, values) };
    let index = Index::open(pages.clone()).unwrap();
    let mut host = Host { pages, rows, others: beside.others, after_step: beside.after_step, asked: Vec::new() };
    let trained = index.train_beside(&mut source, 1 << 30, &mut host, progress);
    assert!(host.asked.iter().all(|id| known.binary_search(id).is_err()), "{:?}", host.asked);
    (trained, host.asked)
}

/// Trains without others. Returns whether the training took place.
fn train(pages: &mut MemPages, rows: &Rows, known: &[u64]) -> bool {
    let beside = Beside { others: &mut |_, _| (), after_step: &mut |_| () };
    train_beside(pages, rows, known, beside, &mut no_progress()).0.unwrap()
}

/// Does what a vacuum does before it trains.
fn give_up_and_sweep(pages: &mut MemPages) {
    change(pages, |change| change.give_up_training().unwrap());
    while change(pages, |change| change.sweep(50).unwrap()) {}
}

fn grown(rows: &Rows, metric: Metric, count: usize) -> MemPages {
    let mut pages = MemPages::new();
    create(rows.dim, &CreateOptions { metric, id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages)
        .unwrap();
    (0..count).for_each(|row| insert(&mut pages, row as u64 + 1, rows.row(row), false));
    pages
}

fn hops(pages: &MemPages, dim: usize) -> f64 {
    let index = Index::open(pages).unwrap();
    let options = SearchOptions { slack: 0.1, ..SearchOptions::default() };
    let queries = embeddings(dim, 200, 77);
    queries.chunks_exact(dim).map(|query| index.search_with(query, 10, &options).unwrap().stats.hops as f64).sum()
}

/// An insertion trains an index of up to 1,024 rows of few dimensions. A larger index says that it
/// should be trained, and is then as good as an index that was built over all rows.
#[test]
fn an_index_that_grew_is_trained_like_a_new_one() {
    let dim = 40;
    let rows = Rows::new(dim, embeddings(dim, 4200, 5));
    let all: Vec<u64> = (1..=4200).collect();
    for metric in metrics() {
        let mut pages = grown(&rows, metric, 4200);
        let index = Index::open(pages.clone()).unwrap();
        assert_eq!(index.info().unwrap().trained_rows, 512);
        assert!(index.wants_training().unwrap());
        let (mut copy, others, after_step) = (pages.clone(), &mut |_: &mut MemPages, _| (), &mut |_: &MemPages| ());
        let mut host = Host { pages: &mut copy, rows: &rows, others, after_step, asked: Vec::new() };
        assert_eq!(index.host_row_ids(&mut host, &mut no_progress()).unwrap(), all);
        // As if 300 rows were inserted since.
        let known = &all[..3900];
        assert!(train(&mut pages, &rows, known));
        let index = Index::open(pages.clone()).unwrap();
        let info = index.info().unwrap();
        assert_eq!((info.rows, info.trained_rows), (4200, 3900), "{metric:?}");
        assert!(!index.wants_training().unwrap());
        assert_eq!(check(&pages).nodes, 4200);
        assert_eq!(row_ids(&pages, rows.row(0)), all.iter().copied().collect());
        let fresh = built(&Rows { ids: all.clone(), ..rows.clone() }, metric);
        let ratio = hops(&pages, dim) / hops(&fresh, dim);
        assert!((0.9..1.05).contains(&ratio), "{metric:?}: {ratio}");
        // The pages of the old graph are used for new rows.
        (0..3).for_each(|_| pages.writer().commit());
        give_up_and_sweep(&mut pages);
        assert!(Index::open(&pages).unwrap().info().unwrap().free_slots > 3400);
        let count = pages.page_count();
        insert(&mut pages, 9000, rows.row(1), false);
        insert(&mut pages, 9001, rows.row(2), false);
        assert_eq!(pages.page_count(), count);
        check(&pages);
        // Another training comes too late, and changes nothing.
        let mut later = pages.clone();
        assert!(!train(&mut later, &rows, known));
        assert_eq!(row_ids(&later, rows.row(0)), row_ids(&pages, rows.row(0)));
    }
}

/// An index of the rows 1 to 1,250 without some. Some versions of rows wait in the pending list.
fn worn(rows: &Rows) -> (MemPages, BTreeSet<u64>) {
    let live: BTreeSet<u64> = (1..=1200).collect();
    let mut pages = grown_without_training(rows, &live);
    let live: BTreeSet<u64> = (1..=1250).collect();
    (1201..=1250).for_each(|id| insert(&mut pages, id, rows.row(id as usize - 1), id % 2 == 0));
    let dead: BTreeSet<u64> = (1..=1250).filter(|id| id % 17 == 3).collect();
    remove(&mut pages, &dead);
    (pages, &live - &dead)
}

/// Others insert rows between all turns of a training. Each row is in the new graph once, whether
/// the training knew the row, was asked for it, or the row came later. The training may end after
/// any step: then a reader and the next writer find every row, and the next vacuum frees what is
/// left and trains.
#[test]
fn a_training_beside_others_may_end_after_any_step() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 3000, 6));
    let (mut pages, mut live) = worn(&rows);
    let known: Vec<u64> = live.iter().copied().take(live.len() - 20).collect();
    let (mut stops, mut steps, mut next) = (Vec::new(), 0, 1500);
    let added = RefCell::new(live.clone());
    let mut others = |pages: &mut MemPages, _| {
        // Some are equal to rows of the index, and some are versions of them.
        let like = if next % 5 == 0 { next % 100 + 1 } else { next };
        added.borrow_mut().insert(next);
        insert(pages, next, rows.row(like as usize - 1), next % 10 == 0);
        next += 1;
    };
    let mut after_step = |pages: &MemPages| {
        steps += 1;
        if steps % 61 == 0 || steps < 5 {
            check(pages);
            assert_eq!(row_ids(pages, rows.row(0)), *added.borrow());
            stops.push((pages.clone(), added.borrow().clone()));
        }
    };
    let beside = Beside { others: &mut others, after_step: &mut after_step };
    let (trained, asked) = train_beside(&mut pages, &rows, &known, beside, &mut no_progress());
    assert!(trained.unwrap());
    live.clone_from(&added.borrow());
    assert!(asked.len() > 20 && asked.len() < live.len() - known.len(), "{} rows", asked.len());
    assert!(stops.len() > 5, "{steps} steps");
    assert_eq!(check(&pages).anchored, Index::open(&pages).unwrap().info().unwrap().rows);
    assert_eq!(row_ids(&pages, rows.row(0)), live);
    for (mut stopped, mut live) in stops {
        insert(&mut stopped, 2999, rows.row(2998), false);
        live.insert(2999);
        check(&stopped);
        assert_eq!(row_ids(&stopped, rows.row(0)), live);
        (0..3).for_each(|_| stopped.writer().commit());
        give_up_and_sweep(&mut stopped);
        check(&stopped);
        let known: Vec<u64> = live.iter().copied().collect();
        train(&mut stopped, &rows, &known);
        assert!(Index::open(&stopped).unwrap().info().unwrap().trained_rows > 1000);
        assert_eq!(row_ids(&stopped, rows.row(0)), live);
        check(&stopped);
    }
}

/// An index whose model knows 129 rows. At 1,032 rows the model would be trained, but an insertion
/// may not train so large an index.
fn grown_without_training(rows: &Rows, live: &BTreeSet<u64>) -> MemPages {
    let ids: Vec<u64> = live.iter().copied().collect();
    let values = ids[..129].iter().flat_map(|id| rows.row(*id as usize - 1).to_vec()).collect();
    let mut pages = built(&Rows { ids: ids[..129].to_vec(), ..Rows::new(rows.dim, values) }, Metric::L2);
    ids[129..].iter().for_each(|id| insert(&mut pages, *id, rows.row(*id as usize - 1), false));
    pages
}

/// A training that ends by an error gives its graph up, if it can. Otherwise later insertions write
/// into both graphs, which then have the same rows.
#[test]
fn a_training_that_is_interrupted_gives_its_graph_up() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 3000, 7));
    let (before, live) = worn(&rows);
    let known: Vec<u64> = live.iter().copied().take(live.len() - 50).collect();
    let mut phases = BTreeSet::new();
    for stop in 1..100 {
        let (mut pages, mut left, mut phase) = (before.clone(), stop, "");
        let beside = Beside { others: &mut |_, _| (), after_step: &mut |_| () };
        let (trained, _) = train_beside(&mut pages, &rows, &known, beside, &mut |progress| {
            (left, phase) = (left - 1, progress.phase);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if matches!(trained, Ok(true)) {
            break;
        }
        assert!(matches!(trained, Err(Error::Interrupted)), "{trained:?}");
        phases.insert(phase);
        let steps = Cell::new(0);
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer().with_after_step(Box::new(|_| steps.set(steps.get() + 1)));
        let mut change = known.change(&mut writer).unwrap();
        change.insert_hosted(2999, rows.row(2998), &[], false, &mut no_progress()).unwrap();
        change.finish().unwrap();
        drop(writer);
        assert!(steps.get() < 20, "{} steps after {phase}", steps.get());
        check(&pages);
        assert_eq!(row_ids(&pages, rows.row(0)), &live | &BTreeSet::from([2999]));
    }
    assert!(phases.contains("catch up") && phases.contains("write") && phases.len() > 3, "{phases:?}");
}

/// Adds a page that no step names, as a session does whose server is killed then. Also adds a row,
/// whose step makes page 0 count that page.
fn with_lost_page(pages: &mut MemPages, rows: &Rows, next: &mut usize) -> u32 {
    loop {
        let end = pages.page_count();
        pages.put(PageId(end), &[0; BODY_BYTES]);
        insert(pages, *next as u64 + 1, rows.row(*next), false);
        *next += 1;
        let counted = Index::open(&*pages).unwrap().info().unwrap().pages;
        if (counted, pages.page_count()) == (end + 1, end + 1) {
            return end;
        }
    }
}

/// After a crash, or on a standby, pages may be missing that page 0 counts and that no step named.
#[test]
fn a_page_that_was_lost_before_a_step_named_it_is_not_missed() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 1500, 9));
    let mut next = 1200;
    let mut pages = grown_without_training(&rows, &(1..=next as u64).collect());
    let end = with_lost_page(&mut pages, &rows, &mut next);
    pages.truncate(end);
    let all: BTreeSet<u64> = (1..=next as u64).collect();
    let assert_whole = |pages: &MemPages, all: &BTreeSet<u64>| {
        check(pages);
        assert_eq!(&row_ids(pages, rows.row(0)), all);
        let index = Index::open(pages).unwrap();
        let found = index.search_exactly(rows.row(0), all.len(), 1, &mut no_progress()).unwrap();
        assert_eq!(found[0].hits.len(), all.len());
        index.recall(10, 20, None, &SearchOptions::default(), 1, &mut no_progress()).unwrap();
        index.calibrate(None, 1, &mut no_progress()).unwrap();
    };
    assert_whole(&pages, &all);

    // A training that is given up notes the end of the index. So does a training whose graph
    // becomes that of the index.
    let known: Vec<u64> = all.iter().copied().collect();
    for stops in [true, false] {
        let mut turns_alone = 0;
        let mut lose_at_last = |pages: &mut MemPages, is_alone: bool| {
            turns_alone += u32::from(is_alone);
            if is_alone && turns_alone == if stops { 2 } else { 3 } {
                let end = pages.page_count();
                pages.put(PageId(end), &[0; BODY_BYTES]);
            }
        };
        let beside = Beside { others: &mut lose_at_last, after_step: &mut |_| () };
        let (trained, _) = train_beside(&mut pages, &rows, &known, beside, &mut |progress| {
            if stops && progress.phase == "write" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(trained.is_err(), stops, "{trained:?}");
        assert_eq!(turns_alone, if stops { 2 } else { 3 });
        let end = pages.page_count() - 1;
        assert_eq!(Index::open(&pages).unwrap().info().unwrap().pages, end + 1);
        pages.truncate(end);
        assert_whole(&pages, &all);
        (0..3).for_each(|_| pages.writer().commit());
        give_up_and_sweep(&mut pages);
        assert_whole(&pages, &all);
    }
    for _ in 0..100 {
        next += 1;
        insert(&mut pages, next as u64, rows.row(next - 1), false);
    }
    assert_whole(&pages, &(1..=next as u64).collect());
}

/// A crash between the step that begins a graph and the reservation of its pages must not leave
/// pages that the index does not know of. A reservation that fails leaves no graph.
#[test]
fn an_index_knows_of_the_pages_of_a_training_before_they_are_there() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 1201, 3));
    let live: BTreeSet<u64> = (1..=1200).collect();
    let known: Vec<u64> = live.iter().copied().collect();
    let before = grown_without_training(&rows, &live);
    let (mut pages, mut stopped) = (before.clone(), None);
    let mut after_step = |pages: &MemPages| {
        stopped.get_or_insert_with(|| pages.clone());
    };
    let beside = Beside { others: &mut |_, _| (), after_step: &mut after_step };
    assert!(train_beside(&mut pages, &rows, &known, beside, &mut no_progress()).0.unwrap());
    let mut stopped = stopped.unwrap();
    assert_eq!(stopped.page_count(), before.page_count());
    assert!(pages.page_count() > before.page_count());

    let next = Cell::new(100);
    let mut source = Rows { ids: known.clone(), ..Rows::new(dim, rows.values[..1200 * dim].to_vec()) };
    let mut full = before.clone();
    let mut host = GrowingHost { pages: &mut full, next: &next, is_full: true };
    let trained = Index::open(before).unwrap().train_beside(&mut source, 1 << 30, &mut host, &mut no_progress());
    assert!(matches!(trained, Err(Error::Full { .. })), "{trained:?}");
    for pages in [&mut stopped, &mut full] {
        insert(pages, 1201, rows.row(1200), false);
        (0..3).for_each(|_| pages.writer().commit());
        give_up_and_sweep(pages);
        check(pages);
        assert!(train(pages, &rows, &known));
        assert_eq!(row_ids(pages, rows.row(0)), &live | &BTreeSet::from([1201]));
        check(pages);
    }
}

/// A writer beside which another transaction commits before each step, as on a server: the number
/// of the next one grows.
struct Growing<'p> {
    writer: MemWriter<'p>,
    next: &'p Cell<u64>,
    is_full: bool,
}

impl PagesMut for Growing<'_> {
    type Reader<'w>
        = MemReader<'w>
    where
        Self: 'w;

    fn reader(&self) -> MemReader<'_> {
        self.writer.reader()
    }

    fn page_count(&self) -> u32 {
        self.writer.page_count()
    }

    fn commit_number(&self) -> u64 {
        self.next.get()
    }

    fn oldest_snapshot(&self) -> u64 {
        self.next.get() - 1
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        self.writer.allocate(count)
    }

    fn reserve(&mut self, count: u32) -> Result<PageId, Error> {
        if self.is_full { Err(Error::full("there is no room")) } else { self.allocate(count) }
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        self.step_numbered(pages, &mut |bodies, _| change(bodies))
    }

    fn step_numbered(&mut self, pages: &[PageId], change: NumberedStep<'_>) -> Result<(), Error> {
        self.next.set(self.next.get() + 1);
        self.writer.step(pages, &mut |bodies| change(bodies, self.next.get()))
    }
}

/// The host of such writers.
struct GrowingHost<'p> {
    pages: &'p mut MemPages,
    next: &'p Cell<u64>,
    is_full: bool,
}

impl TrainingHost for GrowingHost<'_> {
    type Pages<'p> = Growing<'p>;

    fn turn<T>(&mut self, _: bool, work: impl FnOnce(&mut Growing<'_>) -> Result<T, Error>) -> Result<T, Error> {
        work(&mut Growing { writer: self.pages.writer(), next: self.next, is_full: self.is_full })
    }

    fn rows(&mut self, _: &[u64]) -> Result<HostRows, Error> {
        Ok(HostRows::default())
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        None
    }
}

/// A reader may take its snapshot after all that a training computes, and read page 0 right before
/// the step that replaces the graph. It then reads the old graph.
#[test]
fn the_old_graph_stays_for_the_last_reader_that_may_see_it() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 1200, 8));
    let live: BTreeSet<u64> = (1..=1200).collect();
    let mut pages = grown_without_training(&rows, &live);
    let next = Cell::new(100);
    let mut source = Rows { ids: live.iter().copied().collect(), ..rows.clone() };
    let index = Index::open(pages.clone()).unwrap();
    let mut host = GrowingHost { pages: &mut pages, next: &next, is_full: false };
    assert!(index.train_beside(&mut source, 1 << 30, &mut host, &mut no_progress()).unwrap());
    let free_after_sweep = |pages: &mut MemPages, oldest: u64| {
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer().with_oldest_snapshot(oldest);
        let mut change = known.change(&mut writer).unwrap();
        while change.sweep(50).unwrap() {}
        change.finish().unwrap();
        drop(writer);
        Index::open(&*pages).unwrap().info().unwrap().free_slots
    };
    let before = Index::open(&pages).unwrap().info().unwrap().free_slots;
    // The last step showed the graph. That reader began when its number was the next one.
    assert_eq!(free_after_sweep(&mut pages, next.get() - 1), before);
    assert!(free_after_sweep(&mut pages, next.get()) > before + 1000);
    check(&pages);
}
