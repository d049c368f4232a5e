//! Walks for few rows, which score the edges of all nodes of a page.

use std::collections::BTreeSet;

use crate::support::{ColumnSource, Noise, distance, embeddings, no_progress, options};
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, Comparison, Filter, FilterPlan, Index, Metric, SearchOptions, Value, build,
};
use pagehop_sim::MemPages;

const DIM: usize = 48;
const ROWS: usize = 20_000;

/// The value of a row in its first column, one of 100 that do not depend on the vector.
fn value(id: u64) -> u64 {
    Noise(id).next() % 100
}

/// The rows have seven columns, so that postings are large and walks are worth it for a quarter of
/// the rows.
fn built() -> (MemPages, Vec<f32>) {
    let column = |at: usize| Column { name: format!("column {at}"), kind: ColumnKind::Int };
    let mut columns = ColumnRows::new((0..7).map(column).collect()).unwrap();
    let ids: Vec<u64> = (1..=ROWS as u64).collect();
    for id in &ids {
        let values = std::array::from_fn::<_, 7, _>(|at| Value::Int(if at == 0 { value(*id) as i64 } else { 0 }));
        columns.push(&values).unwrap();
    }
    let vectors = embeddings(DIM, ROWS, 5);
    let mut source = ColumnSource { dim: DIM, ids, vectors: vectors.clone(), columns };
    let mut pages = MemPages::new();
    build(&mut source, &options(Metric::L2), &mut pages, &mut no_progress()).unwrap();
    (pages, vectors)
}

/// Every second value below 48, which 24 rows of 100 have.
fn few() -> Filter {
    Filter::In("column 0".into(), (0..24).map(|at| Value::Int(2 * at)).collect())
}

fn is_of_few(id: u64) -> bool {
    value(id) < 48 && value(id).is_multiple_of(2)
}

/// The rows that pass, nearest first.
fn by_distance(vectors: &[f32], query: &[f32], passes: impl Fn(u64) -> bool) -> Vec<u64> {
    let rows = (1..=ROWS as u64).zip(vectors.chunks(DIM)).filter(|(id, _)| passes(*id));
    let mut near: Vec<(f64, u64)> = rows.map(|(id, row)| (distance(Metric::L2, query, row), id)).collect();
    near.sort_by(|a, b| a.partial_cmp(b).unwrap());
    near.into_iter().map(|row| row.1).collect()
}

/// Rows found of the ten nearest, hops and pages of 40 searches by walks.
fn measured(
    (pages, vectors): (&MemPages, &[f32]),
    plan: &FilterPlan,
    passes: impl Fn(u64) -> bool,
) -> (usize, u64, u64) {
    let options = SearchOptions { slack: 0.07, ..SearchOptions::default() };
    assert!(!plan.reads_postings(10, options.slack), "{}", plan.share());
    let index = Index::open(pages).unwrap();
    let mut searcher = index.searcher();
    let (mut found, mut hops, mut read) = (0, 0, 0);
    for query in embeddings(DIM, 40, 99).chunks(DIM) {
        let truth = by_distance(vectors, query, &passes);
        let result = searcher.answer(query, 10, &options.clone().into(), Some(plan)).unwrap();
        found += result.hits.iter().filter(|hit| truth[..10].contains(&hit.row_id)).count();
        (hops, read) = (hops + result.stats.hops, read + result.stats.pages_read);
    }
    (found, hops, read)
}

#[test]
fn each_page_takes_one_hop_if_few_rows_pass() {
    let (pages, vectors) = built();
    let index = Index::open(&pages).unwrap();
    assert!(index.info().unwrap().nodes_per_page >= 3);
    let plan = index.plan_filter(&few()).unwrap();
    assert!((0.2..0.25).contains(&plan.share()), "{}", plan.share());
    let (found, hops, read) = measured((&pages, &vectors), &plan, is_of_few);
    assert_eq!(hops, read);
    assert!(found > 380, "{found} of 400");
    // Where more rows pass, other nodes of a page are expanded in their turn.
    let plan = index.plan_filter(&Filter::Compare("column 0".into(), Comparison::Less, Value::Int(50))).unwrap();
    let (found, hops, read) = measured((&pages, &vectors), &plan, |id| value(id) < 50);
    assert!(found > 380 && 5 * hops > 6 * read, "{found} of 400, {hops} hops, {read} pages");
}

#[test]
fn a_cursor_returns_each_row_that_passes_once() {
    let (pages, vectors) = built();
    let index = Index::open(&pages).unwrap();
    let plan = index.plan_filter(&few()).unwrap();
    let all: BTreeSet<u64> = (1..=ROWS as u64).filter(|id| is_of_few(*id)).collect();
    for query in embeddings(DIM, 5, 3).chunks(DIM) {
        let mut cursor = index.cursor(query, &SearchOptions::default()).unwrap();
        cursor.only(plan.clone());
        let ids: Vec<u64> = std::iter::from_fn(|| cursor.next_hit().unwrap()).map(|hit| hit.row_id).collect();
        let truth = by_distance(&vectors, query, is_of_few);
        let found = ids[..100].iter().filter(|id| truth[..100].contains(id)).count();
        assert!(found > 92, "{found} of 100");
        assert_eq!(ids.len(), all.len(), "a row came twice, or not at all");
        assert_eq!(ids.into_iter().collect::<BTreeSet<u64>>(), all);
    }
}
