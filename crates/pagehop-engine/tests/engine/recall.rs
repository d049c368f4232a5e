//! Recall, pages and estimates per query, for each metric and code width. Tests assert counters,
//! not seconds.

use crate::support;
use crate::support::{Rows, change, distance, embeddings, index, no_progress, recall, truth, vacuum};
use pagehop_engine::{Index, Metric, SearchOptions};
use pagehop_sim::MemPages;

#[test]
fn a_search_finds_the_nearest_rows_under_every_metric() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let rows = Rows::new(96, embeddings(96, 4000, 1));
        let index = index(&rows, metric);
        let queries = embeddings(96, 100, 2);
        let options = SearchOptions { search_list: 64, ..SearchOptions::default() };
        let (recall, pages, estimates) = recall(&index, &rows, metric, &queries, &options);
        println!("{metric:?}: recall {recall}, {pages} pages, {estimates} estimates");
        assert!(recall > 0.98, "{metric:?}: recall {recall}");
        assert!(pages < 40.0, "{metric:?}: {pages} pages");
        assert!(estimates < 2600.0, "{metric:?}: {estimates} estimates");
        let report = index.check(&mut no_progress()).unwrap();
        assert_eq!((report.nodes, report.reachable), (4000, 4000));
    }
}

/// Rows are added again before vacuum removes their old nodes, which are at the same places.
#[test]
fn rows_that_are_deleted_and_added_again_are_found_as_before() {
    let rows = Rows::new(96, embeddings(96, 4000, 7));
    let queries = embeddings(96, 300, 8);
    let options = SearchOptions { search_list: 16, slack: f32::INFINITY, ..SearchOptions::default() };
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let found =
        |pages: &MemPages| recall(&Index::open(pages.clone()).unwrap(), &rows, Metric::L2, &queries, &options).0;
    let before = found(&pages);
    for round in 0..4 {
        let some: Vec<usize> = (0..4000).filter(|row| row % 5 == round).collect();
        let ids: Vec<u64> = some.iter().map(|row| rows.ids[*row]).collect();
        let vectors: Vec<f32> = some.iter().flat_map(|row| rows.row(*row)).copied().collect();
        change(&mut pages, |change| change.delete(&ids).map(drop)).unwrap();
        change(&mut pages, |change| change.add(&ids, &vectors, None, &mut no_progress()).map(drop)).unwrap();
        vacuum(&mut pages);
    }
    let after = found(&pages);
    println!("recall {before} as built, {after} after changes");
    assert!(after > before - 0.01, "recall {before} as built, {after} after changes");
}

#[test]
fn every_code_width_reaches_its_recall() {
    for dim in [1, 2, 3, 17, 64, 100, 200, 400, 784, 1100, 1536, 2000, 3072, 4096] {
        let count = if dim > 1000 { 300 } else { 1000 };
        let rows = Rows::new(dim, embeddings(dim, count, 3));
        let index = index(&rows, Metric::L2);
        let queries = embeddings(dim, 40, 4);
        let options = SearchOptions { search_list: 100, slack: 0.5, ..SearchOptions::default() };
        let (recall, ..) = recall(&index, &rows, Metric::L2, &queries, &options);
        println!("{dim} dimensions: recall {recall}");
        assert!(recall > 0.99, "{dim} dimensions, {:?}: recall {recall}", index.info());
        let report = index.check(&mut no_progress()).unwrap();
        assert_eq!(report.reachable, count as u64, "{dim} dimensions");
    }
}

#[test]
fn distances_follow_the_definition_of_the_metric() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let rows = Rows::new(50, embeddings(50, 500, 5));
        let index = index(&rows, metric);
        let query = &embeddings(50, 1, 6)[..];
        let result = index.search_with(query, 20, &SearchOptions::default()).unwrap();
        assert_eq!(result.hits.len(), 20);
        let mut last = f32::NEG_INFINITY;
        for hit in &result.hits {
            let row = rows.ids.iter().position(|id| *id == hit.row_id).unwrap();
            let exact = distance(metric, query, rows.row(row));
            let scale = distance(Metric::L2, query, rows.row(row)).max(1e-9);
            let error =
                (f64::from(hit.distance) - exact).abs() / if metric == Metric::Cosine { exact } else { scale };
            assert!(error < 2e-3, "{metric:?}: {} returned, {exact} is true", hit.distance);
            assert!(hit.distance >= last);
            last = hit.distance;
        }
    }
}

#[test]
fn a_k_above_the_number_of_rows_returns_every_row_once() {
    for count in [1, 2, 3, 9, 60] {
        let rows = Rows::new(24, embeddings(24, count, 7));
        let index = index(&rows, Metric::L2);
        let result = index.search_with(rows.row(0), 100, &SearchOptions::default()).unwrap();
        let mut ids: Vec<u64> = result.hits.iter().map(|hit| hit.row_id).collect();
        ids.sort_unstable();
        assert_eq!(ids, rows.ids, "{count} rows");
    }
}

