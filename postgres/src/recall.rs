//! Recall as a setting: measured at the end of a build or on demand, stored in the index, looked up by `pagehop.recall`; and
//! audited. The queries are rows of the index, or real ones.

use std::ops::ControlFlow;

use pagehop_engine::index::{CALIBRATED_ROWS_MIN, OnProgress, RECALLS};
use pagehop_engine::{Audit, Calibration, Error, Info, Measured, Progress, RecallReport};
use pgrx::pg_sys;

use crate::inspect::{self, Inspected, integer};
use crate::models::OpenIndex;
use crate::opclass::{Element, Kind};
use crate::writer::Writer;
use crate::{errors, models, options, progress};

crate::sql_function!(pagehop_calibrate, pg_finfo_pagehop_calibrate, |call| {
    // SAFETY: PostgreSQL calls it as the extension's script declares it: rows from one argument, a strict `regclass`.
    unsafe { calibrate(call, None) }
});
crate::sql_function!(pagehop_calibrate_vectors, pg_finfo_pagehop_calibrate_vectors, |call| {
    // SAFETY: as above, and from a second argument, an array of `vector` that is not null.
    unsafe { calibrate(call, queries(call, 1, Element::F32)) }
});
crate::sql_function!(pagehop_calibrate_halfvecs, pg_finfo_pagehop_calibrate_halfvecs, |call| {
    // SAFETY: the same of `halfvec`.
    unsafe { calibrate(call, queries(call, 1, Element::F16)) }
});
crate::sql_function!(pagehop_calibration, pg_finfo_pagehop_calibration, |call| {
    // SAFETY: as above.
    unsafe { calibration(call) }
});
crate::sql_function!(pagehop_recall, pg_finfo_pagehop_recall, |call| {
    // SAFETY: PostgreSQL calls it as declared: a row from a `regclass` and two numbers, all strict.
    unsafe {
        let samples = pgrx::fcinfo::pg_getarg::<i32>(call, 2).and_then(|count| usize::try_from(count).ok());
        recall(call, samples.unwrap_or(0), None)
    }
});
crate::sql_function!(pagehop_recall_vectors, pg_finfo_pagehop_recall_vectors, |call| {
    // SAFETY: PostgreSQL calls it as declared: a row from a `regclass`, a number and an array of `vector`, all strict.
    unsafe { recall(call, 0, queries(call, 2, Element::F32)) }
});
crate::sql_function!(pagehop_recall_halfvecs, pg_finfo_pagehop_recall_halfvecs, |call| {
    // SAFETY: the same of `halfvec`.
    unsafe { recall(call, 0, queries(call, 2, Element::F16)) }
});

/// Real queries, if rows are not to stand for them.
type Queries = Option<Vec<Vec<f32>>>;

/// Calibrates an index whose build is about to end. One of few rows is not.
///
/// # Safety
///
/// `index` is open, new, and its pages are not logged yet.
pub(crate) unsafe fn calibrate_new(index: pg_sys::Relation) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let mut writer = unsafe { Writer::unlogged(index)? };
    let open = writer.index();
    let Some(found) = open.calibrate(&[], 1, &mut |step| {
        progress::show(step);
        go_on(step)
    })?
    else {
        return Ok(());
    };
    let mut change = open.change(&mut writer)?;
    change.set_calibration(found)?;
    change.finish()
}

/// Calibrates an index that has grown by an insertion: it became large enough, or its model was trained anew.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
pub(crate) unsafe fn calibrate_grown(index: pg_sys::Relation) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { measure_and_store(index, &None, &mut go_on).map(|_| ()) }
}

/// Calibrates an index if it never was and is large enough, or if much has changed since. One that was calibrated by a user's queries is
/// left as it is: rows are no substitute for them.
///
/// # Safety
///
/// As [`calibrate_grown`]; `wait` may be called in between.
pub(crate) unsafe fn calibrate_changed(index: pg_sys::Relation, wait: &mut dyn FnMut()) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let info = unsafe { models::open(index)?.info()? };
    let is_due = info.calibration.is_none_or(|known| known.is_outdated() && !known.by_queries);
    if info.rows < CALIBRATED_ROWS_MIN || !is_due {
        return Ok(());
    }
    let mut wait_and_go_on = |_| {
        wait();
        ControlFlow::Continue(())
    };
    // SAFETY: the caller's promise.
    unsafe { measure_and_store(index, &None, &mut wait_and_go_on).map(|_| ()) }
}

