//! Automatic vacuum: dead rows stay below a share of the index, the work of a call is in proportion
//! to what it wrote, and readers keep the rows that they see.

use std::ops::ControlFlow;
use std::path::Path;

use crate::support::{Random, Scratch};
use pagehop_engine::{Column, ColumnKind, ColumnRows, CreateOptions, Index, Progress, SearchOptions, Value};
use pagehop_store::{AddOptions, IndexFile, OpenOptions};

const DIM: usize = 8;
const ROWS: u64 = 3000;
/// The number of dead rows beyond the share that is worth a transaction.
const WORTH: u64 = 256;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn opened(path: &Path, auto_vacuum: Option<f32>) -> Index<IndexFile> {
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, auto_vacuum, ..OpenOptions::default() };
    pagehop_store::open(path, &options).unwrap()
}

fn vectors(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    (0..count * DIM).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

fn made(path: &Path, auto_vacuum: Option<f32>) -> Index<IndexFile> {
    pagehop_store::create(path, DIM, &CreateOptions::default(), false).unwrap();
    let index = opened(path, auto_vacuum);
    let ids: Vec<u64> = (0..ROWS).collect();
    pagehop_store::add(&index, &ids, &vectors(ids.len(), 3), AddOptions::default(), &mut go_on).unwrap();
    index
}

fn dead(index: &Index<IndexFile>) -> u64 {
    index.info().unwrap().dead_rows
}

#[test]
fn dead_rows_stay_a_share() {
    let scratch = Scratch::new("auto-vacuum");
    let index = made(&scratch.path("items"), Some(0.1));
    let mut most = 0;
    for round in 0..60u64 {
        let ids: Vec<u64> = (0..50).map(|i| (round * 50 + i) % ROWS).collect();
        if round % 2 == 0 {
            pagehop_store::add(&index, &ids, &vectors(50, round + 9), AddOptions::default(), &mut go_on).unwrap();
        } else {
            pagehop_store::delete(&index, &ids, None, &mut go_on).unwrap();
        }
        most = most.max(dead(&index));
    }
    let rows = index.info().unwrap().rows;
    assert_eq!(rows, ROWS / 2);
    // A transaction frees the nodes that an earlier one took out of the graph: one slice waits for
    // the next.
    assert!((WORTH..ROWS / 10 + 3 * WORTH).contains(&most), "up to {most} of {ROWS} rows were dead");
    assert!(dead(&index) < rows / 10 + 3 * WORTH, "{} of {rows} rows are dead", dead(&index));
    index.check(&mut go_on).unwrap();
}

#[test]
fn updates_of_columns_and_payloads_free_the_old_places() {
    let scratch = Scratch::new("auto-vacuum-updates");
    let path = scratch.path("items");
    let columns = vec![Column { name: "n".into(), kind: ColumnKind::Int }];
    let options = CreateOptions { columns: columns.clone(), payload: true, ..CreateOptions::default() };
    pagehop_store::create(&path, DIM, &options, false).unwrap();
    let index = opened(&path, Some(0.1));
    let ids: Vec<u64> = (0..ROWS).collect();
    pagehop_store::add(&index, &ids, &vectors(ids.len(), 3), AddOptions::default(), &mut go_on).unwrap();
    let (mut most, mut phases, mut pages) = (0, 0, 0);
    for round in 0..100u64 {
        let ids: Vec<u64> = (0..100).map(|i| (round * 100 + i) % ROWS).collect();
        let given = match round % 2 {
            0 => {
                let mut given = ColumnRows::new(columns.clone()).unwrap();
                ids.iter().for_each(|_| given.push(&[Value::Int((round % 7) as i64)]).unwrap());
                given
            }
            _ => ColumnRows::default().with_payloads(vec![Some(vec![round as u8; 50]); ids.len()]),
        };
        let changed = pagehop_store::update_columns(&index, &ids, &given, &mut |progress| {
            phases += u32::from(progress.phase == "vacuum");
            ControlFlow::Continue(())
        });
        assert_eq!(changed.unwrap(), 100);
        most = most.max(dead(&index));
        if round == 59 {
            pages = index.info().unwrap().pages;
        }
    }
    assert!(phases > 0);
    assert!((WORTH..ROWS / 10 + 3 * WORTH).contains(&most), "up to {most} of {ROWS} rows were dead");
    let after = index.info().unwrap().pages;
    assert!(after <= pages + pages / 20, "{pages} pages after each row changed twice, {after} after three times");
    // A stop takes back the slice, and not the update.
    let payload = vec![Some(b"stopped".to_vec())];
    let given = ColumnRows::default().with_payloads(payload.clone());
    let changed = pagehop_store::update_columns(&index, &[7], &given, &mut |_| ControlFlow::Break(()));
    assert_eq!((changed.unwrap(), index.payloads(&[7]).unwrap()), (1, payload));
    index.check(&mut go_on).unwrap();
}

#[test]
fn off_leaves_dead_rows_alone() {
    let scratch = Scratch::new("auto-vacuum-off");
    let index = made(&scratch.path("items"), None);
    pagehop_store::delete(&index, &(0..2000).collect::<Vec<_>>(), None, &mut go_on).unwrap();
    assert_eq!(dead(&index), 2000);
    assert_eq!(pagehop_store::pop(&index, &[2500], &mut go_on).unwrap().len(), DIM);
    assert_eq!(dead(&index), 2001);
}

#[test]
fn one_call_works_in_proportion_to_what_it_wrote() {
    let scratch = Scratch::new("auto-vacuum-debt");
    let path = scratch.path("items");
    drop(made(&path, None));
    let index = opened(&path, None);
    pagehop_store::delete(&index, &(0..2000).collect::<Vec<_>>(), None, &mut go_on).unwrap();
    drop(index);
    let index = opened(&path, Some(0.0));
    let (mut phases, before) = (0, index.pages().counters().commits);
    pagehop_store::delete(&index, &[2000], None, &mut |progress| {
        phases += u32::from(progress.phase == "vacuum");
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(index.pages().counters().commits, before + 2, "the delete, and one slice of vacuum");
    assert!(phases > 0);
    // A stop undoes the slice of vacuum, but not the delete.
    let left = dead(&index);
    pagehop_store::delete(&index, &[2001], None, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((index.info().unwrap().rows, dead(&index)), (998, left + 1));
    pagehop_store::pop(&index, &(2002..2600).collect::<Vec<_>>(), &mut go_on).unwrap();
    assert!(dead(&index) < left + 600 - WORTH, "{} dead rows of {left} before", dead(&index));
    index.check(&mut go_on).unwrap();
}

#[test]
fn readers_keep_the_rows_that_they_see() {
    let scratch = Scratch::new("auto-vacuum-readers");
    let path = scratch.path("items");
    let index = made(&path, Some(0.05));
    let query = vectors(1, 3);
    let reader = pagehop_store::open(&path, &OpenOptions::default()).unwrap();
    let mut cursor = reader.cursor(&query, &SearchOptions::default()).unwrap();
    let first = cursor.next_hit().unwrap().unwrap();
    assert_eq!(first.row_id, 0);
    let ids: Vec<u64> = (0..ROWS).collect();
    for batch in ids.chunks(100) {
        pagehop_store::delete(&index, batch, None, &mut go_on).unwrap();
    }
    assert_eq!(index.info().unwrap().rows, 0);
    assert_eq!(dead(&index), ROWS, "a reader sees them");
    let mut seen = 1;
    while cursor.next_hit().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, ROWS);
    // Nothing can be freed. Only calls that find 256 more dead rows try again.
    let rows: Vec<u64> = (ROWS..ROWS + 300).collect();
    pagehop_store::add(&index, &rows, &vectors(rows.len(), 8), AddOptions::default(), &mut go_on).unwrap();
    let mut looks = 0;
    for row in &rows {
        let before = index.pages().counters().commits;
        pagehop_store::delete(&index, &[*row], None, &mut go_on).unwrap();
        looks += index.pages().counters().commits - before - 1;
    }
    assert!((1..=2).contains(&looks), "{looks} of 300 calls");
    drop(cursor);
    drop(reader);
    pagehop_store::vacuum(&index, &mut go_on).unwrap();
    assert_eq!(dead(&index), 0);
}