#[test]
fn identical_rows_are_all_found() {
    let one = embeddings(32, 1, 8);
    let mut values = one.repeat(3000);
    values.extend(embeddings(32, 1000, 9));
    let rows = Rows::new(32, values);
    let index = index(&rows, Metric::L2);
    let report = index.check(&mut no_progress()).unwrap();
    assert_eq!(report.reachable, 4000);
    let result = index.search_with(&one, 50, &SearchOptions::default()).unwrap();
    assert_eq!(result.hits.len(), 50);
    assert!(result.hits.iter().all(|hit| hit.distance < 1e-4), "{:?}", result.hits);
    let whole_list = SearchOptions { search_list: 200, slack: f32::INFINITY, ..SearchOptions::default() };
    let result = index.search_with(&one, 60, &whole_list).unwrap();
    assert!(result.hits.len() == 60 && result.hits.iter().all(|hit| hit.distance < 1e-4), "{:?}", result.hits);
    let options = SearchOptions { slack: 0.3, ..SearchOptions::default() };
    let (recall, ..) = recall(&index, &rows, Metric::L2, &embeddings(32, 50, 10), &options);
    assert!(recall > 0.95, "recall of the rows that are not identical: {recall}");
}

#[test]
fn clusters_without_edges_between_them_are_all_searched() {
    let (dim, clusters, each) = (64, 8, 250);
    let centers = embeddings(dim, clusters, 20);
    let noise = embeddings(dim, clusters * each, 21);
    let shift = |i: usize, d: usize| 50.0 * centers[i * dim + d];
    let values = (0..clusters * each * dim).map(|at| noise[at] + shift(at / dim % clusters, at % dim)).collect();
    let rows = Rows::new(dim, values);
    let index = index(&rows, Metric::L2);
    // Halfway between two clusters, some of the nearest rows are in each of them.
    let between: Vec<f32> = (0..dim).map(|d| (shift(2, d) + shift(5, d)) / 2.0).collect();
    let options = SearchOptions { search_list: 400, slack: f32::INFINITY, ..SearchOptions::default() };
    let (found, ..) = recall(&index, &rows, Metric::L2, &between, &options);
    assert!(found > 0.99, "recall {found} between two clusters");
    let result = index.search_with(&between, 2000, &options).unwrap();
    assert_eq!(result.hits.len(), 2000, "every cluster must be reached");
}

#[test]
fn a_search_for_one_row_finds_the_nearest() {
    let rows = Rows::new(64, embeddings(64, 6000, 40));
    let index = index(&rows, Metric::L2);
    let queries = embeddings(64, 200, 41);
    let (mut found, mut first) = (0, 0);
    for query in queries.chunks_exact(64) {
        let nearest = truth(&rows, Metric::L2, query, 1)[0];
        let hits = index.search_with(query, 1, &SearchOptions::default()).unwrap().hits;
        assert_eq!(hits.len(), 1);
        found += usize::from(hits[0].row_id == nearest);
        let mut cursor = index.cursor(query, &SearchOptions::default()).unwrap();
        first += usize::from(cursor.next_hit().unwrap().unwrap().row_id == nearest);
    }
    println!("{found} by search, {first} by cursor, of 200");
    assert!(found >= 194 && first >= 194, "{found} by search, {first} by cursor, of 200");
}

#[test]
fn prefetching_changes_no_answer_and_wastes_few_reads() {
    let rows = Rows::new(96, embeddings(96, 4000, 30));
    let index = index(&rows, Metric::L2);
    let (mut read, mut missed) = (0, 0);
    for query in embeddings(96, 50, 31).chunks_exact(96) {
        let answers = [1, 4, 16].map(|beam_width| {
            let options = SearchOptions { beam_width, ..SearchOptions::default() };
            index.search_with(query, 10, &options).unwrap()
        });
        assert!(answers.iter().all(|answer| answer.hits == answers[0].hits));
        read += answers[1].stats.pages_read;
        missed += answers[1].stats.pages_missed;
    }
    println!("{read} pages used, {missed} prefetched or read");
    assert!(missed * 10 < read * 12, "{read} pages used, {missed} prefetched or read");
}

#[test]
fn a_cursor_returns_every_row_once_and_nearly_in_order() {
    let rows = Rows::new(40, embeddings(40, 1500, 11));
    let index = index(&rows, Metric::L2);
    let query = &embeddings(40, 1, 12)[..];
    let mut cursor = index.cursor(query, &SearchOptions::default()).unwrap();
    let mut ids = Vec::new();
    while let Some(hit) = cursor.next_hit().unwrap() {
        ids.push(hit.row_id);
    }
    let first: Vec<u64> = ids.iter().take(100).copied().collect();
    let truth = truth(&rows, Metric::L2, query, 100);
    let common = first.iter().filter(|id| truth.contains(id)).count();
    assert!(common >= 95, "{common} of the 100 nearest came among the first 100");
    ids.sort_unstable();
    assert_eq!(ids, rows.ids);
}

#[test]
fn a_build_does_not_depend_on_threads_or_chunks() {
    let mut rows = Rows::new(48, embeddings(48, 3000, 13));
    let bytes = |rows: &Rows, threads| {
        let options = pagehop_engine::BuildOptions { threads, ..support::options(Metric::L2) };
        let pages = support::built(rows, &options).unwrap();
        let count = pagehop_engine::Pages::page_count(&pages);
        (0..count).flat_map(|p| pages.body(pagehop_engine::PageId(p)).to_vec()).collect::<Vec<u8>>()
    };
    let one = bytes(&rows, 1);
    assert!(one == bytes(&rows, 3), "three threads gave another index than one");
    rows.chunk_rows = 777;
    assert!(one == bytes(&rows, 2), "other chunks gave another index");
}
