//! What a plan expects of a filter, and the way that a search takes by it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use crate::support::{ColumnSource, Noise, distance, embeddings, no_progress, options};
use pagehop_engine::{
    Batch, Column, ColumnKind, ColumnRows, Comparison, Error, Filter, Index, Metric, RowParts, SearchOptions,
    SearchPlan, Value, build,
};
use pagehop_sim::MemPages;

const DIM: usize = 48;
const ROWS: usize = 8_000;
/// Columns of integers from 0 to 9 with the same value in each: all conditions on them are met
/// together. Postings are large, so that a walk takes fewer pages.
const SAME: usize = 6;
/// Rows have an id in seven.
const STEP: u64 = 7;

fn id(at: usize) -> u64 {
    at as u64 * STEP
}

/// The value in the columns, and which of three tags a row has: each half of the rows.
fn values(id: u64) -> (i64, Vec<String>) {
    let mut noise = Noise(id);
    let value = (noise.next() % 10) as i64;
    (value, ["a", "b", "c"].into_iter().filter(|_| noise.unit() < 0.5).map(String::from).collect())
}

static BUILT: LazyLock<(MemPages, Vec<f32>)> = LazyLock::new(|| {
    let mut columns: Vec<Column> =
        (0..SAME).map(|at| Column { name: format!("same {at}"), kind: ColumnKind::Int }).collect();
    columns.push(Column { name: "tags".into(), kind: ColumnKind::Tags });
    let mut columns = ColumnRows::new(columns).unwrap();
    let ids: Vec<u64> = (0..ROWS).map(id).collect();
    for id in &ids {
        let (value, tags) = values(*id);
        let mut row = vec![Value::Int(value); SAME];
        row.push(Value::Tags(tags));
        columns.push(&row).unwrap();
    }
    let vectors = embeddings(DIM, ROWS, 5);
    let mut source = ColumnSource { dim: DIM, ids, vectors: vectors.clone(), columns };
    let mut pages = MemPages::new();
    build(&mut source, &options(Metric::L2), &mut pages, &mut no_progress()).unwrap();
    (pages, vectors)
});

