//! Recall as a setting: measured at the end of a build or on demand, stored in the index, looked up by `pagehop.recall`.

use std::ops::ControlFlow;

use pagehop_engine::index::RECALLS;
use pagehop_engine::{Calibration, Error, Progress};
use pgrx::pg_sys;

use crate::inspect::{self, Inspected, integer};
use crate::models::OpenIndex;
use crate::writer::Writer;
use crate::{models, options, progress};

crate::sql_function!(pagehop_calibrate, pg_finfo_pagehop_calibrate, |call| {
    // SAFETY: PostgreSQL calls it as the extension's script declares it: rows from one argument, a strict `regclass`.
    unsafe { calibrate(call) }
});
crate::sql_function!(pagehop_calibration, pg_finfo_pagehop_calibration, |call| {
    // SAFETY: as above.
    unsafe { calibration(call) }
});
crate::sql_function!(pagehop_recall, pg_finfo_pagehop_recall, |call| {
    // SAFETY: PostgreSQL calls it as declared: a row from a `regclass` and two numbers, all strict.
    unsafe { recall(call) }
});

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

/// `pagehop_calibrate(regclass)`.
///
/// # Safety
///
/// `call` is of a function with one argument, a `regclass` that is not null, and rows as its result.
unsafe fn calibrate(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller's promise. The index is open until it is closed. Nobody waits while it is measured: what is
    // stored then is what was there.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(c"pagehop_calibrate()".as_ptr());
        pg_sys::PreventCommandDuringRecovery(c"pagehop_calibrate()".as_ptr());
        let inspected = Inspected::open(call, pg_sys::ACL_MAINTAIN);
        let found = measure_and_store(inspected.index).unwrap_or_else(|error| inspected.raise(error));
        inspected.close();
        rows(call, found)
    }
}

/// # Safety
///
/// `index` is open and of this access method.
unsafe fn measure_and_store(index: pg_sys::Relation) -> Result<Option<Calibration>, Error> {
    // SAFETY: the caller's promise.
    let open = unsafe { models::open(index)? };
    let Some(found) = open.calibrate(&[], 1, &mut go_on)? else { return Ok(None) };
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
/// As [`calibrate`].
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

/// `pagehop_recall(regclass, k, samples)`.
///
/// # Safety
///
/// `call` is of a function with three arguments, none of them null, and a row as its result.
unsafe fn recall(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let count = |at| pgrx::fcinfo::pg_getarg::<i32>(call, at).and_then(|count| usize::try_from(count).ok());
        let (k, samples) = (count(1).unwrap_or(0), count(2).unwrap_or(0));
        let inspected = Inspected::open(call, pg_sys::ACL_SELECT);
        let measure = |open: OpenIndex| {
            let options = options::search(&open, inspected.index)?;
            open.recall(k, samples, &[], &options, 1, &mut go_on)
        };
        let report = models::open(inspected.index).and_then(measure);
        let report = report.unwrap_or_else(|error| inspected.raise(error));
        inspected.close();
        let numbers = [report.recall, report.interval, report.hops].map(real);
        inspect::row(call, [numbers[0], numbers[1], integer(report.samples), numbers[2]])
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

fn real(value: f32) -> pg_sys::Datum {
    pg_sys::Datum::from(value.to_bits())
}

fn go_on(_: Progress) -> ControlFlow<()> {
    pgrx::check_for_interrupts!();
    ControlFlow::Continue(())
}
