//! Calibrated settings reach the recall that they are stored for, and audits agree with searches
//! that are compared with brute force.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::calibration_cost::{fixed, hops_of_list};
use crate::support;
use crate::support::{Rows, calibrated, embeddings, index, metrics, no_progress, recall, truth};
use pagehop_engine::{
    Batch, CALIBRATED_ROWS_MIN, CALIBRATION_QUERIES_MAX, CALIBRATION_QUERIES_MIN, Calibration, Effort, Error,
    Index, Metric, RECALL_DEFAULT, Reach, RowParts, SEARCH_LIST_MAX, SearchOptions, SearchResult, calibrate_within,
    calibration_memory_bytes, calibration_memory_bytes_min,
};
use pagehop_sim::MemPages;

const DIM: usize = 48;

/// An index with a calibration stored in it.
fn calibrated_index(rows: &Rows, metric: Metric) -> Index<MemPages> {
    let mut pages = support::built(rows, &support::options(metric)).unwrap();
    let known = Index::open(pages.clone()).unwrap();
    let calibration = calibrated(&known);
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    change.set_calibration(calibration).unwrap();
    change.finish().unwrap();
    drop(writer);
    Index::open(pages).unwrap()
}

#[test]
fn unseen_queries_reach_the_requested_recall() {
    let ks = [1, 10, 100, 1000];
    for metric in metrics() {
        let count = if metric == Metric::L2 { 10_000 } else { 5_000 };
        let rows = Rows::new(DIM, embeddings(DIM, count, 1));
        let index = index(&rows, metric);
        let calibration = calibrated(&index);
        assert_eq!((calibration.rows, calibration.samples), (count as u64, 256));
        let calibrated_ks: Vec<usize> = calibration.entries.iter().map(|entry| entry.k).collect();
        assert_eq!(calibrated_ks, ks[..if count < 10_000 { 3 } else { 4 }]);
        let queries = embeddings(DIM, 400, 2);
        let mut before = 0.0;
        for wanted in [0.9, 0.95, 0.99] {
            let options = calibration.plan(10, wanted).options.unwrap();
            let (found, ..) = recall(&index, &rows, metric, &queries, &options);
            let own = index.recall(10, 600, None, &options, 2, &mut no_progress()).unwrap();
            println!("{metric:?} {wanted}: {found}, slack {}, audit {}", options.slack, own.recall);
            // The confidence intervals of 400 and 600 samples are about half as wide as this.
            let room = 0.25 * (1.0 - f64::from(wanted)) + 0.01;
            assert!((found - f64::from(wanted)).abs() < room, "{metric:?} {wanted}: {found}");
            assert!(own.hops >= before, "settings for more recall must not be cheaper");
            before = own.hops;
            // Under the inner product, the slack saves hops on real vectors, but not on these.
            let more = if metric == Metric::InnerProduct { 1.2 } else { 1.02 };
            let plain = hops_of_list(own.recall, |list| {
                index.recall(10, 600, None, &fixed(list), 2, &mut no_progress()).unwrap()
            });
            assert!(own.hops < more * plain, "{metric:?} {wanted}: {} hops, {plain} with a list", own.hops);
        }
    }
}

#[test]
fn more_neighbors_than_were_calibrated_are_found_with_the_recall_that_is_given() {
    let efforts = [Effort::Default, Effort::Recall(0.9), Effort::Recall(0.95), Effort::Recall(0.99)];
    for (rows, metric, ks) in [(1_200, Metric::L2, &[120][..]), (5_000, Metric::InnerProduct, &[120, 300, 500])] {
        let index = calibrated_index(&Rows::new(DIM, embeddings(DIM, rows, 1)), metric);
        assert_eq!(index.calibration().unwrap().unwrap().entries.last().unwrap().k, 100);
        for (k, effort) in ks.iter().flat_map(|k| efforts.map(|effort| (*k, effort))) {
            let wanted = if let Effort::Recall(recall) = effort { recall } else { RECALL_DEFAULT };
            let options = index.options(k, &effort).unwrap().options.unwrap();
            let found = index.recall(k, 200, None, &options, 2, &mut no_progress()).unwrap();
            assert!(found.recall > wanted - 0.01, "{rows} {metric:?} {k} {effort:?}: {found:?} with {options:?}");
            let most = if metric == Metric::InnerProduct { 4.0 } else { 2.0 };
            assert!(found.hops < most * k as f32, "{rows} {metric:?} {k} {effort:?}: {found:?} with {options:?}");
        }
    }
}

