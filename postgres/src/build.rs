//! `ambuild`: the table is read once, the engine builds from what was read, its pages go to the buffer manager and
//! then to the log.
//!
//! A build stays within `maintenance_work_mem`. If the graph of all rows does not fit, it is built over those that do, and
//! the others are added to it one by one, as INSERT would, but for the log.

use std::ffi::c_void;
use std::ops::ControlFlow;

use pagehop_engine::{BuildOptions, Error, Progress, RowIds};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::choice::{Budget, Choice};
use crate::opclass::{self, Kind};
use crate::signals::Signals;
use crate::sink::{self, BufferSink};
use crate::spill::Spill;
use crate::writer::Writer;
use crate::{errors, memory, models, needs_wal, progress, recall, vector};

/// Most dimensions of a column, the engine's limit.
const DIM_MAX: usize = 4096;
/// Rows added between two reports.
const ROWS_PER_REPORT: u64 = 64;

/// `ambuild`.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambuild(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: PostgreSQL passes a new, empty index, open and locked, its table, and what is to be indexed.
    unsafe {
        models::forget(index);
        let (kind, dim) = (Kind::of(index), dimensions(index));
        let budget = Budget { bytes: memory::limit_bytes(), dim, metric: kind.metric, threads: threads() };
        let mut rows = Spill::new(dim, budget.rows_in_memory());
        progress::begin(progress::SCAN);
        let heap_tuples = read_table(heap, index, info, kind, &mut rows);
        let index_tuples = rows.len() as f64;
        if let Err(error) = write_index(index, &budget, rows) {
            errors::raise(index, error);
        }
        let mut result = PgBox::<pg_sys::IndexBuildResult>::alloc0();
        result.heap_tuples = heap_tuples;
        result.index_tuples = index_tuples;
        result.into_pg()
    }
}

/// `ambuildempty`: the index that an unlogged one becomes again after a crash.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambuildempty(index: pg_sys::Relation) {
    // SAFETY: PostgreSQL passes an open, locked index whose init fork exists and is empty.
    let written = unsafe {
        let (kind, dim) = (Kind::of(index), dimensions(index));
        let signals = Signals::block();
        let fork = pg_sys::ForkNumber::INIT_FORKNUM;
        BufferSink::new(index, fork, &signals).and_then(|mut sink| {
            pagehop_engine::create(dim, kind.metric, BuildOptions::default().seed, RowIds::Tids, &mut sink)?;
            // It must be there after a crash, though the index itself is not logged.
            sink::log(index, fork);
            Ok(())
        })
    };
    if let Err(error) = written {
        // SAFETY: the index is open.
        unsafe { errors::raise(index, error) };
    }
}

/// Dimensions of the indexed column, if an index can have them.
///
/// # Safety
///
/// As [`ambuild`].
unsafe fn dimensions(index: pg_sys::Relation) -> usize {
    // SAFETY: the caller has the index open.
    let dim = unsafe { opclass::dimensions(index) };
    if dim > DIM_MAX {
        let what = format!("column cannot have more than {DIM_MAX} dimensions for pagehop index");
        errors::report(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, what, None);
    }
    dim
}

/// What the callback of the table scan works with.
struct Reading<'r> {
    kind: Kind,
    rows: &'r mut Spill,
    vector: Vec<f32>,
    /// Memory of one row.
    context: pg_sys::MemoryContext,
}

