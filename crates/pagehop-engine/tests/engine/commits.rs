//! Searches with filters while a commit becomes visible, page by page, at every moment of the
//! search. One commit never becomes completely visible, because its writer died.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::{embeddings, no_progress};
use pagehop_engine::page::{Pages, Reader};
use pagehop_engine::{
    Change, Column, ColumnKind, ColumnRows, Comparison, CreateOptions, Error, Filter, Index, PageId, SearchOptions,
    SearchPlan, Value, create,
};
use pagehop_sim::{MemPages, MemWriter};

const DIM: usize = 8;
const ROWS: u64 = 400;
/// More than the number of rows, so that an answer has all rows that pass.
const K: usize = 10_000;

/// Pages of two commits. From the `begins`-th read on, each read shows `pace` more pages of the
/// second commit, up to `most` of them.
struct Turning<'p> {
    pages: [&'p MemPages; 2],
    /// Old pages that the second commit changed; page 0 is the last.
    changed: Vec<PageId>,
    begins: usize,
    pace: usize,
    most: usize,
    reads: AtomicUsize,
}

impl<'p> Turning<'p> {
    fn new(pages: [&'p MemPages; 2], (begins, pace, most): (usize, usize, usize)) -> Self {
        let old = (1..pages[0].page_count()).chain([0]).map(PageId);
        let changed = old.filter(|page| pages[0].body(*page) != pages[1].body(*page)).collect();
        Self { pages, changed, begins, pace, most, reads: AtomicUsize::new(0) }
    }

    /// The steps of the second commit so far. Its new pages are the first step, then each old page
    /// is one, and its number is the last.
    fn steps(&self) -> usize {
        let reads = self.reads.load(Relaxed).saturating_sub(self.begins);
        reads.saturating_mul(self.pace).min(self.most).min(self.changed.len() + 2)
    }

    fn commit(&self, which: usize) -> u64 {
        self.pages[which].reader().snapshot(true)
    }
}

impl Pages for Turning<'_> {
    type Reader<'r>
        = TurningReader<'r>
    where
        Self: 'r;

    fn reader(&self) -> TurningReader<'_> {
        TurningReader { host: self, snapshot: Cell::new(None) }
    }

    fn page_count(&self) -> u32 {
        self.pages[usize::from(self.steps() > 0)].page_count()
    }

    fn is_newest(&self, snapshot: u64) -> bool {
        self.steps() == 0 || snapshot >= self.commit(1)
    }
}

struct TurningReader<'p> {
    host: &'p Turning<'p>,
    snapshot: Cell<Option<u64>>,
}

impl Reader for TurningReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    fn start(&self, _page: PageId, _bytes: Range<usize>) {}

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        self.host.reads.fetch_add(1, Relaxed);
        let shown = self.host.steps().saturating_sub(1);
        let is_new =
            page.0 >= self.host.pages[0].page_count() || self.host.changed.iter().take(shown).any(|p| *p == page);
        if page.0 >= self.host.page_count() {
            return Err(Error::corrupt(page, "the page does not exist"));
        }
        Ok(self.host.pages[usize::from(is_new)].body(page))
    }

    fn snapshot(&mut self, renew: bool) -> u64 {
        let whole = self.host.steps() == self.host.changed.len() + 2;
        let newest = self.host.commit(usize::from(whole));
        let snapshot = self.snapshot.get().filter(|_| !renew).unwrap_or(newest);
        self.snapshot.set(Some(snapshot));
        snapshot
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        0
    }
}

fn columns() -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    vec![column("n", ColumnKind::Int), column("x", ColumnKind::Int), column("g", ColumnKind::Tags)]
}

/// Two or three tags for most rows, for which a word cannot prove that a tag is in the set, and one
/// tag for others.
fn tags(id: u64, n: i64) -> Value {
    let tags = [format!("n {n}"), format!("ten {}", id % 10), "all".to_owned()];
    Value::Tags(tags[..if id.is_multiple_of(5) { 1 } else { 3 - (id % 2) as usize }].to_vec())
}

fn packed(rows: impl Iterator<Item = [Value; 3]>) -> ColumnRows {
    let mut packed = ColumnRows::new(columns()).unwrap();
    rows.for_each(|row| packed.push(&row).unwrap());
    packed
}

fn change(pages: &mut MemPages, work: impl FnOnce(&mut Change<'_, MemWriter<'_>>) -> Result<(), Error>) {
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    work(&mut change).unwrap();
    change.finish().unwrap();
    writer.commit();
}

fn add(change: &mut Change<'_, MemWriter<'_>>, ids: Range<u64>, n: impl Fn(u64) -> i64) -> Result<(), Error> {
    let vectors = embeddings(DIM, ids.clone().count(), ids.start + 3);
    let values = packed(ids.clone().map(|id| [Value::Int(n(id)), Value::Int((id % 9) as i64), tags(id, n(id))]));
    let ids: Vec<u64> = ids.collect();
    change.add(&ids, &vectors, Some(&values), &mut no_progress()).map(drop)
}

/// An index of rows 0 to 399, with `n` from 0 to 3, dead rows, free slots and empty pages.
fn before() -> MemPages {
    let mut pages = MemPages::new();
    create(DIM, &CreateOptions { columns: columns(), ..CreateOptions::default() }, &mut pages).unwrap();
    for part in [0..300, 300..ROWS] {
        change(&mut pages, |change| add(change, part, |id| (id % 4) as i64));
    }
    change(&mut pages, |change| add(change, ROWS..ROWS + 200, |_| 9));
    change(&mut pages, |change| change.delete(&(ROWS..ROWS + 200).collect::<Vec<_>>()).map(drop));
    for _ in 0..2 {
        change(&mut pages, |change| change.vacuum(1000, &mut no_progress()).map(drop));
    }
    change(&mut pages, |change| add(change, 0..30, |id| (id % 4) as i64));
    // A vacuum will merge the leaves of these.
    change(&mut pages, |change| add(change, 2 * ROWS..2 * ROWS + 200, |_| 8));
    change(&mut pages, |change| change.delete(&(2 * ROWS..2 * ROWS + 200).collect::<Vec<_>>()).map(drop));
    pages
}

