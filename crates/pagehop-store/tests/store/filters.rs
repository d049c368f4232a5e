//! Searches with filters beside a writer, in its process and in another one: each search is of one
//! commit.
//!
//! The rows are of five kinds, by their ids:
//!
//! ```text
//! steady   are never touched
//! redrawn  get other values of another column, and other vectors; `n` stays
//! pairs    exchange the values of `n`: always one of a pair has 10 and the other 11
//! twins    one of the two is there: a transaction deletes one and adds the other
//! more     are added, and stay
//! ```
//!
//! The other process is this program, which starts itself again.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{Random, Scratch, this_command};
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, Comparison, CreateOptions, Error, Filter, Index, Pages, SearchOptions,
    SearchPlan, Value,
};
use pagehop_store::{
    AddOptions, IndexFile, OpenOptions, add_with_columns, create, delete, open, update_columns, vacuum,
};

/// The path of the index, for a child.
const CHILD: &str = "PAGEHOP_TEST_FILTERS";
const DIM: usize = 6;
/// The number of values of `n` in all rows except pairs and twins.
const KINDS: u64 = 5;
const STEADY: std::ops::Range<u64> = 0..200;
const REDRAWN: std::ops::Range<u64> = 1000..1060;
/// The ids of pairs: an even id and the next id are a pair.
const PAIRS: std::ops::Range<u64> = 2000..2040;
const TWINS: std::ops::Range<u64> = 3000..3020;
const MORE: u64 = 10_000;
/// The values of `n` in pairs, and the value in twins.
const OF_PAIRS: [i64; 2] = [10, 11];
const OF_TWINS: i64 = 20;
/// Rounds of changes; each round has several commits.
const ROUNDS: u64 = 40;
const ROWS_OF_A_ROUND: u64 = 25;

fn columns(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column { name: (*name).into(), kind: ColumnKind::Int }).collect()
}

fn packed(names: &[&str], rows: &[Vec<Value>]) -> ColumnRows {
    let mut packed = ColumnRows::new(columns(names)).unwrap();
    rows.iter().for_each(|row| packed.push(row).unwrap());
    packed
}

fn vector(random: &mut Random) -> Vec<f32> {
    (0..DIM).map(|_| random.below(1 << 20) as f32 / (1 << 20) as f32).collect()
}

/// `n` of a row that is not in pairs or twins.
fn n_of(id: u64) -> i64 {
    (id % KINDS) as i64
}

fn add_rows(index: &Index<IndexFile>, rows: &[(u64, i64)], random: &mut Random) -> Result<(), Error> {
    let ids: Vec<u64> = rows.iter().map(|row| row.0).collect();
    let vectors: Vec<f32> = rows.iter().flat_map(|_| vector(random)).collect();
    let value = |random: &mut Random| Value::Int(random.below(100).into());
    let values: Vec<Vec<Value>> = rows.iter().map(|row| vec![Value::Int(row.1), value(random)]).collect();
    let values = packed(&["n", "x"], &values);
    add_with_columns(
        index,
        &ids,
        &vectors,
        Some(&values),
        AddOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    )
    .map(drop)
}

fn new_index(path: &Path) -> Index<IndexFile> {
    create(path, DIM, &CreateOptions { columns: columns(&["n", "x"]), ..CreateOptions::default() }, false).unwrap();
    let index = open(path, &OpenOptions { write: true, log_bytes: 2 << 20, ..OpenOptions::default() }).unwrap();
    let mut random = Random(1);
    // The model is trained with these few rows, and again while searches run.
    let mut rows: Vec<(u64, i64)> = PAIRS.map(|id| (id, OF_PAIRS[id as usize % 2])).collect();
    rows.extend(TWINS.step_by(2).map(|id| (id, OF_TWINS)));
    add_rows(&index, &rows, &mut random).unwrap();
    let rows: Vec<(u64, i64)> = STEADY.chain(REDRAWN).map(|id| (id, n_of(id))).collect();
    add_rows(&index, &rows, &mut random).unwrap();
    index
}