/// The vectors of an argument; NULL among them is passed over.
///
/// # Safety
///
/// `call` is of a function whose argument `at` is an array, not null, of the type that `element` names.
unsafe fn queries(call: pg_sys::FunctionCallInfo, at: usize, element: Element) -> Queries {
    // SAFETY: the caller's promise; PostgreSQL allocates the list in the memory context of the call.
    unsafe {
        let datum = pgrx::fcinfo::pg_getarg_datum(call, at).expect("the function is strict");
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let (mut length, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign((*array).elemtype, &raw mut length, &raw mut by_value, &raw mut align);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array,
            (*array).elemtype,
            length.into(),
            by_value,
            align,
            &raw mut values,
            &raw mut nulls,
            &raw mut count,
        );
        let vector = |at| {
            let mut vector = Vec::new();
            crate::vector::append(*values.add(at), element, &mut vector);
            vector
        };
        Some((0..count as usize).filter(|at| !*nulls.add(*at)).map(vector).collect())
    }
}

/// Those of `queries` that have a place in an index, one after the other; there is one, if there are queries.
///
/// # Safety
///
/// `index` is open and of this access method.
unsafe fn placed(index: pg_sys::Relation, dim: usize, queries: &Queries) -> Result<Vec<f32>, Error> {
    // SAFETY: the caller's promise.
    let kind = unsafe { Kind::of(index) };
    let mut placed = Vec::new();
    let Some(queries) = queries else { return Ok(placed) };
    for query in queries.iter().filter(|query| kind.has_place(query)) {
        if query.len() != dim {
            return Err(Error::Dimension { expected: dim, got: query.len() });
        }
        placed.extend_from_slice(query);
    }
    if placed.is_empty() {
        return Err(Error::argument("there is no query that has a place in it"));
    }
    Ok(placed)
}

/// `pagehop_calibrate(regclass)`, and with `queries`.
///
/// # Safety
///
/// `call` is of a function with a first argument, a `regclass` that is not null, and rows as its result.
unsafe fn calibrate(call: pg_sys::FunctionCallInfo, queries: Queries) -> pg_sys::Datum {
    // SAFETY: the caller's promise. The index is open until it is closed. Nobody waits while it is measured: what is
    // stored then is what was there.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(c"pagehop_calibrate()".as_ptr());
        pg_sys::PreventCommandDuringRecovery(c"pagehop_calibrate()".as_ptr());
        let inspected = Inspected::open(call, pg_sys::ACL_MAINTAIN);
        let found =
            measure_and_store(inspected.index, &queries, &mut go_on).unwrap_or_else(|error| inspected.raise(error));
        if found.is_none() {
            let name = errors::name(inspected.index);
            pgrx::notice!(
                "index \"{name}\" has fewer than {CALIBRATED_ROWS_MIN} rows: with pagehop.recall it is searched to its end"
            );
        }
        inspected.close();
        rows(call, found)
    }
}

/// # Safety
///
/// `index` is open and of this access method.
unsafe fn measure_and_store(
    index: pg_sys::Relation,
    queries: &Queries,
    progress: OnProgress<'_>,
) -> Result<Option<Calibration>, Error> {
    // SAFETY: the caller's promise.
    let open = unsafe { models::open(index)? };
    // SAFETY: as above.
    let queries = unsafe { placed(index, open.info()?.dim, queries)? };
    let Some(found) = open.calibrate(&queries, 1, progress)? else { return Ok(None) };
    // SAFETY: as above.
    let mut writer = unsafe { Writer::new(index)? };
    let open = writer.index();
    let mut change = open.change(&mut writer)?;
    change.set_calibration(found.clone())?;
    change.finish()?;
    Ok(Some(found))
}

/// `pagehop_calibration(regclass)`.
///
/// # Safety
///
/// `call` is of a function with one argument, a `regclass` that is not null, and rows as its result.
unsafe fn calibration(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let inspected = Inspected::open(call, pg_sys::ACL_SELECT);
        let stored = models::open(inspected.index).and_then(|open| open.calibration());
        let stored = stored.unwrap_or_else(|error| inspected.raise(error));
        inspected.close();
        rows(call, stored)
    }
}

