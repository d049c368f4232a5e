//! Recall on demand: `pagehop_calibrate` measures what each recall takes, `pagehop_recall` measures
//! the recall of this session's searches. The queries are rows of the index, or real ones.

use pagehop_engine::{
    CALIBRATED_ROWS_MIN, Calibration, Error, Info, Measured, RECALLS, RecallReport, SAMPLES_MAX,
    calibration_memory_bytes, calibration_memory_bytes_min,
};
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::datum::{integer, real, row};
use super::queries::{self, Argument, Queries};
use super::target::Target;
use crate::calibrate::{self, go_on};
use crate::pages::open_indexes;
use crate::rows::memory;
use crate::rows::opclass::{Element, Kind};
use crate::sql_function::sql_function;
use crate::{audit, errors, options};

sql_function!(pagehop_calibrate, pg_finfo_pagehop_calibrate, |call| {
    // SAFETY: the extension's script declares it: rows from one argument, a strict `regclass`.
    unsafe { calibrate(call, None) }
});
sql_function!(pagehop_calibrate_vectors, pg_finfo_pagehop_calibrate_vectors, |call| {
    // SAFETY: the script declares it: rows from a `regclass` and a `vector[]`, both strict.
    unsafe { calibrate(call, Some((1, Element::F32))) }
});
sql_function!(pagehop_calibrate_halfvecs, pg_finfo_pagehop_calibrate_halfvecs, |call| {
    // SAFETY: the script declares it: rows from a `regclass` and a `halfvec[]`, both strict.
    unsafe { calibrate(call, Some((1, Element::F16))) }
});
sql_function!(pagehop_calibration, pg_finfo_pagehop_calibration, |call| {
    // SAFETY: the script declares it: rows from one argument, a strict `regclass`.
    unsafe { calibration(call) }
});
sql_function!(pagehop_recall, pg_finfo_pagehop_recall, |call| {
    // SAFETY: the script declares it: a row from a `regclass` and two `int4`, all strict.
    unsafe { recall(call, int4(call, 2), None) }
});
sql_function!(pagehop_recall_vectors, pg_finfo_pagehop_recall_vectors, |call| {
    // SAFETY: the script declares it: a row from a `regclass`, an `int4` and a `vector[]`, all
    // strict.
    unsafe { recall(call, 0, Some((2, Element::F32))) }
});
sql_function!(pagehop_recall_halfvecs, pg_finfo_pagehop_recall_halfvecs, |call| {
    // SAFETY: the script declares it: a row from a `regclass`, an `int4` and a `halfvec[]`, all
    // strict.
    unsafe { recall(call, 0, Some((2, Element::F16))) }
});

/// Largest k that an index is calibrated for.
const CALIBRATED_K_MAX: usize = 1000;

/// A count among the arguments. A negative one is an error.
///
/// # Safety
///
/// `call` is a call of a function whose argument `at` is an `int4`.
unsafe fn int4(call: pg_sys::FunctionCallInfo, at: usize) -> usize {
    // SAFETY: the caller says that the argument is there and an `int4`.
    let value = unsafe { pgrx::fcinfo::pg_getarg::<i32>(call, at) };
    let count = value.unwrap_or(0);
    usize::try_from(count).unwrap_or_else(|_| {
        errors::report(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("k and samples must be 0 or more, not {count}"),
            None,
        )
    })
}

/// `pagehop_calibrate(regclass)`, and with queries if they are `given`. Other statements do not
/// wait for the measurement.
///
/// # Safety
///
/// `call` is a call of a function whose first argument is a `regclass` that is not null, which
/// returns rows; `given` is one of its arguments.
unsafe fn calibrate(call: pg_sys::FunctionCallInfo, given: Option<Argument>) -> pg_sys::Datum {
    // SAFETY: the strings are static; both calls raise an error or do nothing.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(c"pagehop_calibrate()".as_ptr());
        pg_sys::PreventCommandDuringRecovery(c"pagehop_calibrate()".as_ptr());
    }
    // SAFETY: the caller says that the first argument is a `regclass`.
    let target = unsafe { Target::open(call, pg_sys::ACL_MAINTAIN) };
    // SAFETY: `given` is an argument of the call, an array of vectors, as the caller ensures.
    let queries = unsafe { queries::given(call, given) };
    let found = measure_and_store(&target, &queries).unwrap_or_else(|error| target.raise(error));
    if found.is_none() {
        let name = target.name();
        pgrx::notice!(
            "index \"{name}\" has fewer than {CALIBRATED_ROWS_MIN} rows: with pagehop.recall it is searched to its end"
        );
    }
    target.close();
    // SAFETY: the caller says that the function returns rows.
    unsafe { rows(call, found) }
}

fn measure_and_store(target: &Target, queries: &Queries) -> Result<Option<Calibration>, Error> {
    let index = target.index();
    // SAFETY: the target keeps the index open, which is of this access method, and this backend is
    // not its writer.
    unsafe {
        let info = open_indexes::open(index)?.info()?;
        let placed = queries::placed(Kind::of(index), info.dim, queries)?;
        let given = placed.as_ref().map_or(0, |placed| placed.len() / info.dim);
        match placed {
            Some(_) => {
                let bytes = given as u64 * memory::query_bytes(info.dim, CALIBRATED_K_MAX, info.rows);
                memory::budget("calibrating by these queries", bytes);
            }
            None => {
                let least = calibration_memory_bytes_min(info.rows, info.dim);
                memory::budget("calibrating by rows", least);
                let most = memory::limit_bytes().min(calibration_memory_bytes(info.rows, info.dim));
                memory::reserve(most as usize);
            }
        }
        calibrate::measure_and_store(index, placed.as_deref(), &mut go_on)
    }
}

