//! A cursor with a limit of memory keeps it while it reads postings. The allocator counts the
//! memory that is used within a call.

mod support;

use std::ops::ControlFlow;

use pagehop_engine::{
    BuildOptions, Column, ColumnKind, ColumnRows, Comparison, EachChunk, Error, Filter, SearchOptions, Value,
    VectorSource,
};
use pagehop_store::OpenOptions;
use support::counted::Counted;
use support::{Random, Scratch};

#[global_allocator]
static ALLOCATOR: Counted = Counted::new();

const DIM: usize = 16;
const ROWS: u64 = 40_000;
const LIMIT: usize = 600_000;

/// Rows with a column whose values are 0 to 3.
struct Rows {
    ids: Vec<u64>,
    vectors: Vec<f32>,
    columns: ColumnRows,
}

impl Rows {
    fn new() -> Self {
        let (mut random, ids) = (Random(3), 1..=ROWS);
        let mut columns = ColumnRows::new(vec![Column { name: "n".into(), kind: ColumnKind::Int }]).unwrap();
        ids.clone().for_each(|id| columns.push(&[Value::Int((id % 4) as i64)]).unwrap());
        let vectors = (0..DIM as u64 * ROWS).map(|_| random.below(1000) as f32).collect();
        Self { ids: ids.collect(), vectors, columns }
    }
}

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        each(&self.ids, &self.vectors)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

#[test]
fn postings_are_gathered_within_the_limit() {
    let scratch = Scratch::new("limited");
    let path = scratch.path("items.pagehop");
    let mut rows = Rows::new();
    let options = BuildOptions { calibrate: false, threads: 2, ..BuildOptions::default() };
    pagehop_store::build(&path, &mut rows, &options, false, &mut |_| ControlFlow::Continue(())).unwrap();
    let index = pagehop_store::open(&path, &OpenOptions::default()).unwrap();
    let plan = index.plan_filter(&Filter::Compare("n".into(), Comparison::Less, Value::Int(3))).unwrap();
    let options = SearchOptions { search_list: 20, slack: 0.1, ..SearchOptions::default() };
    let mut most = [0; 2];
    for (limit, most) in [LIMIT, usize::MAX].into_iter().zip(&mut most) {
        let mut cursor = index.cursor(&rows.vectors[..DIM], &options).unwrap();
        cursor.limit_memory(limit);
        cursor.only(plan.clone());
        let before = ALLOCATOR.begin();
        let mut found = 0;
        while let Some(row) = cursor.next_hit().unwrap() {
            assert!(row.row_id % 4 < 3);
            found += 1;
        }
        *most = ALLOCATOR.most() - before;
        assert_eq!(found, ROWS / 4 * 3, "with a limit of {limit}; at most {most} bytes");
    }
    println!("{most:?} bytes at most");
    // A buffer that grows doubles, and exists twice for a moment. With a limit just above a
    // doubling the peak is up to 2.6 times the limit.
    assert!(most[0] < 2 * LIMIT, "{} bytes for a limit of {LIMIT}", most[0]);
    assert!(most[1] > 4 * LIMIT, "{} bytes without a limit", most[1]);
}
