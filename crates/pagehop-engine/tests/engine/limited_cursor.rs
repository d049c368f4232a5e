//! A cursor with a limit of memory: every row comes once, in bounded memory. A cursor with a limit
//! of reads ends at the limit, also within a pass over all pages.

use crate::support;
use crate::support::{Rows, change, embeddings, hosted, index, vacuum};
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, Cursor, EachChunk, Error, Filter, Found, Index, Metric, Pages, SearchOptions,
    Stats, Value, VectorSource, build,
};
use pagehop_sim::MemPages;

const DIM: usize = 24;
const COUNT: usize = 4000;
const LIMIT: usize = 100_000;
const OPTIONS: SearchOptions = SearchOptions { search_list: 20, slack: 0.1, beam_width: 4 };

fn rest<P: Pages>(cursor: &mut Cursor<'_, P>) -> (Vec<Found>, usize) {
    let (mut rows, mut most) = (Vec::new(), 0);
    while let Some(found) = cursor.next_hit().unwrap() {
        rows.push(found);
        most = most.max(cursor.memory_bytes());
    }
    (rows, most)
}

fn ids(found: &[Found]) -> Vec<u64> {
    sorted(&found.iter().map(|found| found.row_id).collect::<Vec<_>>())
}

fn sorted(ids: &[u64]) -> Vec<u64> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

#[test]
fn every_row_comes_once_whatever_the_limit() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let index = index(&rows, metric);
        let every = sorted(&rows.ids);
        for query in embeddings(DIM, 3, 2).chunks_exact(DIM) {
            let (_, unlimited) = rest(&mut index.cursor(query, &OPTIONS).unwrap());
            assert!(unlimited > 2 * LIMIT, "{unlimited}");
            for limit in [0, LIMIT] {
                let mut cursor = index.cursor(query, &OPTIONS).unwrap();
                cursor.limit_memory(limit);
                let (found, most) = rest(&mut cursor);
                assert!(ids(&found) == every, "{metric:?} {limit}: {} rows", found.len());
                // A pass keeps at least a thousand rows, and twice as many while it reads.
                assert!(most < limit + 200_000 && most < unlimited, "{metric:?} {limit}: {most} of {unlimited}");
                // After the passes have begun, rows come in order of distance.
                let last = found.len() / 2;
                assert!(found[last..].is_sorted_by(|a, b| a.distance <= b.distance), "{metric:?} {limit}");
            }
        }
    }
}

#[test]
fn passes_read_every_page_and_a_rescan_begins_with_a_walk() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    let index = index(&rows, Metric::L2);
    let pages = u64::from(index.pages().page_count());
    let mut cursor = index.cursor(rows.row(7), &OPTIONS).unwrap();
    cursor.limit_memory(0);
    let first: Vec<Found> = std::iter::from_fn(|| cursor.next_hit().unwrap()).take(10).collect();
    let Stats { pages_read, .. } = cursor.stats();
    assert!(pages_read < pages / 4, "ten rows take {pages_read} of {pages} pages");
    let (_, _) = rest(&mut cursor);
    let read = cursor.stats().pages_read;
    assert!((3 * pages..5 * pages).contains(&read), "four passes of 1,024 rows read {read} of {pages} pages");
    cursor.rescan(rows.row(7), &OPTIONS).unwrap();
    let again: Vec<Found> = std::iter::from_fn(|| cursor.next_hit().unwrap()).take(10).collect();
    assert_eq!(again, first);
    assert_eq!(cursor.stats().pages_read, pages_read);
}

#[test]
fn the_rows_of_a_filter_come_once() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    let index = index(&rows, Metric::L2);
    // Nearly all rows pass the first filter, so there are no runs to read. One row in three passes
    // the second.
    let (but, most): (Vec<u64>, Vec<u64>) = rows.ids.iter().partition(|id| *id % 50 == 0);
    let third: Vec<u64> = rows.ids.iter().copied().filter(|id| id % 3 == 0).collect();
    for (filter, passing) in [(Filter::Not(Box::new(Filter::Ids(but))), most), (Filter::Ids(third.clone()), third)]
    {
        let mut cursor = index.cursor(rows.row(3), &OPTIONS).unwrap();
        cursor.limit_memory(0);
        cursor.only(index.plan_filter(&filter).unwrap());
        assert!(ids(&rest(&mut cursor).0) == sorted(&passing), "{filter:?}");
    }
}

