//! Several writers insert rows at the same time, and a vacuum removes some, in turns that a seed
//! decides.
//!
//! `PAGEHOP_SIM_SEED=123` replays one seed. `PAGEHOP_SIM_SEEDS=100000` runs that number of seeds.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support;
use crate::support::hosted::{check, row_ids};
use crate::support::sessions::{change, few_seeds, insert, remove, seeds};
use crate::support::{Noise, Rows, embeddings, no_progress, options};
use pagehop_engine::{
    BuildOptions, CheckedPages, Column, ColumnKind, ColumnRows, EachChunk, Error, HostRows, IdKind, Index, Metric,
    Scratch, TrainingHost, Value, VectorSource, build, check_again,
};
use pagehop_sim::{MemPages, SharedHost, SharedSession, SharedWriter, Writes};

/// Rows of an index that has grown beyond its model.
const GROWN: usize = 1033;

/// Rows, each with the values of the columns if there are `values`.
struct Source {
    rows: Rows,
    values: Option<ColumnRows>,
}

impl VectorSource for Source {
    fn dim(&self) -> usize {
        self.rows.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        self.rows.scan(each)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        self.values.as_ref()
    }
}

/// An index of `rows`, with these columns.
fn index_of(rows: Rows, metric: Metric, columns: &[Column]) -> MemPages {
    let values = (!columns.is_empty()).then(|| values_of(&rows.ids, columns));
    let mut source = Source { rows, values };
    let mut pages = MemPages::new();
    let options = BuildOptions { id_kind: IdKind::HostOwned, ..options(metric) };
    build(&mut source, &options, &mut pages, &mut no_progress()).unwrap();
    pages
}

fn values_of(row_ids: &[u64], columns: &[Column]) -> ColumnRows {
    let mut values = ColumnRows::new(columns.to_vec()).unwrap();
    row_ids.iter().for_each(|id| values.push(&self::values(*id, columns)).unwrap());
    values
}

fn tenants() -> Vec<Column> {
    vec![Column { name: "tenant".into(), kind: ColumnKind::Int }]
}

/// The value of a row in the first column.
fn tenant(row_id: u64) -> Value {
    Value::Int((row_id % 3) as i64)
}

/// The values of a row: of a column of tags some have none, some one and some several.
fn values(row_id: u64, columns: &[Column]) -> Vec<Value> {
    let tags = || (0..row_id % 4).map(|at| format!("tag {}", (row_id + at) % 5)).collect();
    let value =
        |column: &Column| if column.kind == ColumnKind::Tags { Value::Tags(tags()) } else { tenant(row_id) };
    columns.iter().map(value).collect()
}

/// The index and the rows of a seed.
struct Life {
    pages: MemPages,
    rows: Rows,
    /// The number of rows that the index begins with; their ids are 1, 2, ...
    built: usize,
    columns: Vec<Column>,
    writers: usize,
    each: usize,
}

impl Life {
    fn new(noise: &mut Noise) -> Self {
        let dim = [8, 20, 72][noise.next() as usize % 3];
        let metric = [Metric::L2, Metric::Cosine, Metric::InnerProduct][noise.next() as usize % 3];
        // With many of the fourth numbers, the only leaf of a column becomes full while the writers
        // insert rows, and they split it.
        let built = [1, 40, 300, 60 + noise.next() as usize % 60][noise.next() as usize % 4];
        let (writers, each) = (2 + noise.next() as usize % 2, 4 + noise.next() as usize % 8);
        let mut rows = Rows::new(dim, embeddings(dim, built + writers * each, noise.next()));
        rows.ids = (1..=(built + writers * each) as u64).collect();
        // Some rows of different writers are equal, and some are equal to rows of the index. For
        // some seeds, most rows are equal to the first: they hang below each other, dead or not.
        let are_most_equal = noise.next().is_multiple_of(4);
        for at in if are_most_equal { 1 } else { built }..built + writers * each {
            if are_most_equal && at % 4 > 0 || noise.next().is_multiple_of(3) {
                let like = if are_most_equal { 0 } else { noise.next() as usize % at };
                let like = rows.row(like).to_vec();
                rows.values[at * dim..][..dim].copy_from_slice(&like);
            }
        }
        let first =
            Rows { ids: rows.ids[..built].to_vec(), values: rows.values[..built * dim].to_vec(), ..rows.clone() };
        let mut columns = if noise.next().is_multiple_of(2) { tenants() } else { Vec::new() };
        if noise.next().is_multiple_of(3) {
            columns.push(Column { name: "tags".into(), kind: ColumnKind::Tags });
        }
        Self { pages: index_of(first, metric, &columns), rows, built, columns, writers, each }
    }

