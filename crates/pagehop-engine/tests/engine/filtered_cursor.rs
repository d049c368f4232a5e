//! Cursors with filters that are read beyond the rows that their first search is for: what they
//! read, beside what all postings would take. Every row comes once.

use std::collections::BTreeSet;

use crate::support::{ColumnSource, distance, embeddings, no_progress, options};
use pagehop_engine::{
    BuildOptions, Column, ColumnKind, ColumnRows, Comparison, Cursor, Filter, IdKind, Index, Metric, SearchOptions,
    Stats, Value, build,
};
use pagehop_sim::MemPages;

const DIM: usize = 48;
const ROWS: usize = 9_000;
/// More columns make postings larger, so that few rows have many leaves.
const COLUMNS: usize = 7;

/// An index whose first column has the value of each row.
fn built(vectors: &[f32], value: impl Fn(u64) -> Value) -> MemPages {
    let column = |at: usize| Column { name: format!("column {at}"), kind: ColumnKind::Int };
    let mut columns = ColumnRows::new((0..COLUMNS).map(column).collect()).unwrap();
    let ids: Vec<u64> = (1..=ROWS as u64).collect();
    for id in &ids {
        let mut row = vec![Value::Int(0); COLUMNS];
        row[0] = value(*id);
        columns.push(&row).unwrap();
    }
    let mut source = ColumnSource { dim: DIM, ids, vectors: vectors.to_vec(), columns };
    let mut pages = MemPages::new();
    let options = BuildOptions { id_kind: IdKind::HostOwned, ..options(Metric::L2) };
    build(&mut source, &options, &mut pages, &mut no_progress()).unwrap();
    pages
}

fn below(value: i64) -> Filter {
    Filter::Compare("column 0".into(), Comparison::Less, Value::Int(value))
}

/// Rows by their distance, nearest first.
fn by_distance(vectors: &[f32], query: &[f32]) -> Vec<u64> {
    let mut near: Vec<(f64, u64)> =
        vectors.chunks(DIM).zip(1..).map(|(row, id)| (distance(Metric::L2, query, row), id)).collect();
    near.sort_by(|a, b| a.partial_cmp(b).unwrap());
    near.into_iter().map(|row| row.1).collect()
}

fn next(cursor: &mut Cursor<'_, &MemPages>, rows: usize) -> (Vec<u64>, Stats) {
    let found = std::iter::from_fn(|| cursor.next_hit().unwrap()).take(rows).map(|hit| hit.row_id).collect();
    (found, cursor.stats())
}

/// A filter that most rows pass: rows beyond the first search cost a few more hops, and no posting.
#[test]
fn a_walk_goes_on_where_postings_would_cost_more() {
    let vectors = embeddings(DIM, ROWS, 5);
    let pages = built(&vectors, |id| Value::Int((id % 10) as i64));
    let index = Index::open(&pages).unwrap();
    let plan = index.plan_filter(&below(9)).unwrap();
    let options = SearchOptions { slack: 0.2, ..SearchOptions::default() };
    let (mut hits, queries) = (0, 10);
    for query in embeddings(DIM, queries, 99).chunks(DIM) {
        let mut cursor = index.cursor(query, &options).unwrap();
        cursor.only(plan.clone());
        let (mut found, first) = next(&mut cursor, 40);
        let (more, all) = next(&mut cursor, 20);
        found.extend(more);
        // The postings that pass are on more than 110 leaves.
        assert!(all.pages_read < first.pages_read + 60, "{first:?}, then {all:?}");
        let truth = by_distance(&vectors, query).into_iter().filter(|id| id % 10 < 9).take(60);
        hits += truth.filter(|id| found.contains(id)).count();
        let every: BTreeSet<u64> = found.iter().copied().chain(next(&mut cursor, ROWS).0).collect();
        assert_eq!(every, (1..=ROWS as u64).filter(|id| id % 10 < 9).collect());
    }
    assert!(hits as f64 > 0.95 * 60.0 * queries as f64, "{hits}");
}

/// Sixty near rows pass, then none of the next two thousand: the walk for more gives up.
#[test]
fn a_walk_beyond_the_first_rows_gives_up_for_the_postings() {
    let vectors = embeddings(DIM, ROWS, 5);
    let query = embeddings(DIM, 1, 99);
    let mut rank = vec![0; ROWS + 1];
    by_distance(&vectors, &query).into_iter().zip(0..).for_each(|(id, at)| rank[id as usize] = at);
    let passes = |id: u64| !(60..2_000).contains(&rank[id as usize]);
    let pages = built(&vectors, |id| Value::Int(i64::from(!passes(id))));
    let index = Index::open(&pages).unwrap();
    let mut cursor = index.cursor(&query, &SearchOptions { slack: 0.05, ..SearchOptions::default() }).unwrap();
    cursor.only(index.plan_filter(&below(1)).unwrap());
    let (mut found, few) = next(&mut cursor, 41);
    let (more, all) = next(&mut cursor, 59);
    found.extend(more);
    assert!(few.pages_read < 250 && few.hops < all.hops, "41 rows took {few:?}");
    assert!(all.hops < 1_000, "100 rows took {all:?}");
    found.extend(next(&mut cursor, ROWS).0);
    assert_eq!(found.len(), found.iter().collect::<BTreeSet<_>>().len(), "a row came twice");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), (1..=ROWS as u64).filter(|id| passes(*id)).collect());
}

/// Rows that have a value at all are a run of postings.
#[test]
fn the_few_rows_with_a_value_are_read_by_their_postings() {
    let vectors = embeddings(DIM, ROWS, 5);
    let has_value = |id: u64| id % 1_000 == 5;
    let pages = built(&vectors, |id| if has_value(id) { Value::Int(-(id as i64)) } else { Value::Null });
    let index = Index::open(&pages).unwrap();
    let plan = index.plan_filter(&Filter::Not(Box::new(Filter::IsNull("column 0".into())))).unwrap();
    assert!(
        (plan.share() - 0.001).abs() < 0.0002 && plan.reads_postings(10, SearchOptions::default().slack),
        "{}",
        plan.share()
    );
    for query in embeddings(DIM, 5, 99).chunks(DIM) {
        let mut cursor = index.cursor(query, &SearchOptions::default()).unwrap();
        cursor.only(plan.clone());
        let (found, stats) = next(&mut cursor, ROWS);
        let truth: Vec<u64> = by_distance(&vectors, query).into_iter().filter(|id| has_value(*id)).collect();
        assert_eq!(found.iter().collect::<BTreeSet<_>>(), truth.iter().collect());
        assert!(stats.pages_read < 40, "{stats:?}");
    }
    // Where nearly every row has one, a walk is cheaper.
    let plan = index.plan_filter(&Filter::Not(Box::new(Filter::IsNull("column 1".into())))).unwrap();
    assert!(plan.share() > 0.999 && !plan.reads_postings(10, SearchOptions::default().slack), "{}", plan.share());
}