/// Reads the rows to be indexed, in the order of the table, and says how many the table has.
///
/// # Safety
///
/// As [`ambuild`].
unsafe fn read_table(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    kind: Kind,
    rows: &mut Spill,
) -> f64 {
    // SAFETY: the callback gets `reading`, which outlives the scan. The scan does not begin where another happens
    // to be (no `allow_sync`), so that the same table gives the same index. An error leaves the context to its
    // parent.
    unsafe {
        let context = pg_sys::AllocSetContextCreateInternal(
            pg_sys::CurrentMemoryContext,
            c"pagehop row".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        let mut reading = Reading { kind, rows, vector: Vec::new(), context };
        let (state, scan) = ((&raw mut reading).cast(), std::ptr::null_mut());
        let tuples = pg_sys::table_index_build_scan(heap, index, info, false, true, Some(read_row), state, scan);
        pg_sys::MemoryContextDelete(context);
        tuples
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn read_row(
    _index: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    is_null: *mut bool,
    _tuple_is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: `read_table` passed its `Reading` as the state, nothing else uses it during the scan, and an index
    // has one column.
    unsafe {
        let Reading { kind, rows, vector, context } = &mut *state.cast::<Reading<'_>>();
        if *is_null {
            return;
        }
        vector.clear();
        let callers = pg_sys::MemoryContextSwitchTo(*context);
        vector::append(*values, kind.element, vector);
        pg_sys::MemoryContextSwitchTo(callers);
        pg_sys::MemoryContextReset(*context);
        if kind.has_place(vector) {
            rows.add(vector::row_id(*tid), vector).unwrap_or_else(|_| memory::refuse(rows.len() * 4 * rows.dim()));
        }
    }
}

/// Builds the index of `rows` into its main fork.
///
/// # Safety
///
/// As [`ambuild`].
unsafe fn write_index(index: pg_sys::Relation, budget: &Budget, mut rows: Spill) -> Result<(), Error> {
    let choice = budget.choose(rows.len(), rows.longest());
    // SAFETY: the caller's promise.
    unsafe {
        if !choice.is_all() {
            let name = errors::name(index);
            let (chosen, all) = (choice.len(), rows.len());
            errors::notice(
                format!("index \"{name}\" no longer fits into maintenance_work_mem after {chosen} of {all} rows"),
                "The other rows are added one by one, which takes significantly more time.",
                format!(
                    "Increase maintenance_work_mem to {} MB to speed up builds.",
                    budget.needed(all).div_ceil(1 << 20)
                ),
            );
        }
        build_graph(index, budget, &mut rows, choice)?;
        if !choice.is_all() {
            add_others(index, &mut rows, choice)?;
        }
        drop(rows);
        recall::calibrate_new(index)?;
        if needs_wal(index) {
            sink::log(index, pg_sys::ForkNumber::MAIN_FORKNUM);
        }
    }
    Ok(())
}

/// Builds the index of the rows that are chosen.
///
/// # Safety
///
/// As [`ambuild`].
unsafe fn build_graph(
    index: pg_sys::Relation,
    budget: &Budget,
    rows: &mut Spill,
    choice: Choice,
) -> Result<(), Error> {
    let options = BuildOptions {
        metric: budget.metric,
        // So many rows were chosen that it is enough, or as few as make an index.
        memory_bytes: u64::MAX,
        threads: budget.threads,
        row_ids: RowIds::Tids,
        ..BuildOptions::default()
    };
    memory::reserve(budget.needed(choice.len()) as usize);
    let signals = Signals::block();
    // SAFETY: the caller's index is new, so its main fork is empty.
    let mut sink = unsafe { BufferSink::new(index, pg_sys::ForkNumber::MAIN_FORKNUM, &signals)? };
    if rows.len() == 0 {
        return pagehop_engine::create(rows.dim(), options.metric, options.seed, options.row_ids, &mut sink);
    }
    let mut report = |progress: Progress| {
        signals.delivered(|| {
            progress::show(progress);
            pgrx::check_for_interrupts!();
        });
        ControlFlow::Continue(())
    };
    pagehop_engine::build(&mut rows.source(choice, &signals), &options, &mut sink, &mut report)?;
    Ok(())
}

/// Adds the rows that are not chosen to the graph of those that are, in the order of the table.
///
/// # Safety
///
/// As [`ambuild`]; the graph was built.
unsafe fn add_others(index: pg_sys::Relation, rows: &mut Spill, choice: Choice) -> Result<(), Error> {
    let (dim, total) = (rows.dim(), (rows.len() - choice.len()) as u64);
    // SAFETY: the caller's index is new, so that nobody else reads it, and is logged when it is done.
    let mut writer = unsafe { Writer::unlogged(index)? };
    let open = writer.index();
    let mut change = open.change(&mut writer)?;
    let mut done = 0;
    let mut chunks = rows.chunks();
    while let Some((first, row_ids, vectors)) = chunks.next() {
        for (i, (row_id, vector)) in row_ids.iter().zip(vectors.chunks_exact(dim)).enumerate() {
            if choice.contains(first + i) {
                continue;
            }
            change.insert_tid(*row_id, vector, false, &mut |_| ControlFlow::Continue(()))?;
            done += 1;
            if done % ROWS_PER_REPORT == 0 {
                progress::show(Progress { phase: "add", done, total });
                pgrx::check_for_interrupts!();
            }
        }
    }
    change.finish()
}

/// Threads to build with: the backend's own and as many as it might have had workers, but no more than there are
/// cores. They are threads of the backend and not processes, so `max_worker_processes` does not count them.
fn threads() -> usize {
    // SAFETY: a setting of this backend, read by value.
    let workers = unsafe { pg_sys::max_parallel_maintenance_workers } as usize;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (1 + workers).min(cores)
}
