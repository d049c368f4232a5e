//! Kills a writing process at random moments, on the real file system. Afterwards every batch that
//! it acknowledged must be in the index, and no partial batch.
//!
//! The writer is this test program, started again with an environment variable set. The content of
//! batch n follows from n alone, so the parent knows what the index must have. While the writer
//! writes, a reader beside it searches. `PAGEHOP_KILLS=500` kills 500 writers; `./dev lives` notes
//! the count in `docs/durability.md`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagehop_engine::{CreateOptions, Filter, IdKind, Index, Metric, SearchOptions, create};
use pagehop_sim::Rng;
use pagehop_sim::document::{grouped, put};
use pagehop_sim::workload::columns::{Given, columns, filter, payload, values};
use pagehop_sim::workload::ids::{are_texts, texts, with_texts};
use pagehop_sim::workload::{Row, compare};
use pagehop_store::{Durability, IndexFile, NewIndexFile, OpenOptions};

const CHILD: &str = "PAGEHOP_KILL_CHILD";
const DIM: usize = 24;
const COLUMNS: usize = 3;
const KILLS: u64 = 40;
/// Longest time until a writer is killed, in microseconds.
const LIFE_US: usize = 80_000;
/// Some writers get this many times `LIFE_US`. Otherwise a slow batch would never finish.
const LONG_LIFE: usize = 6;
const VACUUM_MOST: u64 = 40;
/// Below this number of rows, every batch adds rows.
const ROWS_MIN: usize = 100;
const ROWS_MAX: usize = 600;

type Rows = BTreeMap<u64, Row>;

fn vector(rng: &mut Rng) -> Arc<[f32]> {
    (0..DIM).map(|_| (rng.next_u64() >> 40) as f32 / (1 << 22) as f32 - 2.0).collect()
}

/// Filters over the rows, which have ids below 5000.
fn filters(rng: &mut Rng) -> Vec<Filter> {
    (0..3).map(|_| filter(COLUMNS, 2, &mut |rng| rng.below(5000) as u64, rng)).collect()
}

/// All columns, and payloads.
fn all() -> Given {
    Given { columns: (0..COLUMNS).collect(), payloads: true }
}

/// The change of a batch.
enum Batch {
    Add(Vec<u64>, Vec<Row>),
    Update(Vec<u64>, Vec<Row>),
    Delete(Vec<u64>),
    Vacuum,
}

/// Batch `number`. Applies it to `rows`, which must be the rows after the previous batch.
fn batch(number: u64, rows: &mut Rows) -> Batch {
    let mut rng = Rng::new(number ^ 0x6b11);
    let kind = if rows.len() < ROWS_MIN { 0 } else { rng.below(7) };
    let known: Vec<u64> = rows.keys().copied().collect();
    match kind {
        0..3 if rows.len() < ROWS_MAX => {
            let count = 1 + rng.below(30);
            let ids: Vec<u64> = (0..count).map(|_| rng.below(5000) as u64).collect();
            let new = ids.iter().map(|_| Row {
                vector: vector(&mut rng),
                values: values(COLUMNS, &mut rng),
                payload: payload(&mut rng),
            });
            let new: Vec<Row> = new.collect();
            rows.extend(ids.iter().copied().zip(new.iter().cloned()));
            Batch::Add(ids, new)
        }
        6 => {
            let ids: Vec<u64> = (0..1 + rng.below(20)).map(|_| known[rng.below(known.len())]).collect();
            let new = ids.iter().map(|id| {
                let row = rows.get_mut(id).expect("it is known");
                (row.values, row.payload) = (values(COLUMNS, &mut rng), payload(&mut rng));
                row.clone()
            });
            Batch::Update(ids.clone(), new.collect())
        }
        5 => Batch::Vacuum,
        _ => {
            let ids: Vec<u64> = (0..1 + rng.below(20)).map(|_| known[rng.below(known.len())]).collect();
            ids.iter().for_each(|id| drop(rows.remove(id)));
            Batch::Delete(ids)
        }
    }
}

fn options(write: bool, seed: u64) -> OpenOptions {
    let mut rng = Rng::new(seed);
    OpenOptions {
        cache_bytes: [64 << 13, 1 << 24][rng.below(2)],
        direct: Some(rng.one_in(2)),
        write,
        durability: [Durability::Commit, Durability::Checkpoint][rng.below(2)],
        log_bytes: [30 << 10, 200 << 10, 64 << 20][rng.below(3)],
        ..OpenOptions::default()
    }
}

