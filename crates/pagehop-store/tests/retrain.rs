//! A training is committed, whatever becomes of the calibration that follows it.

mod support;

use std::ops::ControlFlow;

use pagehop_engine::{CALIBRATED_ROWS_MIN, CreateOptions, Error, Progress};
use pagehop_store::{AddOptions, OpenOptions};
use support::{Random, Scratch};

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
