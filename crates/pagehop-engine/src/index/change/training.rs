//! Trains the model of a young index again as it grows: when, and how.
//!
//! A model that was trained on ten rows serves a million badly. So the index is rebuilt each time
//! the rows have grown eightfold, until the model was trained on enough rows. The new graph gets
//! new pages. Readers of older snapshots go on with the old graph, whose pages become free when no
//! reader can use them any more (`sweep.rs`).
//!
//! Where the host owns the rows, a row that is inserted waits for that only while the index is
//! small, or, up to some thousand rows, if rows that come with it are as many as are there. If not,
//! the host's vacuum trains the model, beside insertions (`beside.rs`).

use std::collections::HashMap;

use super::graph::Graph;
use crate::columns::ColumnRows;
use crate::index::build;
use crate::index::change::graph::post;
use crate::index::change::pages::rows;
use crate::index::change::pages::steps::Steps;
use crate::index::pending::PendingMap;
use crate::index::search::bound::restored_error;
use crate::page::kind;
use crate::page::meta::{ChangeState, GraphNumbers, Making, Meta};
use crate::page::node::with_node;
use crate::page::{PageId, PageSink, PagesMut, Reader, id_map};
use crate::row_ids::IdKind;
use crate::{AddReport, BuildOptions, EachChunk, Error, OnProgress, VectorSource};

/// Largest index that any insertion may train if the host owns the rows, in rows and in components
/// (rows times dimensions). The components are those of 256 rows of 768 dimensions, whose training
/// takes about 20 ms (`docs/decisions/0027-training-beside-insertions.md`).
const SMALL_ROWS: u64 = 1024;
const SMALL_COMPONENTS: u64 = 256 * 768;
/// Largest index that a statement may train if it brings at least half of the rows, in rows and in
/// components, its own included. Other insertions wait for about half a second
/// (`docs/decisions/0031-bounded-work.md`).
const LOADED_ROWS: u64 = 4096;
const LOADED_COMPONENTS: u64 = 1024 * 768;
/// The model is trained again when the rows are this many times those that it was trained on.
const GROWTH: u64 = 8;
/// The same factor for the last insertion that may train the index: the one that brings it to the
/// size that `SMALL_ROWS` and `SMALL_COMPONENTS` allow. It counts if the model was trained on at
/// most `FEW_ROWS` rows.
const LAST_GROWTH: u64 = 4;
const FEW_ROWS: u64 = 64;
/// Tags that a row is taken to have in a column of tags while they are not read yet: many for a
/// training that can be left out, few for one that was called for.
const MANY_TAGS: usize = 16;
const FEW_TAGS: usize = 1;
/// A model that was trained on this many rows is kept.
pub const TRAINED_ENOUGH: u64 = 16_384;

/// The destination of a new graph: pages at the end of the index, which no other writer appends to.
struct NewPages<'p, W> {
    pages: &'p mut W,
    /// The number of the graph.
    number: u8,
}

impl<W: PagesMut> PageSink for NewPages<'_, W> {
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let allocated = self.pages.allocate(1)?;
        if allocated != page {
            let what = format!("page {} was allocated where page {} was expected", allocated.0, page.0);
            return Err(Error::corrupt(page, what));
        }
        let mut body = body.to_vec();
        kind::set_graph(&mut body, self.number);
        self.pages.put(page, &body)
    }
}

/// Rows in memory.
struct RowsInMemory {
    dim: usize,
    ids: Vec<u64>,
    components: Vec<f32>,
    columns: ColumnRows,
}