/// The writer. It continues after the last batch in the index, and prints each batch before and
/// after its commit.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (path, seed) = path.rsplit_once('#').expect("a path and a seed were given");
    let seed = seed.parse().unwrap();
    let mut out = std::io::stdout().lock();
    let pages = IndexFile::open(Path::new(path), &options(true, seed)).unwrap();
    let index = Index::open(&pages).unwrap();
    let (done, are_texts) = (index.info().unwrap().mark[0], are_texts(&index).unwrap());
    let mut rows = Rows::new();
    (1..=done).for_each(|number| drop(batch(number, &mut rows)));
    let mut rng = Rng::new(seed ^ 1);
    for number in done + 1.. {
        let mut transaction = pages.begin().unwrap();
        let mut change = index.change(&mut transaction).unwrap();
        match batch(number, &mut rows) {
            Batch::Add(ids, new) => {
                let components: Vec<f32> = new.iter().flat_map(|row| row.vector.iter().copied()).collect();
                let values = all().of(new.iter()).unwrap();
                let (values, progress) = (values.as_ref(), &mut |_| ControlFlow::Continue(()));
                match are_texts {
                    true => change.add(&texts(&ids), &components, values, progress).unwrap(),
                    false => change.add(&ids, &components, values, progress).unwrap(),
                };
            }
            Batch::Update(ids, new) => {
                let values = all().of(new.iter()).unwrap().unwrap();
                match are_texts {
                    true => change.update_columns(&texts(&ids), &values).unwrap(),
                    false => change.update_columns(&ids, &values).unwrap(),
                };
            }
            Batch::Delete(ids) if are_texts => drop(change.delete(&texts(&ids)).unwrap()),
            Batch::Delete(ids) => drop(change.delete(&ids).unwrap()),
            Batch::Vacuum => drop(change.vacuum(VACUUM_MOST, &mut |_| ControlFlow::Continue(())).unwrap()),
        }
        change.set_mark([number, seed]);
        change.finish().unwrap();
        writeln!(out, "\nbegin {number}").unwrap();
        transaction.commit().unwrap();
        writeln!(out, "\ndone {number}").unwrap();
        if rng.one_in(20) {
            pages.checkpoint().unwrap();
        }
    }
}

fn spawn(path: &Path, seed: u64) -> Child {
    // Started with the emulator that runs this program, if there is one.
    let emulator = std::env::var_os("PAGEHOP_TEST_EMULATOR").map(PathBuf::from);
    let words: Vec<_> = emulator.into_iter().chain([std::env::current_exe().unwrap()]).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["child", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{}#{seed}", path.display()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap()
}

/// Reads by a process that is open beside the writer, until `end`. The version must never decrease,
/// and results must be sorted. Returns the number of searches.
fn read_beside(reader: &IndexFile, rng: &mut Rng, end: Instant) -> u64 {
    let index = Index::open(reader).unwrap();
    let (mut searches, mut newest) = (0, 0);
    while Instant::now() < end {
        let hits = index.search_with(&vector(rng), 10, &SearchOptions::default()).unwrap().hits;
        assert!(hits.windows(2).all(|pair| pair[0].distance <= pair[1].distance), "{hits:?}");
        let mark = index.info().unwrap().mark[0];
        assert!(mark >= newest, "a reader sees batch {mark} after batch {newest}");
        newest = mark;
        searches += 1;
    }
    searches
}

/// Runs a writer until a random moment, and a reader beside it. Returns the last batch whose commit
/// it began, the last batch that it acknowledged, and the number of the reader's searches.
fn life(path: &Path, seed: u64, reader: Option<&IndexFile>, rng: &mut Rng) -> (Option<u64>, Option<u64>, u64) {
    let mut child = spawn(path, seed);
    let out = child.stdout.take().expect("it is a pipe");
    let lines = std::thread::spawn(move || {
        let (mut begun, mut done) = (None, None);
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let number = |word: &str| line.strip_prefix(word)?.parse().ok();
            begun = number("begin ").or(begun);
            done = number("done ").or(done);
        }
        (begun, done)
    });
    let most = LIFE_US * if rng.one_in(12) { LONG_LIFE } else { 1 };
    let end = Instant::now() + Duration::from_micros(rng.below(most) as u64);
    let searches = reader.map_or(0, |reader| read_beside(reader, rng, end));
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(ended.is_none(), "seed {seed}: the writer ended by itself: {errors}");
    let (begun, done) = lines.join().unwrap();
    (begun, done, searches)
}

