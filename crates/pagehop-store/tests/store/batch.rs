//! Batches from storage: searches take turns, and answer as they do alone.

use std::ops::ControlFlow;

use crate::support::{Random, Scratch, ways};
use pagehop_engine::{
    Batch, BuildOptions, ColumnRows, CreateOptions, EachChunk, Effort, Error, Filter, IdKind, Index, ReadParts,
    RowParts, SearchOptions, SearchPlan, SearchResult, VectorSource,
};
use pagehop_store::{AddOptions, IndexFile, OpenOptions, add, open};

const DIM: usize = 48;
const ROWS: usize = 1500;
const QUERIES: usize = 100;
const K: usize = 5;
const NOTHING: RowParts = RowParts { text_ids: false, payloads: false };

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
                let batch = Batch { queries: &queries, k: K, plan: &plan, filter: None, threads, parts: NOTHING };
                let mut results = vec![SearchResult::default(); QUERIES];
                let mut go_on = |_| ControlFlow::Continue(());
                let before = index.pages().counters();
                index
                    .search_batch(&batch, &mut go_on, &mut results, |place, result, _| {
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
            let batch = Batch { queries: &added, k: 1, plan: &plan, filter: None, threads: 1, parts: NOTHING };
            let mut found = vec![0; ids.len()];
            index
                .search_batch(&batch, &mut |_| ControlFlow::Continue(()), &mut found, |place, result, _| {
                    *place = result.hits[0].row_id;
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, ids);
        }
    }
}

/// An index of one row. The payload tells how often the row was replaced, and so does the vector.
fn replaced(scratch: &Scratch) -> Index<IndexFile> {
    let path = scratch.path("one");
    let options = CreateOptions { payload: true, id_kind: IdKind::Text, ..CreateOptions::default() };
    pagehop_store::create(&path, 1, &options, false).unwrap();
    let index = open(&path, &OpenOptions { write: true, ..OpenOptions::default() }).unwrap();
    replace(&index, 0);
    index
}

fn replace(index: &Index<IndexFile>, version: u32) {
    let payload = ColumnRows::default().with_payloads(vec![Some(version.to_le_bytes().to_vec())]);
    let (options, go_on) = (AddOptions::default(), &mut |_| ControlFlow::Continue(()));
    pagehop_store::add_with_columns(index, &["row"], &[version as f32], Some(&payload), options, go_on).unwrap();
}

fn expect_version(version: u32, result: &SearchResult, read: &ReadParts) {
    let (distance, expected) = (result.hits[0].distance, (version as f32).powi(2));
    assert!((distance - expected).abs() <= 1e-4 * expected, "{distance} of version {version}");
    assert_eq!(read.text_ids, Some(vec!["row".to_owned()]));
    assert_eq!(read.payloads, Some(vec![Some(version.to_le_bytes().to_vec())]));
}

const EVERYTHING: RowParts = RowParts { text_ids: true, payloads: true };

#[test]
fn a_row_that_is_replaced_before_it_is_read_is_searched_for_again() {
    let scratch = Scratch::new("batch-replaced");
    let index = replaced(&scratch);
    let plan = index.options(1, &Effort::Default).unwrap();
    let mut searches = 0;
    let search = || {
        let result = index.searcher().answer(&[0.0], 1, &plan, None);
        searches += 1;
        if searches < 4 {
            replace(&index, searches);
        }
        result
    };
    let (result, read) = index.search_and_read(EVERYTHING, search).unwrap();
    assert_eq!(searches, 4);
    expect_version(3, &result, &read);
    // A search that reads nothing of its rows is not repeated.
    let (mut searches, mut version) = (0, 3);
    let search = || {
        let result = index.searcher().answer(&[0.0], 1, &plan, None);
        (searches, version) = (searches + 1, version + 1);
        replace(&index, version);
        result
    };
    let (result, read) = index.search_and_read(NOTHING, search).unwrap();
    assert_eq!((searches, read, result.hits[0].distance), (1, ReadParts::default(), 9.0));
    // It ends, if the row is replaced again and again.
    let search = || {
        let result = index.searcher().answer(&[0.0], 1, &plan, None);
        version += 1;
        replace(&index, version);
        result
    };
    let failed = index.search_and_read(EVERYTHING, search);
    assert!(matches!(failed, Err(Error::Busy { .. })), "{failed:?}");
}

#[test]
fn a_batch_reads_its_rows_as_they_were_found_while_they_are_replaced() {
    let scratch = Scratch::new("batch-reads");
    let index = replaced(&scratch);
    let (walk, exact) = (SearchPlan::from(SearchOptions::default()), SearchPlan::exact());
    let filter = index.plan_filter(&Filter::TextIds(vec!["row".to_owned()])).unwrap();
    let queries = [0.0; 12];
    let mut version = 0;
    for (plan, filter) in [(&walk, None), (&exact, None), (&walk, Some(&filter)), (&exact, Some(&filter))] {
        let batch = Batch { queries: &queries, k: 1, plan, filter, threads: 1, parts: EVERYTHING };
        let mut found = vec![(SearchResult::default(), ReadParts::default()); queries.len()];
        let first = version;
        // Between the search for a query and the read of its row.
        let mut go_on = |_| {
            version += 1;
            replace(&index, version);
            ControlFlow::Continue(())
        };
        index
            .search_batch(&batch, &mut go_on, &mut found, |place, result, read| {
                *place = (result, read);
                Ok(())
            })
            .unwrap();
        assert!(version > first, "the row is replaced");
        for (result, read) in &found {
            let of_row = read.payloads.as_ref().unwrap()[0].as_deref().unwrap();
            expect_version(u32::from_le_bytes(of_row.try_into().unwrap()), result, read);
        }
        // After the last replacement, one more row is read.
        expect_version(version, &found[queries.len() - 1].0, &found[queries.len() - 1].1);
    }
}
