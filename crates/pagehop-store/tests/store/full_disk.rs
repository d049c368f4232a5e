//! Every operation on a disk that becomes full while it works: the error says so, and the index has
//! the rows that it had. With free space again, the operation succeeds.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::support::Random;
use crate::support::storage::MemStorage;
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, CreateOptions, Error, Index, Progress, Value, Vectors, create,
};
use pagehop_store::{AddOptions, IndexFile, OpenOptions, StorageSink};

const DIM: usize = 12;
const ROWS: u64 = 1500;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn opened(storage: &MemStorage) -> Index<IndexFile> {
    let options = OpenOptions { write: true, auto_vacuum: None, ..OpenOptions::default() };
    Index::open(IndexFile::open_on(Arc::new(storage.clone()), &options).unwrap()).unwrap()
}

fn columns() -> Vec<Column> {
    vec![Column { name: "n".into(), kind: ColumnKind::Int }]
}

/// Random values and payloads of rows.
fn given(ids: &[u64], random: &mut Random) -> ColumnRows {
    let mut rows = ColumnRows::new(columns()).unwrap();
    ids.iter().for_each(|_| rows.push(&[Value::Int(random.below(5).into())]).unwrap());
    let payload = |_| Some(vec![random.below(256) as u8; random.below(3000) as usize]);
    rows.with_payloads(ids.iter().map(payload).collect())
}

fn add(index: &Index<IndexFile>, ids: std::ops::Range<u64>, seed: u32) -> Result<(), Error> {
    let (ids, mut random): (Vec<u64>, _) = (ids.collect(), Random(seed.into()));
    let vectors: Vec<f32> = (0..ids.len() * DIM).map(|_| random.below(2001) as f32 / 1000.0).collect();
    let given = given(&ids, &mut random);
    let options = AddOptions { threads: 2, ..AddOptions::default() };
    pagehop_store::add_with_columns(index, &ids, &vectors, Some(&given), options, &mut go_on).map(drop)
}

/// An index with dead rows on a disk in memory.
fn new_index() -> (MemStorage, Index<IndexFile>) {
    let storage = MemStorage::default();
    let mut sink = StorageSink::create(Arc::new(storage.clone()), *b"a disk").unwrap();
    let options =
        CreateOptions { vectors: Vectors::Float32, columns: columns(), payload: true, ..CreateOptions::default() };
    create(DIM, &options, &mut sink).unwrap();
    sink.finish().unwrap();
    let index = opened(&storage);
    add(&index, 0..ROWS, 1).unwrap();
    let gone: Vec<u64> = (0..ROWS / 4).collect();
    pagehop_store::delete(&index, &gone, None, &mut go_on).unwrap();
    // The index has no log, because a log would have reserved space.
    index.into_pages().close().unwrap();
    let index = opened(&storage);
    (storage, index)
}

/// The ids, vectors and payloads of all rows.
fn content(index: &Index<IndexFile>) -> (Vec<u64>, Vec<f32>, Vec<Option<Vec<u8>>>) {
    let ids = index.ids(0, usize::MAX).unwrap();
    let (vectors, payloads) = (index.vectors(&ids).unwrap(), index.payloads(&ids).unwrap());
    pagehop_store::check(index, &mut go_on).unwrap();
    (ids, vectors, payloads)
}

/// Does `verb` with more and more space until it succeeds. Fails if it succeeds at once.
#[track_caller]
fn expect_errors_that_change_nothing(verb: &dyn Fn(&Index<IndexFile>) -> Result<(), Error>) {
    let (storage, index) = new_index();
    let before = content(&index);
    let (mut room, mut refusals) = (0, 0);
    loop {
        storage.limit_space(Some(storage.bytes() + room));
        match verb(&index) {
            Ok(()) => break,
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }), "{error:?}");
                assert!(error.to_string().contains("No space left"), "{error}");
                refusals += 1;
            }
        }
        assert!(content(&index) == before, "rows differ after a refusal with {room} bytes");
        room = room * 3 / 2 + 500;
        assert!(refusals < 40, "it never has enough space");
    }
    assert!(refusals > 0, "it needs no space");
    storage.limit_space(None);
    let after = content(&index);
    drop(index);
    assert!(content(&opened(&storage)) == after, "rows differ after it was opened again");
}

#[test]
fn add_and_replace() {
    expect_errors_that_change_nothing(&|index| add(index, ROWS - 50..ROWS + 150, 2));
}

#[test]
fn delete_and_pop() {
    let ids: Vec<u64> = (ROWS / 2..ROWS).collect();
    expect_errors_that_change_nothing(&|index| pagehop_store::delete(index, &ids, None, &mut go_on).map(drop));
    expect_errors_that_change_nothing(&|index| pagehop_store::pop(index, &ids, &mut go_on).map(drop));
}

#[test]
fn updates_of_columns_and_payloads() {
    let ids: Vec<u64> = (ROWS / 2..ROWS).collect();
    expect_errors_that_change_nothing(&|index| {
        pagehop_store::update_columns(index, &ids, &given(&ids, &mut Random(3)), &mut go_on).map(drop)
    });
}

#[test]
fn vacuum() {
    expect_errors_that_change_nothing(&|index| pagehop_store::vacuum(index, &mut go_on).map(drop));
}

#[test]
fn retrain() {
    expect_errors_that_change_nothing(&|index| pagehop_store::retrain(index, &mut go_on));
}

#[test]
fn calibrate() {
    expect_errors_that_change_nothing(&|index| {
        let queries: Vec<f32> = index.vectors(&index.ids(0, 100)?)?;
        pagehop_store::calibrate(index, Some(&queries), 1, &mut go_on).map(|known| assert!(known.is_some()))
    });
}