    fn values(&self, row_id: u64) -> Vec<Value> {
        values(row_id, &self.columns)
    }

    /// Runs the writers, and a vacuum beside them if some rows are `dead`. Returns the rows that
    /// must be in the index, and the rows that may be.
    fn run(&self, host: &SharedHost<'_>, dead: &BTreeSet<u64>, known: u64) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let (done, tried) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
        let mut writers: Vec<Writes<'_>> = Vec::new();
        for writer in 0..self.writers {
            let (done, tried) = (&done, &tried);
            writers.push(Box::new(move |session| {
                for at in (0..self.each).map(|i| self.built + writer * self.each + i) {
                    let row_id = self.rows.ids[at];
                    tried.lock().unwrap().insert(row_id);
                    let is_known = (at as u64).is_multiple_of(known);
                    let values = self.values(row_id);
                    if session.statement(|| insert(session, row_id, self.rows.row(at), &values, is_known)) {
                        done.lock().unwrap().insert(row_id);
                    }
                }
            }));
        }
        if !dead.is_empty() {
            writers.push(Box::new(|session| {
                session.statement(|| remove(session, dead));
            }));
        }
        host.run(writers);
        let (mut done, mut tried) = (done.into_inner().unwrap(), tried.into_inner().unwrap());
        let before: BTreeSet<u64> = self.rows.ids[..self.built].iter().copied().collect();
        done.extend(&before - dead);
        tried.extend(before);
        (done, tried)
    }
}

fn verify(pages: &MemPages, query: &[f32], must: &BTreeSet<u64>, may: &BTreeSet<u64>, seed: u64) {
    let found = row_ids(pages, query);
    assert!(found.is_superset(must), "seed {seed} lost {:?}", must - &found);
    assert!(found.is_subset(may), "seed {seed} found {:?}, which were never inserted", &found - may);
}

/// After every step of every writer, `check` accepts the index.
#[test]
fn every_state_between_the_steps_of_several_writers_is_an_index() {
    for seed in few_seeds(15) {
        let mut noise = Noise(seed);
        let life = Life::new(&mut noise);
        let dead = life.rows.ids[..life.built].iter().copied().filter(|_| noise.next().is_multiple_of(4)).collect();
        let states = Mutex::new((0, CheckedPages::default()));
        let after_step = |pages: &MemPages| {
            let (count, checked) = &mut *states.lock().unwrap();
            *count += 1;
            let found = check_again(pages, checked, &mut no_progress()).unwrap();
            // Nodes that writers will anchor with their next step are not anchored yet.
            assert!(found.nodes - found.anchored <= life.writers as u64, "seed {seed}: {found:?}");
            // No edge leads to them.
            assert_eq!(found.reachable, found.anchored, "seed {seed}: {found:?}");
        };
        let host = SharedHost::new(&life.pages, seed).with_after_step(&after_step);
        let (must, may) = life.run(&host, &dead, 2 + seed % 3);
        let pages = host.pages();
        verify(&pages, life.rows.row(0), &must, &may, seed);
        let found = check(&pages);
        assert_eq!((found.anchored, found.reachable), (found.nodes, found.nodes), "seed {seed}: {found:?}");
        assert!(states.into_inner().unwrap().0 > 0);
    }
}

