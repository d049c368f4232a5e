//! `ambulkdelete` and `amvacuumcleanup`: dead rows leave their nodes, nodes without rows leave the
//! graph.
//!
//! Both work in small parts. The long operations, which are training and taking dead nodes out of
//! the graph, run beside insertions. The others run alone, under the lock of the index, and none
//! begins a further part after some milliseconds ([`Hold`]): PostgreSQL cancels an autovacuum that
//! keeps another session waiting for a second. An index that has changed much since it was
//! calibrated is calibrated again, one that has changed less is audited.

use std::ffi::c_void;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pagehop_engine::{Change, Error, InEdges, PageId, Pages, PendingPlace, Progress, RemoveReport, VacuumReport};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::calibrate::{self, go_on};
use crate::pages::writer::Writer;
use crate::pages::{open_indexes, writer};
use crate::rows::{memory, vector};
use crate::{audit, errors, train, whole_errors};

/// Time after which no further part begins under the same lock.
const HOLD: Duration = Duration::from_millis(5);
// A session that waits for `deadlock_timeout`, a second by default, cancels an autovacuum. It may
// wait for several turns, and a part that has begun is not interrupted.
const _: () = assert!(HOLD.as_millis() <= 20);
/// Most pages that are read under one lock, and pages between two tests of the time.
const PAGES: u32 = 32;
const PAGES_PER_LOOK: u32 = 4;
/// Nodes that are unlinked between two tests of the cost limits of vacuum.
const NODES: u64 = 4;
/// Nodes that are unlinked before their slots are freed, and slots between two tests of the time.
const SLOTS: u64 = 128;
const SLOTS_PER_LOOK: u64 = 32;
/// Pages of unused graphs that are freed between two tests of the cost limits of vacuum.
const FREED: usize = 64;
/// Most steps under one lock if they cannot run beside insertions.
const STEPS: u64 = 16;

/// The time under one lock.
struct Hold(Instant);

impl Hold {
    fn begin() -> Self {
        Self(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.0.elapsed() > HOLD
    }
}

/// `ambulkdelete`: removes the rows that PostgreSQL's callback calls dead.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambulkdelete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    is_dead: pg_sys::IndexBulkDeleteCallback,
    state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL passes the `info` of a vacuum, with an open index.
    let index = unsafe { (*info).index };
    let callback = is_dead.expect("PostgreSQL passes a callback");
    let mut is_dead = |row_id: u64| {
        let Some(mut tid) = vector::tid(row_id) else {
            let what = format!("row id {row_id:#x} is not a valid tid");
            // SAFETY: PostgreSQL keeps the index open.
            unsafe { errors::raise(index, Error::corrupt(PageId(0), what)) };
        };
        // SAFETY: PostgreSQL's callback, with its own state and a place in the table. The callback
        // of a concurrent build sorts places in files, and may raise an error.
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| callback(&raw mut tid, state)) }
    };
    // SAFETY: PostgreSQL keeps the index open, and this backend is not its writer.
    let removed = unsafe { remove(index, &mut is_dead) };
    // SAFETY: PostgreSQL keeps the index open.
    let report = removed.unwrap_or_else(|error| unsafe { errors::raise(index, error) });
    let stats = if stats.is_null() { no_stats() } else { stats };
    // SAFETY: PostgreSQL passes what this function returned last time, if anything; else it was
    // made above.
    unsafe {
        (*stats).estimated_count = false;
        (*stats).num_index_tuples = report.left as f64;
        (*stats).tuples_removed += report.removed as f64;
    }
    stats
}

