//! `pagehop_info`: size and state of an index, from its meta page.

use pagehop_engine::{Audit, Effort, Error, Pages};
use pgrx::pg_sys;

use super::datum::{bigint, integer, real, row, text};
use super::likely::{LIKELY_K, likely_recall};
use super::target::Target;
use crate::pages::open_indexes;
use crate::parameters;
use crate::sql_function::sql_function;

sql_function!(pagehop_info, pg_finfo_pagehop_info, |call| {
    // SAFETY: the extension's script declares it: a row from one argument, a strict `regclass`.
    unsafe { info(call) }
});

/// Columns of `pagehop_info`.
const COLUMNS: usize = 25;

/// `pagehop_info(regclass)`.
///
/// # Safety
///
/// `call` is a call of a function with one argument, a `regclass` that is not null, which returns a
/// row.
unsafe fn info(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller says that the first argument is a `regclass`.
    let target = unsafe { Target::open(call, pg_sys::ACL_SELECT) };
    let values = describe(&target).unwrap_or_else(|error| target.raise(error));
    target.close();
    // SAFETY: `describe` gives the columns in the order and the types of the script.
    unsafe { row(call, values) }
}

/// The row of `pagehop_info`.
fn describe(target: &Target) -> Result<[Option<pg_sys::Datum>; COLUMNS], Error> {
    // SAFETY: the target keeps the index open.
    let open = unsafe { open_indexes::open(target.index())? };
    let info = open.info()?;
    let pages = open.pages().page_count();
    let known = info.calibrated;
    let wants_training = open.wants_training()?;
    let stored = [
        integer(info.format_version as usize),
        text(info.metric.name()),
        integer(info.dim),
        bigint(info.rows),
        bigint(pages.into()),
        bigint(u64::from(pages) * u64::from(pg_sys::BLCKSZ)),
        integer(info.max_degree),
        integer(info.nodes_per_page),
        integer(info.edge_bits),
        bigint(info.dead_rows),
        bigint(info.free_slots),
        bigint(info.trained_rows),
        bigint(info.added_rows),
        bigint(info.deleted_rows),
    ];
    let mut values = [None; COLUMNS];
    values.iter_mut().zip(stored).for_each(|(value, stored)| *value = Some(stored));
    // SAFETY: the target keeps the index open.
    let of_index = unsafe { parameters::recall(target.index()) };
    let default_recall = of_index.or(info.default_recall);
    values[14] = default_recall.map(real);
    values[15] = known.map(|known| bigint(known.rows));
    values[16] = known.map(|known| pg_sys::Datum::from(known.by_queries));
    values[17] = known.map(|known| bigint(known.changes));
    if let Some((audit, since)) = info.audit.zip(info.audited) {
        let Audit { k, recall, half_interval, target, .. } = audit;
        values[18] = Some(integer(k));
        values[19] = Some(real(recall));
        values[20] = Some(real(half_interval));
        values[21] = target.map(real);
        values[22] = Some(bigint(since.changes));
    }
    values[23] = Some(pg_sys::Datum::from(wants_training));
    let reached = match default_recall.filter(|_| known.is_some()) {
        // Searches do not reach a recall that no search of the calibration reached.
        Some(target) => Some(open.options(LIKELY_K, &Effort::Recall(target))?.reach.of(target)),
        None => None,
    };
    values[24] = likely_recall(&info, default_recall, reached).map(real);
    Ok(values)
}
