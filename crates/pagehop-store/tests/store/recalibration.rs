//! A file whose rows change is calibrated again: by `vacuum` when a fifth has changed, and by an
//! addition when the rows added and deleted are as many as it had at the last calibration.

use std::ops::ControlFlow;
use std::path::Path;

use crate::support::{Random, Scratch};
use pagehop_engine::{CreateOptions, Index, Progress};
use pagehop_store::{AddOptions, IndexFile, OpenOptions};

const DIM: usize = 8;
const ROWS: u64 = 2000;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn vectors(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    (0..count * DIM).map(|_| random.below(2001) as f32).collect()
}

fn made(path: &Path) -> Index<IndexFile> {
    pagehop_store::create(path, DIM, &CreateOptions::default(), false).unwrap();
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    let index = pagehop_store::open(path, &options).unwrap();
    add(&index, 0..ROWS, 1);
    index
}

fn add(index: &Index<IndexFile>, ids: std::ops::Range<u64>, seed: u64) {
    let ids: Vec<u64> = ids.collect();
    let options = AddOptions { threads: 1, ..AddOptions::default() };
    pagehop_store::add(index, &ids, &vectors(ids.len(), seed), options, &mut go_on).unwrap();
}

/// Rows that have changed since the calibration.
fn changes(index: &Index<IndexFile>) -> u64 {
    index.info().unwrap().calibrated.expect("it was calibrated").changes
}

#[test]
fn a_vacuum_calibrates_a_file_when_a_fifth_of_the_rows_has_changed() {
    let scratch = Scratch::new("recalibration");
    let index = made(&scratch.path("items"));
    assert_eq!(changes(&index), 0);
    add(&index, 0..199, 2);
    pagehop_store::vacuum(&index, &mut go_on).unwrap();
    assert_eq!(changes(&index), 398, "a replaced row counts twice");
    add(&index, 199..200, 3);

    let mut phases = Vec::new();
    let stopped = pagehop_store::vacuum(&index, &mut |progress| {
        phases.push(progress.phase);
        if progress.phase == "vacuum" { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(stopped.is_ok(), "only the calibration was stopped: {stopped:?}");
    assert!(phases.last().is_some_and(|phase| *phase != "vacuum"), "{phases:?}");
    assert_eq!(changes(&index), 400);

    let report = pagehop_store::vacuum(&index, &mut go_on).unwrap();
    assert_eq!((report.freed, changes(&index)), (0, 0));
    index.check(&mut go_on).unwrap();
}

#[test]
fn an_addition_calibrates_a_file_when_as_many_rows_have_changed_as_there_were() {
    let scratch = Scratch::new("recalibration-add");
    let index = made(&scratch.path("items"));
    for first in [0, 200, 400, 600] {
        add(&index, first..first + 200, 7 + first);
    }
    assert_eq!(changes(&index), 1600);
    pagehop_store::delete(&index, &(0..400).collect::<Vec<u64>>(), None, &mut go_on).unwrap();
    assert_eq!(changes(&index), 2000, "a deletion takes no longer than its rows need");
    add(&index, 0..1, 9);
    assert_eq!(changes(&index), 0);
}

#[test]
fn a_calibration_by_queries_stays() {
    let scratch = Scratch::new("recalibration-queries");
    let index = made(&scratch.path("items"));
    pagehop_store::calibrate(&index, Some(&vectors(100, 4)), 1, &mut go_on).unwrap();
    add(&index, 0..ROWS, 5);
    pagehop_store::vacuum(&index, &mut go_on).unwrap();
    let known = index.info().unwrap().calibrated.unwrap();
    assert_eq!((known.by_queries, known.changes), (true, 2 * ROWS));
}
