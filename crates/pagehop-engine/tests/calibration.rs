//! Settings that are measured reach the recall they are stored for; audits say what searches by hand say.

mod support;

use std::collections::HashSet;
use std::ops::ControlFlow;

use pagehop_engine::index::CALIBRATED_ROWS_MIN;
use pagehop_engine::{Calibration, Error, Index, Metric, SearchOptions};
use pagehop_sim::MemPages;
use support::{Rows, embeddings, index, no_progress, recall, truth};

const DIM: usize = 48;

fn calibrated(index: &Index<MemPages>) -> Calibration {
    index.calibrate(&mut no_progress()).unwrap().expect("there are enough rows")
}

#[test]
fn unseen_queries_are_answered_at_the_recall_that_is_asked_for() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let rows = Rows::new(DIM, embeddings(DIM, 12_000, 1));
        let index = index(&rows, metric);
        let calibration = calibrated(&index);
        assert_eq!((calibration.rows, calibration.samples), (12_000, 400));
        let ks: Vec<usize> = calibration.entries.iter().map(|entry| entry.k).collect();
        assert_eq!(ks, [1, 10, 100]);
        let queries = embeddings(DIM, 400, 2);
        let mut before = 0.0;
        for wanted in [0.9, 0.95, 0.98, 0.99] {
            let options = calibration.options(10, wanted).unwrap();
            let (found, ..) = recall(&index, &rows, metric, &queries, &options);
            println!("{metric:?} {wanted}: {found}, slack {}", options.slack);
            // The interval of each of two samples of 400 is about half of this wide.
            let room = 0.25 * (1.0 - f64::from(wanted)) + 0.01;
            assert!((found - f64::from(wanted)).abs() < room, "{metric:?} {wanted}: {found}");
            assert!(options.slack >= before, "settings for more recall are no cheaper");
            before = options.slack;
        }
    }
}

#[test]
fn an_audit_says_what_searches_by_hand_say() {
    let rows = Rows::new(DIM, embeddings(DIM, 3000, 1));
    let index = index(&rows, Metric::L2);
    let queries = embeddings(DIM, 60, 2);
    for slack in [0.0, 0.1] {
        let options = SearchOptions { slack, ..SearchOptions::default() };
        let report = index.recall(10, 0, &queries, &options, &mut no_progress()).unwrap();
        let by_hand = queries.chunks_exact(DIM).map(|query| {
            let nearest: HashSet<u64> = truth(&rows, Metric::L2, query, 10).into_iter().collect();
            let hits = index.search(query, 10, &options).unwrap().hits;
            hits.iter().filter(|hit| nearest.contains(&hit.row_id)).count()
        });
        let by_hand = by_hand.sum::<usize>() as f32 / 600.0;
        // Codes may swap the tenth and the eleventh.
        assert!((report.recall - by_hand).abs() < 0.004, "{report:?}, by hand {by_hand}");
        assert!(report.interval > 0.0 && report.interval < 0.1, "{report:?}");
        assert_eq!(report.samples, 60);
    }
    let everything = SearchOptions { search_list: 3000, slack: f32::INFINITY, beam_width: 4 };
    let report = index.recall(100, 50, &[], &everything, &mut no_progress()).unwrap();
    assert_eq!((report.recall, report.samples), (1.0, 50));
    assert!(report.interval > 0.0, "fifty samples are no proof");
}

#[test]
fn rows_that_were_sampled_are_as_hard_to_find_as_others() {
    let rows = Rows::new(DIM, embeddings(DIM, 12_000, 1));
    let index = index(&rows, Metric::L2);
    let options = SearchOptions { slack: 0.02, ..SearchOptions::default() };
    let own = index.recall(10, 600, &[], &options, &mut no_progress()).unwrap();
    let others = index.recall(10, 0, &embeddings(DIM, 600, 2), &options, &mut no_progress()).unwrap();
    println!("own {own:?}, others {others:?}");
    assert!((own.recall - others.recall).abs() < own.interval + others.interval, "own {own:?}, others {others:?}");
}

#[test]
fn what_is_stored_is_there_for_whoever_opens_the_index() {
    let rows = Rows::new(DIM, embeddings(DIM, 2000, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let known = Index::open(pages.clone()).unwrap();
    assert_eq!(known.calibration().unwrap(), None);
    let calibration = calibrated(&known);
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    change.set_calibration(calibration.clone()).unwrap();
    change.add(&[5000], &embeddings(DIM, 1, 3), &mut no_progress()).unwrap();
    change.finish().unwrap();
    drop(writer);
    let opened = Index::open(pages.clone()).unwrap();
    assert_eq!(opened.calibration().unwrap(), Some(calibration.clone()));
    opened.check(&mut no_progress()).unwrap();
    let error = calibration.options(10, 1.0).unwrap_err();
    assert!(matches!(error, Error::Argument { .. }));
}

#[test]
fn too_few_rows_and_impatient_callers_are_told_so() {
    let rows = Rows::new(DIM, embeddings(DIM, CALIBRATED_ROWS_MIN as usize - 1, 1));
    assert_eq!(index(&rows, Metric::L2).calibrate(&mut no_progress()).unwrap(), None);
    let rows = Rows::new(DIM, embeddings(DIM, CALIBRATED_ROWS_MIN as usize, 1));
    let index = index(&rows, Metric::L2);
    assert!(index.calibrate(&mut no_progress()).unwrap().is_some());
    let mut calls = 0;
    let stopped = index.calibrate(&mut |_| {
        calls += 1;
        if calls > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(Error::Interrupted)));
    let options = SearchOptions::default();
    for (k, samples, queries) in [(0, 5, vec![]), (10, 0, vec![]), (10, 0, vec![0.0; DIM + 1])] {
        assert!(index.recall(k, samples, &queries, &options, &mut no_progress()).is_err());
    }
}
