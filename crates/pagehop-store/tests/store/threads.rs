//! Several threads add the rows of one call: each row is in the index once, with all that was given
//! with it, and the graph is as good as that of one thread.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use crate::support::{Random, Scratch};
use pagehop_engine::{
    AddReport, Column, ColumnKind, ColumnRows, Comparison, CreateOptions, Error, Filter, Index, Progress,
    SearchOptions, SearchPlan, Value, Vectors,
};
use pagehop_store::{AddOptions, IndexFile, OpenOptions};

const DIM: usize = 24;
/// More threads than cores, so that a thread loses its core in the middle of a row.
const THREADS: usize = 6;

type Row = (Vec<f32>, i64, Option<Vec<u8>>);
type Rows = BTreeMap<u64, Row>;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn opened(path: &Path) -> Index<IndexFile> {
    pagehop_store::open(path, &OpenOptions { write: true, cache_bytes: 16 << 20, ..OpenOptions::default() })
        .unwrap()
}

fn columns() -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    vec![column("topic", ColumnKind::Int), column("labels", ColumnKind::Tags)]
}

fn vector(random: &mut Random) -> Vec<f32> {
    let center = random.below(12) as f32;
    (0..DIM).map(|at| (center * (at + 1) as f32).sin() * 2.0 + random.below(2001) as f32 / 1000.0).collect()
}

/// What an index keeps.
struct Life {
    vectors: Vectors,
    has_payloads: bool,
    has_columns: bool,
}

impl Life {
    fn row(&self, rows: &Rows, random: &mut Random) -> Row {
        // Some rows are equal to others, also to rows of the same call.
        let equal = rows.values().nth(random.below(4 * rows.len().max(1) as u32) as usize);
        let vector = equal.map_or_else(|| vector(random), |row| row.0.clone());
        let payload = (random.below(3) > 0).then(|| vec![random.below(256) as u8; random.below(400) as usize]);
        (vector, random.below(3) as i64, payload.filter(|_| self.has_payloads))
    }

    fn add(&self, index: &Index<IndexFile>, ids: &[u64], rows: &mut Rows, random: &mut Random) -> AddReport {
        let (mut components, mut payloads) = (Vec::new(), Vec::new());
        let mut values = ColumnRows::new(if self.has_columns { columns() } else { Vec::new() }).unwrap();
        for id in ids {
            let row = self.row(rows, random);
            components.extend(&row.0);
            payloads.push(row.2.clone());
            if self.has_columns {
                let tags = Value::Tags(vec!["all".into(), format!("topic {}", row.1)]);
                values.push(&[Value::Int(row.1), tags]).unwrap();
            }
            rows.insert(*id, row);
        }
        let given = if self.has_payloads { values.with_payloads(payloads) } else { values };
        let given = (self.has_columns || self.has_payloads).then_some(&given);
        let options = AddOptions { threads: THREADS, ..AddOptions::default() };
        pagehop_store::add_with_columns(index, ids, &components, given, options, &mut go_on).unwrap()
    }

    fn expect(&self, index: &Index<IndexFile>, rows: &Rows) {
        let report = pagehop_store::check(index, &mut go_on).unwrap();
        assert_eq!((report.anchored, report.reachable), (report.nodes, report.nodes), "{report:?}");
        let ids: Vec<u64> = rows.keys().copied().collect();
        assert_eq!(index.ids(0, usize::MAX).unwrap(), ids);
        assert_eq!(index.info().unwrap().rows, ids.len() as u64);
        let vectors = index.vectors(&ids).unwrap();
        let is_near = |(found, row): (&[f32], &Row)| found.iter().zip(&row.0).all(|(a, b)| (a - b).abs() < 0.01);
        assert!(vectors.chunks_exact(DIM).zip(rows.values()).all(is_near), "a row has another vector");
        if self.has_payloads {
            assert!(index.payloads(&ids).unwrap().iter().eq(rows.values().map(|row| &row.2)), "payloads differ");
        }
        if self.has_columns {
            let of_topic = Filter::Compare("topic".into(), Comparison::Equal, Value::Int(1));
            let labelled = Filter::ContainsAll("labels".into(), vec!["all".into(), "topic 1".into()]);
            let mut searcher = index.searcher();
            for filter in [of_topic, labelled] {
                let plan = searcher.plan_filter(&filter).unwrap();
                let found = searcher.answer(&vectors[..DIM], ids.len(), &SearchPlan::exact(), Some(&plan)).unwrap();
                let mut found: Vec<u64> = found.hits.iter().map(|hit| hit.row_id).collect();
                found.sort_unstable();
                let expected = rows.iter().filter(|(_, row)| row.1 == 1).map(|(id, _)| *id);
                assert!(found.iter().copied().eq(expected), "{filter:?} finds other rows");
            }
        }
    }
}