/// Compares everything about the index and returns its last batch. If a writer was killed while it
/// made a batch visible, the first reader makes the rest visible.
fn verified(pages: &IndexFile, rng: &mut Rng, who: &str) -> u64 {
    let info = Index::open(pages).and_then(|index| index.info()).unwrap_or_else(|error| panic!("{who}: {error}"));
    let (mark, are_texts) = (info.mark[0], info.id_kind == IdKind::Text);
    let mut rows = Rows::new();
    (1..=mark).for_each(|number| drop(batch(number, &mut rows)));
    let filters = filters(rng).into_iter().map(|filter| if are_texts { with_texts(&filter) } else { filter });
    let compared = compare(pages, Metric::L2, &vector(rng), filters.collect(), mark, &rows);
    compared.unwrap_or_else(|what| panic!("{who}: batch {mark}: {what}"));
    mark
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[test]
fn batches_that_a_killed_writer_acknowledged_survive() {
    let kills =
        std::env::var("PAGEHOP_KILLS").map_or(KILLS, |kills| kills.parse().expect("PAGEHOP_KILLS is a number"));
    let (newest, searches) = survive(IdKind::Int, kills);
    let text = format!(
        "{} writers killed at random moments, {} batches acknowledged, {} searches by readers beside them. 0 violations.",
        grouped(kills),
        grouped(newest),
        grouped(searches)
    );
    println!("{text}");
    if let Ok(document) = std::env::var("PAGEHOP_KILLS_DOCUMENT") {
        let of = std::env::var("PAGEHOP_KILLS_OF").unwrap_or_default();
        put(Path::new(&document), "kills", &format!("{of}: {text}")).unwrap();
    }
}

#[test]
fn batches_of_rows_with_text_ids_survive_likewise() {
    survive(IdKind::Text, KILLS / 2);
}

/// Kills writers of an index with ids of this kind. Returns the last batch and the number of the
/// readers' searches.
fn survive(id_kind: IdKind, kills: u64) -> (u64, u64) {
    let name = format!("pagehop-kill-{}-{}", id_kind.name(), std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("rows.pagehop");
    let mut sink = NewIndexFile::create(&path, false).unwrap();
    let made = CreateOptions { id_kind, columns: columns(COLUMNS), payload: true, ..CreateOptions::default() };
    create(DIM, &made, &mut sink).unwrap();
    sink.finish().unwrap();
    // The newest batch that is known to be in the index, and the newest that may appear when the
    // next writer recovers: the batch in progress.
    let (mut newest, mut possible, mut reader, mut rng, mut searches) = (0, 0, None, Rng::new(7), 0);
    for kill in 0..kills {
        if rng.one_in(3) {
            reader = Some(IndexFile::open(&path, &options(false, rng.next_u64())).unwrap());
        }
        let seed = rng.next_u64() >> 1;
        let (begun, done, more) = life(&path, seed, reader.as_ref(), &mut rng);
        searches += more;
        let context = format!("kill {kill}, writer {seed}, in {}", folder.0.display());
        let (least, most) = (done.unwrap_or(newest), begun.or(done).unwrap_or(possible));
        // A reader that was open during the kill sees what was acknowledged. Later it never sees
        // less.
        let mut seen = least;
        if let Some(reader) = &reader {
            seen = verified(reader, &mut rng, &format!("{context}: a reader that stayed open"));
            assert!((least..=most).contains(&seen), "{context}: a reader sees {seen}, expected {least} to {most}");
        }
        let write = rng.one_in(2);
        let pages =
            IndexFile::open(&path, &options(write, rng.next_u64())).unwrap_or_else(|e| panic!("{context}: {e}"));
        newest = verified(&pages, &mut rng, &context);
        assert!(
            (seen..=most).contains(&newest),
            "{context}: found {newest}, expected {least} to {most}, {seen} was seen"
        );
        possible = if write { newest } else { most };
        if let Some(reader) = reader.as_ref().filter(|_| write) {
            let seen = verified(reader, &mut rng, &format!("{context}: a reader, after the recovery"));
            assert_eq!(seen, newest, "{context}: a reader that stayed open does not see what was recovered");
        }
        if rng.one_in(2) {
            pages.close().unwrap_or_else(|error| panic!("{context}: closing: {error}"));
        }
        if rng.one_in(3) {
            reader = None;
        }
    }
    // On a slow machine, a writer has time for few batches before it is killed.
    assert!(newest > kills / 8, "{newest} batches in {kills} lives");
    (newest, searches)
}