#[test]
fn each_effort_has_one_meaning() {
    let index = calibrated_index(&Rows::new(DIM, embeddings(DIM, 2000, 1)), Metric::L2);
    let known = index.calibration().unwrap().unwrap();
    let options = |effort| index.options(10, &effort).unwrap().options;
    let of = |options: Option<SearchOptions>| options.map(|options| (options.search_list, options.slack));
    assert_eq!(of(options(Effort::Default)), of(known.plan(10, RECALL_DEFAULT).options));
    assert_eq!(of(options(Effort::Recall(0.93))), of(known.plan(10, 0.93).options));
    assert_eq!(of(options(Effort::Recall(1.0))), None);
    assert_eq!(index.info().unwrap().default_recall, Some(RECALL_DEFAULT));
    let settings = |search_list, slack| of(options(Effort::Settings { search_list, slack }));
    assert_eq!(settings(Some(70), None), Some((70, f32::INFINITY)), "a list alone is expanded to its end");
    assert_eq!(settings(None, Some(0.5)), Some((SearchOptions::default().search_list, 0.5)));
    assert_eq!(settings(Some(70), Some(0.5)), Some((70, 0.5)));
    let best = known.entries[1].best;
    let plan = index.options(10, &Effort::Recall(0.999_999)).unwrap();
    let reach = if best < 0.999_999 { Reach::Beyond { best } } else { Reach::Within };
    assert_eq!((plan.reach, plan.outdated), (reach, None));
    assert_eq!(of(plan.options), Some((3200, f32::INFINITY)));
    for effort in [Effort::Recall(0.0), Effort::Recall(1.1), Effort::Recall(f32::NAN)] {
        assert!(matches!(index.options(10, &effort), Err(Error::Argument { .. })), "{effort:?}");
    }
    assert!(matches!(index.options(0, &Effort::Default), Err(Error::Argument { .. })));
    assert!(matches!(Effort::of(Some(0.9), None, Some(0.1)), Err(Error::Argument { .. })));
    let never = support::index(&Rows::new(DIM, embeddings(DIM, 2000, 1)), Metric::L2);
    let unknown = never.options(10, &Effort::Recall(0.9)).unwrap();
    assert_eq!((unknown.reach, of(unknown.options)), (Reach::Uncalibrated, Some((400, 0.4))));
    let default = never.options(10, &Effort::Default).unwrap();
    assert_eq!((default.reach, of(default.options)), (Reach::Within, Some((100, 0.2))), "no recall was given");
    assert_eq!(never.info().unwrap().default_recall, None);
    let small = support::index(&Rows::new(DIM, embeddings(DIM, 900, 1)), Metric::L2);
    let all = small.options(10, &Effort::Recall(0.9)).unwrap();
    assert_eq!((all.reach, of(all.options)), (Reach::Within, Some((1000, f32::INFINITY))));
    let exact = small.options(10, &Effort::Recall(1.0)).unwrap().walk_options();
    assert_eq!((exact.search_list, exact.slack), (SEARCH_LIST_MAX, f32::INFINITY));
}

