//! Training by VACUUM: an index that has grown far beyond the rows that its model was trained on is
//! built again over all of them, from the vectors of the table.
//!
//! The rows are read, and the new graph is computed and written, while other sessions insert rows.
//! The training stays within `maintenance_work_mem`. This backend has the index alone three times,
//! for a step or two: to begin the graph, to let insertions write into it, too, and to show it
//! (`index/change/beside.rs` in the engine).

use std::ops::ControlFlow;
use std::rc::Rc;

use pagehop_engine::{Error, HostRows, Scratch, TrainingHost, Value, build_memory_bytes};
use pgrx::pg_sys;

use crate::errors;
use crate::held_interrupts::HeldInterrupts;
use crate::pages::open_indexes::{self, OpenIndex};
use crate::pages::writer::{self, Writer};
use crate::rows::sample::Budget;
use crate::rows::spill::Spill;
use crate::rows::{columns, memory, opclass::Kind, table};
use crate::signals::Signals;
use crate::temp_files::TempFiles;

/// Position of `ProcArrayLock` among the named locks, in PostgreSQL 17 and 18.
const PROC_ARRAY_LOCK: usize = 4;
// The bindings do not have the number. Another one would be another lock, so look it up in
// `storage/lwlocklist.h` of each new server.
const _: () = assert!(pg_sys::PG_VERSION_NUM < 190_000);
/// Most blocks of a table that are read between two tests of the cost limits of vacuum.
const BLOCKS_PER_WAIT: u32 = 64;
/// About the most rows that are read between two such tests: a row may be in several blocks of
/// TOAST.
const ROWS_PER_WAIT: usize = 128;
/// Bytes of a row id in a list that grows.
const ROW_ID_BYTES: usize = 3 * size_of::<u64>();
/// Milliseconds that a cancelled training waits for the lock of the index, to give the training up.
const GIVE_UP_MS: i32 = 1000;

/// How a training ended.
enum Outcome {
    /// The index was trained with this many rows.
    Trained(usize),
    /// It has no rows, or another training came first.
    NotNeeded,
    Lacks(Lack),
}

/// What a training has too little of.
enum Lack {
    /// The setting that limits memory, which would have to allow this many bytes.
    Setting(u64),
    /// Memory that the system gives, by this many bytes at once.
    System(usize),
    /// Disk space, or something else that is full, in the engine's words.
    Space(String),
}

/// Trains the model of an index again if the index has grown enough, and returns whether it did. A
/// lack of memory or disk space is not an error, because a vacuum that failed each time would leave
/// dead rows and old transaction ids. The user of a VACUUM gets a warning then, and for autovacuum
/// the log has a line.
///
/// # Safety
///
/// `index` is open and of this access method, `heap` is its table, open and locked as by a vacuum,
/// this backend is not the writer of the index, and `wait` may be called.
pub(crate) unsafe fn grown_index(
    index: pg_sys::Relation,
    heap: pg_sys::Relation,
    wait: &mut dyn FnMut(),
) -> Result<bool, Error> {
    // SAFETY: the caller keeps both open and is not the writer of the index.
    unsafe {
        if !open_indexes::open(index)?.wants_training()? {
            return Ok(false);
        }
        match trained(index, heap, wait)? {
            Outcome::Trained(count) => {
                let name = errors::name(index);
                pgrx::log!("index \"{name}\" was trained again with {count} rows");
                Ok(true)
            }
            Outcome::NotNeeded => Ok(false),
            Outcome::Lacks(lack) => {
                say_not_trained(index, lack);
                Ok(false)
            }
        }
    }
}

