//! `ambuild`: the table is read once, the engine builds from what was read, its pages go to the
//! buffer manager and then to the log.
//!
//! A build stays within `maintenance_work_mem`. Rows that do not fit are put aside in temporary
//! files. If there is no room even for the few hundred bytes that stay of each row, the graph is
//! built over a sample of them, and the others are added to it one by one, as INSERT would, but
//! without the log.

use std::ops::ControlFlow;

use pagehop_engine::{BuildOptions, CreateOptions, DIM_MAX, Error, IdKind, Progress, Value, build_memory_bytes};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::pages::sink::{self, BufferSink};
use crate::pages::{open_indexes, replaced, writer};
use crate::rows::columns;
use crate::rows::opclass::{self, Kind};
use crate::rows::sample::{Budget, RowSample};
use crate::rows::spill::Spill;
use crate::rows::{memory, table};
use crate::signals::Signals;
use crate::{calibrate, errors, progress, whole_errors};

/// Rows added between two reports.
const ROWS_PER_REPORT: u64 = 64;

/// `ambuild`.
pub(crate) unsafe extern "C-unwind" fn ambuild(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: PostgreSQL calls this, with a new, empty index, open and locked, and its table.
    unsafe { whole_errors::guard(|| build(heap, index, info)) }
}

/// # Safety
///
/// `index` is new, empty, open and locked, `heap` is its table, open, and `info` says what is to be
/// indexed.
unsafe fn build(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: the caller passes an open index of this access method.
    unsafe { open_indexes::forget(index) };
    progress::begin(progress::SCAN);
    // SAFETY: the caller passes the index, its table, and what is to be indexed.
    let (heap_tuples, budget, rows) = unsafe { read_table(heap, index, info) };
    let index_tuples = rows.len() as f64;
    // SAFETY: the caller passes a new, empty index, open and locked.
    let written = unsafe { write_index(index, &budget, rows) };
    // SAFETY: the index is open.
    written.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
    // SAFETY: all zeros are a valid result, and PostgreSQL frees it.
    let mut result = unsafe { PgBox::<pg_sys::IndexBuildResult>::alloc0() };
    result.heap_tuples = heap_tuples;
    result.index_tuples = index_tuples;
    result.into_pg()
}

/// `ambuildempty`: the empty index that replaces an unlogged one after a crash.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambuildempty(index: pg_sys::Relation) {
    // SAFETY: PostgreSQL passes an open index of this access method, which it has just built.
    let (kind, dim) = unsafe { (Kind::of(index), open_indexes::dimensions(index)) };
    // SAFETY: the index is open.
    let dim = dim.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
    let signals = Signals::block();
    let fork = pg_sys::ForkNumber::INIT_FORKNUM;
    // SAFETY: PostgreSQL passes a locked index whose init fork exists and is empty.
    let written = unsafe { BufferSink::new(index, fork, &signals) }.and_then(|mut sink| {
        // SAFETY: the index is open.
        let filters = unsafe { columns::for_engine(index) };
        pagehop_engine::create(
            dim,
            &CreateOptions {
                metric: kind.metric,
                id_kind: IdKind::HostOwned,
                columns: filters,
                ..CreateOptions::default()
            },
            &mut sink,
        )
    });
    // SAFETY: the index is open and locked, and has the fork. The fork must survive a crash, though
    // the index itself is not logged.
    let logged = written.map(|()| unsafe { sink::log(index, fork) });
    // SAFETY: the index is open.
    logged.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
}

/// Dimensions of the indexed column; an error if an index cannot have as many.
fn within_limit(dim: usize) -> usize {
    if dim > DIM_MAX {
        let what = format!("column cannot have more than {DIM_MAX} dimensions for pagehop index");
        errors::report(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, what, None);
    }
    dim
}