#[test]
fn a_batch_answers_as_one_query_after_the_other() {
    let index = calibrated_index(&Rows::new(DIM, embeddings(DIM, 2000, 1)), Metric::Cosine);
    let mut queries = embeddings(DIM, 40, 2);
    for effort in [Effort::Default, Effort::Recall(1.0)] {
        let plan = index.options(7, &effort).unwrap();
        for threads in [1, 3] {
            let batch =
                Batch { queries: &queries, k: 7, plan: &plan, filter: None, threads, parts: RowParts::default() };
            let mut results = vec![SearchResult::default(); 40];
            let write = |place: &mut SearchResult, result, _| {
                *place = result;
                Ok(())
            };
            index.search_batch(&batch, &mut no_progress(), &mut results, write).unwrap();
            for (query, result) in queries.chunks_exact(DIM).zip(results) {
                let alone = match &plan.options {
                    Some(options) => index.search_with(query, 7, options).unwrap(),
                    None => index.search_exactly(query, 7, 1, &mut no_progress()).unwrap().remove(0),
                };
                assert_eq!(result.hits, alone.hits, "{effort:?} on {threads} threads");
            }
        }
    }
    queries[31 * DIM..32 * DIM].fill(0.0);
    for effort in [Effort::Default, Effort::Recall(1.0)] {
        let plan = index.options(7, &effort).unwrap();
        let batch =
            Batch { queries: &queries, k: 7, plan: &plan, filter: None, threads: 2, parts: RowParts::default() };
        let failed = index.search_batch(&batch, &mut no_progress(), &mut [(); 40], |(), _, _| Ok(()));
        assert!(matches!(failed, Err((31, Error::Argument { .. }))), "{effort:?}: {failed:?}");
    }
}

#[test]
fn an_audit_agrees_with_brute_force() {
    let rows = Rows::new(DIM, embeddings(DIM, 3000, 1));
    let index = index(&rows, Metric::L2);
    let queries = embeddings(DIM, 60, 2);
    for slack in [0.0, 0.1] {
        let options = SearchOptions { slack, ..SearchOptions::default() };
        let report = index.recall(10, 0, Some(&queries), &options, 2, &mut no_progress()).unwrap();
        let by_hand = queries.chunks_exact(DIM).map(|query| {
            let nearest: HashSet<u64> = truth(&rows, Metric::L2, query, 10).into_iter().collect();
            let hits = index.search_with(query, 10, &options).unwrap().hits;
            hits.iter().filter(|hit| nearest.contains(&hit.row_id)).count()
        });
        let by_hand = by_hand.sum::<usize>() as f32 / 600.0;
        // The rounding of codes may exchange the tenth and the eleventh row.
        assert!((report.recall - by_hand).abs() < 0.004, "{report:?}, by hand {by_hand}");
        assert!(report.half_interval > 0.0 && report.half_interval < 0.1, "{report:?}");
        assert_eq!(report.samples, 60);
    }
    let everything = SearchOptions { search_list: 3000, slack: f32::INFINITY, beam_width: 4 };
    let report = index.recall(100, 50, None, &everything, 2, &mut no_progress()).unwrap();
    assert_eq!((report.recall, report.samples), (1.0, 50));
    assert!(report.half_interval > 0.0, "fifty samples prove nothing exactly");
}

#[test]
fn sampled_rows_are_as_hard_to_find_as_unseen_queries() {
    let rows = Rows::new(DIM, embeddings(DIM, 12_000, 1));
    let index = index(&rows, Metric::L2);
    let options = SearchOptions { slack: 0.02, ..SearchOptions::default() };
    let own = index.recall(10, 600, None, &options, 2, &mut no_progress()).unwrap();
    let others = index.recall(10, 0, Some(&embeddings(DIM, 600, 2)), &options, 2, &mut no_progress()).unwrap();
    println!("own {own:?}, others {others:?}");
    assert!(
        (own.recall - others.recall).abs() < own.half_interval + others.half_interval,
        "own {own:?}, others {others:?}"
    );
}