/// # Safety
///
/// As [`grown_index`].
unsafe fn trained(
    index: pg_sys::Relation,
    heap: pg_sys::Relation,
    wait: &mut dyn FnMut(),
) -> Result<Outcome, Error> {
    // SAFETY: the caller keeps the index open.
    let (open, dim, metric, filters) = unsafe {
        let open = open_indexes::open(index)?;
        (open, open_indexes::dimensions(index)?, Kind::of(index).metric, columns::for_engine(index))
    };
    let budget = Budget { bytes: memory::limit_bytes(), dim, metric, columns: filters.len(), threads: 1 };
    let exceeds = |rows| (!budget.sample(rows).is_all()).then(|| Outcome::Lacks(Lack::Setting(budget.least(rows))));
    let refused = |bytes: usize| (!memory::is_given(bytes)).then_some(Outcome::Lacks(Lack::System(bytes)));
    // The ids of the rows take memory, too, and there are more of them than nodes if rows share
    // nodes.
    let rows = open.info()?.rows as usize;
    if let Some(lacks) = exceeds(rows).or_else(|| refused(rows * ROW_ID_BYTES)) {
        return Ok(lacks);
    }
    // SAFETY: the caller keeps both open and is not the writer of the index.
    let mut host = unsafe {
        if !count_own_snapshot(index, "trained") {
            return Ok(Outcome::NotNeeded);
        }
        Host::new(index, heap, wait)
    };
    let known = open.host_row_ids(&mut host, &mut |_| {
        pgrx::check_for_interrupts!();
        ControlFlow::Continue(())
    })?;
    let in_memory = budget.rows_in_memory();
    let aside = Spill::file_bytes(known.len(), dim, in_memory);
    if let Some(lacks) = exceeds(known.len()).or_else(|| host.lacks_space(aside)) {
        return Ok(lacks);
    }
    let (mut rows, mut missing) = (Spill::new(dim, in_memory, filters), None);
    host.read_all(&known, &mut |row_id, vector, values| {
        if missing.is_none()
            && let Err(bytes) = rows.add(row_id, vector, values)
        {
            missing = Some(bytes);
            rows = Spill::new(dim, 0, Vec::new());
        }
    });
    // The system may have less than `maintenance_work_mem`.
    let (count, engine) = (rows.len(), budget.of_engine(rows.len()));
    let lacks = match missing {
        None => refused(build_memory_bytes(count, dim, 1).min(engine) as usize),
        Some(bytes) => Some(Outcome::Lacks(Lack::System(bytes))),
    };
    match lacks {
        Some(lacks) => Ok(lacks),
        None if count == 0 => Ok(Outcome::NotNeeded),
        None => train(&open, &mut rows, &budget, &mut host),
    }
}

/// The block of the table that has a row.
fn block(row_id: u64) -> u32 {
    (row_id >> 16) as u32
}

/// Trains with rows that were read.
fn train(open: &OpenIndex, rows: &mut Spill, budget: &Budget, host: &mut Host<'_>) -> Result<Outcome, Error> {
    let (count, engine) = (rows.len(), budget.of_engine(rows.len()));
    let signals = Signals::leave();
    let held = Rc::new(HeldInterrupts::hold());
    host.held = Some(Rc::clone(&held));
    let mut go_on = |_| held.look();
    let trained = open.train_beside(&mut rows.source(budget.sample(count), &signals)?, engine, host, &mut go_on);
    host.held = None;
    drop(signals);
    // A training that another one has overtaken is not an error. A cancel still counts then.
    if held.is_ended() {
        held.end_statement();
    }
    drop(held);
    match trained {
        Ok(true) => Ok(Outcome::Trained(count)),
        Ok(false) => Ok(Outcome::NotNeeded),
        // Rows that are close together, and too many for a partition.
        Err(Error::Memory { needed_bytes, .. }) if needed_bytes > engine => {
            Ok(Outcome::Lacks(Lack::Setting(needed_bytes + budget.beside(count))))
        }
        Err(Error::Memory { needed_bytes, .. }) => Ok(Outcome::Lacks(Lack::System(needed_bytes as usize))),
        Err(Error::Full { what, .. }) => Ok(Outcome::Lacks(Lack::Space(what))),
        Err(error) => Err(error),
    }
}

/// Reports that a training was left out: to the user of a VACUUM, or in the log.
///
/// # Safety
///
/// `index` is open.
unsafe fn say_not_trained(index: pg_sys::Relation, lack: Lack) {
    // SAFETY: the caller keeps the index open.
    let (name, sql_name) = unsafe { (errors::name(index), errors::sql_name(index)) };
    let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
    let (why, hint) = match lack {
        Lack::Setting(bytes) => (
            format!("{} is too small to train it again", memory::setting()),
            format!(
                "SET maintenance_work_mem = '{}MB'; and run VACUUM again, or REINDEX INDEX CONCURRENTLY {sql_name};",
                megabytes(bytes)
            ),
        ),
        Lack::System(bytes) => (
            format!("the system does not give {} MB to train it again", megabytes(bytes as u64)),
            format!(
                "Lower {}, or look at the limits on the server's memory. The next VACUUM tries it again.",
                memory::setting()
            ),
        ),
        Lack::Space(what) => (
            format!("there is no room to train it again: {what}"),
            "Free disk space, or raise temp_file_limit if that is set. The next VACUUM tries it again.".to_string(),
        ),
    };
    let message = format!("the model of index \"{name}\" was trained with far fewer rows, and {why}");
    if memory::is_autovacuum() {
        pgrx::log!("{message}. {hint}");
    } else {
        errors::warn(message, hint);
    }
}

