//! `ambulkdelete` and `amvacuumcleanup`: dead rows leave their nodes, nodes without rows leave the graph.
//!
//! An index of which much has changed since it was calibrated is calibrated again.
//!
//! Both work in small parts, each under the writer's lock, so that insertions wait for milliseconds, not for the vacuum.

use std::ffi::c_void;
use std::ops::ControlFlow;

use pagehop_engine::{Change, Error, PageId, Pages, RemoveReport, VacuumReport};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::writer::Writer;
use crate::{errors, recall, vector};

/// Pages looked at under one lock.
const PAGES: u32 = 32;
/// Nodes taken out of the graph, or slots freed, under one lock.
const STEPS: u64 = 16;

/// `ambulkdelete`: asks about every row of the index.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambulkdelete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    is_dead: pg_sys::IndexBulkDeleteCallback,
    state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL passes an open index, a callback with its state, and what this function returned last time, if anything.
    unsafe {
        let index = (*info).index;
        let ask = is_dead.expect("PostgreSQL passes a callback");
        let mut is_dead = |row_id: u64| {
            let Some(mut tid) = vector::tid(row_id) else {
                let what = format!("it knows a row {row_id:#x}, which can be in no table");
                errors::raise(index, Error::corrupt(PageId(0), what));
            };
            ask(&raw mut tid, state)
        };
        let report = remove(index, &mut is_dead).unwrap_or_else(|error| errors::raise(index, error));
        let stats = if stats.is_null() { no_stats() } else { stats };
        (*stats).estimated_count = false;
        (*stats).num_index_tuples = report.left as f64;
        (*stats).tuples_removed += report.removed as f64;
        stats
    }
}

/// # Safety
///
/// `index` is open and of this access method.
unsafe fn remove(index: pg_sys::Relation, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<RemoveReport, Error> {
    // SAFETY: the caller's promise, here and below.
    let removed = unsafe { with_change(index, &mut |change| change.drop_dead_tids(is_dead))? };
    let mut total = RemoveReport { left: 0, removed };
    let mut page = 0;
    loop {
        delay();
        // SAFETY: as above.
        let mut writer = unsafe { Writer::new(index)? };
        let open = writer.index();
        // A graph that was built anew meanwhile lies at the end, dead rows and all.
        if page >= open.pages().page_count() {
            break;
        }
        let mut change = open.change(&mut writer)?;
        let part = change.remove_tids(page..page.saturating_add(PAGES), is_dead)?;
        change.finish()?;
        total.left += part.left;
        total.removed += part.removed;
        page += PAGES;
    }
    let mut listed = None;
    // SAFETY: as above.
    while let Some(next) = unsafe { with_change(index, &mut |change| change.settle_tids(listed))? } {
        listed = Some(next);
        delay();
    }
    Ok(total)
}

/// Does one thing under the writer's lock.
///
/// # Safety
///
/// As [`remove`].
unsafe fn with_change<T>(
    index: pg_sys::Relation,
    work: &mut dyn FnMut(&mut Change<'_, Writer>) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller keeps the index open.
    let mut writer = unsafe { Writer::new(index)? };
    let open = writer.index();
    let mut change = open.change(&mut writer)?;
    let done = work(&mut change)?;
    change.finish()?;
    Ok(done)
}

/// `amvacuumcleanup`: repairs the graph around dead nodes and frees their slots.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amvacuumcleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: as in `ambulkdelete`.
    unsafe {
        if (*info).analyze_only {
            return stats;
        }
        let index = (*info).index;
        let blocks = repair(index).unwrap_or_else(|error| errors::raise(index, error));
        recall::calibrate_changed(index, &mut delay).unwrap_or_else(|error| errors::raise(index, error));
        let stats = if stats.is_null() {
            let stats = no_stats();
            // Nothing was counted: the table's number is as good a guess as any.
            (*stats).estimated_count = true;
            (*stats).num_index_tuples = (*info).num_heap_tuples;
            stats
        } else {
            stats
        };
        (*stats).num_pages = blocks;
        stats
    }
}

/// Returns the blocks of the index.
///
/// # Safety
///
/// `index` is open and of this access method.
unsafe fn repair(index: pg_sys::Relation) -> Result<u32, Error> {
    loop {
        delay();
        // SAFETY: the caller keeps the index open.
        let mut writer = unsafe { Writer::new(index)? };
        let open = writer.index();
        let mut change = open.change(&mut writer)?;
        let report: VacuumReport = change.vacuum(STEPS, &mut |_| {
            pgrx::check_for_interrupts!();
            ControlFlow::Continue(())
        })?;
        change.finish()?;
        if report.steps() == 0 {
            return Ok(open.pages().page_count());
        }
    }
}

fn no_stats() -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL wants a chunk of the current memory context, and all zeros are valid.
    unsafe { pg_sys::palloc0(size_of::<pg_sys::IndexBulkDeleteResult>()).cast() }
}

/// Sleeps as the cost limits of vacuum say, and notices interrupts.
fn delay() {
    // SAFETY: called in a vacuum, with no lock held.
    unsafe {
        #[cfg(feature = "pg17")]
        pg_sys::vacuum_delay_point();
        #[cfg(feature = "pg18")]
        pg_sys::vacuum_delay_point(false);
    }
}
