//! `pagehop_check`: reads every page of an index and proves that they agree.
//!
//! Insertions wait until it has ended, so it requires the right to maintain the table, as VACUUM
//! does.

use std::ops::ControlFlow;

use pagehop_engine::{CheckReport, Error};
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::datum::{bigint, row};
use super::target::Target;
use crate::errors;
use crate::pages::writer;
use crate::rows::memory;
use crate::sql_function::sql_function;

sql_function!(pagehop_check, pg_finfo_pagehop_check, |call| {
    // SAFETY: the extension's script declares it: a row from one argument, a strict `regclass`.
    unsafe { check(call) }
});

/// `pagehop_check(regclass)`.
///
/// # Safety
///
/// `call` is a call of a function with one argument, a `regclass` that is not null, which returns a
/// row.
unsafe fn check(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller says that the first argument is a `regclass`.
    let target = unsafe { Target::open(call, pg_sys::ACL_MAINTAIN) };
    let report = check_locked(&target).unwrap_or_else(|error| target.raise(error));
    target.close();
    let CheckReport { pages, nodes, dead_nodes, free_slots, edges, stale_edges, reachable, anchored } = report;
    let counts = [pages.into(), nodes, dead_nodes, free_slots, edges, stale_edges, reachable, anchored];
    // SAFETY: the script's columns are these, all of them `int8`.
    unsafe { row(call, counts.map(bigint)) }
}

/// Checks the index while no backend changes it.
fn check_locked(target: &Target) -> Result<CheckReport, Error> {
    // SAFETY: the target keeps the index open.
    let checked = unsafe {
        writer::while_unchanged(target.index(), |open| {
            memory::reserve(open.check_memory_bytes() as usize);
            open.check(&mut |_| {
                pgrx::check_for_interrupts!();
                ControlFlow::Continue(())
            })
        })
    };
    if matches!(checked, Err(Error::Corrupt { .. } | Error::Busy { .. })) && target.has_replay_moved() {
        let what = format!("could not check index \"{}\": recovery changed it during the check", target.name());
        let hint = "Pause the replay with pg_wal_replay_pause(), or check the index on the primary.".to_string();
        errors::report(PgSqlErrorCode::ERRCODE_OBJECT_IN_USE, what, Some(hint));
    }
    checked
}