#[test]
fn deleted_rows_do_not_come() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let (gone, left): (Vec<u64>, Vec<u64>) = rows.ids.iter().partition(|id| *id % 4 == 1);
    change(&mut pages, |change| change.delete(&gone).unwrap());
    vacuum(&mut pages);
    let again: Vec<u64> = (0..100).map(|id| (1 << 40) + id).collect();
    let vectors: Vec<f32> = (0..again.len()).flat_map(|at| rows.row(4 * at + 1).to_vec()).collect();
    change(&mut pages, |change| change.add(&again, &vectors, None, &mut support::no_progress()).unwrap());
    let index = pagehop_engine::Index::open(pages).unwrap();
    let mut cursor = index.cursor(rows.row(3), &OPTIONS).unwrap();
    cursor.limit_memory(0);
    assert!(ids(&rest(&mut cursor).0) == sorted(&[left, again].concat()));
}

#[test]
fn a_search_does_not_count_what_the_one_before_has_seen() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    let index = index(&rows, Metric::L2);
    let mut cursor = index.cursor(rows.row(1), &OPTIONS).unwrap();
    let fresh = (cursor.memory_bytes(), cursor.next_hit().unwrap(), cursor.memory_bytes());
    let (_, most) = rest(&mut cursor);
    assert!(most > 10 * fresh.2);
    cursor.rescan(rows.row(1), &OPTIONS).unwrap();
    assert_eq!((cursor.memory_bytes(), cursor.next_hit().unwrap(), cursor.memory_bytes()), fresh);
}

#[test]
fn a_search_ends_at_its_limit_of_reads() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    let index = index(&rows, Metric::L2);
    let pages = u64::from(index.pages().page_count());
    let mut whole = index.cursor(rows.row(7), &OPTIONS).unwrap();
    let (every, _) = rest(&mut whole);
    assert!(!whole.is_cut());
    // The first limit ends the walk, the second the first pass, and the third the second pass.
    for (memory, limit) in [(usize::MAX, 500), (0, pages / 2), (0, pages + pages / 2)] {
        let mut cursor = index.cursor(rows.row(7), &OPTIONS).unwrap();
        cursor.limit_memory(memory);
        cursor.limit_reads(limit);
        for _ in 0..2 {
            let (found, _) = rest(&mut cursor);
            assert!(cursor.is_cut());
            assert_eq!(cursor.page_reads(), limit, "the limit is checked before each page");
            assert_eq!(found[..10], every[..10], "rows before the limit are those of a search without a limit");
            assert!(found.len() < COUNT / 2, "{} rows for {limit} reads", found.len());
            assert_eq!(cursor.next_hit().unwrap(), None);
            cursor.rescan(rows.row(7), &OPTIONS).unwrap();
            assert!(!cursor.is_cut());
        }
        cursor.limit_reads(u64::MAX);
        assert_eq!(rest(&mut cursor).0.len(), COUNT);
        assert!(!cursor.is_cut());
    }
}

/// Rows whose ids say which of two tags they have. Every row also has one of 40 other tags, so that
/// the words of tags decide little.
struct Tagged(Rows, ColumnRows);

fn has_tag(id: u64) -> bool {
    (id / 7).is_multiple_of(3)
}

impl Tagged {
    fn new() -> Self {
        let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
        let mut columns = ColumnRows::new(vec![Column { name: "tags".into(), kind: ColumnKind::Tags }]).unwrap();
        for id in &rows.ids {
            let mut tags: Vec<String> = (0..20).map(|at| format!("tag {}", (id / 7 + 3 * at) % 40)).collect();
            tags.push(if has_tag(*id) { "wanted" } else { "other" }.into());
            columns.push(&[Value::Tags(tags)]).unwrap();
        }
        Self(rows, columns)
    }
}

