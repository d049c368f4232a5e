//! Payloads: rows come back with the bytes that were added with them, after every change and for
//! readers of every commit. The space of old payloads is used again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Random, Scratch};
use pagehop_engine::{
    BuildOptions, ColumnRows, CreateOptions, EachChunk, Error, Index, PAYLOAD_BYTES_MAX, Payloads, Progress,
    RowParts, SearchOptions, SearchResult, VectorSource, Vectors,
};
use pagehop_store::{AddOptions, IndexFile, OpenOptions};

const DIM: usize = 8;

type Payload = Option<Vec<u8>>;
type Rows = BTreeMap<u64, (Vec<f32>, Payload)>;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn opened(path: &Path) -> Index<IndexFile> {
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    pagehop_store::open(path, &options).unwrap()
}

fn created(path: &Path, vectors: Vectors) -> Index<IndexFile> {
    let options = CreateOptions { vectors, payload: true, ..CreateOptions::default() };
    pagehop_store::create(path, DIM, &options, false).unwrap();
    opened(path)
}

fn vector(random: &mut Random) -> Vec<f32> {
    (0..DIM).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

fn payload(random: &mut Random) -> Payload {
    let most = match random.below(10) {
        0 => return None,
        1 => 1,
        2 => 40_000,
        _ => 300,
    };
    Some((0..random.below(most)).map(|at| (at * 7 + most) as u8).collect())
}

fn given(payloads: &[Payload]) -> ColumnRows {
    ColumnRows::default().with_payloads(payloads.to_vec())
}

/// Adds rows with random vectors and payloads.
fn add(index: &Index<IndexFile>, ids: &[u64], rows: &mut Rows, random: &mut Random) {
    let new: Vec<(Vec<f32>, Payload)> = ids.iter().map(|_| (vector(random), payload(random))).collect();
    let components: Vec<f32> = new.iter().flat_map(|row| row.0.clone()).collect();
    let payloads: Vec<Payload> = new.iter().map(|row| row.1.clone()).collect();
    pagehop_store::add_with_columns(
        index,
        ids,
        &components,
        Some(&given(&payloads)),
        AddOptions::default(),
        &mut go_on,
    )
    .unwrap();
    rows.extend(ids.iter().copied().zip(new));
}

/// The result of a search, and the payloads of the rows that it found.
fn searched(
    index: &Index<IndexFile>,
    search: impl FnMut() -> Result<SearchResult, Error>,
) -> Result<(SearchResult, Payloads), Error> {
    let parts = RowParts { payloads: true, ..RowParts::default() };
    let (result, read) = index.search_and_read(parts, search)?;
    assert_eq!(read.text_ids, None);
    Ok((result, read.payloads.expect("payloads are read")))
}

fn expect(index: &Index<IndexFile>, rows: &Rows, random: &mut Random) {
    let ids: Vec<u64> = rows.keys().copied().collect();
    let found = index.payloads(&ids).unwrap();
    assert!(found.iter().eq(rows.values().map(|row| &row.1)), "payloads differ");
    let query = vector(random);
    let search = || index.search_with(&query, 10, &SearchOptions::default());
    let (result, payloads) = searched(index, search).unwrap();
    assert!(result.hits.iter().zip(&payloads).all(|(hit, payload)| rows[&hit.row_id].1 == *payload));
    pagehop_store::check(index, &mut go_on).unwrap();
}

#[test]
fn payloads_come_back_after_every_change() {
    let scratch = Scratch::new("payloads");
    let path = scratch.path("items");
    for vectors in [Vectors::Codes, Vectors::Float32] {
        let (mut rows, mut random) = (Rows::new(), Random(5));
        let _ = std::fs::remove_file(&path);
        let index = created(&path, vectors);
        // The model is trained again at 8 times as many rows.
        for round in 0..12u64 {
            let ids: Vec<u64> = (0..10 << (round / 2)).map(|i| (round * 37 + i) % 500).collect();
            add(&index, &ids, &mut rows, &mut random);
            let gone: Vec<u64> = ids.iter().copied().filter(|id| id % 5 == 0).collect();
            pagehop_store::delete(&index, &gone, None, &mut go_on).unwrap();
            rows.retain(|id, _| !gone.contains(id));
            expect(&index, &rows, &mut random);
            if round % 3 == 0 {
                pagehop_store::vacuum(&index, &mut go_on).unwrap();
                expect(&index, &rows, &mut random);
            }
        }
        pagehop_store::retrain(&index, &mut go_on).unwrap();
        expect(&index, &rows, &mut random);
        pagehop_store::backup(&index, &scratch.path("copy"), true, &mut go_on).unwrap();
        index.into_pages().close().unwrap();
        pagehop_store::compact(&path, &Default::default(), &mut go_on).unwrap();
        expect(&opened(&path), &rows, &mut random);
        expect(&opened(&scratch.path("copy")), &rows, &mut random);
    }
}

#[test]
fn an_unchanged_row_stays_and_another_payload_replaces_it() {
    let scratch = Scratch::new("payloads-same");
    let index = created(&scratch.path("items"), Vectors::Codes);
    let (ids, vectors) = ([1, 2, 3], vec![0.5; 3 * DIM]);
    let payloads = [Some(b"one".to_vec()), None, Some(Vec::new())];
    let add = |payloads: Option<&ColumnRows>| {
        let report =
            pagehop_store::add_with_columns(&index, &ids, &vectors, payloads, AddOptions::default(), &mut go_on)
                .unwrap();
        (report.added, report.replaced, report.unchanged)
    };
    assert_eq!(add(Some(&given(&payloads))), (3, 0, 0));
    assert_eq!(add(Some(&given(&payloads))), (0, 0, 3));
    let other = [Some(b"uno".to_vec()), None, None];
    assert_eq!(add(Some(&given(&other))), (0, 2, 1));
    assert_eq!(index.payloads(&[3, 1, 1]).unwrap(), [None, Some(b"uno".to_vec()), Some(b"uno".to_vec())]);
    let again = given(&[Some(vec![9; 20_000])]);
    assert_eq!(pagehop_store::update_columns(&index, &[2], &again, &mut go_on).unwrap(), 1);
    assert_eq!(pagehop_store::update_columns(&index, &[2], &again, &mut go_on).unwrap(), 0);
    assert_eq!(index.payloads(&[2]).unwrap(), [Some(vec![9; 20_000])]);
    // Rows that are added without payloads have none.
    assert_eq!(add(None), (0, 2, 1));
    assert_eq!(index.payloads(&ids).unwrap(), [None, None, None]);
    pagehop_store::check(&index, &mut go_on).unwrap();
}

#[test]
fn the_space_of_payloads_is_used_again() {
    let scratch = Scratch::new("payloads-space");
    let index = created(&scratch.path("items"), Vectors::Codes);
    let ids: Vec<u64> = (0..200).collect();
    let (mut rows, mut random, mut early) = (Rows::new(), Random(3), 0);
    for round in 0..40 {
        add(&index, &ids, &mut rows, &mut random);
        pagehop_store::vacuum(&index, &mut go_on).unwrap();
        if round == 15 {
            early = index.info().unwrap().pages;
        }
    }
    expect(&index, &rows, &mut random);
    let pages = index.info().unwrap().pages;
    assert!(pages <= early + early / 8, "{early} pages became {pages}");
    pagehop_store::delete(&index, &ids, None, &mut go_on).unwrap();
    pagehop_store::vacuum(&index, &mut go_on).unwrap();
    expect(&index, &Rows::new(), &mut random);
}

#[test]
fn a_search_beside_a_writer_gives_each_row_its_own_payload() {
    let scratch = Scratch::new("payloads-beside");
    let path = scratch.path("items");
    let index = created(&path, Vectors::Float32);
    let ids: Vec<u64> = (0..40).collect();
    let change = |round: u64| {
        // The first component and the payload tell the round.
        let vectors: Vec<f32> = ids
            .iter()
            .flat_map(|id| (0..DIM).map(move |at| if at == 0 { round as f32 } else { *id as f32 }))
            .collect();
        let payloads: Vec<Payload> = ids.iter().map(|_| Some(round.to_le_bytes().to_vec())).collect();
        pagehop_store::add_with_columns(
            &index,
            &ids,
            &vectors,
            Some(&given(&payloads)),
            AddOptions::default(),
            &mut go_on,
        )
        .unwrap();
        pagehop_store::vacuum(&index, &mut go_on).unwrap();
    };
    change(0);
    let (ends, reader) = (AtomicBool::new(false), pagehop_store::open(&path, &OpenOptions::default()).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (1..150).for_each(change);
            ends.store(true, Ordering::Relaxed);
        });
        let mut searches = 0;
        while !ends.load(Ordering::Relaxed) || searches < 20 {
            let query = vec![0.0; DIM];
            // The list is as long as the index, so that the search finds one version of each row.
            let options = SearchOptions { search_list: 200, slack: f32::INFINITY, beam_width: 4 };
            let found = searched(&reader, || reader.search_with(&query, 40, &options));
            let (result, payloads) = match found {
                Ok(found) => found,
                // The writer replaces all rows all the time.
                Err(Error::Busy { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            for (hit, payload) in result.hits.iter().zip(payloads) {
                let round = u64::from_le_bytes(payload.unwrap().try_into().unwrap()) as f32;
                let rest = (DIM - 1) as f32 * (hit.row_id as f32).powi(2);
                let expected = round * round + rest;
                assert!((hit.distance - expected).abs() <= 1e-4 * expected + 1e-3, "{hit:?}, round {round}");
            }
            searches += 1;
        }
    });
}

struct Source {
    ids: Vec<u64>,
    vectors: Vec<f32>,
    given: ColumnRows,
}

impl VectorSource for Source {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        each(&self.ids, &self.vectors)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.given)
    }
}

