//! Indexes whose rows come and go: pages that become empty are used again, so the number of pages
//! stays within a bound, and what is estimated and found follows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use crate::support;
use crate::support::hosted::{self, EVERYTHING};
use crate::support::{ColumnSource, embeddings, no_progress, options};
use pagehop_engine::page::Pages;
use pagehop_engine::{
    BuildOptions, Change, Column, ColumnKind, ColumnRows, Comparison, CreateOptions, Filter, IdKind, Index, Metric,
    PageId, SearchPlan, Value, build, create,
};
use pagehop_sim::{MemPages, MemWriter};

const DIM: usize = 8;
/// Kinds of the pages of a column's tree.
const LEAF: u8 = 8;
const INNER: u8 = 9;

fn columns() -> Vec<Column> {
    vec![Column { name: "at".into(), kind: ColumnKind::Int }]
}

fn packed(values: impl Iterator<Item = i64>) -> ColumnRows {
    let mut packed = ColumnRows::new(columns()).unwrap();
    values.for_each(|value| packed.push(&[Value::Int(value)]).unwrap());
    packed
}

/// The vectors of rows with these ids: those of ids that are equal modulo 5,000 are equal.
fn vectors(ids: Range<u64>) -> Vec<f32> {
    static ALL: LazyLock<Vec<f32>> = LazyLock::new(|| embeddings(DIM, 5000, 3));
    ids.flat_map(|id| ALL[id as usize % 5000 * DIM..][..DIM].to_vec()).collect()
}

/// An index of rows with these ids, whose values are the ids.
fn built(ids: Range<u64>, id_kind: IdKind) -> MemPages {
    let (vectors, columns) = (vectors(ids.clone()), packed(ids.clone().map(|id| id as i64)));
    let mut source = ColumnSource { dim: DIM, ids: ids.collect(), vectors, columns };
    let mut pages = MemPages::new();
    let options = BuildOptions { id_kind, ..options(Metric::L2) };
    build(&mut source, &options, &mut pages, &mut no_progress()).unwrap();
    pages
}

fn insert_hosted(pages: &mut MemPages, ids: Range<u64>, value: impl Fn(u64) -> i64) {
    let vectors = vectors(ids.clone());
    hosted::change(pages, |change| {
        for (id, vector) in ids.zip(vectors.chunks(DIM)) {
            change.insert_hosted(id, vector, &[Value::Int(value(id))], false, &mut no_progress()).unwrap();
        }
    });
}

fn compare(comparison: Comparison, value: i64) -> Filter {
    Filter::Compare("at".into(), comparison, Value::Int(value))
}

/// The rows that pass a filter, by a cursor that is read to its end.
fn passing(pages: &MemPages, filter: &Filter) -> BTreeSet<u64> {
    let index = Index::open(pages).unwrap();
    let mut cursor = index.cursor(&[0.1; DIM], &EVERYTHING).unwrap();
    cursor.only(index.plan_filter(filter).unwrap());
    let mut found = BTreeSet::new();
    while let Some(hit) = cursor.next_hit().unwrap() {
        assert!(found.insert(hit.row_id), "row {} came twice", hit.row_id);
    }
    found
}

/// The estimated share of rows that pass, and the true one, for rows whose values are `all`.
fn shares(pages: &MemPages, all: &Range<u64>, some: &Range<u64>) -> (f64, f64) {
    let least = compare(Comparison::GreaterOrEqual, some.start as i64);
    let range = Filter::And(vec![least, compare(Comparison::Less, some.end as i64)]);
    let estimated = Index::open(pages).unwrap().plan_filter(&range).unwrap().share();
    (estimated, (some.end - some.start) as f64 / (all.end - all.start) as f64)
}

/// New rows have greater values, and the oldest are deleted: ten times as many rows as there are at
/// a time. Ranges at the live end, in the middle and of all are estimated within a factor.
#[test]
fn ten_turnovers_of_a_growing_column_take_no_more_pages() {
    const ROWS: u64 = 1000;
    const BATCH: u64 = 250;
    let (mut live, mut counts) = (1..ROWS + 1, Vec::new());
    let mut pages = built(live.clone(), IdKind::HostOwned);
    for batch in 0..10 * ROWS / BATCH {
        insert_hosted(&mut pages, live.end..live.end + BATCH, |id| id as i64);
        let dead = (live.start..live.start + BATCH).collect();
        live = live.start + BATCH..live.end + BATCH;
        hosted::change(&mut pages, |change| {
            change.remove_dead_rows(0..u32::MAX, &mut |row| BTreeSet::contains(&dead, &row)).unwrap()
        });
        hosted::vacuum(&mut pages);
        if (batch + 1).is_multiple_of(ROWS / BATCH) {
            let found = hosted::check(&pages);
            assert_eq!((found.nodes, found.dead_nodes), (ROWS, 0));
            counts.push(found.pages);
            let end = live.end;
            for some in [end - 100..end, end - 300..end, end - 700..end - 400, live.start..end - 500] {
                let (estimated, share) = shares(&pages, &live, &some);
                let ratio = estimated / share;
                println!("turnover {}, {some:?}: {estimated:.3} for {share:.3}", counts.len());
                assert!((0.4..=2.5).contains(&ratio), "{some:?}: {estimated} for {share}");
                let filter = compare(Comparison::GreaterOrEqual, some.start as i64);
                assert_eq!(passing(&pages, &filter), (some.start..end).collect());
            }
            assert!(passing(&pages, &compare(Comparison::Less, live.start as i64)).is_empty());
        }
    }
    println!("pages after each turnover: {counts:?}");
    assert!(counts[9] * 20 <= counts[1] * 21, "{counts:?}");
}