/// `pagehop_recall(regclass, k, samples)`, or with `queries` instead.
///
/// # Safety
///
/// `call` is of a function with a `regclass` and an `int4` first, neither of them null, and a row as its result.
unsafe fn recall(call: pg_sys::FunctionCallInfo, samples: usize, queries: Queries) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let k = pgrx::fcinfo::pg_getarg::<i32>(call, 1).and_then(|k| usize::try_from(k).ok()).unwrap_or(0);
        let inspected = Inspected::open(call, pg_sys::ACL_SELECT);
        let measure = |open: OpenIndex| {
            let options = options::search(&open, inspected.index, k)?;
            let info = open.info()?;
            let some = placed(inspected.index, info.dim, &queries)?;
            let report = open.recall(k, samples, &some, &options, 1, &mut go_on)?;
            if inspected.may_store() {
                store(inspected.index, Audit::of(&info, k, options::target(), &report))?;
            }
            warn(&errors::name(inspected.index), &info, &report, queries.is_some());
            Ok(report)
        };
        let report = models::open(inspected.index).and_then(measure);
        let report = report.unwrap_or_else(|error| inspected.raise(error));
        inspected.close();
        let RecallReport { recall, interval, samples, hops, far } = report;
        let [recall, interval, hops] = [recall, interval, hops].map(real).map(Some);
        inspect::row(call, [recall, interval, Some(integer(samples)), hops, far.map(real)])
    }
}

/// Stores what an audit found, for `pagehop_info`.
///
/// # Safety
///
/// `index` is open, of this access method, and may be changed.
unsafe fn store(index: pg_sys::Relation, audit: Audit) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let mut writer = unsafe { Writer::new(index)? };
    let open = writer.index();
    let mut change = open.change(&mut writer)?;
    change.set_audit(audit)?;
    change.finish()
}

/// Warns of a recall that this session asks for and does not get, or may not.
fn warn(name: &str, info: &Info, report: &RecallReport, by_queries: bool) {
    let Some(target) = options::target() else { return };
    let with = if by_queries { ", and with queries like these as its second argument by them" } else { "" };
    let hint = format!("SELECT pagehop_calibrate('{name}'); measures anew what each recall takes{with}.");
    let RecallReport { recall, interval, .. } = report;
    if report.misses(target) {
        let what = format!(
            "searches of index \"{name}\" with pagehop.recall = {target} find {recall:.4} +- {interval:.4}"
        );
        errors::warn(what, hint);
    } else if let Some(known) = info.calibration.filter(Measured::is_outdated) {
        let Measured { rows, changes, .. } = known;
        let what = format!(
            "{changes} rows were added to index \"{name}\" or deleted since it was calibrated at {rows}: searches may find \
             less than pagehop.recall"
        );
        errors::warn(what, hint);
    }
}

/// Returns what an index is calibrated to, a row for each number of neighbors and recall.
///
/// # Safety
///
/// `call` is of a function whose result is rows, materialized.
unsafe fn rows(call: pg_sys::FunctionCallInfo, calibration: Option<Calibration>) -> pg_sys::Datum {
    // SAFETY: the caller's promise; PostgreSQL copies the values, which are of the columns' types.
    unsafe {
        pg_sys::InitMaterializedSRF(call, 0);
        let result = (*call).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        for entry in calibration.into_iter().flat_map(|calibration| calibration.entries) {
            for (recall, setting) in RECALLS.iter().zip(&entry.settings) {
                let (slack, search_list, interval) =
                    setting.map_or((0.0, 0, 0.0), |s| (s.slack, s.search_list, s.interval));
                let values = [
                    integer(entry.k),
                    real(*recall),
                    real(slack),
                    integer(search_list),
                    real(interval),
                    real(entry.best),
                ];
                let is_null = setting.is_none();
                let nulls = [false, false, is_null, is_null, is_null, false];
                pg_sys::tuplestore_putvalues(
                    (*result).setResult,
                    (*result).setDesc,
                    values.as_ptr(),
                    nulls.as_ptr(),
                );
            }
        }
        (*call).isnull = true;
    }
    pg_sys::Datum::from(0)
}

pub(crate) fn real(value: f32) -> pg_sys::Datum {
    pg_sys::Datum::from(value.to_bits())
}

fn go_on(_: Progress) -> ControlFlow<()> {
    pgrx::check_for_interrupts!();
    ControlFlow::Continue(())
}
