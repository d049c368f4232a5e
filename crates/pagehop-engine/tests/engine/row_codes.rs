//! Row codes: searches with finer codes of all rows in memory take fewer hops.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::support::{Rows, built, embeddings, index, no_progress, options, recall};
use pagehop_engine::{
    Batch, Error, Index, Metric, PageId, Pages, RowParts, SearchOptions, SearchResult, load_row_codes,
};
use pagehop_sim::MemPages;

const DIM: usize = 384;

fn rows() -> Rows {
    Rows::new(DIM, embeddings(DIM, 4000, 1))
}

/// The recall and the hops of a query.
fn searched(index: &Index<MemPages>, rows: &Rows, metric: Metric, queries: &[f32], slack: f32) -> (f64, f64) {
    let options = SearchOptions { search_list: 400, slack, ..SearchOptions::default() };
    let hops = |query| index.search_with(query, 10, &options).unwrap().stats.hops;
    let hops: u64 = queries.chunks(DIM).map(hops).sum();
    (recall(index, rows, metric, queries, &options).0, hops as f64 / (queries.len() / DIM) as f64)
}

#[test]
fn the_same_settings_miss_fewer_rows_in_fewer_hops() {
    let (rows, queries) = (rows(), embeddings(DIM, 200, 2));
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let index = index(&rows, metric);
        let sums = |index: &Index<_>| {
            let found = [0.0, 0.02, 0.05].map(|slack| searched(index, &rows, metric, &queries, slack));
            found.iter().fold((0.0, 0.0), |sum, (recall, hops)| (sum.0 + 1.0 - recall, sum.1 + hops))
        };
        let before = sums(&index);
        let (memory, bytes) = (index.memory_bytes(), load_row_codes(&index, 2, &mut no_progress()).unwrap());
        assert_eq!(index.memory_bytes(), memory + bytes);
        // Two bits a dimension, 10 bytes beside them, and pages that have no nodes.
        assert!((106..112).contains(&(bytes / rows.ids.len())), "{bytes}");
        let after = sums(&index);
        println!("{metric:?}: missed and hops {before:?}, {after:?}");
        assert!(after.0 < 0.75 * before.0 && after.1 < 0.98 * before.1, "{metric:?}: {before:?}, {after:?}");
        assert!(searched(&index, &rows, metric, &queries, 1.0).0 > 0.998);
    }
}

#[test]
fn each_row_is_found_once_and_alone_as_in_a_batch() {
    let (rows, queries) = (rows(), embeddings(DIM, 100, 3));
    let index = index(&rows, Metric::L2);
    load_row_codes(&index, 3, &mut no_progress()).unwrap();
    for (search_list, slack) in [(20, 0.0), (60, 0.3), (400, 0.1)] {
        let options = SearchOptions { search_list, slack, ..SearchOptions::default() };
        let mut alone = Vec::new();
        for query in queries.chunks(DIM) {
            let found = index.search_with(query, 20, &options).unwrap();
            let ids: BTreeSet<u64> = found.hits.iter().map(|hit| hit.row_id).collect();
            assert_eq!((ids.len(), found.hits.len()), (20, 20), "{options:?}");
            alone.push(found.hits);
        }
        let plan = options.into();
        let parts = RowParts::default();
        let batch = Batch { queries: &queries, k: 20, plan: &plan, filter: None, threads: 2, parts };
        let mut together = vec![Vec::new(); alone.len()];
        let write = |place: &mut Vec<_>, result: SearchResult, _| {
            *place = result.hits;
            Ok(())
        };
        index.search_batch(&batch, &mut no_progress(), &mut together, write).unwrap();
        assert_eq!(together, alone, "{search_list}, {slack}");
    }
}

#[test]
fn codes_that_were_not_read_to_the_end_are_not_used() {
    let (rows, queries) = (rows(), embeddings(DIM, 20, 4));
    let mut pages = built(&rows, &options(Metric::L2)).unwrap();
    let hops = |index: &Index<_>| searched(index, &rows, Metric::L2, &queries, 0.1);
    let before = hops(&Index::open(pages.clone()).unwrap());
    let stopped_index = Index::open(pages.clone()).unwrap();
    let stopped = load_row_codes(&stopped_index, 2, &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    assert_eq!(hops(&stopped_index), before);
    let last = (1..pages.page_count()).map(PageId).rfind(|page| pages.body(*page)[0] == 2).unwrap();
    // The centroid of the first node.
    pages.body_mut(last)[40 + 19] = 0xFF;
    let damaged_index = Index::open(pages).unwrap();
    let damaged = load_row_codes(&damaged_index, 2, &mut no_progress());
    assert!(matches!(&damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
    assert_eq!(damaged_index.memory_bytes(), stopped_index.memory_bytes());
}