/// Rows get new values one by one, in any order, as `updated_at` does.
#[test]
fn a_column_of_times_of_updates_takes_no_more_pages() {
    const ROWS: u64 = 900;
    let mut pages = built(1..ROWS + 1, IdKind::HostOwned);
    // The row id of the newest version of each row.
    let mut versions: BTreeMap<u64, u64> = (1..=ROWS).map(|row| (row, row)).collect();
    let (mut time, mut counts) = (ROWS + 1, Vec::new());
    for round in 0..24 {
        let mut dead = BTreeSet::new();
        for at in 0..300 {
            let row = 1 + (at * 7919 + round * 104_729) % ROWS;
            if dead.insert(versions[&row]) {
                // A row and its versions have one vector: ids that are equal modulo 5,000.
                let id = 5000 * time + row;
                insert_hosted(&mut pages, id..id + 1, |_| time as i64);
                versions.insert(row, id);
                time += 1;
            }
        }
        hosted::change(&mut pages, |change| {
            change.remove_dead_rows(0..u32::MAX, &mut |row| dead.contains(&row)).unwrap()
        });
        hosted::vacuum(&mut pages);
        counts.push(hosted::check(&pages).pages);
    }
    println!("pages after each round: {counts:?}");
    assert!(counts[23] * 20 <= counts[11] * 21, "{counts:?}");
    let all: BTreeSet<u64> = versions.values().copied().collect();
    assert_eq!(passing(&pages, &compare(Comparison::GreaterOrEqual, 0)), all);
}

/// New versions of rows wait in the pending list, and a vacuum takes them in: each time on the same
/// pages.
#[test]
fn the_pending_list_uses_its_pages_again() {
    let mut pages = built(1..3001, IdKind::HostOwned);
    let mut versions: BTreeMap<u64, u64> = (1..=3000).map(|row| (row, row)).collect();
    let mut counts = Vec::new();
    for round in 1..=5 {
        let mut dead = BTreeSet::new();
        hosted::change(&mut pages, |change| {
            for row in 1..=1500 {
                let (id, values) = (round * 10_000 + row, [Value::Int(row as i64)]);
                dead.extend(versions.insert(row, id));
                change.insert_hosted(id, &vectors(row..row + 1), &values, true, &mut no_progress()).unwrap();
            }
        });
        hosted::remove(&mut pages, &dead);
        hosted::vacuum(&mut pages);
        counts.push(hosted::check(&pages).pages);
    }
    println!("pages after each round: {counts:?}");
    assert_eq!(counts[4], counts[0], "{counts:?}");
    assert_eq!(passing(&pages, &compare(Comparison::GreaterOrEqual, 0)), versions.into_values().collect());
}

/// Rows are deleted and others inserted: the list of dead nodes has pages for a while.
#[test]
fn the_list_of_dead_nodes_uses_its_pages_again() {
    let mut pages = built(1..1001, IdKind::HostOwned);
    let mut counts = Vec::new();
    for round in 0..16 {
        let dead = (1 + round * 400..401 + round * 400).collect();
        insert_hosted(&mut pages, 1001 + round * 400..1401 + round * 400, |id| (id % 50) as i64);
        hosted::remove(&mut pages, &dead);
        hosted::vacuum(&mut pages);
        counts.push(hosted::check(&pages).pages);
    }
    println!("pages after each round: {counts:?}");
    // Some slots are free that no row is near to, so nodes take a few pages more at first.
    assert!(counts[15] * 50 <= counts[7] * 51, "{counts:?}");
}

/// The same in a file: rows are added with the greatest values, the oldest deleted, and values of
/// the others change. Exact searches with filters find what is there.
#[test]
fn a_file_uses_pages_of_trees_again() {
    let mut pages = built(0..1500, IdKind::Int);
    let mut values: BTreeMap<u64, i64> = (0..1500).map(|id| (id, id as i64)).collect();
    let (mut time, mut counts) = (1500, Vec::new());
    for round in 0..20 {
        let new = 1500 + round * 150..1650 + round * 150;
        support::change(&mut pages, |change| add(change, new.clone(), time));
        values.extend(new.clone().map(|id| (id, time + (id - new.start) as i64)));
        time += 150;
        let old: Vec<u64> = values.keys().copied().take(150).collect();
        support::change(&mut pages, |change| change.delete(&old).unwrap());
        values.retain(|id, _| !old.contains(id));
        let some: Vec<u64> = values.keys().copied().skip(round as usize % 7).step_by(9).collect();
        let updated = packed((time..).take(some.len()));
        support::change(&mut pages, |change| change.update_columns(&some, &updated).unwrap());
        values.extend(some.iter().copied().zip(time..));
        time += some.len() as i64;
        support::vacuum(&mut pages);
        let index = Index::open(&pages).unwrap();
        let report = index.check(&mut no_progress()).unwrap();
        assert_eq!((report.nodes, report.dead_nodes), (1500, 0));
        counts.push(report.pages);
        let least = time - 200;
        let filter = compare(Comparison::GreaterOrEqual, least);
        let plan = index.plan_filter(&filter).unwrap();
        let found = index.searcher().answer(&[0.1; DIM], 1000, &SearchPlan::exact(), Some(&plan)).unwrap();
        let found: BTreeSet<u64> = found.hits.iter().map(|hit| hit.row_id).collect();
        assert_eq!(found, values.iter().filter(|row| *row.1 >= least).map(|row| *row.0).collect());
    }
    println!("pages after each round: {counts:?}");
    assert!(counts[19] * 20 <= counts[9] * 21, "{counts:?}");
}