fn below(column: usize, value: i64) -> Filter {
    Filter::Compare(format!("same {column}"), Comparison::Less, Value::Int(value))
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

/// Ids of all rows by their distance from `query`.
fn by_distance(query: &[f32]) -> Vec<u64> {
    let rows = (0..ROWS).map(id).zip(BUILT.1.chunks(DIM));
    let mut near: Vec<(f64, u64)> = rows.map(|(id, row)| (distance(Metric::L2, query, row), id)).collect();
    near.sort_by(|a, b| a.partial_cmp(b).unwrap());
    near.into_iter().map(|row| row.1).collect()
}

fn share(filter: &Filter) -> f64 {
    Index::open(&BUILT.0).unwrap().plan_filter(filter).unwrap().share()
}

/// The pages that a search of every row reads.
fn every_page() -> u64 {
    let index = Index::open(&BUILT.0).unwrap();
    let every = index.plan_filter(&not(Filter::Ids(vec![1]))).unwrap();
    let query = embeddings(DIM, 1, 99);
    index.searcher().answer(&query, 1, &SearchPlan::exact(), Some(&every)).unwrap().stats.pages_read
}

#[test]
fn ids_that_no_row_has_are_not_counted() {
    let ids: Vec<u64> = (0..ROWS as u64 * STEP).step_by(10).collect();
    let truth = ids.iter().filter(|id| *id % STEP == 0).count() as f64 / ROWS as f64;
    let (some, others) = (share(&Filter::Ids(ids.clone())), share(&not(Filter::Ids(ids))));
    assert!((some - truth).abs() < 0.05, "{some} for {truth}");
    assert!((others - (1.0 - truth)).abs() < 0.05, "{others} for {}", 1.0 - truth);
    // 64 even steps through these would find ids of rows alone.
    let many: Vec<u64> = (0..64 * 30 * STEP).collect();
    let (found, truth) = (share(&Filter::Ids(many)), 64.0 * 30.0 / ROWS as f64);
    assert!((found - truth).abs() < 0.1, "{found} for {truth}");
}

#[test]
fn none_of_several_tags_is_likelier_than_what_is_left_of_their_sum() {
    let none = not(Filter::ContainsAny("tags".into(), vec!["a".into(), "b".into(), "c".into()]));
    let estimated = share(&none);
    assert!((estimated - 0.125).abs() < 0.03, "{estimated}");
}

/// Recall of a walk for the rows that pass all of `filters`, which are those below `value`.
fn recall(filters: Vec<Filter>, value: i64) -> f64 {
    let index = Index::open(&BUILT.0).unwrap();
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(&Filter::And(filters)).unwrap();
    let options = SearchOptions { slack: 0.04, ..SearchOptions::default() };
    let (mut found, queries) = (0, 100);
    for query in embeddings(DIM, queries, 99).chunks(DIM) {
        let truth: Vec<u64> = by_distance(query).into_iter().filter(|id| values(*id).0 < value).take(10).collect();
        let result = searcher.answer(query, 10, &options.clone().into(), Some(&plan)).unwrap();
        assert!(!plan.reads_postings(10, options.slack) && result.stats.hops > 0, "{}: no walk", plan.share());
        found += result.hits.iter().filter(|hit| truth.contains(&hit.row_id)).count();
    }
    found as f64 / (10 * queries) as f64
}

#[test]
fn conditions_that_are_met_together_cost_little_recall() {
    let one = recall(vec![below(0, 8)], 8);
    let all = recall((0..4).map(|column| below(column, 8)).collect(), 8);
    assert!(one > 0.95 && all > one - 0.004, "{all} with four conditions, {one} with one");
}

#[test]
fn a_walk_without_postings_is_bounded_by_a_look_at_every_row() {
    let index = Index::open(&BUILT.0).unwrap();
    let mut searcher = index.searcher();
    let query = embeddings(DIM, 1, 99);
    let near = by_distance(&query);
    let options = SearchOptions { slack: 0.2, ..SearchOptions::default() };
    // Few rows pass: every row is read at once.
    let few: Vec<u64> = near.iter().copied().filter(|id| id / STEP % 400 == 3).collect();
    let others = near.iter().copied().filter(|id| !few.contains(id)).collect();
    let plan = searcher.plan_filter(&not(Filter::Ids(others))).unwrap();
    let result = searcher.answer(&query, 10, &options.clone().into(), Some(&plan)).unwrap();
    assert_eq!(result.stats.hops, 0, "{:?}", result.stats);
    let found: BTreeSet<u64> = result.hits.iter().map(|hit| hit.row_id).collect();
    assert_eq!(found, few[..10].iter().copied().collect());
    // The far quarter of the rows passes. The list has room for all others.
    let options = SearchOptions { search_list: ROWS, ..options };
    let plan = searcher.plan_filter(&not(Filter::Ids(near[..ROWS / 4 * 3].to_vec()))).unwrap();
    let result = searcher.answer(&query, 10, &options.into(), Some(&plan)).unwrap();
    assert!(result.stats.hops > 0 && result.stats.hops <= 2 * every_page() + 8, "{:?}", result.stats);
    let found: BTreeSet<u64> = result.hits.iter().map(|hit| hit.row_id).collect();
    assert_eq!(found, near[ROWS / 4 * 3..][..10].iter().copied().collect());
}

#[test]
fn a_walk_goes_on_where_the_rows_that_pass_are_farther_than_expected() {
    let index = Index::open(&BUILT.0).unwrap();
    let mut searcher = index.searcher();
    let (mut found, queries, every_page) = (0, 20, every_page());
    for query in embeddings(DIM, queries, 99).chunks(DIM) {
        // Half of the rows, and none of the nearest hundred.
        let near = by_distance(query);
        let (passing, others): (Vec<u64>, Vec<u64>) =
            near.iter().partition(|id| (**id / STEP).is_multiple_of(2) && !near[..100].contains(id));
        let plan = searcher.plan_filter(&not(Filter::Ids(others))).unwrap();
        let options = SearchOptions { slack: 0.04, ..SearchOptions::default() };
        let result = searcher.answer(query, 10, &options.into(), Some(&plan)).unwrap();
        // A walk that ends too early is followed by a look at every row.
        assert!(result.stats.hops > 0 && result.stats.pages_read < every_page / 2, "{:?}", result.stats);
        found += result.hits.iter().filter(|hit| passing[..10].contains(&hit.row_id)).count();
    }
    assert!(found >= 190, "{found} of 200");
}

#[test]
fn an_exact_search_reads_pages_once_where_many_rows_pass() {
    let index = Index::open(&BUILT.0).unwrap();
    let mut searcher = index.searcher();
    let query = embeddings(DIM, 1, 99);
    for filter in [below(0, 7), Filter::Ids((0..ROWS / 2).map(id).collect())] {
        let plan = searcher.plan_filter(&filter).unwrap();
        let stats = searcher.answer(&query, 10, &SearchPlan::exact(), Some(&plan)).unwrap().stats;
        assert!(stats.hops == 0 && stats.pages_read == every_page(), "{stats:?}");
    }
    let few = searcher.plan_filter(&Filter::Ids((0..30).map(id).collect())).unwrap();
    let stats = searcher.answer(&query, 10, &SearchPlan::exact(), Some(&few)).unwrap().stats;
    assert!(stats.hops == 30 && stats.pages_read <= 30, "{stats:?}");
}

#[test]
fn an_exact_search_with_a_filter_can_be_interrupted() {
    let index = Index::open(&BUILT.0).unwrap();
    let query = embeddings(DIM, 1, 99);
    let some: Vec<u64> = (0..300).map(id).collect();
    for filter in [below(0, 7), Filter::Ids(some)] {
        let plan = index.plan_filter(&filter).unwrap();
        let (exact, filter, parts) = (SearchPlan::exact(), Some(&plan), RowParts::default());
        let batch = Batch { queries: &query, k: 10, plan: &exact, filter, threads: 1, parts };
        let (mut looks, mut places) = (0, [()]);
        let mut progress = |_| {
            looks += 1;
            if looks == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let searched = index.search_batch(&batch, &mut progress, &mut places, |(), _, _| Ok(()));
        assert!(matches!(searched, Err((0, Error::Interrupted))), "{searched:?}");
    }
}