/// A writer is cancelled at one of its steps. The others go on, and later changes work on the pages
/// that it left.
#[test]
fn a_writer_may_be_cancelled_at_any_step() {
    for seed in seeds() {
        let mut noise = Noise(!seed);
        let life = Life::new(&mut noise);
        let dead = life.rows.ids[..life.built].iter().copied().filter(|_| noise.next().is_multiple_of(4)).collect();
        let whole = SharedHost::new(&life.pages, seed);
        life.run(&whole, &dead, 2);
        let host = SharedHost::new(&life.pages, seed).with_failure(noise.next() % whole.steps());
        let (must, mut may) = life.run(&host, &dead, 2);
        let mut pages = host.pages();
        check(&pages);
        verify(&pages, life.rows.row(0), &must, &may, seed);
        support::hosted::change(&mut pages, |change| {
            let values = life.values(1_000_000);
            change.insert_hosted(1_000_000, life.rows.row(0), &values, false, &mut no_progress()).unwrap();
        });
        may.insert(1_000_000);
        support::hosted::remove(&mut pages, &dead);
        support::hosted::vacuum(&mut pages);
        check(&pages);
        let must = &(&must - &dead) | &BTreeSet::from([1_000_000]);
        verify(&pages, life.rows.row(0), &must, &may, seed);
    }
}

/// A session that trains the index and has its rows.
struct Trainer<'s, 'h> {
    session: &'s SharedSession<'h>,
    rows: &'s Rows,
}

impl TrainingHost for Trainer<'_, '_> {
    type Pages<'p> = SharedWriter<'p>;

    fn turn<T>(
        &mut self,
        is_alone: bool,
        work: impl FnOnce(&mut SharedWriter<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if is_alone { self.session.alone(work) } else { self.session.insert(work) }
    }

    fn rows(&mut self, row_ids: &[u64]) -> Result<HostRows, Error> {
        let vectors = row_ids.iter().flat_map(|id| self.rows.row(*id as usize - 1).to_vec()).collect();
        let values = row_ids.iter().map(|id| tenant(*id)).collect();
        Ok(HostRows { row_ids: row_ids.to_vec(), vectors, values })
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        None
    }
}

/// Trains as a vacuum of PostgreSQL does.
fn train(session: &SharedSession<'_>, rows: &Rows) -> Result<bool, Error> {
    let known = Index::open(session).unwrap();
    session.alone(|writer| change(writer, &known, |change| change.give_up_training()))?;
    while session.insert(|writer| change(writer, &known, |change| change.sweep(16)))? {}
    let mut host = Trainer { session, rows };
    let ids = known.host_row_ids(&mut host, &mut no_progress())?;
    let values = values_of(&ids, &tenants());
    let vectors = ids.iter().flat_map(|id| rows.row(*id as usize - 1).to_vec()).collect();
    let mut source = Source { rows: Rows { ids, ..Rows::new(rows.dim, vectors) }, values: Some(values) };
    known.train_beside(&mut source, 1 << 30, &mut host, &mut no_progress())
}

/// Rows, and an index of the first 1,033 of them, which has grown beyond its model. `more` rows
/// follow. Every third of them is equal to an earlier row.
fn grown(more: usize) -> (Rows, MemPages) {
    let (dim, built, grown) = (8, 129, GROWN);
    let mut rows = Rows::new(dim, embeddings(dim, grown + more, 3));
    rows.ids = (1..=(grown + more) as u64).collect();
    (grown..grown + more).filter(|at| at % 3 == 0).for_each(|at| {
        let like = rows.row(at - grown / 2).to_vec();
        rows.values[at * dim..][..dim].copy_from_slice(&like);
    });
    let first =
        Rows { ids: rows.ids[..built].to_vec(), values: rows.values[..built * dim].to_vec(), ..rows.clone() };
    let mut pages = index_of(first, Metric::L2, &tenants());
    for at in built..grown {
        support::hosted::change(&mut pages, |change| {
            let values = [tenant(rows.ids[at])];
            change.insert_hosted(rows.ids[at], rows.row(at), &values, false, &mut no_progress()).unwrap();
        });
    }
    (rows, pages)
}

/// Writers that insert rows free pages of a graph that was replaced, and so does a third session.
/// Each page is freed once.
#[test]
fn writers_free_the_pages_of_a_graph_at_the_same_time() {
    let each = 10;
    let (rows, mut pages) = grown(2 * each);
    support::hosted::change(&mut pages, |change| change.train(&mut no_progress()).unwrap());
    let retired = check(&pages);
    for seed in few_seeds(8) {
        let steps = AtomicU64::new(0);
        let after_step = |pages: &MemPages| {
            if steps.fetch_add(1, Ordering::Relaxed) % 11 == seed % 11 {
                check(pages);
            }
        };
        let host = SharedHost::new(&pages, seed).with_after_step(&after_step);
        let writes = |writer: usize| {
            let rows = &rows;
            move |session: &SharedSession<'_>| {
                for at in (0..each).map(|i| GROWN + writer * each + i) {
                    let row_id = rows.ids[at];
                    assert!(session.statement(|| insert(session, row_id, rows.row(at), &[tenant(row_id)], false)));
                }
            }
        };
        host.run(vec![
            Box::new(writes(0)),
            Box::new(writes(1)),
            Box::new(|session| {
                let known = Index::open(session).unwrap();
                for _ in 0..40 {
                    session.insert(|writer| change(writer, &known, |change| change.sweep(3))).unwrap();
                }
            }),
        ]);
        let mut pages = host.pages();
        while support::hosted::change(&mut pages, |change| change.sweep(64).unwrap()) {}
        let found = check(&pages);
        assert!(found.free_slots > retired.nodes / 2, "seed {seed}: {found:?}");
        let all = rows.ids.iter().copied().collect();
        verify(&pages, rows.row(0), &all, &all, seed);
    }
}