/// One round of changes.
fn change(index: &Index<IndexFile>, round: u64) {
    let mut random = Random(round);
    let more = MORE + round * ROWS_OF_A_ROUND;
    let more: Vec<(u64, i64)> = (more..more + ROWS_OF_A_ROUND).map(|id| (id, n_of(id))).collect();
    add_rows(index, &more, &mut random).unwrap();
    // Other values in a column that no filter names, and other vectors.
    let (updated, replaced): (Vec<u64>, Vec<u64>) = REDRAWN.partition(|id| (id + round).is_multiple_of(2));
    let values: Vec<Vec<Value>> = updated.iter().map(|_| vec![Value::Int(random.below(100).into())]).collect();
    let mut go_on = |_| ControlFlow::Continue(());
    update_columns(index, &updated, &packed(&["x"], &values), &mut go_on).unwrap();
    let replaced: Vec<(u64, i64)> = replaced.into_iter().map(|id| (id, n_of(id))).collect();
    add_rows(index, &replaced, &mut random).unwrap();
    let ids: Vec<u64> = PAIRS.collect();
    let n = |id: &u64| vec![Value::Int(OF_PAIRS[(id + round) as usize % 2])];
    update_columns(index, &ids, &packed(&["n"], &ids.iter().map(n).collect::<Vec<_>>()), &mut go_on).unwrap();
    exchange_twins(index, round, &mut random);
    if round.is_multiple_of(3) {
        vacuum(index, &mut |_| ControlFlow::Continue(())).unwrap();
    }
    if round.is_multiple_of(7) {
        index.pages().checkpoint().unwrap();
    }
}

fn exchange_twins(index: &Index<IndexFile>, round: u64, random: &mut Random) {
    let is_there = |id: &u64| (id + round) % 2 == 1;
    let (gone, new): (Vec<u64>, Vec<u64>) = TWINS.partition(is_there);
    let vectors: Vec<f32> = new.iter().flat_map(|_| vector(random)).collect();
    let values: Vec<Vec<Value>> = new.iter().map(|_| vec![Value::Int(OF_TWINS), Value::Null]).collect();
    let mut transaction = index.pages().begin().unwrap();
    let mut change = index.change(&mut transaction).unwrap();
    assert_eq!(change.delete(&gone).unwrap().deleted, gone.len() as u64);
    let values = packed(&["n", "x"], &values);
    change.add(&new, &vectors, Some(&values), &mut |_| ControlFlow::Continue(())).unwrap();
    change.finish().unwrap();
    transaction.commit().unwrap();
}

fn n_is(comparison: Comparison, n: i64) -> Filter {
    Filter::Compare("n".into(), comparison, Value::Int(n))
}

/// A filter, the rows that every search with it must find in each commit, and whether it also finds
/// rows that were added since.
fn filter_and_rows(random: &mut Random) -> (Filter, BTreeSet<u64>, bool) {
    let kept = || STEADY.chain(REDRAWN);
    let some: Vec<u64> = kept().filter(|_| random.below(8) == 0).collect();
    let n = n_of(random.below(5).into());
    match random.below(7) {
        0 => (n_is(Comparison::Equal, n), kept().filter(|id| n_of(*id) == n).collect(), true),
        1 => (n_is(Comparison::LessOrEqual, n), kept().filter(|id| n_of(*id) <= n).collect(), true),
        2 | 3 => (Filter::Ids(some.clone()), some.into_iter().collect(), false),
        4 => {
            let filter = Filter::And(vec![Filter::Ids(some.clone()), n_is(Comparison::NotEqual, n)]);
            (filter, some.into_iter().filter(|id| n_of(*id) != n).collect(), false)
        }
        5 => {
            let filter = Filter::Or(vec![Filter::Ids(some.clone()), n_is(Comparison::Equal, n)]);
            let either = kept().filter(|id| n_of(*id) == n || some.contains(id)).collect();
            (filter, either, true)
        }
        _ => (
            Filter::Not(Box::new(n_is(Comparison::Greater, n))),
            kept().filter(|id| n_of(*id) <= n).collect(),
            true,
        ),
    }
}

