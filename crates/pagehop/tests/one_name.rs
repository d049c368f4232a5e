//! What this crate adds to the crates behind it: rows in memory, and one search for every effort
//! and filter.

use std::ops::ControlFlow;
use std::path::PathBuf;

use pagehop::{
    BuildOptions, Column, ColumnKind, ColumnRows, Effort, Error, Filter, Hit, Index, IndexFile, OpenOptions,
    Progress, Rows, Value,
};

const DIM: usize = 3;
const ROWS: u64 = 4_000;

/// A vector of numbers from 0 to 1 that look random.
fn vector(id: u64) -> [f32; DIM] {
    std::array::from_fn(|at| {
        (id.wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 * 0x85eb_ca6b) % 10_007) as f32 / 1e4
    })
}

fn quiet(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// An index for one test, over [`ROWS`] rows with their parity as a column. It is removed when this
/// is dropped.
struct Built(PathBuf);

impl Built {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pagehop-{}-{name}", std::process::id()));
        let ids: Vec<u64> = (0..ROWS).collect();
        let vectors: Vec<f32> = ids.iter().flat_map(|&id| vector(id)).collect();
        let mut columns = ColumnRows::new(vec![Column { name: "odd".into(), kind: ColumnKind::Bool }]).unwrap();
        ids.iter().for_each(|id| columns.push(&[Value::Bool(id % 2 == 1)]).unwrap());
        let mut rows = Rows::new(DIM, &ids, &vectors).unwrap().with_columns(&columns);
        pagehop::build(&path, &mut rows, &BuildOptions::default(), true, &mut quiet).unwrap();
        Self(path)
    }

    fn open(&self) -> Index<IndexFile> {
        pagehop::open(&self.0, &OpenOptions::default()).unwrap()
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The ids of the nearest rows that pass, by brute force.
fn nearest(query: &[f32], k: usize, passes: impl Fn(u64) -> bool) -> Vec<u64> {
    let squared = |id: u64| vector(id).iter().zip(query).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    let mut ids: Vec<u64> = (0..ROWS).filter(|&id| passes(id)).collect();
    ids.sort_by(|&a, &b| squared(a).total_cmp(&squared(b)).then(a.cmp(&b)));
    ids.truncate(k);
    ids
}

fn shared(hits: &[Hit], expected: &[u64]) -> usize {
    hits.iter().filter(|hit| expected.contains(&hit.row_id)).count()
}

#[test]
fn a_search_finds_the_nearest_rows_with_every_effort_and_filter() {
    let built = Built::new("efforts");
    let index = built.open();
    let odd: Filter = "odd = true".parse().unwrap();
    let settings = Effort::Settings { search_list: Some(200), slack: None };
    let queries: Vec<_> = (0..20).map(|i| vector(1_000_000 + i)).collect();
    let expected: Vec<_> = queries.iter().map(|query| nearest(query, 10, |_| true)).collect();
    let expected_odd: Vec<_> = queries.iter().map(|query| nearest(query, 10, |id| id % 2 == 1)).collect();
    for effort in [Effort::Default, Effort::Recall(0.99), Effort::Recall(1.0), settings] {
        let (mut found, mut of_odd) = (0, 0);
        for (at, query) in queries.iter().enumerate() {
            let hits = pagehop::search(&index, query, 10, &effort, None).unwrap().hits;
            assert!(hits.is_sorted_by(|a, b| (a.distance, a.row_id) < (b.distance, b.row_id)));
            found += shared(&hits, &expected[at]);
            let hits = pagehop::search(&index, query, 10, &effort, Some(&odd)).unwrap().hits;
            assert!(hits.len() == 10 && hits.iter().all(|hit| hit.row_id % 2 == 1));
            of_odd += shared(&hits, &expected_odd[at]);
        }
        assert!(found >= 190 && of_odd >= 190, "{effort:?}: {found} and {of_odd} of 200");
    }
}

#[test]
fn what_is_no_query_and_no_row_is_refused() {
    let built = Built::new("refused");
    let index = built.open();
    for effort in [Effort::Default, Effort::Recall(1.0)] {
        for length in [0, 1, 2, 4, 6] {
            let refused = pagehop::search(&index, &vec![0.5; length], 10, &effort, None).unwrap_err();
            assert!(matches!(refused, Error::Dimension { .. } | Error::Argument { .. }), "{length}: {refused}");
        }
    }
    assert!(matches!(Rows::new(3, &[1, 2], &[0.0; 5]), Err(Error::Argument { .. })));
    assert!(matches!(Rows::new(usize::MAX, &[1, 2], &[0.0; 5]), Err(Error::Argument { .. })));
}