/// Reads the rows to be indexed, in the order of the table. Returns how many rows the table has,
/// and what the build may use. After `ALTER COLUMN ... TYPE vector` the column does not declare its
/// dimensions. Then they come from the first row, or, if there is no row, from the index before the
/// rebuild.
///
/// # Safety
///
/// `index` is open, `heap` is its table, open, and `info` says what is to be indexed.
unsafe fn read_table(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> (f64, Budget, Spill) {
    // SAFETY: the caller keeps the index open.
    let (kind, declared, columns) =
        unsafe { (Kind::of(index), opclass::declared_dimensions(index), columns::for_engine(index)) };
    let begin = |dim: usize| {
        let (bytes, metric, columns_count) = (memory::limit_bytes(), kind.metric, columns.len());
        let dim = within_limit(dim);
        let budget = Budget { bytes, dim, metric, columns: columns_count, threads: threads() };
        (budget, Spill::new(dim, budget.rows_in_memory(), columns.clone()))
    };
    let mut begun = declared.map(begin);
    let mut each = |row_id: u64, vector: &[f32], filters: &[Value]| {
        let (_, rows) = begun.get_or_insert_with(|| begin(vector.len()));
        if vector.len() != rows.dim() {
            let (expected, got) = (rows.dim(), vector.len());
            // SAFETY: the caller keeps the index open.
            unsafe { errors::raise(index, Error::Dimension { expected, got }) };
        }
        rows.add(row_id, vector, filters).unwrap_or_else(|bytes| memory::refuse(bytes));
    };
    // SAFETY: the caller's relations are open.
    let heap_tuples = unsafe { table::read(heap, index, info, &mut each) };
    let (budget, rows) = begun.unwrap_or_else(|| {
        // SAFETY: the caller keeps the index open.
        begin(unsafe { replaced::dimensions(index) }.unwrap_or_else(|| opclass::refuse_dimensions()))
    });
    if declared.is_none() {
        // SAFETY: the caller keeps the index open.
        unsafe { replaced::remember(index, budget.dim) };
    }
    (heap_tuples, budget, rows)
}

/// Builds the index of `rows` into its main fork.
///
/// # Safety
///
/// `index` is new, empty, open and locked.
unsafe fn write_index(index: pg_sys::Relation, budget: &Budget, mut rows: Spill) -> Result<(), Error> {
    let sample = budget.sample(rows.len());
    // SAFETY: the caller keeps the index open.
    let name = unsafe { errors::name(index) };
    if !sample.is_all() {
        let (built, all) = (sample.len(), rows.len());
        errors::notice(
            format!("index \"{name}\" no longer fits into maintenance_work_mem after {built} of {all} rows"),
            "The other rows are added one by one, which takes significantly more time.",
            format!(
                "Increase maintenance_work_mem to {} MB to speed up builds.",
                budget.least(all).div_ceil(1 << 20)
            ),
        );
    }
    // SAFETY: the caller says that the index is new, open and locked.
    unsafe {
        build_graph(index, budget, &mut rows, sample)?;
        if !sample.is_all() {
            add_others(index, &mut rows, sample)?;
        }
        drop(rows);
        calibrate::new_index(index, budget.threads, budget.bytes.max(budget.least(sample.len())))?;
        if sink::needs_wal(index) {
            sink::log(index, pg_sys::ForkNumber::MAIN_FORKNUM);
        }
    }
    Ok(())
}

/// Builds the index of the rows in the sample.
///
/// # Safety
///
/// `index` is new, empty, open and locked.
unsafe fn build_graph(
    index: pg_sys::Relation,
    budget: &Budget,
    rows: &mut Spill,
    sample: RowSample,
) -> Result<(), Error> {
    let options = BuildOptions {
        metric: budget.metric,
        id_kind: IdKind::HostOwned,
        memory_bytes: budget.of_engine(sample.len()),
        threads: budget.threads,
        ..BuildOptions::default()
    };
    let in_memory = build_memory_bytes(sample.len(), budget.dim, budget.threads);
    memory::reserve((in_memory.min(options.memory_bytes) + budget.beside(0)) as usize);
    let signals = Signals::block();
    // SAFETY: the caller says that the index is new, so its main fork is empty.
    let mut sink = unsafe { BufferSink::new(index, pg_sys::ForkNumber::MAIN_FORKNUM, &signals)? };
    if rows.len() == 0 {
        let BuildOptions { metric, id_kind, .. } = options;
        return pagehop_engine::create(
            rows.dim(),
            &CreateOptions { metric, id_kind, columns: rows.columns().to_vec(), ..CreateOptions::default() },
            &mut sink,
        );
    }
    let mut report = |progress: Progress| {
        signals.delivered(|| {
            progress::show(progress);
            pgrx::check_for_interrupts!();
        });
        ControlFlow::Continue(())
    };
    let built = pagehop_engine::build(&mut rows.source(sample, &signals)?, &options, &mut sink, &mut report);
    match built {
        // Rows that are close together, and too many for a partition.
        Err(Error::Memory { needed_bytes, .. }) => {
            drop(signals);
            memory::budget("the build", needed_bytes + budget.beside(sample.len()));
            unreachable!("the engine needs more than the budget");
        }
        built => built.map(|_| ()),
    }
}

/// Adds the rows that are not in the sample to its graph, in the order of the table.
///
/// # Safety
///
/// `index` is new, open and locked, and the graph was built.
unsafe fn add_others(index: pg_sys::Relation, rows: &mut Spill, sample: RowSample) -> Result<(), Error> {
    let (dim, total) = (rows.dim(), (rows.len() - sample.len()) as u64);
    let mut done = 0;
    let filters = rows.take_values();
    let columns = rows.columns().len();
    let mut chunks = rows.chunks();
    // SAFETY: the caller says that the index is open and new: no other backend reads it, and it is
    // logged when it is done.
    unsafe {
        writer::change_unlogged(index, |change| {
            while let Some((first, row_ids, vectors)) = chunks.next() {
                for (i, (row_id, vector)) in row_ids.iter().zip(vectors.chunks_exact(dim)).enumerate() {
                    if sample.contains(first + i) {
                        continue;
                    }
                    let of_row = &filters[(first + i) * columns..][..columns];
                    change.insert_hosted(*row_id, vector, of_row, false, &mut |_| ControlFlow::Continue(()))?;
                    done += 1;
                    if done % ROWS_PER_REPORT == 0 {
                        progress::show(Progress { phase: "add", done, total });
                        pgrx::check_for_interrupts!();
                    }
                }
            }
            Ok(())
        })
    }
}

/// The number of threads of a build: the backend's own and one for each worker that PostgreSQL
/// would allow, but at most the number of cores. They are threads of the backend and not processes,
/// so `max_worker_processes` does not count them.
fn threads() -> usize {
    // SAFETY: a setting of this backend, read by value.
    let workers = unsafe { pg_sys::max_parallel_maintenance_workers } as usize;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (1 + workers).min(cores)
}