fn add(change: &mut Change<'_, MemWriter<'_>>, ids: Range<u64>, time: i64) {
    let (vectors, values) = (vectors(ids.clone()), packed((time..).take(ids.clone().count())));
    let ids: Vec<u64> = ids.collect();
    change.add(&ids, &vectors, Some(&values), &mut no_progress()).unwrap();
}

/// After every step of a vacuum that empties most leaves of a column the index is valid, and the
/// next changes go on from there.
#[test]
fn a_vacuum_of_trees_may_end_after_any_step() {
    let mut pages = built(1..1201, IdKind::HostOwned);
    let dead: BTreeSet<u64> = (1..1100).filter(|id| id % 50 > 0).collect();
    hosted::change(&mut pages, |change| {
        change.remove_dead_rows(0..u32::MAX, &mut |row| dead.contains(&row)).unwrap()
    });
    let (mut stops, mut steps) = (Vec::new(), 0);
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer().with_after_step(Box::new(|pages| {
        steps += 1;
        if steps % 101 == 0 {
            hosted::check(pages);
        }
        if steps % 500 == 0 {
            stops.push(pages.clone());
        }
    }));
    let mut change = known.change(&mut writer).unwrap();
    while change.vacuum(u64::MAX, &mut no_progress()).unwrap().steps() > 0 {}
    change.finish().unwrap();
    drop(writer);
    let left: BTreeSet<u64> = (1..1201).filter(|id| !dead.contains(id)).collect();
    let everything = compare(Comparison::GreaterOrEqual, 0);
    let before = pages_of(&pages, LEAF);
    assert!(before <= 4, "{before} leaves are left for {} rows", left.len());
    assert!(stops.len() > 3);
    for mut stopped in stops {
        assert_eq!(passing(&stopped, &everything), left);
        hosted::vacuum(&mut stopped);
        insert_hosted(&mut stopped, 5000..5600, |id| id as i64);
        let found = hosted::check(&stopped);
        assert_eq!((found.nodes, found.dead_nodes), (left.len() as u64 + 600, 0));
        assert_eq!(passing(&stopped, &everything), left.iter().copied().chain(5000..5600).collect());
    }
    assert_eq!(passing(&pages, &everything), left);
}

/// The number of pages of a kind in the graph of an index.
fn pages_of(pages: &MemPages, kind: u8) -> u64 {
    let graph = pages.body(PageId(0))[228];
    let all = (1..pages.page_count()).map(|page| pages.body(PageId(page))[0]);
    all.filter(|first| *first == graph * 16 + kind).count() as u64
}

/// A tree of which nothing is left is one leaf again, and grows as before.
#[test]
fn a_column_without_rows_has_one_leaf() {
    let mut pages = built(1..1501, IdKind::HostOwned);
    hosted::remove(&mut pages, &(1..1501).collect());
    hosted::vacuum(&mut pages);
    assert_eq!((pages_of(&pages, LEAF), pages_of(&pages, INNER)), (1, 0));
    insert_hosted(&mut pages, 5000..6500, |id| -(id as i64));
    hosted::check(&pages);
    // A leaf has up to 80 postings here, and is at least half full.
    assert!((2..=1500 / 40).contains(&pages_of(&pages, LEAF)), "{} leaves", pages_of(&pages, LEAF));
    assert_eq!(passing(&pages, &compare(Comparison::Less, 0)).len(), 1500);
}

/// Leaves of values that only grow are nine tenths full; those of other orders are half full at
/// least.
#[test]
fn leaves_of_growing_values_are_full() {
    let mut pages = MemPages::new();
    let options = CreateOptions { id_kind: IdKind::HostOwned, columns: columns(), ..CreateOptions::default() };
    create(DIM, &options, &mut pages).unwrap();
    insert_hosted(&mut pages, 1..600, |id| id as i64);
    let before = pages_of(&pages, LEAF);
    insert_hosted(&mut pages, 600..3000, |id| id as i64);
    let each = 2400 / (pages_of(&pages, LEAF) - before);
    println!("{each} rows a leaf");
    assert!(each >= 100, "{each} rows a leaf");
}