/// `pagehop_calibration(regclass)`.
///
/// # Safety
///
/// `call` is a call of a function with one argument, a `regclass` that is not null, which returns
/// rows.
unsafe fn calibration(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller says that the first argument is a `regclass`.
    let target = unsafe { Target::open(call, pg_sys::ACL_SELECT) };
    // SAFETY: the target keeps the index open.
    let stored = unsafe { open_indexes::open(target.index()) }.and_then(|open| open.calibration());
    let stored = stored.unwrap_or_else(|error| target.raise(error));
    target.close();
    // SAFETY: the caller says that the function returns rows.
    unsafe { rows(call, stored) }
}

/// `pagehop_recall(regclass, k, samples)`, or with queries that are `given` instead of samples.
///
/// # Safety
///
/// `call` is a call of a function with a `regclass` and an `int4` first, neither of them null,
/// which returns a row; `given` is one of its arguments.
unsafe fn recall(call: pg_sys::FunctionCallInfo, samples: usize, given: Option<Argument>) -> pg_sys::Datum {
    // SAFETY: the caller says that the second argument is an `int4`, and the first a `regclass`.
    let (k, target) = unsafe { (int4(call, 1), Target::open(call, pg_sys::ACL_SELECT)) };
    // SAFETY: `given` is an argument of the call, an array of vectors, as the caller ensures.
    let queries = unsafe { queries::given(call, given) };
    let report = measure(&target, k, samples, &queries).unwrap_or_else(|error| target.raise(error));
    target.close();
    let RecallReport { recall, half_interval, samples, hops, far } = report;
    let [recall, half_interval, hops] = [recall, half_interval, hops].map(real).map(Some);
    // SAFETY: the script's columns are these, in this order and of these types.
    unsafe { row(call, [recall, half_interval, Some(integer(samples)), hops, far.map(real)]) }
}

/// Measures the recall, stores it if that is allowed, and warns if the recall misses its target.
fn measure(target: &Target, k: usize, samples: usize, queries: &Queries) -> Result<RecallReport, Error> {
    if samples > SAMPLES_MAX {
        return Err(Error::argument(format!("samples is {samples}, it must be between 1 and {SAMPLES_MAX}")));
    }
    let index = target.index();
    // SAFETY: the target keeps the index open, which is of this access method.
    let (dim, kind) = unsafe { (open_indexes::open(index)?.info()?.dim, Kind::of(index)) };
    let placed = queries::placed(kind, dim, queries)?;
    // SAFETY: the target keeps the index open, and this backend is not its writer.
    let (info, report) =
        unsafe { audit::measure(index, k, (samples, placed.as_deref()), target.may_store(), &mut go_on)? };
    warn(target, &info, &report, queries.is_some());
    Ok(report)
}

/// Warns of a target recall of this session that is missed, or may be missed.
fn warn(target: &Target, info: &Info, report: &RecallReport, by_queries: bool) {
    // SAFETY: the target keeps the index open.
    let Some(asked) = (unsafe { options::target(target.index()) }) else { return };
    let name = target.name();
    let with =
        if by_queries { " Pass queries like these as its second argument to calibrate by them." } else { "" };
    let hint =
        format!("SELECT pagehop_calibrate({}) measures again what each recall takes.{with}", target.regclass());
    let RecallReport { recall, half_interval, .. } = report;
    if report.misses(asked.recall) {
        let what = format!("searches of index \"{name}\" with {asked} find {recall:.4} +- {half_interval:.4}");
        errors::warn(what, hint);
    } else if let Some(known) = info.calibrated.filter(Measured::is_outdated) {
        let Measured { rows, changes, longer_rows, .. } = known;
        let what = if longer_rows {
            format!(
                "rows longer than all earlier ones were added to index \"{name}\" since it was calibrated: searches \
                 may take longer than they need for {asked}"
            )
        } else {
            format!(
                "{changes} rows were added to index \"{name}\" or deleted since it was calibrated at {rows}: searches \
                 may find less than {asked}"
            )
        };
        errors::warn(what, hint);
    }
}

/// Returns the calibration of an index: one row for each k and recall.
///
/// # Safety
///
/// `call` is a call of a function that returns rows, materialized.
unsafe fn rows(call: pg_sys::FunctionCallInfo, calibration: Option<Calibration>) -> pg_sys::Datum {
    // SAFETY: the caller passes a call in progress, whose result PostgreSQL prepares here.
    let result = unsafe {
        pg_sys::InitMaterializedSRF(call, 0);
        (*call).isnull = true;
        (*call).resultinfo.cast::<pg_sys::ReturnSetInfo>()
    };
    for entry in calibration.into_iter().flat_map(|calibration| calibration.entries) {
        for (recall, setting) in RECALLS.iter().zip(&entry.settings) {
            let (search_list, slack, half_interval) =
                setting.map_or((0, 0.0, 0.0), |s| (s.search_list, s.slack, s.half_interval));
            let values = [
                integer(entry.k),
                real(*recall),
                integer(search_list),
                real(slack),
                real(half_interval),
                real(entry.best),
            ];
            let is_null = setting.is_none();
            let nulls = [false, false, is_null, is_null, is_null, false];
            // SAFETY: the result was prepared above; the script's columns are these six. PostgreSQL
            // copies the values.
            unsafe {
                let (store, columns) = ((*result).setResult, (*result).setDesc);
                pg_sys::tuplestore_putvalues(store, columns, values.as_ptr(), nulls.as_ptr());
            }
        }
    }
    pg_sys::Datum::from(0)
}
