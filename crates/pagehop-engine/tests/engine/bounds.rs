//! The error bound of a cursor: it holds for every distance, whatever the data is, and most bounds
//! are tight enough to be useful.

use std::collections::HashMap;

use crate::support::{Noise, Rows, distance, embeddings, hosted, index, no_progress};
use pagehop_engine::{CreateOptions, Cursor, Found, Index, Metric, SearchOptions, create};
use pagehop_sim::MemPages;

const METRICS: [Metric; 3] = [Metric::L2, Metric::InnerProduct, Metric::Cosine];
const EXPAND_ALL: SearchOptions = SearchOptions { search_list: 100, slack: f32::INFINITY, beam_width: 4 };

fn gaussian(dim: usize, count: usize, seed: u64) -> Vec<f32> {
    let mut noise = Noise(seed);
    (0..dim * count).map(|_| noise.gauss()).collect()
}

fn all<P: pagehop_engine::Pages>(mut cursor: Cursor<'_, P>) -> Vec<Found> {
    let mut rows = Vec::new();
    while let Some(found) = cursor.next_hit().unwrap() {
        rows.push(found);
    }
    rows
}

/// The distance in the unit of `Found::range`.
fn exact(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let distance = distance(metric, a, b);
    if metric == Metric::L2 { distance.sqrt() } else { distance }
}

/// The same distance, computed with 32-bit floats, one component after another.
fn plain(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: fn(f32, f32) -> f32| a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + f(*a, *b));
    let dot = sum(|a, b| a * b);
    match metric {
        Metric::L2 => f64::from(sum(|a, b| (a - b) * (a - b))).sqrt(),
        Metric::InnerProduct => f64::from(-dot),
        Metric::Cosine => {
            let lengths = f64::from(sum(|a, _| a * a)) * f64::from(sum(|_, b| b * b));
            1.0 - (f64::from(dot) / lengths.sqrt()).clamp(-1.0, 1.0)
        }
    }
}

/// One row: its exact distance, the stated error bound, and the actual error.
struct Statement {
    exact: f64,
    stated: f64,
    error: f64,
}