/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
unsafe fn remove(index: pg_sys::Relation, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<RemoveReport, Error> {
    // A training that did not end does not know which rows are removed here.
    // SAFETY: the caller keeps the index open and is not its writer.
    let removed = unsafe {
        writer::change(index, |change| {
            change.give_up_training()?;
            change.drop_dead_rows(is_dead)
        })?
    };
    let mut total = RemoveReport { left: 0, removed };
    let mut page = 0;
    // An insertion between two turns may train a small index and append a new graph with dead rows,
    // so the loop reads up to the new end.
    // SAFETY: the caller keeps the index open.
    while page < unsafe { open_indexes::open(index)? }.pages().page_count() {
        delay();
        // SAFETY: the caller keeps the index open and is not its writer.
        page = unsafe { writer::change(index, |change| remove_some(change, page, is_dead, &mut total))? };
    }
    let mut settled = None;
    // SAFETY: the caller keeps the index open and is not its writer.
    while let Some(next) = unsafe { writer::change(index, |change| settle_some(change, settled))? } {
        settled = Some(next);
        delay();
    }
    Ok(total)
}

/// Removes row ids that are on their nodes from the pending list, from `settled` on. Returns the
/// position that it reached.
fn settle_some(
    change: &mut Change<'_, Writer>,
    settled: Option<PendingPlace>,
) -> Result<Option<PendingPlace>, Error> {
    let hold = Hold::begin();
    change.settle_pending(settled, &mut || !hold.is_over())
}

/// Removes the dead rows of some pages, from `page` on, and returns the page after them.
fn remove_some(
    change: &mut Change<'_, Writer>,
    mut page: u32,
    is_dead: &mut dyn FnMut(u64) -> bool,
    total: &mut RemoveReport,
) -> Result<u32, Error> {
    let (hold, end) = (Hold::begin(), page.saturating_add(PAGES));
    loop {
        let next = page.saturating_add(PAGES_PER_LOOK);
        let part = change.remove_dead_rows(page..next, is_dead)?;
        total.left += part.left;
        total.removed += part.removed;
        page = next;
        if page >= end || hold.is_over() {
            return Ok(page);
        }
    }
}

/// `amvacuumcleanup`: repairs the graph around dead nodes and frees their slots.
pub(crate) unsafe extern "C-unwind" fn amvacuumcleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL calls this, with the `info` of a vacuum, whose index is open.
    unsafe { whole_errors::guard(|| cleaned_up(&*info, stats)) }
}

/// # Safety
///
/// `info` is of the vacuum that runs, and `stats` is what [`ambulkdelete`] returned, or null.
unsafe fn cleaned_up(
    info: &pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    if info.analyze_only {
        return stats;
    }
    // SAFETY: PostgreSQL keeps the index open, this backend is not its writer, and a vacuum may
    // sleep.
    let blocks = unsafe { clean_up(info.index, info.heaprel) };
    // SAFETY: PostgreSQL keeps the index open.
    let blocks = blocks.unwrap_or_else(|error| unsafe { errors::raise(info.index, error) });
    let is_counted = !stats.is_null();
    let stats = if is_counted { stats } else { no_stats() };
    // SAFETY: PostgreSQL passes what `ambulkdelete` returned, if anything; else it was made above.
    unsafe {
        if !is_counted {
            // Without a count, the table's number of rows is the best estimate.
            (*stats).estimated_count = true;
            (*stats).num_index_tuples = info.num_heap_tuples;
        }
        (*stats).num_pages = blocks;
    }
    stats
}

/// Repairs the graph, trains the model again if the index has grown beyond it, then calibrates and
/// audits if that is due. Returns the blocks of the index.
///
/// A vacuum that prevents the wraparound of transaction ids only repairs. It has to end soon, and a
/// training or a measurement would hold back the oldest transaction id ([`is_for_wraparound`]).
///
/// # Safety
///
/// `index` is open and of this access method, `heap` is its table, open, and this backend is not
/// its writer.
unsafe fn clean_up(index: pg_sys::Relation, heap: pg_sys::Relation) -> Result<u32, Error> {
    // SAFETY: the caller keeps the index open and is not its writer.
    unsafe {
        writer::change(index, |change| change.give_up_training())?;
        sweep(index)?;
        repair(index)?;
        if is_for_wraparound() {
            return Ok(open_indexes::open(index)?.pages().page_count());
        }
        let trained = train::grown_index(index, heap, &mut delay)?;
        calibrate::changed_index(index, trained, &mut delay)?;
        audit::changed_index(index, &mut delay)?;
        Ok(open_indexes::open(index)?.pages().page_count())
    }
}

/// Whether this is an autovacuum to prevent the wraparound of transaction ids.
fn is_for_wraparound() -> bool {
    // SAFETY: the entry of this backend in shared memory, whose flags it alone changes.
    unsafe { u32::from((*pg_sys::MyProc).statusFlags) & pg_sys::PROC_VACUUM_FOR_WRAPAROUND != 0 }
}

/// Frees the pages of graphs that were replaced or given up, as far as no reader needs them.
///
/// # Safety
///
/// As [`repair`].
unsafe fn sweep(index: pg_sys::Relation) -> Result<(), Error> {
    loop {
        delay();
        // SAFETY: the caller keeps the index open and is not its writer.
        if !unsafe { writer::beside_others(index)? }.change(|change| change.sweep(FREED))? {
            return Ok(());
        }
    }
}