/// Searches until `is_done`. Returns the number of searches.
fn search(index: &Index<IndexFile>, seed: u64, is_done: &mut dyn FnMut() -> bool) -> u64 {
    let (mut random, mut searches) = (Random(seed), 0);
    let mut searcher = index.searcher();
    while !is_done() {
        let query = vector(&mut random);
        let mut found = |filter: &Filter, k, options: Option<&SearchOptions>| -> Vec<u64> {
            let plan = searcher.plan_filter(filter).unwrap_or_else(|error| panic!("{filter:?}: {error}"));
            let how = options.cloned().map_or_else(SearchPlan::exact, SearchPlan::from);
            let result = searcher.answer(&query, k, &how, Some(&plan));
            let result = result.unwrap_or_else(|error| panic!("{filter:?}: {error}"));
            result.hits.iter().map(|hit| hit.row_id).collect()
        };
        let (filter, rows, has_more) = filter_and_rows(&mut random);
        let hits = found(&filter, 100_000, None);
        let distinct: BTreeSet<u64> = hits.iter().copied().collect();
        assert_eq!(distinct.len(), hits.len(), "{filter:?}: a row twice in {hits:?}");
        let missing: Vec<&u64> = rows.difference(&distinct).collect();
        assert!(missing.is_empty(), "{filter:?}: {missing:?} are missing of {}", rows.len());
        let more: Vec<&u64> = distinct.difference(&rows).collect();
        let passes = |id: &&&u64| has_more && ***id >= MORE && is_n(&filter, n_of(***id));
        assert_eq!(more.iter().filter(passes).count(), more.len(), "{filter:?} does not pass all of {more:?}");
        let k = rows.len().min(1 + random.below(30) as usize);
        let some = found(&filter, k.max(1), Some(&SearchOptions::default()));
        assert_eq!(some.len(), k.max(usize::from(has_more)), "{filter:?}: {some:?}");
        let passes = |id: &&u64| rows.contains(id) || has_more && **id >= MORE && is_n(&filter, n_of(**id));
        assert_eq!(some.iter().filter(passes).count(), some.len(), "{filter:?} does not pass all of {some:?}");
        // One row of each pair, and one of each two twins.
        let half = |ids: std::ops::Range<u64>| ids.map(|id| id / 2).step_by(2).collect::<Vec<u64>>();
        let of_pairs = n_is(Comparison::Equal, OF_PAIRS[random.below(2) as usize]);
        for (filter, ids) in
            [(of_pairs, PAIRS), (n_is(Comparison::Equal, OF_TWINS), TWINS), (Filter::Ids(TWINS.collect()), TWINS)]
        {
            let mut hits = found(&filter, 100_000, None);
            hits.iter_mut().for_each(|id| *id /= 2);
            hits.sort_unstable();
            assert_eq!(hits, half(ids), "{filter:?} finds one of each");
        }
        searches += 1;
    }
    searches
}

/// Whether rows with this `n` pass the filter, for the filters that find rows which were added.
fn is_n(filter: &Filter, n: i64) -> bool {
    match filter {
        Filter::Compare(_, Comparison::Equal, Value::Int(with)) => n == *with,
        Filter::Compare(_, Comparison::LessOrEqual, Value::Int(with)) => n <= *with,
        Filter::Compare(_, Comparison::Greater, Value::Int(with)) => n > *with,
        Filter::Not(part) => !is_n(part, n),
        Filter::Or(parts) => parts.iter().any(|part| is_n(part, n)),
        _ => false,
    }
}

/// Runs as a child: searches until its input ends.
#[test]
fn child_searches() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let index = open(Path::new(&path), &OpenOptions { ..OpenOptions::default() }).unwrap();
    let done = AtomicBool::new(false);
    println!("answer: open");
    let searches = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::io::stdin().lines().for_each(drop);
            done.store(true, Ordering::Relaxed);
        });
        search(&index, 77, &mut || done.load(Ordering::Relaxed))
    });
    println!("answer: {searches}");
}

#[test]
fn filtered_searches_are_of_one_commit() {
    let scratch = Scratch::new("filters");
    let path = scratch.path("items");
    let index = new_index(&path);
    let mut command = this_command();
    command.args(["--exact", "filters::child_searches", "--nocapture"]).env(CHILD, &path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut hear = || lines.find_map(|line| line.split_once("answer: ").map(|(_, answer)| answer.to_owned()));
    assert_eq!(hear().as_deref(), Some("open"));
    let (done, searches) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (index, done, searches) = (&index, &done, &searches);
            scope.spawn(move || {
                let mut is_done = || done.load(Ordering::Relaxed);
                searches.fetch_add(search(index, seed, &mut is_done), Ordering::Relaxed);
            });
        }
        let write = || (1..=ROUNDS).for_each(|round| change(&index, round));
        let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
        done.store(true, Ordering::Relaxed);
        written.unwrap();
    });
    drop(child.stdin.take());
    let of_child: u64 = hear().expect("the child printed the number of its searches").parse().unwrap();
    assert!(child.wait().unwrap().success());
    println!("{searches:?} searches beside the writer's, {of_child} in another process");
    assert!(searches.into_inner() > 0 && of_child > 0);
    index.check(&mut |_| ControlFlow::Continue(())).unwrap();
    // A vacuum leaves nothing of deleted and replaced rows.
    delete(&index, &TWINS.collect::<Vec<_>>(), None, &mut |_| ControlFlow::Continue(())).unwrap();
    vacuum(&index, &mut |_| ControlFlow::Continue(())).unwrap();
    vacuum(&index, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(index.info().unwrap().dead_rows, 0);
    search_once_more(&index);
}

fn search_once_more(index: &Index<IndexFile>) {
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(&n_is(Comparison::GreaterOrEqual, i64::MIN)).unwrap();
    let hits = searcher.answer(&[0.5; DIM], 100_000, &SearchPlan::exact(), Some(&plan)).unwrap().hits;
    assert_eq!(hits.len() as u64, index.info().unwrap().rows);
    assert!(index.pages().page_count() > 0);
}