/// The statements about every row of `rows`, for each query. Fails if a distance is outside of its
/// stated range.
fn statements(what: &str, metric: Metric, rows: &Rows, queries: &[f32]) -> Vec<Statement> {
    let index = index(rows, metric);
    let mut statements = Vec::new();
    for query in queries.chunks_exact(rows.dim) {
        let found = all(index.cursor(query, &EXPAND_ALL).unwrap());
        assert_eq!(found.len(), rows.ids.len(), "{what} {metric:?}");
        for found in found {
            let row = rows.row(rows.ids.binary_search(&found.row_id).unwrap());
            let (exact, plain) = (exact(metric, query, row), plain(metric, query, row));
            let (least, most) = found.range(metric);
            for distance in [exact, plain] {
                let within = f64::from(least) <= distance && distance <= f64::from(most);
                assert!(within, "{what} {metric:?} {}: {distance} is not within {least} to {most}", rows.dim);
            }
            let of = f64::from(found.distance);
            let error = (if metric == Metric::L2 { of.sqrt() } else { of } - exact).abs();
            statements.push(Statement { exact, stated: found.error.into(), error });
        }
    }
    statements
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[test]
fn the_error_bound_holds_and_is_useful_in_every_dimension() {
    for dim in [1, 2, 3, 17, 64, 65, 100, 384, 784, 1536, 4096] {
        let count = if dim > 1000 { 150 } else { 400 };
        for metric in METRICS {
            let rows = Rows::new(dim, gaussian(dim, count, 1));
            let queries = gaussian(dim, 3, 2);
            let statements = statements("gaussian", metric, &rows, &queries);
            // An inner product may be 0, so the scale is the product of the norms.
            let scale = |s: &Statement| if metric == Metric::InnerProduct { dim as f64 } else { s.exact };
            let relative = median(statements.iter().map(|s| s.stated / scale(s)).collect());
            let times = median(statements.iter().map(|s| s.stated / s.error).collect());
            println!("{dim} {metric:?}: {relative:.5} of the distance, {times:.0} times the actual error");
            assert!(relative < 0.01, "{dim} {metric:?}: {relative}");
            // An error of half a step in each component would be 1.7 * sqrt(dim) times the actual
            // error.
            let is_code = [384, 784].contains(&dim) && metric != Metric::InnerProduct;
            assert!(!is_code || times < 40.0, "{dim} {metric:?}: {times} times");
        }
    }
}

#[test]
fn the_error_bound_holds_for_any_data() {
    for (dim, count) in [(3, 300), (40, 300), (128, 300), (200, 200), (1024, 150), (1100, 100)] {
        let base = embeddings(dim, count, 3);
        let map = |f: &dyn Fn(usize, f32) -> f32| -> Vec<f32> {
            base.iter().enumerate().map(|(at, x)| f(at / dim, *x)).collect()
        };
        let sets = [
            ("embeddings", base.clone()),
            ("far from the origin", map(&|_, x| x + 1000.0)),
            ("tiny", map(&|_, x| x * 1e-14)),
            ("near the smallest numbers", map(&|_, x| x * 1e-37)),
            ("huge", map(&|_, x| x * 1e15)),
            ("of many lengths", map(&|row, x| x * 10f32.powi(row as i32 % 9 - 4))),
            ("one outlier far away", map(&|row, x| if row == 7 { 1e6 } else { x })),
            ("duplicates", map(&|row, _| base[row % 5 * dim])),
            ("twins", (0..count * dim).map(|at| base[(at / dim / 2) * dim + at % dim]).collect()),
            // In the basis of these rows, a rounding error could point along an axis, and queries
            // are there too. The rotation prevents that.
            ("one component each", (0..count * dim).map(|at| f32::from(at / dim % dim == at % dim)).collect()),
            ("few ones among zeros", (0..count * dim).map(|at| f32::from(at * 7919 % 31 < 2)).collect()),
            ("signs", base.iter().map(|x| x.signum()).collect()),
            ("small integers", base.iter().map(|x| (x * 4.0).round()).collect()),
            ("with zeros", map(&|row, x| if row % 10 == 3 { 0.0 } else { x })),
        ];
        for (what, values) in sets {
            let rows = Rows::new(dim, values);
            // Queries: a row itself, a vector close to a row, an unrelated vector, a longer vector
            // and a shorter one.
            let mut queries = rows.row(4).to_vec();
            queries.extend(rows.row(11).iter().map(|x| x * 1.0001));
            queries.extend(embeddings(dim, 1, 9));
            queries.extend(rows.row(5).iter().map(|x| x * 50.0));
            queries.extend(rows.row(6).iter().map(|x| x * 1e-4));
            for metric in METRICS {
                let no_direction =
                    ["with zeros", "near the smallest numbers", "few ones among zeros", "small integers"];
                let no_direction = no_direction.contains(&what);
                if metric == Metric::Cosine && no_direction {
                    continue;
                }
                statements(what, metric, &rows, &queries);
            }
        }
    }
}

/// When the model is trained again, the existing rows are encoded a second time, from their codes.
/// Bounds must still hold for the original vectors, and stay tight.
#[test]
fn rows_that_are_encoded_again_keep_a_tight_bound() {
    let dim = 24;
    let rows = Rows::new(dim, embeddings(dim, 600, 5));
    let mut pages = MemPages::new();
    create(dim, &CreateOptions::default(), &mut pages).unwrap();
    let add = |pages: &mut MemPages, at: std::ops::Range<usize>| {
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        let vectors = &rows.values[at.start * dim..at.end * dim];
        change.add(&rows.ids[at], vectors, None, &mut no_progress()).unwrap();
        change.finish().unwrap();
        writer.commit();
    };
    let bounded = |pages: &MemPages| {
        let index = Index::open(pages).unwrap();
        let query = rows.row(3);
        let mut bounded = 0;
        for found in all(index.cursor(query, &EXPAND_ALL).unwrap()) {
            let row = rows.row(rows.ids.binary_search(&found.row_id).unwrap());
            let (least, most) = found.range(Metric::L2);
            let exact = exact(Metric::L2, query, row);
            assert!(f64::from(least) <= exact && exact <= f64::from(most));
            bounded += usize::from(found.error < 0.05 * found.distance.sqrt());
        }
        bounded
    };
    add(&mut pages, 0..50);
    add(&mut pages, 50..60);
    // All rows except the query itself, whose distance is 0.
    assert_eq!(bounded(&pages), 59);
    add(&mut pages, 60..500);
    assert_eq!(bounded(&pages), 499, "the second model was trained on the codes of 60 rows");
    add(&mut pages, 500..600);
    assert_eq!(bounded(&pages), 599);
}

/// Under the inner product, a host's row may be longer than all rows of the build. The model is not
/// trained for it, but the stated range of every distance holds.
#[test]
fn a_row_longer_than_all_before_keeps_the_bound() {
    let dim = 24;
    let rows = Rows::new(dim, embeddings(dim, 300, 5));
    let mut pages = hosted::built(&rows, Metric::InnerProduct);
    let trained = Index::open(&pages).unwrap().info().unwrap().trained_rows;
    let mut known: HashMap<u64, Vec<f32>> = (0..300).map(|at| (rows.ids[at], rows.row(at).to_vec())).collect();
    for factor in [1.0001, 1.05, 1.5, 4.0] {
        let longest = (0..300).max_by(|a, b| {
            let length = |at: &usize| rows.row(*at).iter().map(|x| x * x).sum::<f32>();
            length(a).total_cmp(&length(b))
        });
        let longer: Vec<f32> = rows.row(longest.unwrap()).iter().map(|x| x * factor).collect();
        let tid = known.len() as u64;
        known.insert(tid, longer.clone());
        hosted::insert(&mut pages, tid, &longer, false);
        hosted::check(&pages);
        let index = Index::open(&pages).unwrap();
        assert_eq!(index.info().unwrap().trained_rows, trained);
        for query in [rows.row(3), &longer, rows.row(17)] {
            let found = all(index.cursor(query, &EXPAND_ALL).unwrap());
            assert_eq!(found.len(), known.len());
            for found in found {
                let row = &known[&found.row_id];
                let (least, most) = found.range(Metric::InnerProduct);
                let exact = exact(Metric::InnerProduct, query, row);
                assert!(
                    f64::from(least) <= exact && exact <= f64::from(most),
                    "{factor}: {exact}, {least} to {most}"
                );
            }
        }
    }
}