#[test]
fn rows_that_threads_add_are_there_once_with_all_that_was_given() {
    let scratch = Scratch::new("threads-rows");
    let kinds = [
        (Vectors::Codes, false, false),
        (Vectors::Float16, false, false),
        (Vectors::Float32, false, false),
        (Vectors::Codes, true, false),
        (Vectors::Float32, false, true),
        (Vectors::Float16, true, true),
    ];
    for (number, (vectors, has_payloads, has_columns)) in kinds.into_iter().enumerate() {
        let life = Life { vectors, has_payloads, has_columns };
        let path = scratch.path(&format!("items-{number}"));
        let columns = if life.has_columns { columns() } else { Vec::new() };
        let options = CreateOptions {
            vectors: life.vectors,
            columns,
            payload: life.has_payloads,
            ..CreateOptions::default()
        };
        pagehop_store::create(&path, DIM, &options, false).unwrap();
        let (index, mut rows, mut random) = (opened(&path), Rows::new(), Random(number as u64 + 7));
        for round in 0..8_u64 {
            let before = rows.len() as u64;
            let ids: Vec<u64> = (0..60 + 40 * round).map(|at| (round * 131 + at * 3) % 900).collect();
            let report = life.add(&index, &ids, &mut rows, &mut random);
            assert_eq!(report.added, rows.len() as u64 - before, "{report:?}");
            assert_eq!(report.added + report.replaced + report.unchanged, ids.len() as u64, "{report:?}");
            let gone: Vec<u64> = ids.iter().copied().filter(|id| id % 7 == 0).collect();
            pagehop_store::delete(&index, &gone, None, &mut go_on).unwrap();
            rows.retain(|id, _| !gone.contains(id));
            life.expect(&index, &rows);
        }
        pagehop_store::vacuum(&index, &mut go_on).unwrap();
        drop(index);
        life.expect(&opened(&path), &rows);
    }
}

#[test]
fn threads_cost_no_recall() {
    let scratch = Scratch::new("threads-recall");
    let mut random = Random(3);
    let rows: Vec<f32> = (0..6000).flat_map(|_| vector(&mut random)).collect();
    let queries: Vec<f32> = (0..200).flat_map(|_| vector(&mut random)).collect();
    let recall = [1, THREADS].map(|threads| {
        let path = scratch.path(&format!("by-{threads}"));
        pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
        let index = opened(&path);
        for (at, part) in rows.chunks(500 * DIM).enumerate() {
            let ids: Vec<u64> = (0..500).map(|row| (at * 500 + row) as u64).collect();
            let options = AddOptions { threads, ..AddOptions::default() };
            pagehop_store::add(&index, &ids, part, options, &mut go_on).unwrap();
        }
        let options = SearchOptions { search_list: 20, ..SearchOptions::default() };
        index.recall(10, 0, Some(&queries), &options, 1, &mut go_on).unwrap().recall
    });
    assert!((recall[0] - recall[1]).abs() < 0.02, "{recall:?}");
}

#[test]
fn a_call_that_does_not_end_changes_nothing() {
    let scratch = Scratch::new("threads-nothing");
    let path = scratch.path("items");
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let options = OpenOptions { write: true, transaction_bytes: 1 << 20, ..OpenOptions::default() };
    let index = pagehop_store::open(&path, &options).unwrap();
    let mut random = Random(11);
    let mut vectors = |count: usize| -> Vec<f32> { (0..count).flat_map(|_| vector(&mut random)).collect() };
    let by_threads = AddOptions { threads: THREADS, ..AddOptions::default() };
    let first: Vec<u64> = (0..600).collect();
    pagehop_store::add(&index, &first, &vectors(600), by_threads, &mut go_on).unwrap();
    let more: Vec<u64> = (600..4600).collect();
    let mut calls = 0;
    let mut stop = |_: Progress| {
        calls += 1;
        if calls > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    match pagehop_store::add(&index, &more[..500], &vectors(500), by_threads, &mut stop) {
        Err(Error::Interrupted) => {}
        other => panic!("{other:?}"),
    }
    match pagehop_store::add(&index, &more, &vectors(4000), by_threads, &mut go_on) {
        Err(Error::Full { what, .. }) => assert!(what.contains("fewer rows"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(index.ids(0, usize::MAX).unwrap(), first);
    pagehop_store::add(&index, &more[..100], &vectors(100), by_threads, &mut go_on).unwrap();
    assert_eq!(index.info().unwrap().rows, 700);
    let report = pagehop_store::check(&index, &mut go_on).unwrap();
    assert_eq!((report.nodes, report.anchored), (700, 700));
}

#[test]
fn one_thread_always_makes_the_same_index() {
    let scratch = Scratch::new("threads-one");
    let mut random = Random(5);
    let rows: Vec<f32> = (0..900).flat_map(|_| vector(&mut random)).collect();
    let found = ["one", "two"].map(|name| {
        let path = scratch.path(name);
        pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
        let index = opened(&path);
        let options = AddOptions { threads: 1, ..AddOptions::default() };
        for (at, part) in rows.chunks(300 * DIM).enumerate() {
            let ids: Vec<u64> = (0..300).map(|row| (at * 300 + row) as u64).collect();
            pagehop_store::add(&index, &ids, part, options, &mut go_on).unwrap();
        }
        let queries = rows.chunks_exact(DIM).step_by(9);
        let search = |query| index.search_with(query, 10, &SearchOptions::default()).unwrap();
        queries.map(search).collect::<Vec<_>>()
    });
    let alike = found[0].iter().zip(&found[1]).all(|(a, b)| a.hits == b.hits && a.stats.hops == b.stats.hops);
    assert!(alike, "searches differ");
}