/// Makes other backends respect the snapshot of this vacuum; by default they ignore the snapshots
/// of vacuums. Then rows that this vacuum reads, and graphs that it searches, are not removed until
/// it ends. Returns whether this was possible. Under `REPEATABLE READ` it is not, because the
/// transaction would get its first snapshot again. A warning then says that the index was not
/// `done`, for example `"trained"`.
///
/// The old snapshot may see rows whose vectors were removed from TOAST since it was taken, so a new
/// one replaces it. In a parallel vacuum the old one stays: workers that start take it over from
/// this backend, which then must still have it.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn count_own_snapshot(index: pg_sys::Relation, done: &str) -> bool {
    // SAFETY: a value of this backend; the caller keeps the index open.
    unsafe {
        if pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 {
            let message =
                format!("index \"{}\" was not {done}: the transaction keeps its snapshot", errors::name(index));
            let hint = "SET default_transaction_isolation = 'read committed'; and run VACUUM again.".to_string();
            errors::warn(message, hint);
            return false;
        }
    }
    // SAFETY: the entries of this backend in shared memory are changed under the lock with which
    // other backends read them, as `vacuum_rel` does. The active snapshot is the one that
    // `vacuum_rel` pushed, and `vacuum_rel` pops whichever snapshot is active at the end.
    unsafe {
        if u32::from((*pg_sys::MyProc).statusFlags) & pg_sys::PROC_IN_VACUUM == 0 {
            return true;
        }
        let is_renewed = pg_sys::ActiveSnapshotSet() && !pg_sys::IsInParallelMode();
        if is_renewed {
            pg_sys::PopActiveSnapshot();
            pg_sys::InvalidateCatalogSnapshot();
        }
        let lock = &raw mut (*pg_sys::MainLWLockArray.add(PROC_ARRAY_LOCK)).lock;
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        (*pg_sys::MyProc).statusFlags &= !(pg_sys::PROC_IN_VACUUM as u8);
        let at = (*pg_sys::MyProc).pgxactoff as usize;
        *(*pg_sys::ProcGlobal).statusFlags.add(at) = (*pg_sys::MyProc).statusFlags;
        pg_sys::LWLockRelease(lock);
        if is_renewed {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        true
    }
}

/// The table, as the engine's host.
struct Host<'w> {
    index: pg_sys::Relation,
    heap: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    temp_files: TempFiles,
    /// Sleeps as the cost limits of vacuum require.
    wait: &'w mut dyn FnMut(),
    /// Number of turns so far that had to be alone.
    alone: u32,
    /// The interrupts that are held while the engine trains.
    held: Option<Rc<HeldInterrupts>>,
    /// See [`TrainingHost::left_out`].
    left_out: u64,
    ring: pg_sys::BufferAccessStrategy,
}

impl<'w> Host<'w> {
    /// # Safety
    ///
    /// `index` and `heap`, its table, are open and stay so while this lives, and this backend is
    /// not the writer of the index.
    unsafe fn new(index: pg_sys::Relation, heap: pg_sys::Relation, wait: &'w mut dyn FnMut()) -> Self {
        // SAFETY: the caller keeps the index open.
        let (info, temp_files) = unsafe { (pg_sys::BuildIndexInfo(index), TempFiles::of(index)) };
        // SAFETY: the current memory context, which it is allocated in, lives as long as the vacuum
        // of the index.
        let ring = unsafe { pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_BULKWRITE) };
        Self { index, heap, info, temp_files, wait, alone: 0, held: None, left_out: 0, ring }
    }

    /// Reads the rows of `wanted`, in ascending order, each once, at the pace of vacuum.
    fn read_all(&mut self, wanted: &[u64], each: table::EachRow<'_>) {
        let mut rest = wanted;
        while let Some(first) = rest.first().map(|row_id| block(*row_id)) {
            let near = rest.partition_point(|row_id| block(*row_id) - first < BLOCKS_PER_WAIT);
            let last = block(rest[near.min(ROWS_PER_WAIT) - 1]);
            let (part, others) = rest.split_at(rest.partition_point(|row_id| block(*row_id) <= last));
            (self.wait)();
            self.read(part, (first, last - first + 1), each);
            rest = others;
        }
    }

    /// Reads the rows of `wanted`, in ascending order, that are in some blocks of the table, each
    /// once.
    fn read(&mut self, wanted: &[u64], blocks: (u32, u32), each: table::EachRow<'_>) {
        let mut is_read = vec![false; wanted.len()];
        let is_wanted = |row_id| wanted.binary_search(&row_id).is_ok();
        let mut each = |row_id: u64, vector: &[f32], values: &[Value]| {
            if let Ok(at) = wanted.binary_search(&row_id)
                && !std::mem::replace(&mut is_read[at], true)
            {
                each(row_id, vector, values);
            }
        };
        // SAFETY: the caller of `new` keeps both open. The horizon by which the read left rows out
        // is at most the one that follows.
        unsafe {
            table::read_blocks(self.heap, self.index, self.info, blocks, &is_wanted, &mut each);
            self.left_out = self.left_out.max(writer::before_horizon(self.heap));
        }
    }
}