#[test]
fn a_build_keeps_payloads_and_goes_on_with_changes() {
    let scratch = Scratch::new("payloads-build");
    let path = scratch.path("items");
    let (mut rows, mut random) = (Rows::new(), Random(11));
    (0..700).for_each(|id| drop(rows.insert(id * 3, (vector(&mut random), payload(&mut random)))));
    let payloads: Vec<Payload> = rows.values().map(|row| row.1.clone()).collect();
    let ids: Vec<u64> = rows.keys().copied().collect();
    let vectors: Vec<f32> = rows.values().flat_map(|row| row.0.clone()).collect();
    let mut source = Source { ids, vectors, given: given(&payloads) };
    pagehop_store::build(&path, &mut source, &BuildOptions::default(), false, &mut go_on).unwrap();
    let index = opened(&path);
    assert!(index.info().unwrap().payload && index.keeps_payloads());
    expect(&index, &rows, &mut random);
    add(&index, &[3, 4, 6, 1000], &mut rows, &mut random);
    expect(&index, &rows, &mut random);
    source.given = given(&payloads[1..]);
    let refused = pagehop_store::build(&path, &mut source, &BuildOptions::default(), true, &mut go_on);
    assert!(matches!(refused, Err(Error::Argument { .. } | Error::Busy { .. })), "{refused:?}");
}

