//! Calibration: measures which settings reach which recall, and stores them in the index, for
//! `pagehop.recall`.
//!
//! An index is calibrated at the end of its build, when it has grown or changed much, and on
//! demand.

use std::ops::ControlFlow;

use pagehop_engine::{
    CALIBRATED_ROWS_MIN, Calibration, Error, Index, Info, OnProgress, Progress, calibrate_within,
    calibration_memory_bytes, calibration_memory_bytes_min,
};
use pgrx::pg_sys;

use crate::pages::copied::CopiedPages;
use crate::pages::open_indexes::{self, OpenIndex};
use crate::pages::writer;
use crate::rows::memory;
use crate::signals::Signals;
use crate::{errors, progress, train};

/// Calibrates an index at the end of its build, unless it has too few rows, in up to `memory`
/// bytes. It uses `threads` threads if the memory also has room for a copy of the index. If even
/// the fewest samples need more than `memory`, it uses them nevertheless: the build has used more,
/// too.
///
/// # Safety
///
/// `index` is open, new, and its pages are not logged yet.
pub(crate) unsafe fn new_index(index: pg_sys::Relation, threads: usize, memory: u64) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open.
    let open = unsafe { open_indexes::open(index)? };
    let Info { rows, dim, .. } = open.info()?;
    let wanted = calibration_memory_bytes(rows, dim);
    let copied = match threads {
        1 => None,
        _ => CopiedPages::of(open.pages(), memory.saturating_sub(wanted))?,
    };
    let memory = memory.max(calibration_memory_bytes_min(rows, dim));
    memory::reserve(memory.min(wanted) as usize);
    let found = match copied {
        Some(pages) => {
            let signals = Signals::block();
            calibrate_within(&Index::open(pages)?, memory, None, threads, &mut |step| {
                signals.delivered(|| {
                    progress::show(step);
                    go_on(step)
                })
            })?
        }
        None => calibrate_within(&open, memory, None, 1, &mut |step| {
            progress::show(step);
            go_on(step)
        })?,
    };
    let Some(found) = found else { return Ok(()) };
    // SAFETY: the caller says that the index is open and new.
    unsafe { writer::change_unlogged(index, |change| change.set_calibration(found)) }
}

/// Calibrates an index that an insertion made large enough, or whose model was trained again.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
pub(crate) unsafe fn grown_index(index: pg_sys::Relation) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe { by_rows_if_room(index, &mut go_on).map(|_| ()) }
}

/// Calibrates an index by its rows, and returns whether there was memory for that; the log has a
/// line if not.
///
/// # Safety
///
/// As [`grown_index`].
pub(crate) unsafe fn by_rows_if_room(index: pg_sys::Relation, progress: OnProgress<'_>) -> Result<bool, Error> {
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe {
        let Info { rows, dim, .. } = open_indexes::open(index)?.info()?;
        let (least, wanted) = (calibration_memory_bytes_min(rows, dim), calibration_memory_bytes(rows, dim));
        if !memory::has_room(index, "calibrated", least, wanted) {
            return Ok(false);
        }
        measure_and_store(index, None, progress)?;
        Ok(true)
    }
}

/// Calibrates an index that has enough rows, if it was never calibrated, if its model `is_trained`
/// again, or if many rows have changed since. A calibration by a user's queries is kept, since rows
/// do not replace them: the log says that it may no longer hold.
///
/// # Safety
///
/// `index` is open and of this access method, this backend is not its writer, and `wait` may be
/// called.
pub(crate) unsafe fn changed_index(
    index: pg_sys::Relation,
    is_trained: bool,
    wait: &mut dyn FnMut(),
) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open.
    let info = unsafe { open_indexes::open(index)?.info()? };
    let is_due = info.calibrated.is_none_or(|known| is_trained || known.is_outdated());
    if info.rows < CALIBRATED_ROWS_MIN || !is_due {
        return Ok(());
    }
    if let Some(known) = info.calibrated.filter(|known| known.by_queries) {
        // SAFETY: the caller keeps the index open.
        unsafe { say_kept(index, is_trained, known.changes) };
        return Ok(());
    }
    // SAFETY: the caller keeps the index open.
    if unsafe { !train::count_own_snapshot(index, "calibrated") } {
        return Ok(());
    }
    let mut wait_and_go_on = |_| {
        wait();
        ControlFlow::Continue(())
    };
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe { by_rows_if_room(index, &mut wait_and_go_on).map(|_| ()) }
}

/// Logs that an index keeps a calibration by queries, though it `is_trained` again or has changed
/// much.
///
/// # Safety
///
/// `index` is open.
unsafe fn say_kept(index: pg_sys::Relation, is_trained: bool, changes: u64) {
    // SAFETY: the caller keeps the index open.
    let (name, regclass) = unsafe { (errors::name(index), errors::regclass(index)) };
    let since = match is_trained {
        true => "was trained again, which gave it another graph".to_string(),
        false => format!("has had {changes} rows added or deleted"),
    };
    pgrx::log!(
        "index \"{name}\" {since} since it was calibrated by queries: searches may find less than their recall. \
         SELECT pagehop_calibrate({regclass}, queries); measures what they take now"
    );
}

/// Measures with `queries`, or with rows of the index if there are none, and stores the
/// calibration; none if the index has too few rows. The memory of maintenance limits how many rows
/// are used.
///
/// Other sessions may insert rows during the measurement. If an insertion trains the model, it
/// replaces the measured graph, whose pages may be in use again. Then the measurement begins again.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
pub(crate) unsafe fn measure_and_store(
    index: pg_sys::Relation,
    queries: Option<&[f32]>,
    progress: OnProgress<'_>,
) -> Result<Option<Calibration>, Error> {
    // SAFETY: the caller keeps the index open.
    let open = unsafe { open_indexes::open(index)? };
    loop {
        let measured = graph(&open)?;
        let found = calibrate_within(&open, memory::limit_bytes(), queries, 1, progress);
        if graph(&open)? != measured {
            continue;
        }
        let Some(found) = found? else { return Ok(None) };
        let mut stored = false;
        // SAFETY: the caller keeps the index open and is not its writer.
        unsafe {
            writer::change(index, |change| {
                stored = graph(&open)? == measured;
                if stored { change.set_calibration(found.clone()) } else { Ok(()) }
            })?;
        }
        if stored {
            return Ok(Some(found));
        }
    }
}

/// A number that identifies the graph of an index: the rows that it was trained on, which differ
/// between trainings.
pub(crate) fn graph(open: &OpenIndex) -> Result<u64, Error> {
    Ok(open.info()?.trained_rows)
}

/// Continues unless the statement must end.
pub(crate) fn go_on(_: Progress) -> ControlFlow<()> {
    pgrx::check_for_interrupts!();
    ControlFlow::Continue(())
}
