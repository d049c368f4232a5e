//! Tags beside a writer: a search sees the tags of one commit, also while rows get other tags and
//! vacuum frees the records of the old ones.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{Random, Scratch};
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, CreateOptions, Filter, Index, Progress, SearchOptions, SearchPlan, Value,
};
use pagehop_store::{AddOptions, IndexFile, OpenOptions};

const DIM: usize = 8;
const ROWS: u64 = 120;
const VERSIONS: u64 = 40;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The tags of all rows in a version: the parity of the id, and the version.
fn tags(version: u64) -> ColumnRows {
    let mut rows = ColumnRows::new(vec![Column { name: "g".into(), kind: ColumnKind::Tags }]).unwrap();
    for id in 0..ROWS {
        let parity = if id % 2 == 0 { "even" } else { "odd" };
        rows.push(&[Value::Tags(vec!["all".into(), parity.into(), format!("version {version}")])]).unwrap();
    }
    rows
}

fn opened(path: &Path, write: bool) -> Index<IndexFile> {
    pagehop_store::open(path, &OpenOptions { write, cache_bytes: 4 << 20, ..OpenOptions::default() }).unwrap()
}

fn found(index: &Index<IndexFile>, filter: &Filter, options: Option<&SearchOptions>) -> Vec<u64> {
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(filter).unwrap();
    let how = options.cloned().map_or_else(SearchPlan::exact, SearchPlan::from);
    let result = searcher.answer(&[0.1; DIM], ROWS as usize, &how, Some(&plan)).unwrap();
    result.hits.iter().map(|hit| hit.row_id).collect()
}

/// Searches until the writer is done. Each answer has all rows of a version or none.
fn read(path: &Path, version: &AtomicU64, is_done: &AtomicBool) -> (u64, u64) {
    let index = opened(path, false);
    let all = |tags: &[&str]| Filter::ContainsAll("g".into(), tags.iter().map(|tag| (*tag).to_owned()).collect());
    let default = SearchOptions::default();
    let (mut whole, mut none) = (0, 0);
    while !is_done.load(Ordering::Acquire) {
        let before = version.load(Ordering::Acquire);
        for options in [None, Some(&default)] {
            let even = found(&index, &all(&["all", "even"]), options);
            assert!(even.len() as u64 == ROWS / 2 && even.iter().all(|id| id % 2 == 0), "{even:?}");
            let not_odd = Filter::Not(Box::new(Filter::ContainsAny("g".into(), vec!["odd".into()])));
            let even = found(&index, &not_odd, options);
            assert!(even.len() as u64 == ROWS / 2 && even.iter().all(|id| id % 2 == 0), "{even:?}");
            let version = format!("version {before}");
            let of_version = found(&index, &all(&["all", &version]), options).len() as u64;
            assert!(of_version == ROWS || of_version == 0, "{of_version} rows of {version}");
            (whole, none) = (whole + u64::from(of_version > 0), none + u64::from(of_version == 0));
        }
    }
    (whole, none)
}

#[test]
fn a_search_sees_the_tags_of_one_commit() {
    let scratch = Scratch::new("tags");
    let path = scratch.path("items");
    let columns = tags(0);
    pagehop_store::create(
        &path,
        DIM,
        &CreateOptions { columns: columns.columns().to_vec(), ..CreateOptions::default() },
        false,
    )
    .unwrap();
    let index = opened(&path, true);
    let mut random = Random(3);
    let vectors: Vec<f32> = (0..ROWS * DIM as u64).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect();
    let ids: Vec<u64> = (0..ROWS).collect();
    pagehop_store::add_with_columns(&index, &ids, &vectors, Some(&columns), AddOptions::default(), &mut go_on)
        .unwrap();
    let (version, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (whole, none) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&path, &version, &is_done));
        for next in 1..=VERSIONS {
            assert_eq!(pagehop_store::update_columns(&index, &ids, &tags(next), &mut go_on).unwrap(), ROWS);
            version.store(next, Ordering::Release);
            pagehop_store::vacuum(&index, &mut go_on).unwrap();
        }
        is_done.store(true, Ordering::Release);
        reader.join().unwrap()
    });
    println!("{whole} answers of the version that was newest before, {none} without it");
    assert!(whole > 0);
    pagehop_store::check(&index, &mut go_on).unwrap();
    // Records of dead rows are freed and used again.
    let pages = index.info().unwrap().pages;
    for next in 0..10 {
        pagehop_store::update_columns(&index, &ids, &tags(next), &mut go_on).unwrap();
        pagehop_store::vacuum(&index, &mut go_on).unwrap();
        pagehop_store::vacuum(&index, &mut go_on).unwrap();
    }
    assert!(
        index.info().unwrap().pages < pages + pages / 2,
        "{pages} pages became {}",
        index.info().unwrap().pages
    );
    pagehop_store::check(&index, &mut go_on).unwrap();
}
