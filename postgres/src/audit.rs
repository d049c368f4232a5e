//! Audits: measures which recall searches find now. This happens on demand, and in VACUUM if enough
//! rows have changed. VACUUM calibrates an index again if its searches find less than their target.

use pagehop_engine::{Audit, CALIBRATED_ROWS_MIN, Effort, Error, Info, OnProgress, Progress, RecallReport};
use pgrx::pg_sys;

use crate::pages::{open_indexes, writer};
use crate::rows::memory;
use crate::{calibrate, errors, options, train};

/// The k of VACUUM's searches, and how many it makes.
const K: usize = 10;
const SAMPLES: usize = 200;
/// VACUUM audits an index when a tenth of its rows, `1 / CHANGED_SHARE`, has changed since the last
/// measurement. When a fifth has, it is calibrated without an audit.
const CHANGED_SHARE: u64 = 10;

/// Number of rows that a measurement uses as queries even if memory is short.
const SAMPLES_MIN: u64 = 12;

/// Measures the recall of searches for `k` rows as this session makes them. The queries are
/// `queries`, one after the other, or else up to `samples` rows of the index. The audit is stored
/// if it `may_store`. Returns the state that the index had before the audit.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
pub(crate) unsafe fn measure(
    index: pg_sys::Relation,
    k: usize,
    (samples, queries): (usize, Option<&[f32]>),
    may_store: bool,
    progress: OnProgress<'_>,
) -> Result<(Info, RecallReport), Error> {
    // SAFETY: the caller keeps the index open.
    let (open, options) = unsafe {
        let open = open_indexes::open(index)?;
        let options = options::search(|k, effort| open.options(k, effort), index, k)?;
        (open, options)
    };
    let info = open.info()?;
    let query_bytes = memory::query_bytes(info.dim, k, info.rows);
    let samples = match queries {
        // More queries would repeat rows.
        None => (memory::limit_bytes() / query_bytes).max(SAMPLES_MIN).min(samples as u64),
        Some(_) => 0,
    };
    let given = queries.map_or(0, |queries| queries.len() / info.dim);
    let count = samples.min(info.rows).max(given as u64);
    memory::budget("measuring the recall", count * query_bytes);
    let report = open.recall(k, samples.min(info.rows) as usize, queries, &options, 1, progress)?;
    if may_store {
        // SAFETY: the caller keeps the index open.
        let audit = Audit::of(&info, k, unsafe { wanted(index, &info) }, &report);
        // A training may have replaced the graph that was measured.
        let is_same = || Ok::<_, Error>(calibrate::graph(&open)? == info.trained_rows);
        // SAFETY: the caller keeps the index open and is not its writer.
        unsafe { writer::change(index, |change| if is_same()? { change.set_audit(audit) } else { Ok(()) })? };
    }
    Ok((info, report))
}

/// The target recall of this session's searches; `None` if they use other settings.
///
/// # Safety
///
/// `index` is open.
unsafe fn wanted(index: pg_sys::Relation, info: &Info) -> Option<f32> {
    // SAFETY: the caller keeps the index open.
    match unsafe { options::target(index) } {
        Some(asked) => Some(asked.recall),
        None => info.default_recall.filter(|_| !options::is_effort_set() && !options::is_exact()),
    }
}

/// Audits an index if enough has changed since it was last measured. If its searches find less than
/// their target, it is calibrated and audited again, and the log has a message. An index that was
/// calibrated by a user's queries is not audited: its rows cannot replace the queries, and the
/// recall of searches for rows is not the recall of searches for the queries.
///
/// # Safety
///
/// `index` is open and of this access method, this backend is not its writer, and `wait` may be
/// called.
pub(crate) unsafe fn changed_index(index: pg_sys::Relation, wait: &mut dyn FnMut()) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open.
    let info = unsafe { open_indexes::open(index)?.info()? };
    // SAFETY: the caller keeps the index open.
    let target = unsafe { wanted(index, &info) };
    let (Some(calibration), Some(target)) = (info.calibrated, target) else { return Ok(()) };
    let is_audited = info.audit.is_some_and(|audit| audit.target == Some(target));
    let audited = info.audited.filter(|_| is_audited).map_or(u64::MAX, |audited| audited.changes);
    let changes = audited.min(calibration.changes);
    if info.rows < CALIBRATED_ROWS_MIN
        || calibration.by_queries
        || changes.saturating_mul(CHANGED_SHARE) < info.rows.max(1)
    {
        return Ok(());
    }
    let query_bytes = memory::query_bytes(info.dim, K, info.rows);
    let all = info.rows.min(SAMPLES as u64) * query_bytes;
    // SAFETY: the caller keeps the index open.
    if unsafe {
        !memory::has_room(index, "audited", SAMPLES_MIN * query_bytes, all)
            || !train::count_own_snapshot(index, "audited")
    } {
        return Ok(());
    }
    let mut wait_and_go_on = |_: Progress| {
        wait();
        std::ops::ControlFlow::Continue(())
    };
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe {
        let Some(found) = undisturbed(index, &mut wait_and_go_on)? else { return Ok(()) };
        let open = open_indexes::open(index)?;
        // If no search of the last calibration reached the recall, another calibration would not
        // reach it either.
        let reached = open.options(K, &Effort::Recall(target))?.reach.of(target);
        if !found.misses(reached) {
            return Ok(());
        }
        let name = errors::name(index);
        let RecallReport { recall, half_interval, .. } = found;
        let missed = format!(
            "searches of index \"{name}\" found {recall:.4} +- {half_interval:.4}, where {target} was asked"
        );
        if !calibrate::by_rows_if_room(index, &mut wait_and_go_on)? {
            pgrx::log!("{missed}");
            return Ok(());
        }
        let missed = format!("{missed}: it was calibrated again");
        match undisturbed(index, &mut wait_and_go_on)? {
            Some(now) => pgrx::log!("{missed}, and they find {:.4} +- {:.4}", now.recall, now.half_interval),
            None => pgrx::log!("{missed}"),
        }
    }
    Ok(())
}

/// The audit of an index by its rows. `None` if no row is left, or if an insertion trained the
/// index during the audit and so replaced the graph.
///
/// # Safety
///
/// As [`measure`].
unsafe fn undisturbed(index: pg_sys::Relation, progress: OnProgress<'_>) -> Result<Option<RecallReport>, Error> {
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe {
        let open = open_indexes::open(index)?;
        let before = calibrate::graph(&open)?;
        let found = measure(index, K, (SAMPLES, None), true, progress);
        if calibrate::graph(&open)? != before {
            return Ok(None);
        }
        match found {
            // All rows were deleted in the meantime.
            Err(Error::Argument { .. }) => Ok(None),
            found => Ok(Some(found?.1)),
        }
    }
}
