//! Batches from storage: searches take turns, and answer as they do alone.

use std::ops::ControlFlow;

use crate::support::{Random, Scratch, ways};
use pagehop_engine::{
    Batch, BuildOptions, EachChunk, Error, SearchOptions, SearchPlan, SearchResult, VectorSource,
};
use pagehop_store::{AddOptions, OpenOptions, add, open};

const DIM: usize = 48;
const ROWS: usize = 1500;
const QUERIES: usize = 100;
const K: usize = 5;

struct Rows(Vec<f32>);

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let ids: Vec<u64> = (0..ROWS as u64).collect();
        each(&ids, &self.0)
    }
}

fn vectors(count: usize, random: &mut Random) -> Vec<f32> {
    (0..count * DIM).map(|_| random.below(1 << 20) as f32 / (1 << 20) as f32).collect()
}

fn build(scratch: &Scratch, random: &mut Random) -> std::path::PathBuf {
    let path = scratch.path("index");
    let options = BuildOptions { calibrate: false, ..BuildOptions::default() };
    let mut rows = Rows(vectors(ROWS, random));
    pagehop_store::build(&path, &mut rows, &options, false, &mut |_| ControlFlow::Continue(())).unwrap();
    path
}

#[test]
fn a_batch_from_storage_answers_as_one_query_after_the_other() {
    let (scratch, mut random) = (Scratch::new("batch"), Random(1));
    let path = build(&scratch, &mut random);
    let queries = vectors(QUERIES, &mut random);
    let options = SearchOptions { search_list: 30, ..SearchOptions::default() };
    let plan = SearchPlan::from(options.clone());
    for cache_pages in [64, 100, 100_000] {
        for way in ways(cache_pages * 8192) {
            let index = open(&path, &way).unwrap();
            let alone: Vec<SearchResult> =
                queries.chunks_exact(DIM).map(|query| index.search_with(query, K, &options).unwrap()).collect();
            for threads in [1, 3] {
                let batch = Batch { queries: &queries, k: K, plan: &plan, filter: None, threads };
                let mut results = vec![SearchResult::default(); QUERIES];
                let mut go_on = |_| ControlFlow::Continue(());
                let before = index.pages().counters();
                index
                    .search_batch(&batch, &mut go_on, &mut results, |place, result| {
                        *place = result;
                        Ok(())
                    })
                    .unwrap();
                for (at, (result, alone)) in results.iter().zip(&alone).enumerate() {
                    assert_eq!(result.hits, alone.hits, "query {at}, {way:?}, {threads} threads");
                    assert_eq!(result.stats.hops, alone.stats.hops, "query {at}, {way:?}, {threads} threads");
                }
                let reads = index.pages().counters().reads - before.reads;
                let counted: u64 = results.iter().map(|result| result.stats.pages_missed).sum();
                assert!(counted <= reads, "{counted} pages missed, {reads} read, {way:?}");
                assert!(cache_pages > 100 || counted > 0, "{way:?}");
            }
        }
    }
}

#[test]
fn a_batch_sees_rows_that_were_added_before_it() {
    let (scratch, mut random) = (Scratch::new("batch-adds"), Random(2));
    let path = build(&scratch, &mut random);
    let small = OpenOptions { cache_bytes: 64 * 8192, ..OpenOptions::default() };
    let writer = open(&path, &OpenOptions { write: true, ..small.clone() }).unwrap();
    let reader = open(&path, &OpenOptions { write: false, ..small }).unwrap();
    let plan = SearchPlan::from(SearchOptions::default());
    for round in 0..4 {
        let ids: Vec<u64> = (0..40).map(|row| (ROWS + 40 * round + row) as u64).collect();
        let added = vectors(ids.len(), &mut random);
        add(&writer, &ids, &added, AddOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        for index in [&writer, &reader] {
            let batch = Batch { queries: &added, k: 1, plan: &plan, filter: None, threads: 1 };
            let mut found = vec![0; ids.len()];
            index
                .search_batch(&batch, &mut |_| ControlFlow::Continue(()), &mut found, |place, result| {
                    *place = result.hits[0].row_id;
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, ids);
        }
    }
}