#[test]
fn what_cannot_be_kept_is_refused_and_nothing_changes() {
    let scratch = Scratch::new("payloads-refused");
    let index = created(&scratch.path("items"), Vectors::Codes);
    let (mut rows, mut random) = (Rows::new(), Random(2));
    add(&index, &[1, 2], &mut rows, &mut random);
    let vectors = vec![0.0; 2 * DIM];
    let refused = |index: &Index<IndexFile>, payloads: &[Payload]| {
        let given = given(payloads);
        match pagehop_store::add_with_columns(
            index,
            &[1, 2],
            &vectors,
            Some(&given),
            AddOptions::default(),
            &mut go_on,
        ) {
            Err(Error::Argument { what }) => what.reason,
            other => panic!("{other:?}"),
        }
    };
    let long = vec![Some(vec![0; PAYLOAD_BYTES_MAX + 1]), None];
    assert!(refused(&index, &long).contains("bytes"));
    assert!(refused(&index, &[None]).contains("1 rows"));
    assert!(matches!(index.payloads(&[1, 77]), Err(Error::Argument { what }) if what.reason.contains("77")));
    expect(&index, &rows, &mut random);
    let path = scratch.path("without");
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let without = opened(&path);
    assert!(refused(&without, &[None, Some(vec![1])]).contains("keeps no payloads"));
    assert!(matches!(without.payloads::<u64>(&[]), Err(Error::Argument { .. })));
}