/// Two writers insert rows while a third session tries twice to train the index. For every second
/// seed, one of the sessions is cancelled at a step. The graph that the training leaves has each
/// row once, in any order of their turns.
#[test]
fn writers_insert_rows_while_another_trains() {
    let (grown, each) = (GROWN, 60);
    let (rows, pages) = self::grown(2 * each);
    for seed in few_seeds(8) {
        let steps = AtomicU64::new(0);
        let after_step = |pages: &MemPages| {
            if steps.fetch_add(1, Ordering::Relaxed) % 199 == seed % 199 {
                check(pages);
            }
        };
        let host = SharedHost::new(&pages, seed).with_after_step(&after_step);
        // For every second seed, a step of one of them fails.
        let host = if seed % 2 == 0 { host } else { host.with_failure(seed * 37 % 1200) };
        let (lost, trained) = (Mutex::new(BTreeSet::new()), AtomicU64::new(0));
        let writes = |writer: usize| {
            let (rows, lost) = (&rows, &lost);
            move |session: &SharedSession<'_>| {
                for at in (0..each).map(|i| grown + writer * each + i) {
                    let (row_id, is_known) = (rows.ids[at], at % 7 == 0);
                    if !session.statement(|| insert(session, row_id, rows.row(at), &[tenant(row_id)], is_known)) {
                        lost.lock().unwrap().insert(row_id);
                    }
                }
            }
        };
        host.run(vec![
            Box::new(writes(0)),
            Box::new(writes(1)),
            Box::new(|session| {
                for _ in 0..2 {
                    match session.statement(|| train(session, &rows)) {
                        Ok(done) => _ = trained.fetch_add(done.into(), Ordering::Relaxed),
                        Err(Error::Interrupted) => {}
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
            }),
        ]);
        let mut pages = host.pages();
        let (lost, may) = (lost.into_inner().unwrap(), rows.ids.iter().copied().collect());
        let must = &may - &lost;
        verify(&pages, rows.row(0), &must, &may, seed);
        check(&pages);
        assert_eq!(trained.into_inner(), 1, "seed {seed}");
        support::hosted::remove(&mut pages, &lost);
        (0..3).for_each(|_| pages.writer().commit());
        while support::hosted::change(&mut pages, |change| change.sweep(64).unwrap()) {}
        let found = check(&pages);
        assert_eq!(found.nodes - found.anchored, 0, "seed {seed}: {found:?}");
        verify(&pages, rows.row(0), &must, &must, seed);
    }
}