/// Takes dead nodes out of the graph.
///
/// # Safety
///
/// `index` is open and of this access method, and this backend is not its writer.
unsafe fn repair(index: pg_sys::Relation) -> Result<(), Error> {
    // SAFETY: the caller keeps the index open and is not its writer.
    let mut in_edges = unsafe { edges_to_dead(index)? };
    let mut left = in_edges.nodes();
    loop {
        let mut done = VacuumReport::default();
        while done.unlinked < SLOTS {
            delay();
            // SAFETY: the caller keeps the index open and is not its writer.
            let writer = unsafe { writer::beside_others(index)? };
            let part = writer.change(|change| {
                change.use_in_edges(&in_edges);
                change.unlink_dead(NODES, &mut go_on)
            })?;
            if part.unlinked == 0 {
                break;
            }
            done.add(&part);
        }
        // SAFETY: the caller keeps the index open and is not its writer.
        unsafe {
            match done.unlinked {
                // A search for slots to free would read the whole list alone. This also frees slots
                // that an earlier round or vacuum has left.
                0 => done = unlink_alone(index, &in_edges, left)?,
                _ => done.add(&free(index)?),
            }
        }
        if done.steps() == 0 {
            return Ok(());
        }
        left = left.saturating_sub(done.unlinked);
        if left == 0 && in_edges.nodes() > 0 {
            // SAFETY: the caller keeps the index open and is not its writer.
            in_edges = unsafe { edges_to_dead(index)? };
            left = in_edges.nodes();
        }
    }
}

/// Frees slots of unlinked nodes, alone, in as many turns at the lock as are needed.
///
/// # Safety
///
/// As [`repair`].
unsafe fn free(index: pg_sys::Relation) -> Result<VacuumReport, Error> {
    let mut done = VacuumReport::default();
    loop {
        delay();
        // SAFETY: the caller keeps the index open and is not its writer.
        let part = unsafe {
            writer::change(index, |change| {
                in_parts(SLOTS, SLOTS_PER_LOOK, |most| change.free_unlinked(most, &mut go_on))
            })?
        };
        done.add(&part);
        if part.steps() == 0 || done.steps() >= SLOTS {
            return Ok(done);
        }
    }
}

/// Takes dead nodes out of the graph and frees their slots, alone: the nodes that cannot be taken
/// out beside insertions. Continues until most nodes are live, or until all `left` nodes are taken
/// out whose edges are known.
///
/// # Safety
///
/// As [`repair`].
unsafe fn unlink_alone(index: pg_sys::Relation, in_edges: &InEdges, left: u64) -> Result<VacuumReport, Error> {
    let mut done = VacuumReport::default();
    loop {
        delay();
        // SAFETY: the caller keeps the index open and is not its writer.
        let (part, has_most_dead) = unsafe {
            writer::change(index, |change| {
                change.use_in_edges(in_edges);
                let part = in_parts(STEPS, 1, |most| change.vacuum(most, &mut go_on))?;
                Ok((part, change.has_most_dead()))
            })?
        };
        done.add(&part);
        let is_known = in_edges.nodes() == 0 || done.unlinked < left;
        if part.steps() == 0 || !is_known || !has_most_dead && done.steps() >= SLOTS {
            return Ok(done);
        }
    }
}

/// The edges that lead to dead nodes, if these are many. All pages are read, at vacuum's pace and
/// without the lock of the index.
///
/// # Safety
///
/// As [`repair`].
unsafe fn edges_to_dead(index: pg_sys::Relation) -> Result<InEdges, Error> {
    let mut wait_and_go_on = |_: Progress| {
        delay();
        ControlFlow::Continue(())
    };
    // SAFETY: the caller keeps the index open.
    unsafe { open_indexes::open(index)? }.in_edges_of_dead(memory::limit_bytes(), &mut wait_and_go_on)
}

/// Does up to `most` steps, `each` at a time, until the time under the lock is over or there are no
/// more.
fn in_parts(
    most: u64,
    each: u64,
    mut part: impl FnMut(u64) -> Result<VacuumReport, Error>,
) -> Result<VacuumReport, Error> {
    let (hold, mut done) = (Hold::begin(), VacuumReport::default());
    loop {
        let part = part(each)?;
        done.add(&part);
        if part.steps() < each || done.steps() >= most || hold.is_over() {
            return Ok(done);
        }
    }
}

fn no_stats() -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: PostgreSQL wants a chunk of the current memory context, and all zeros are valid.
    unsafe { pg_sys::palloc0(size_of::<pg_sys::IndexBulkDeleteResult>()).cast() }
}

/// Sleeps as the cost limits of vacuum say, and looks for interrupts.
fn delay() {
    // SAFETY: called in a vacuum, with no lock held.
    unsafe {
        #[cfg(feature = "pg17")]
        pg_sys::vacuum_delay_point();
        #[cfg(feature = "pg18")]
        pg_sys::vacuum_delay_point(false);
    }
}