impl VectorSource for RowsInMemory {
    fn dim(&self) -> usize {
        self.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        for (ids, rows) in self.ids.chunks(4096).zip(self.components.chunks(4096 * self.dim)) {
            each(ids, rows)?;
        }
        Ok(())
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

/// Whether to rebuild the index at once, with `more` rows in it. `false` while pages of an
/// unfinished training are left: an insertion whose time is limited would begin a training again
/// and again.
pub(super) fn trains_at_once<W: PagesMut>(graph: &Graph<'_, W>, more: usize) -> bool {
    let meta = graph.meta();
    let (rows, more_rows) = (meta.rows, more as u64);
    let is_hosted = graph.steps().is_hosted();
    let small = SMALL_ROWS.min(SMALL_COMPONENTS / meta.dim as u64);
    let is_cheap = !is_hosted || rows + more_rows <= small || more_rows >= rows && more_rows <= room_at_once(meta);
    let is_few = meta.change.trained_rows <= FEW_ROWS;
    let is_last = is_hosted && is_few && rows < small && rows + more_rows >= small;
    let is_due = is_cheap && has_grown(meta, more) || is_last && has_grown_by(LAST_GROWTH, meta, more);
    // Rows can be added to an older model; only the first rows must train one.
    let has_room = || meta.centroids == 0 || missing_room(graph, more, MANY_TAGS).is_none();
    let GraphNumbers { current, last, .. } = meta.change.numbers;
    let may_begin = meta.change.making == Making::None && (last == current || meta.centroids == 0);
    is_due && may_begin && !graph.steps().is_shadow() && meta.change.numbers.next().is_some() && has_room()
}

/// The bytes of a graph of all rows and `more`, with `tags` tags of each in a column of tags, if
/// this transaction has no room for it.
fn missing_room<W: PagesMut>(graph: &Graph<'_, W>, more: usize, tags: usize) -> Option<u64> {
    let (meta, columns) = (graph.meta(), &graph.columns().columns);
    let needed = build::graph_bytes_about(meta, meta.rows as usize + more, columns, tags);
    Some(needed).filter(|needed| *needed > graph.steps().bytes_left())
}

/// Refuses to train an index that is too large for it before its rows are read.
///
/// # Errors
///
/// [`Error::Full`].
pub(super) fn refuse_large<W: PagesMut>(graph: &Graph<'_, W>) -> Result<(), Error> {
    match missing_room(graph, 0, FEW_TAGS) {
        Some(needed) => Err(no_room(graph, needed, graph.meta().rows, 0)),
        None => Ok(()),
    }
}

/// The error for a graph of `needed` bytes, of `rows` rows of which `added` are new.
fn no_room<W: PagesMut>(graph: &Graph<'_, W>, needed: u64, rows: u64, added: usize) -> Error {
    let advice = if added > 0 { "add fewer rows per call" } else { "compact trains within a budget of memory" };
    Error::full(format!(
        "to train the index with its {rows} rows takes {} MiB of pages in memory, and a transaction has room for {} \
         MiB; nothing has changed; {advice}",
        needed.div_ceil(1 << 20),
        graph.steps().bytes_left() >> 20,
    ))
}

/// Most rows of one statement that may train an index whose rows the host owns; 0 if it has too
/// many rows for that, or if its model is kept.
pub(super) fn room_at_once(meta: &Meta) -> u64 {
    let most = LOADED_ROWS.min(LOADED_COMPONENTS / meta.dim as u64);
    let room = most.saturating_sub(meta.rows);
    if is_young(meta) && room >= meta.rows { room } else { 0 }
}

/// Under the inner product, notes the length of rows that are about to be added if they are
/// longer than all before: the norm to which all vectors are filled up is at least that.
pub(super) fn note_length<W: PagesMut>(graph: &mut Graph<'_, W>, vectors: &[f32]) -> Result<(), Error> {
    let meta = graph.meta();
    let Some(longest_sq) = meta.filled_sq() else { return Ok(()) };
    let norms_sq = vectors.chunks_exact(meta.dim).map(|row| pagehop_kernels::dot_f32(row, row));
    // Other kernels may compute squares that differ in the last bits.
    let beyond = norms_sq.fold(0.0, f32::max) * 1.000_01;
    if beyond <= longest_sq {
        return Ok(());
    }
    graph.in_section(|graph| {
        graph.steps_mut().step_meta(&[], &mut |meta, _| {
            meta.change.norm_sq_beyond = meta.change.norm_sq_beyond.max(beyond);
            Ok(())
        })
    })
}

/// Rebuilds the index with the given rows in it.
pub(super) fn rebuild<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    pending: Option<&PendingMap>,
    ids: &[u64],
    vectors: &[f32],
    columns: &ColumnRows,
    report: &mut AddReport,
    progress: OnProgress<'_>,
) -> Result<(), Error> {
    let dim = graph.meta().dim;
    // If an id repeats, its last row is used.
    let last: HashMap<u64, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
    let of_index = ColumnRows::of_index(graph.columns().columns.clone(), graph.meta().has_places());
    let mut source = RowsInMemory { dim, ids: Vec::new(), components: Vec::new(), columns: of_index };
    let (replaced, recoded_error) = read_rows(graph, pending, &mut source, &last)?;
    for (i, (id, row)) in ids.iter().zip(vectors.chunks_exact(dim)).enumerate() {
        if last[id] == i {
            source.ids.push(*id);
            source.components.extend_from_slice(row);
            source.columns.push_row(columns.row(i), columns.sets(i).to_vec());
        }
    }
    report.replaced = replaced;
    report.added = last.len() as u64 - replaced;
    let needed = build::graph_bytes(graph.meta(), source.ids.len(), &source.columns);
    if needed > graph.steps().bytes_left() {
        return Err(no_room(graph, needed, source.ids.len() as u64, ids.len()));
    }
    let steps = graph.steps_mut();
    let is_hosted = steps.is_hosted();
    let Meta { metric, seed, id_kind, vectors: kept, .. } = *steps.meta();
    // A host that owns the rows may allow only one thread.
    let threads = usize::from(is_hosted);
    let options =
        BuildOptions { metric, id_kind, vectors: kept, memory_bytes: u64::MAX, threads, seed, calibrate: false };
    let number = if is_hosted { begin_graph(steps, None)? } else { 0 };
    let (first, pages) = (PageId(steps.page_count()), steps.host_mut());
    let sink = &mut NewPages { pages, number };
    let built = build::build_from(&mut source, &options, Some(first), sink, progress)?;
    let end = steps.page_count();
    steps.step_meta_numbered(|meta, commit| {
        let before = replace(meta, &built);
        match is_hosted {
            true => meta.change.show_graph(&before, end, commit),
            false => (meta.change.retired_end, meta.change.retired_at) = (first.0, commit),
        }
        meta.change.recoded_error = recoded_error;
    })?;
    graph.reload()
}

/// Reads every live row that `replacing` does not name into `rows`. Returns how many rows
/// `replacing` names, and the largest error of the vectors that were read.
fn read_rows<W: PagesMut>(
    graph: &Graph<'_, W>,
    pending: Option<&PendingMap>,
    rows: &mut RowsInMemory,
    replacing: &HashMap<u64, usize>,
) -> Result<(u64, f32), Error> {
    let steps = graph.steps();
    let mut replaced = 0;
    let mut nodes = Vec::new();
    if steps.is_hosted() {
        nodes = rows::host_rows(steps, pending, steps.meta().graph_pages(steps.page_count()))?;
    }
    let mut reader = steps.reader();
    let change = &steps.meta().change;
    if change.id_root > 0 {
        id_map::scan(&mut reader, steps.page_count(), PageId(change.id_root), |_, id, node| {
            match replacing.contains_key(&id) {
                true => replaced += 1,
                false => nodes.push((id, node)),
            }
            Ok(())
        })?;
    }
    // In an order that does not depend on their order in the map.
    nodes.sort_unstable();
    let space = &graph.model().space;
    let mean_sq = pagehop_kernels::dot_f32(&space.mean, &space.mean);
    let (mut point, mut bytes, mut error) = (Vec::new(), Vec::new(), 0.0f32);
    let kept = steps.meta().kept();
    for (id, node) in nodes {
        let values = with_node(&steps.layout(), &reader, node, |found, header| {
            found.decode(header, &mut point);
            error = error.max(restored_error(header.step, header.norm_sq, mean_sq, point.len()));
            found.values().0.to_vec()
        })?;
        reader.release();
        rows.columns.push_row(&values, post::sets_of(graph, node, &values)?);
        rows.ids.push(id);
        match kept {
            Some(shape) => {
                shape.read(&reader, shape.place_of(&steps.layout(), &reader, node)?, &mut bytes)?;
                reader.release();
                shape.decode(&bytes, &mut point);
                rows.components.extend_from_slice(&point);
            }
            None => rows.components.extend_from_slice(space.restore(&mut point)),
        }
    }
    Ok((replaced, if kept.is_some() { 0.0 } else { change.recoded_error + error }))
}

/// Whether the model may be trained again as rows are added.
pub(super) fn is_young(meta: &Meta) -> bool {
    meta.change.trained_rows < TRAINED_ENOUGH && meta.rows < TRAINED_ENOUGH * GROWTH
}

/// Whether a model is to be trained again with `more` rows.
pub(super) fn has_grown(meta: &Meta, more: usize) -> bool {
    has_grown_by(GROWTH, meta, more)
}

fn has_grown_by(growth: u64, meta: &Meta, more: usize) -> bool {
    let trained = meta.change.trained_rows;
    if meta.centroids == 0 {
        return more > 0;
    }
    let (rows, equal_rows) = (meta.rows, meta.change.equal_rows);
    let is_small = rows < TRAINED_ENOUGH * GROWTH;
    // Duplicates teach a model nothing. Where most rows are duplicates, a few others do not justify
    // a rebuild.
    let distinct = (rows + more as u64).saturating_sub(equal_rows);
    let has_grown = distinct >= trained.saturating_mul(growth) && trained < TRAINED_ENOUGH;
    has_grown && (is_small || equal_rows < rows / 2)
}

/// Begins a graph, for which pages are `reserved` if it is made beside others; returns its number.
pub(super) fn begin_graph<W: PagesMut>(steps: &mut Steps<'_, W>, reserved: Option<[u32; 2]>) -> Result<u8, Error> {
    let mut number = None;
    steps.step_meta(&[], &mut |meta, _| {
        number = meta.change.begin_graph(reserved);
        Ok(())
    })?;
    number
        .ok_or_else(|| Error::busy("open readers still use the pages of earlier graphs; close them and try again"))
}

/// Makes `meta` the meta page of the graph that was `built`, and keeps the fields that outlive
/// training. Returns the change state before.
pub(super) fn replace(meta: &mut Meta, built: &Meta) -> ChangeState {
    let (before, rows, page_count) = (meta.change.clone(), meta.rows, meta.page_count);
    // Changes are counted from 0 again. The number of changes since a measurement stays the same.
    let counted = before.added_rows.wrapping_add(before.deleted_rows);
    let calibration = meta.calibration.take().map(|known| known.restart_counts(counted));
    let mut audit = meta.audit;
    audit.iter_mut().for_each(|known| known.changes = known.changes.wrapping_sub(counted));
    let (keeps_payloads, has_tags) = (meta.keeps_payloads, meta.has_tags);
    *meta = Meta { calibration, audit, page_count, keeps_payloads, has_tags, ..built.clone() };
    if meta.id_kind != IdKind::HostOwned {
        // `finish` counts the new rows.
        meta.rows = rows;
    }
    meta.change.commit = before.commit;
    if meta.id_kind != IdKind::HostOwned {
        // Pages of records outlive a graph. Where the host owns the rows, empty ones are of the
        // graph that is replaced, and become free with it.
        (meta.change.records_head, meta.change.spare_head) = (before.records_head, before.spare_head);
    }
    meta.change.mark = before.mark;
    before
}
