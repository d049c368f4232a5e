//! A training is committed, whatever becomes of the calibration that follows it.

use std::ops::ControlFlow;
use std::path::Path;

use crate::support::{Random, Scratch};
use pagehop_engine::{CALIBRATED_ROWS_MIN, CreateOptions, Error, Index, Progress};
use pagehop_store::{AddOptions, Durability, IndexFile, OpenOptions};

const DIM: usize = 8;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_stop_in_the_calibration_is_no_error_and_one_before_it_changes_nothing() {
    let scratch = Scratch::new("retrain");
    let path = scratch.path("items");
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    let index = pagehop_store::open(&path, &options).unwrap();
    let mut random = Random(5);
    let ids: Vec<u64> = (0..CALIBRATED_ROWS_MIN + 200).collect();
    let vectors: Vec<f32> = ids.iter().flat_map(|_| [0; DIM]).map(|_| random.below(2001) as f32).collect();
    pagehop_store::add(&index, &ids, &vectors, AddOptions::default(), &mut go_on).unwrap();

    let calibrated = index.calibration().unwrap().expect("an add that makes it large enough calibrates it");
    let mut phases: Vec<&str> = Vec::new();
    pagehop_store::retrain(&index, &mut |progress| {
        phases.push(progress.phase);
        ControlFlow::Continue(())
    })
    .unwrap();
    phases.dedup();
    let trains_last = phases.iter().rposition(|phase| !["scan", "search"].contains(phase)).unwrap();
    assert!(trains_last > 0 && phases.len() > trains_last + 1, "{phases:?}");

    for stops_at in [phases[0], phases[trains_last], phases[trains_last + 1]] {
        let before = index.pages().counters().commits;
        let done = pagehop_store::retrain(&index, &mut |progress| match progress.phase == stops_at {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        let commits = index.pages().counters().commits - before;
        match ["scan", "search"].contains(&stops_at) {
            true => assert!(done.is_ok() && commits == 1, "{stops_at}: {done:?}, {commits} commits"),
            false => {
                let stopped = matches!(done, Err(Error::Interrupted));
                assert!(stopped && commits == 0, "{stops_at}: {done:?}, {commits} commits");
            }
        }
        assert_eq!(index.calibration().unwrap().unwrap().rows, calibrated.rows, "{stops_at}");
    }
    assert_eq!(index.info().unwrap().rows, ids.len() as u64);
    index.check(&mut go_on).unwrap();
}

fn rows(from: u64, to: u64) -> (Vec<u64>, Vec<f32>) {
    let mut random = Random(from + 1);
    let ids: Vec<u64> = (from..to).collect();
    let vectors = ids.iter().flat_map(|_| [0; DIM]).map(|_| random.below(2001) as f32).collect();
    (ids, vectors)
}

fn new_index(path: &Path, transaction_bytes: u64) -> Index<IndexFile> {
    pagehop_store::create(path, DIM, &CreateOptions::default(), true).unwrap();
    let durability = Durability::Checkpoint;
    let options = OpenOptions { write: true, transaction_bytes, durability, ..OpenOptions::default() };
    pagehop_store::open(path, &options).unwrap()
}

#[test]
fn an_index_too_large_to_train_in_memory_is_refused_before_a_row_is_read() {
    let scratch = Scratch::new("retrain-large");
    let path = scratch.path("items");
    let (ids, vectors) = rows(0, 3000);
    let index = new_index(&path, 1 << 30);
    pagehop_store::add(&index, &ids, &vectors, AddOptions::default(), &mut go_on).unwrap();
    let pages = u64::from(index.info().unwrap().pages);
    drop(index);
    let mut trained = Vec::new();
    for percent in [50, 80, 130] {
        let transaction_bytes = pages * 8192 * percent / 100;
        let options = OpenOptions { write: true, transaction_bytes, ..OpenOptions::default() };
        let index = pagehop_store::open(&path, &options).unwrap();
        let mut phases = 0;
        let done = pagehop_store::retrain(&index, &mut |_| {
            phases += 1;
            ControlFlow::Continue(())
        });
        trained.push(done.is_ok());
        if let Err(error) = done {
            let text = error.to_string();
            let says = ["3000 rows", "MiB of pages", "compact trains within a budget of memory"];
            assert!(matches!(error, Error::Full { .. }) && says.iter().all(|part| text.contains(part)), "{text}");
            assert_eq!(phases, 0, "it is refused before the build begins");
        }
    }
    assert_eq!(trained, [false, false, true], "with half, four fifths, and more of the memory");
    let index = pagehop_store::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(index.info().unwrap().rows, 3000);
    index.check(&mut go_on).unwrap();
}

#[test]
fn rows_can_be_added_though_there_is_no_room_to_train_the_model_with_them() {
    let scratch = Scratch::new("retrain-grown");
    let options = AddOptions { threads: 1, ..AddOptions::default() };
    let (ids, vectors) = rows(0, 1700);
    let grown = |transaction_bytes| {
        let index = new_index(&scratch.path("items"), transaction_bytes);
        pagehop_store::add(&index, &ids[..200], &vectors[..200 * DIM], options, &mut go_on).unwrap();
        for (ids, vectors) in ids[200..].chunks(3).zip(vectors[200 * DIM..].chunks(3 * DIM)) {
            pagehop_store::add(&index, ids, vectors, options, &mut go_on).unwrap();
        }
        index.check(&mut go_on).unwrap();
        let info = index.info().unwrap();
        assert_eq!(info.rows, 1700);
        (info.trained_rows, u64::from(info.pages) * 8192)
    };
    let (trained_rows, bytes) = grown(1 << 30);
    assert!(trained_rows >= 1600, "eight times the first rows train it: {trained_rows}");
    // The old graph is among these pages, too.
    assert_eq!(grown(bytes / 3).0, 200);

    let index = new_index(&scratch.path("items"), bytes / 8);
    let done = pagehop_store::add(&index, &ids, &vectors, options, &mut go_on);
    let text = done.unwrap_err().to_string();
    assert!(text.contains("1700 rows") && text.contains("add fewer rows per call"), "{text}");
}