impl VectorSource for Tagged {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        self.0.scan(each)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.1)
    }
}

#[test]
fn the_rows_of_a_tag_come_once() {
    let mut rows = Tagged::new();
    let mut pages = MemPages::new();
    build(&mut rows, &support::options(Metric::L2), &mut pages, &mut support::no_progress()).unwrap();
    let index = Index::open(&pages).unwrap();
    let (with, without): (Vec<u64>, Vec<u64>) = rows.0.ids.iter().partition(|id| has_tag(**id));
    let tag = Filter::ContainsAny("tags".into(), vec!["wanted".into()]);
    for (filter, passing) in [(tag.clone(), with), (Filter::Not(Box::new(tag)), without)] {
        for limit in [0, LIMIT] {
            let mut cursor = index.cursor(rows.0.row(3), &OPTIONS).unwrap();
            cursor.limit_memory(limit);
            cursor.only(index.plan_filter(&filter).unwrap());
            assert!(ids(&rest(&mut cursor).0) == sorted(&passing), "{filter:?} {limit}");
            // Each pass reads the tags of a row again.
            let read = cursor.stats().pages_read;
            assert!(limit > 0 || read > COUNT as u64, "{filter:?}: {read} reads");
        }
    }
}

/// Versions of known rows, which wait in the pending list until a vacuum.
#[test]
fn rows_that_wait_for_their_nodes_come_once() {
    let mut rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    rows.ids = (1..=COUNT as u64).collect();
    let mut pages = hosted::built(&rows, Metric::L2);
    let versions: Vec<u64> = (0..200).map(|at| 10_000 + at).collect();
    for (at, id) in versions.iter().enumerate() {
        // Every second version is one of the same row.
        hosted::insert(&mut pages, *id, rows.row(if at % 2 == 0 { 5 } else { 17 * at }), true);
    }
    let every = [rows.ids.clone(), versions].concat();
    let index = Index::open(&pages).unwrap();
    assert_eq!(index.info().unwrap().rows, COUNT as u64, "they are in no node");
    for limit in [0, LIMIT] {
        let mut cursor = index.cursor(rows.row(5), &OPTIONS).unwrap();
        cursor.limit_memory(limit);
        let (found, most) = rest(&mut cursor);
        assert!(ids(&found) == sorted(&every), "{limit}: {} rows", found.len());
        assert!(most < limit + 200_000, "{limit}: {most}");
    }
}

#[test]
fn a_search_ends_at_its_limit_of_memory() {
    let rows = Rows::new(DIM, embeddings(DIM, COUNT, 1));
    let index = index(&rows, Metric::L2);
    let every = rest(&mut index.cursor(rows.row(7), &OPTIONS).unwrap()).0;
    for limit in [LIMIT / 2, LIMIT, 0] {
        let mut cursor = index.cursor(rows.row(7), &OPTIONS).unwrap();
        cursor.end_at_memory(limit);
        let (found, _) = rest(&mut cursor);
        assert!(cursor.is_full() && !cursor.is_cut(), "{limit}");
        assert_eq!(cursor.next_hit().unwrap(), None);
        // The memory may exceed the limit by one node, or by the search for the first rows.
        assert!(cursor.memory_bytes() < limit + 20_000, "{limit}: {}", cursor.memory_bytes());
        assert!(found.len() >= 10 && found.len() < COUNT, "{limit}: {} rows", found.len());
        assert_eq!(found, every[..found.len()], "rows before the limit are those of a search without a limit");
        cursor.end_at_memory(usize::MAX);
        cursor.rescan(rows.row(7), &OPTIONS).unwrap();
        assert_eq!(rest(&mut cursor).0.len(), COUNT);
        assert!(!cursor.is_full());
    }
}