impl Host<'_> {
    /// The space that is lacking on the disk, or within `temp_file_limit`, for `aside` bytes of
    /// rows in files. If there is enough, counts the bytes as used.
    fn lacks_space(&mut self, aside: u64) -> Option<Outcome> {
        self.temp_files.keep_to_limit(0);
        if let Some(free) = self.temp_files.free_bytes().filter(|free| *free < aside) {
            let (needed, free) = (aside.div_ceil(1 << 20), free >> 20);
            let what = format!("its rows need {needed} MiB of temporary files, {free} MiB are free");
            return Some(Outcome::Lacks(Lack::Space(what)));
        }
        self.temp_files.keep_to_limit(aside);
        None
    }

    /// Waits for the next turn.
    fn next_turn(&mut self, is_alone: bool) -> Result<Writer, Error> {
        // From the second turn alone to the last, insertions do twice the work.
        if self.alone < 2 {
            (self.wait)();
        }
        self.alone += u32::from(is_alone);
        // SAFETY: the caller of `new` keeps the index open, and this backend is not its writer. The
        // ring lives as long as this host, and so longer than the writer.
        unsafe { Ok(writer::turn(self.index, is_alone)?.through(self.ring)) }
    }

    /// Ends a turn whose work is done.
    fn end_turn(&self, writer: Writer) {
        drop(writer);
        if self.alone == 1 {
            // The whole pages that this turn wrote fill the log's buffers, and insertions would
            // wait for room there.
            // SAFETY: no lock is held; the position is the end of a record of this backend.
            unsafe { pg_sys::XLogFlush(pg_sys::XactLastRecEnd) };
        }
    }

    /// Takes a turn after a cancel, for example to give the training up. Does not wait long for it:
    /// insertions can continue beside a training that has ended, and the next vacuum gives it up.
    fn last_turn<T>(
        &self,
        held: &HeldInterrupts,
        is_alone: bool,
        work: impl FnOnce(&mut Writer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // SAFETY: the caller of `new` keeps the index open, and this backend is not its writer.
        let free = unsafe { writer::turn_if_free(self.index, is_alone)? };
        // SAFETY: the index is open, and this backend got no turn and is still not its writer.
        let later = || unsafe { writer::turn(self.index, is_alone) };
        let writer = match free {
            Some(writer) => writer,
            None => held.serve_within(GIVE_UP_MS, later).unwrap_or(Err(Error::Interrupted))?,
        };
        // SAFETY: the ring lives as long as this host, and so longer than the writer.
        work(&mut unsafe { writer.through(self.ring) })
    }
}

impl TrainingHost for Host<'_> {
    type Pages<'p> = Writer;

    fn turn<T>(&mut self, is_alone: bool, work: impl FnOnce(&mut Writer) -> Result<T, Error>) -> Result<T, Error> {
        let Some(held) = self.held.clone() else {
            let mut writer = self.next_turn(is_alone)?;
            let done = work(&mut writer);
            self.end_turn(writer);
            return done;
        };
        if held.is_ended() {
            return self.last_turn(&held, is_alone, work);
        }
        let mut writer = held.serve(|| self.next_turn(is_alone)).unwrap_or(Err(Error::Interrupted))?;
        // A cancel ends the work and not the writer, which then gives its lock back.
        let done = held.serve(|| work(&mut writer)).unwrap_or(Err(Error::Interrupted));
        self.end_turn(writer);
        done
    }

    fn rows(&mut self, row_ids: &[u64]) -> Result<HostRows, Error> {
        let mut found = HostRows::default();
        for of_block in row_ids.chunk_by(|a, b| a >> 16 == b >> 16) {
            self.read(of_block, (block(of_block[0]), 1), &mut |row_id, vector, values| {
                found.row_ids.push(row_id);
                found.vectors.extend_from_slice(vector);
                found.values.extend_from_slice(values);
            });
        }
        Ok(found)
    }

    /// Rows that no snapshot of this server sees. A snapshot of a standby may see them.
    fn left_out(&self) -> u64 {
        self.left_out
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        Some(&self.temp_files)
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: `new` made it, and no writer has it any more.
            unsafe { pg_sys::FreeAccessStrategy(self.ring) };
        }
    }
}