#[test]
fn rows_with_duplicates_are_as_hard_to_find_as_queries_without() {
    let distinct = embeddings(DIM, 3_000, 1);
    // Two of three rows twelve times, others once, and one more often than the search for its
    // duplicates goes on.
    let times = |at: usize| {
        if at == 0 {
            2_000
        } else if at.is_multiple_of(3) {
            1
        } else {
            12
        }
    };
    let vectors: Vec<f32> =
        distinct.chunks_exact(DIM).enumerate().flat_map(|(at, row)| row.repeat(times(at))).collect();
    let rows = Rows::new(DIM, vectors);
    let index_of_copies = index(&rows, Metric::L2);
    let options = SearchOptions { slack: 0.03, ..SearchOptions::default() };
    let own = index_of_copies.recall(10, 600, None, &options, 2, &mut no_progress()).unwrap();
    let queries = embeddings(DIM, 600, 2);
    let others = index_of_copies.recall(10, 0, Some(&queries), &options, 2, &mut no_progress()).unwrap();
    println!("own {own:?}, others {others:?}");
    // With the duplicates it was .975, and .852 of the queries. Without them it is .784: twelve
    // nodes that are left out have one substitute.
    let both = own.half_interval + others.half_interval;
    assert!(own.recall < others.recall + both, "own {own:?}, others {others:?}");
    assert!(own.recall > others.recall - 2.0 * both, "own {own:?}, others {others:?}");
    // Where all rows have too many duplicates, they stand for queries all the same.
    let rows = Rows::new(DIM, distinct[..DIM].repeat(2_000));
    let own = index(&rows, Metric::L2).recall(10, 50, None, &SearchOptions::default(), 1, &mut no_progress());
    let own = own.unwrap();
    assert_eq!((own.recall, own.samples), (1.0, 50));
}

#[test]
fn a_stored_calibration_is_read_at_the_next_opening() {
    let rows = Rows::new(DIM, embeddings(DIM, 2000, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let known = Index::open(pages.clone()).unwrap();
    assert_eq!(known.calibration().unwrap(), None);
    let calibration = calibrated(&known);
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    change.set_calibration(calibration.clone()).unwrap();
    change.add(&[5000], &embeddings(DIM, 1, 3), None, &mut no_progress()).unwrap();
    change.finish().unwrap();
    drop(writer);
    let opened = Index::open(pages.clone()).unwrap();
    assert_eq!(opened.calibration().unwrap(), Some(calibration.clone()));
    opened.check(&mut no_progress()).unwrap();
}

#[test]
fn an_exact_search_finds_what_brute_force_finds() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        // The clusters are far apart, and so tight that error bounds cannot separate their rows.
        let mut values = embeddings(DIM, 1500, 1);
        for (i, row) in values.chunks_exact_mut(DIM).enumerate() {
            let scale = if i % 3 == 0 { 0.02 } else { 1.0 };
            row.iter_mut().for_each(|x| *x = *x * scale + [1.0, 0.2, -3.0][i % 3]);
        }
        let rows = Rows::new(DIM, values);
        let index = index(&rows, metric);
        let queries: Vec<f32> = rows.values[..DIM * 30].iter().map(|x| x * 1.01).collect();
        for (k, threads) in [(1, 1), (10, 1), (40, 3), (2000, 2)] {
            let answers = index.search_exactly(&queries, k, threads, &mut no_progress()).unwrap();
            let everything = SearchOptions { search_list: 2000, slack: f32::INFINITY, beam_width: 4 };
            for (query, answer) in queries.chunks_exact(DIM).zip(answers) {
                let searched = index.search_with(query, k, &everything).unwrap().hits;
                assert_eq!(answer.hits, searched, "{metric:?}, k {k}");
                assert_eq!(answer.stats.distances, 1500);
                // A reader misses a page when it first reads it. The threads together read each
                // page once.
                assert!(answer.stats.pages_read > 30);
                assert_eq!(answer.stats.pages_missed, answer.stats.pages_read / 30, "{threads} threads");
            }
        }
        let answers = index.search_exactly(&queries, 10, 2, &mut no_progress()).unwrap();
        let right = queries.chunks_exact(DIM).zip(&answers).map(|(query, answer)| {
            let truth = truth(&rows, metric, query, 10);
            answer.hits.iter().filter(|hit| truth.contains(&hit.row_id)).count()
        });
        let right = right.sum::<usize>();
        assert!(
            right >= 285,
            "{metric:?}: 12-bit codes should swap only a few of 300 neighbors, got {}",
            300 - right
        );
    }
}

