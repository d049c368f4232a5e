//! Vacuum: frees the space of deleted and replaced rows for later rows.
//!
//! It also runs by itself: a call that deletes, replaces or updates rows also frees the space of
//! earlier dead rows, once these are too large a share of the index. The work of such a call is in
//! proportion to the rows that it wrote. So a program that deletes half of an index at once does
//! not wait for minutes: the rest of the work is left to later calls, or to
//! [`vacuum`](crate::vacuum). Only `vacuum` looks for edges to dead rows on all pages, and
//! calibrates the index.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use pagehop_engine::{Error, Index, OnProgress, Progress, VacuumReport};

use crate::atomic_change::within;
use crate::index_file::IndexFile;

/// Dead nodes that one transaction of a vacuum removes: few enough that the changed pages fit in
/// memory, and that little work is lost if the vacuum is stopped.
const VACUUM_NODES: u64 = 256;

/// Memory for the edges that lead to dead nodes: enough for 128,000 dead nodes.
const IN_EDGES_BYTES: u64 = 64 << 20;

/// Most transactions of vacuum in one call: two or three seconds.
const MOST_TRANSACTIONS: u64 = 16;
/// Steps for a dead row: it leaves the graph, and later its slot becomes free.
const STEPS_OF_ROW: u64 = 2;

/// Vacuums after a call that deleted, replaced or updated `killed` rows. A failure is ignored, and
/// so is a stop by `progress`: the call's own change is committed.
pub(crate) fn after(index: &Index<IndexFile>, killed: u64, progress: OnProgress<'_>) {
    if killed > 0 {
        let _ = vacuum_some(index, killed, progress);
    }
}

fn vacuum_some(index: &Index<IndexFile>, killed: u64, progress: OnProgress<'_>) -> Result<(), Error> {
    let Some((share, waiting_rows)) = index.pages().auto_vacuum() else { return Ok(()) };
    let most = (killed * STEPS_OF_ROW / VACUUM_NODES + 1).min(MOST_TRANSACTIONS);
    for done in 0..most {
        let info = index.info()?;
        let allowed = (info.rows as f64 * f64::from(share)) as u64;
        // A transaction for fewer rows costs the same, and frees less.
        if info.dead_rows < allowed + VACUUM_NODES {
            break;
        }
        // Only a walk over all dead rows shows that readers still see them, so it is not done after
        // every call.
        let waiting = waiting_rows.load(Relaxed);
        if (waiting..waiting + VACUUM_NODES).contains(&info.dead_rows) {
            break;
        }
        let mut whole =
            |_: Progress| -> ControlFlow<()> { progress(Progress { phase: "vacuum", done, total: most }) };
        let part = within(index, |change| change.vacuum(VACUUM_NODES, &mut whole))?;
        waiting_rows.store(if part.steps() == 0 { info.dead_rows } else { 0 }, Relaxed);
        if part.steps() == 0 {
            break;
        }
    }
    Ok(())
}

/// Takes all dead rows that no reader can see any more out of the graph, and frees their space. One
/// transaction for every few hundred.
pub(crate) fn all(index: &Index<IndexFile>, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
    let total = index.info()?.dead_rows;
    let mut report = VacuumReport::default();
    let mut in_edges = index.in_edges_of_dead(IN_EDGES_BYTES, progress)?;
    let mut left = in_edges.nodes();
    loop {
        let freed = report.freed;
        let mut whole = |part: Progress| -> ControlFlow<()> {
            progress(Progress { done: freed + part.done, total: total.max(freed + part.done), ..part })
        };
        let part = within(index, |change| {
            change.use_in_edges(&in_edges);
            change.vacuum(VACUUM_NODES, &mut whole)
        })?;
        report.add(&part);
        if part.steps() == 0 {
            return Ok(report);
        }
        left = left.saturating_sub(part.unlinked);
        if left == 0 && in_edges.nodes() > 0 {
            in_edges = index.in_edges_of_dead(IN_EDGES_BYTES, progress)?;
            left = in_edges.nodes();
        }
    }
}