type Commit = fn(&mut Change<'_, MemWriter<'_>>) -> Result<(), Error>;

const COMMITS: [(&str, Commit); 7] = [
    ("more rows, which split leaves", |change| add(change, ROWS..ROWS + 300, |id| (id % 4) as i64)),
    ("another vector for each row, and other values for a few", |change| {
        add(change, 0..ROWS, |id| if id < 50 { 7 } else { (id % 4) as i64 })
    }),
    ("other values", |change| {
        let ids: Vec<u64> = (0..30).collect();
        let values =
            packed(ids.iter().map(|id| [Value::Int((id % 4) as i64), Value::Int(77), tags(*id, (id % 4) as i64)]));
        change.update_columns(&ids, &values).map(drop)
    }),
    ("rows in place of others", |change| {
        change.delete(&(0..30).collect::<Vec<_>>())?;
        add(change, ROWS..ROWS + 20, |id| (id % 4) as i64)
    }),
    ("a vacuum", |change| change.vacuum(1000, &mut no_progress()).map(drop)),
    ("a vacuum, and more rows on the pages that it emptied", |change| {
        change.vacuum(1000, &mut no_progress())?;
        add(change, ROWS..ROWS + 300, |id| (id % 4) as i64)
    }),
    ("training", |change| change.train(&mut no_progress())),
];

fn filters() -> Vec<Filter> {
    let n = |comparison, value| Filter::Compare("n".into(), comparison, Value::Int(value));
    let ids = || Filter::Ids((0..ROWS + 300).step_by(7).collect());
    let tag = |tag: &str| Filter::ContainsAny("g".into(), vec![tag.into()]);
    vec![
        n(Comparison::Equal, 2),
        n(Comparison::GreaterOrEqual, 1),
        ids(),
        Filter::And(vec![ids(), n(Comparison::NotEqual, 1)]),
        Filter::Or(vec![Filter::Ids(vec![3, 5, ROWS + 2]), n(Comparison::Equal, 0)]),
        Filter::Not(Box::new(ids())),
        tag("n 2"),
        tag("all"),
        Filter::And(vec![tag("ten 3"), tag("all")]),
        Filter::Not(Box::new(tag("n 1"))),
    ]
}

fn found<P: Pages>(index: &Index<P>, filter: &Filter, options: Option<&SearchOptions>) -> BTreeSet<u64> {
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(filter).unwrap();
    let how = options.cloned().map_or_else(SearchPlan::exact, SearchPlan::from);
    let result = searcher.answer(&[0.1; DIM], K, &how, Some(&plan)).unwrap();
    let ids: BTreeSet<u64> = result.hits.iter().map(|hit| hit.row_id).collect();
    assert_eq!(ids.len(), result.hits.len(), "a row came twice");
    ids
}

/// Searches while each of `COMMITS` becomes visible. `schedules` gets the number of reads and of
/// changed pages.
fn search_while_turning(schedules: impl Fn(usize, usize) -> Vec<(usize, usize, usize)>) {
    let old = before();
    let mut without_new_pages = 0;
    for (name, commit) in COMMITS {
        let mut new = old.clone();
        change(&mut new, commit);
        let mut seen = [0, 0];
        for (filter, options) in
            filters().iter().flat_map(|filter| [(filter, None), (filter, Some(SearchOptions::default()))])
        {
            let truth = [&old, &new].map(|pages| found(&Index::open(pages).unwrap(), filter, options.as_ref()));
            let still = Turning::new([&old, &new], (usize::MAX, 0, 0));
            let changed = still.changed.len();
            found(&Index::open(&still).unwrap(), filter, options.as_ref());
            for schedule in schedules(still.reads.load(Relaxed), changed) {
                let pages = Turning::new([&old, &new], schedule);
                let index = Index::open(&pages).unwrap();
                let answer = found(&index, filter, options.as_ref());
                let which = truth.iter().position(|truth| *truth == answer);
                let Some(which) = which else {
                    let missing = truth.each_ref().map(|truth| truth.difference(&answer).count());
                    let more = truth.each_ref().map(|truth| answer.difference(truth).count());
                    panic!(
                        "{name}, {filter:?}, {options:?}, {schedule:?} of {changed}: {missing:?} missing, {more:?} more"
                    );
                };
                seen[which] += 1;
            }
        }
        let more_pages = new.page_count() - old.page_count();
        println!("{name}, {more_pages} new pages: {seen:?} answers of the commit before and of this one");
        assert!(seen[0] > 0, "{name}: {seen:?}");
        without_new_pages += u32::from(more_pages == 0);
    }
    // These commits are recognized by their number alone.
    assert!(without_new_pages > 1);
}

#[test]
fn a_filtered_search_is_of_the_commit_before_or_of_the_one_that_becomes_visible() {
    search_while_turning(|reads, changed| {
        let begins = (0..reads).step_by(1 + reads / 50);
        begins
            .flat_map(|begins| {
                [(begins, 1, usize::MAX), (begins, changed / 2 + 1, usize::MAX), (begins, usize::MAX, usize::MAX)]
            })
            .collect()
    });
}

#[test]
fn a_filtered_search_is_right_where_a_writer_died_while_it_showed_a_commit() {
    search_while_turning(|_, changed| {
        (1..changed + 2).step_by(1 + changed / 25).map(|most| (0, usize::MAX, most)).collect()
    });
}