#[test]
fn calibration_does_not_depend_on_threads() {
    let rows = Rows::new(DIM, embeddings(DIM, 3000, 1));
    let index = index(&rows, Metric::Cosine);
    let (queries, options) = (embeddings(DIM, 70, 2), SearchOptions { slack: 0.02, ..SearchOptions::default() });
    let measure = |threads| {
        let calibration = index.calibrate(Some(&queries), threads, &mut no_progress()).unwrap();
        (calibration, index.recall(10, 77, None, &options, threads, &mut no_progress()).unwrap())
    };
    let alone = measure(1);
    assert_eq!(alone, measure(2));
    assert_eq!(alone, measure(5));
}

#[test]
fn queries_unlike_the_rows_need_their_own_settings_and_are_reported_as_far() {
    let rows = Rows::new(DIM, embeddings(DIM, 6000, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let known = Index::open(pages.clone()).unwrap();
    // Queries that are between the rows, and not near them.
    let mut noise = support::Noise(5);
    let strange: Vec<f32> = embeddings(DIM, 600, 2).iter().map(|x| x + 0.8 * noise.gauss()).collect();
    let (seen, unseen) = strange.split_at(300 * DIM);
    let own = calibrated(&known).plan(10, 0.95).options.unwrap();
    let theirs = known.calibrate(Some(seen), 2, &mut no_progress()).unwrap().expect("enough rows");
    assert_eq!(theirs.samples, 300);
    let theirs = theirs.plan(10, 0.95).options.unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    change.set_calibration(calibrated(&known)).unwrap();
    change.finish().unwrap();
    drop(writer);
    let opened = Index::open(pages.clone()).unwrap();
    let measure =
        |queries: &[f32], options| opened.recall(10, 0, Some(queries), options, 2, &mut no_progress()).unwrap();
    let (with_own, with_theirs) = (measure(unseen, &own), measure(unseen, &theirs));
    println!("strange queries: {with_own:?} as calibrated by rows, {with_theirs:?} by queries like them");
    assert!((with_theirs.recall - 0.95).abs() < with_theirs.half_interval + 0.02, "{with_theirs:?}");
    assert!(with_own.far.unwrap() > 0.5, "{with_own:?}");
    let usual = measure(&embeddings(DIM, 300, 3), &own);
    assert!(usual.far.unwrap() < 0.05, "{usual:?}");
}

#[test]
fn changes_since_a_calibration_are_counted_across_training() {
    let rows = Rows::new(DIM, embeddings(DIM, CALIBRATED_ROWS_MIN as usize, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let add = |pages: &mut MemPages, first: u64, count: usize| {
        let known = Index::open(pages.clone()).unwrap();
        let (ids, more): (Vec<u64>, _) = ((first..first + count as u64).collect(), embeddings(DIM, count, first));
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        change.add(&ids, &more, None, &mut no_progress()).unwrap();
        change.finish().unwrap();
    };
    add(&mut pages, 10, 100);
    let known = Index::open(pages.clone()).unwrap();
    let calibration = calibrated(&known);
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    change.set_calibration(calibration).unwrap();
    change.finish().unwrap();
    drop(writer);
    let since = |pages: &MemPages| Index::open(pages.clone()).unwrap().info().unwrap().calibrated.unwrap().changes;
    assert_eq!(since(&pages), 0);
    add(&mut pages, 10_000, 200);
    assert_eq!(since(&pages), 200);
    let trained = |pages: &MemPages| Index::open(pages.clone()).unwrap().info().unwrap().trained_rows;
    let before = trained(&pages);
    add(&mut pages, 20_000, 7_400);
    assert!(trained(&pages) > before, "this many rows must train the model");
    assert_eq!(since(&pages), 7_600);
}

#[test]
fn a_change_that_makes_an_index_large_enough_or_trains_it_asks_for_calibration() {
    let few = CALIBRATED_ROWS_MIN - 1;
    let rows = Rows::new(DIM, embeddings(DIM, few as usize, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let add = |pages: &mut MemPages, ids: std::ops::Range<u64>, calibration: Option<Calibration>| {
        let known = Index::open(pages.clone()).unwrap();
        let vectors = embeddings(DIM, (ids.end - ids.start) as usize, ids.start);
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        change.add(&ids.collect::<Vec<_>>(), &vectors, None, &mut no_progress()).unwrap();
        calibration.into_iter().for_each(|found| change.set_calibration(found).unwrap());
        let wants = change.wants_calibration();
        change.finish().unwrap();
        drop(writer);
        (wants, Index::open(pages.clone()).unwrap())
    };
    let old = rows.ids[0];
    assert!(!add(&mut pages, old..old + 1, None).0, "a replaced row must not count as a new one");
    let (wants, large) = add(&mut pages, few..few + 1, None);
    assert!(wants, "now there are enough rows");
    let by_queries = large.calibrate(Some(&embeddings(DIM, 60, 2)), 2, &mut no_progress()).unwrap();
    let (wants, large) = add(&mut pages, few + 1..few + 2, None);
    assert!(!wants, "it was not calibrated when it became large enough: later rows must not ask again");
    let mut other = pages.clone();
    assert!(add(&mut pages, 10_000..18_000, None).0, "this many rows train the model");
    assert!(!add(&mut other, 20_000..20_001, by_queries).0);
    assert!(!add(&mut other, 30_000..38_000, None).0, "it was calibrated by a user's queries");
    assert!(add(&mut other, 20_000..20_001, Some(calibrated(&large))).0, "8,000 rows were added since");
}

#[test]
fn a_change_of_a_file_asks_for_calibration_when_as_many_rows_have_changed_as_there_were() {
    let rows = Rows::new(DIM, embeddings(DIM, 1200, 1));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let by_rows = calibrated(&index(&rows, Metric::L2));
    let mut change = |deleted: &[u64], added: std::ops::Range<u64>, calibration: Option<Calibration>| {
        let known = Index::open(pages.clone()).unwrap();
        let vectors = embeddings(DIM, (added.end - added.start) as usize, added.start);
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        calibration.into_iter().for_each(|found| change.set_calibration(found).unwrap());
        change.delete(deleted).unwrap();
        change.add(&added.collect::<Vec<_>>(), &vectors, None, &mut no_progress()).unwrap();
        let wants = change.wants_calibration();
        change.finish().unwrap();
        wants
    };
    assert!(!change(&[], 10_000..10_600, Some(by_rows.clone())));
    let added: Vec<u64> = (10_000..10_599).collect();
    assert!(!change(&added, 0..0, None), "one row is missing");
    assert!(change(&[10_599], 0..0, None), "600 rows were added and 600 deleted");
    let again = Calibration { changes: 1200, ..by_rows.clone() };
    assert!(!change(&[], 20_000..20_001, Some(again)), "it was calibrated after these");
    let by_queries = Calibration { by_queries: true, rows: 2000, ..by_rows };
    assert!(!change(&[], 40_000..44_000, Some(by_queries)), "rows must not replace a calibration by queries");
}

#[test]
fn too_few_rows_give_no_calibration_and_callers_can_interrupt_it() {
    let rows = Rows::new(DIM, embeddings(DIM, CALIBRATED_ROWS_MIN as usize - 1, 1));
    assert_eq!(index(&rows, Metric::L2).calibrate(None, 2, &mut no_progress()).unwrap(), None);
    let rows = Rows::new(DIM, embeddings(DIM, CALIBRATED_ROWS_MIN as usize, 1));
    let index = index(&rows, Metric::L2);
    assert!(index.calibrate(None, 2, &mut no_progress()).unwrap().is_some());
    let mut calls = 0;
    let stopped = index.calibrate(None, 2, &mut |_| {
        calls += 1;
        if calls > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(Error::Interrupted)));
    let options = SearchOptions::default();
    for (k, samples, queries) in
        [(0, 5, None), (10, 0, None), (10, 5, Some(vec![])), (10, 0, Some(vec![0.0; DIM + 1]))]
    {
        assert!(index.recall(k, samples, queries.as_deref(), &options, 2, &mut no_progress()).is_err());
    }
    assert!(index.calibrate(Some(&[]), 2, &mut no_progress()).is_err(), "no queries are not vectors of the index");
}

#[test]
fn of_more_queries_than_a_calibration_takes_some_are_spread_over_all() {
    let dim = 4;
    let rows = Rows::new(dim, embeddings(dim, CALIBRATED_ROWS_MIN as usize, 1));
    let index = index(&rows, Metric::L2);
    // Every second query is not a number. Those that are taken are the others.
    let mut queries = embeddings(dim, 2 * CALIBRATION_QUERIES_MAX, 2);
    queries.chunks_exact_mut(dim).skip(1).step_by(2).for_each(|query| query.fill(f32::NAN));
    let known = index.calibrate(Some(&queries), 2, &mut no_progress()).unwrap().expect("there are enough rows");
    assert_eq!((known.samples as usize, known.by_queries), (CALIBRATION_QUERIES_MAX, true));
    queries.pop();
    assert!(matches!(index.calibrate(Some(&queries), 2, &mut no_progress()), Err(Error::Dimension { .. })));
}

#[test]
fn little_memory_takes_fewer_samples_and_too_little_is_an_error() {
    let (count, dim) = (CALIBRATED_ROWS_MIN, 24);
    let index = index(&Rows::new(dim, embeddings(dim, count as usize, 1)), Metric::L2);
    let (most, least) = (calibration_memory_bytes(count, dim), calibration_memory_bytes_min(count, dim));
    let within = |bytes, queries: Option<&[f32]>| calibrate_within(&index, bytes, queries, 1, &mut no_progress());
    let samples = |bytes| within(bytes, None).unwrap().expect("there are enough rows").samples as usize;
    assert_eq!(samples(u64::MAX), count as usize / 4);
    assert_eq!((samples(most), samples(least)), (count as usize / 4, CALIBRATION_QUERIES_MIN));
    let between = samples(least.midpoint(most));
    assert!(between > CALIBRATION_QUERIES_MIN && between < count as usize / 4, "{between}");
    // The first that goes are samples without exact answers.
    assert_eq!(samples(most - most / 100), count as usize / 4);
    let refused = within(least - 1, None);
    assert!(matches!(refused, Err(Error::Memory { needed_bytes, .. }) if needed_bytes == least), "{refused:?}");
    let theirs = embeddings(dim, 60, 2);
    let known = within(0, Some(&theirs)).unwrap().expect("there are enough rows");
    assert_eq!(known.samples, 60, "the caller has these in memory already");
    let known = within(least, None).unwrap().expect("there are enough rows");
    let queries = embeddings(dim, 300, 3);
    let rows = Rows::new(dim, embeddings(dim, count as usize, 1));
    let (found, ..) = recall(&index, &rows, Metric::L2, &queries, &known.plan(10, 0.95).options.unwrap());
    assert!(found > 0.92, "{found}");
}
