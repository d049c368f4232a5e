//! Rows that are added to a trained index, by one thread or by several.
//!
//! Several threads insert rows as several sessions of PostgreSQL do: each step compares the node
//! with what the decision was based on (`steps.rs`). A thread takes the next row, looks for the row
//! that it replaces, and writes its node. When all threads are done, the map names the new nodes,
//! and old ones are buried, in the order of the rows: no node dies while threads look at it. The
//! edges, and so the answers of searches, may differ a little with the turns that the threads took.
//! The set of rows does not.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::encode::EncodedRow;
use super::graph::Graph;
use super::records;
use crate::columns::ColumnRows;
use crate::ids::NodeId;
use crate::index::change::graph::insert;
use crate::index::change::pages::keep;
use crate::index::change::pages::rows;
use crate::index::change::pages::steps::Steps;
use crate::page::{PagesMut, SharedPages};
use crate::threads::{self, Look};
use crate::{AddReport, Error, OnProgress, Progress};

/// Fewest rows for which one more thread is used.
const THREAD_ROWS: usize = 8;
/// Rows between two reports of progress.
const REPORT_ROWS: usize = 64;
/// Rows that have been checked.
pub(super) struct NewRows<'a> {
    pub(super) ids: &'a [u64],
    pub(super) vectors: &'a [f32],
    pub(super) dim: usize,
    pub(super) values: &'a ColumnRows,
    pub(super) payloads: Option<&'a [Option<Vec<u8>>]>,
}

/// The outcome for a row.
enum Written {
    /// The index has it already.
    Unchanged,
    /// It has a node, which the map does not name yet.
    As { node: NodeId, old: Option<NodeId> },
}

/// How many of the `threads` that a caller grants add the rows of these ids: one, if an id comes
/// twice.
pub(super) fn threads_for(ids: &[u64], threads: usize) -> usize {
    let threads = threads::available(threads).min(ids.len() / THREAD_ROWS);
    let mut seen = HashSet::new();
    if threads > 1 && ids.iter().all(|id| seen.insert(*id)) { threads } else { 1 }
}

/// Adds rows one after the other.
pub(super) fn in_order<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    rows: &NewRows<'_>,
    progress: OnProgress<'_>,
) -> Result<AddReport, Error> {
    let mut report = AddReport::default();
    for at in 0..rows.ids.len() {
        if at % REPORT_ROWS == 0 && progress(rows.progress(at as u64)).is_break() {
            return Err(Error::Interrupted);
        }
        let written = write_row(graph, rows, at)?;
        map_written(graph, rows.ids[at], &written, &mut report)?;
    }
    Ok(report)
}

/// Adds rows of different ids by several threads.
pub(super) fn side_by_side<W: SharedPages>(
    graph: &mut Graph<'_, W>,
    rows: &NewRows<'_>,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<AddReport, Error> {
    let next = AtomicUsize::new(0);
    let (meta, model) = (graph.meta().clone(), graph.model().clone());
    let (entries, columns) = (graph.entries().to_vec(), graph.columns().clone());
    let work = |mut pages: W::Member<'_>, look: Look<'_>| {
        let steps = Steps::new(&mut pages, meta.clone());
        let mut graph = Graph::new(steps, model.clone(), entries.clone(), columns.clone());
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= rows.ids.len() {
                return Ok(mine);
            }
            look(at as u64)?;
            mine.push((at, write_row(&mut graph, rows, at)?));
        }
    };
    let mut go_on = |done| progress(rows.progress(done));
    // Another thread may take the first row.
    if go_on(0).is_break() {
        return Err(Error::Interrupted);
    }
    let pages = graph.steps_mut().host_mut();
    let written = threads::each(pages.members(threads), &mut go_on, work)?;
    pages.join();
    let mut written: Vec<_> = written.into_iter().flatten().collect();
    written.sort_unstable_by_key(|(at, _)| *at);
    graph.catch_up()?;
    let mut report = AddReport::default();
    written.iter().try_for_each(|(at, written)| map_written(graph, rows.ids[*at], written, &mut report))?;
    Ok(report)
}

impl NewRows<'_> {
    fn progress(&self, done: u64) -> Progress {
        Progress { phase: "add", done, total: self.ids.len() as u64 }
    }
}

/// Writes the node of a row, unless the index has the row as it is.
fn write_row<W: PagesMut>(graph: &mut Graph<'_, W>, rows: &NewRows<'_>, at: usize) -> Result<Written, Error> {
    let id = rows.ids[at];
    let payload = rows.payloads.and_then(|payloads| payloads[at].as_deref());
    let mut encoded = EncodedRow::new(graph.meta(), graph.model(), &rows.vectors[at * rows.dim..][..rows.dim])?;
    encoded.set_values(graph.model(), rows.values.row(at));
    encoded.sets = rows.values.sets(at).to_vec();
    let old = rows::find_row(graph.steps(), id)?;
    if let Some(old) = old
        && records::is_kept(graph, old, &mut encoded.values, payload)?
        && is_same(graph, old, &encoded)?
    {
        return Ok(Written::Unchanged);
    }
    records::keep(graph, &mut encoded.values, payload)?;
    let node = insert::insert(graph, id, &encoded)?;
    Ok(Written::As { node, old })
}

fn is_same<W: PagesMut>(graph: &Graph<'_, W>, old: NodeId, encoded: &EncodedRow) -> Result<bool, Error> {
    let is_same = graph.look(old, |node, header| {
        header.step == encoded.own.step
            && node.hi() == encoded.hi
            && node.lo() == encoded.lo
            && node.values().0 == encoded.values
    })?;
    Ok(is_same && keep::kept_vector(graph.steps(), old)? == encoded.kept)
}

/// Makes the node of a row the one that the map names.
fn map_written<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    id: u64,
    written: &Written,
    report: &mut AddReport,
) -> Result<(), Error> {
    let Written::As { node, old } = *written else {
        report.unchanged += 1;
        return Ok(());
    };
    rows::map_row(graph.steps_mut(), id, Some(node), old)?;
    report.added += u64::from(old.is_none());
    report.replaced += u64::from(old.is_some());
    Ok(())
}
