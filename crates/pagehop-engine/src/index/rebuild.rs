//! An index written again: a build of its live rows, without dead nodes, free slots and pages that
//! nothing uses.

use std::ops::Range;
use std::sync::Arc;

use crate::columns::{ColumnRows, RowValues};
use crate::index::build;
use crate::index::open::Index;
use crate::index::search::bound::restored_error;
use crate::index::state::State;
use crate::page::node::NodeRef;
use crate::page::record_pages::{self, RecordPlace, RecordWriter};
use crate::page::row_record::read_tags;
use crate::page::{PageId, PageSink, Pages, Reader, read_ahead};
use crate::progress::report;
use crate::{BuildOptions, BuildReport, CreateOptions, EachChunk, Error, IdKind, OnProgress, VectorSource};

/// Rows of a chunk.
const CHUNK_ROWS: usize = 4096;
/// Pages, and records, between two calls of the progress callback.
const LOOK_PAGES: u32 = 64;
const LOOK_RECORDS: usize = 4096;

/// The rows of one snapshot. The reader holds the snapshot, so vacuum keeps the rows.
struct LivingRows<'s, R> {
    state: &'s State,
    pages: Range<u32>,
    reader: R,
    columns: ColumnRows,
    /// The number of rows, once they are surveyed.
    rows: Option<u64>,
    /// Largest distance of a vector that is read from the vector that the user gave.
    error: f32,
}

impl<R: Reader> LivingRows<'_, R> {
    /// Reads the values of columns and the errors of codes.
    fn survey(&mut self, progress: OnProgress<'_>) -> Result<u64, Error> {
        let (state, mut rows, mut error) = (self.state, 0, 0.0f32);
        let mean = &state.model.space.mean;
        let mean_sq = pagehop_kernels::dot_f32(mean, mean);
        let Self { reader, columns, pages, .. } = self;
        let mut values = Vec::new();
        for page in pages.clone().map(PageId) {
            if (page.0 - pages.start).is_multiple_of(LOOK_PAGES) {
                report(progress, "scan", u64::from(page.0 - pages.start), pages.len() as u64)?;
            }
            read_ahead(reader, page.0, pages);
            each_row(state, reader, page, |_, _, node, _| {
                let header = node.header();
                error =
                    error.max(restored_error(header.step, header.norm_sq, mean_sq, state.meta.layout.inner_dim));
                values.push(node.values().0.to_vec());
                rows += 1;
                Ok(())
            })?;
            reader.release();
            for row in values.drain(..) {
                let of_node = (page, RowValues(&row));
                let sets = match state.meta.has_tags {
                    true => read_tags(reader, state.meta.record_shape(), &state.columns.columns, of_node)?,
                    false => Vec::new(),
                };
                columns.push_row(&row, sets);
            }
        }
        report(progress, "scan", pages.len() as u64, pages.len() as u64)?;
        self.error = if state.meta.kept().is_some() { 0.0 } else { state.meta.change.recoded_error + error };
        Ok(rows)
    }
}

/// Calls `look` with each row of a page of nodes: its id, its slot, its node, and the page's body.
fn each_row<R: Reader>(
    state: &State,
    reader: &R,
    page: PageId,
    mut look: impl FnMut(u64, usize, &NodeRef<'_>, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let layout = &state.meta.layout;
    let body = reader.finish(page)?;
    if !state.meta.has_nodes(&body) {
        return Ok(());
    }
    for slot in 0..layout.nodes_per_page {
        let node = NodeRef::new(layout, &body, slot);
        let header = node.header();
        for row_id in state.rows(layout.node_id(page, slot), &header) {
            look(row_id, slot, &node, &body)?;
        }
    }
    Ok(())
}

impl<R: Reader> VectorSource for LivingRows<'_, R> {
    fn dim(&self) -> usize {
        self.state.meta.dim
    }

    fn row_count(&self) -> Option<u64> {
        self.rows
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let (state, reader) = (self.state, &mut self.reader);
        let kept = state.meta.kept();
        let (mut ids, mut components, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let (mut point, mut bytes) = (Vec::new(), Vec::new());
        for page in self.pages.clone().map(PageId) {
            read_ahead(reader, page.0, &self.pages);
            each_row(state, reader, page, |row_id, slot, node, body| {
                ids.push(row_id);
                match kept {
                    Some(shape) => places.push(shape.of_slot(page, body, slot)?),
                    None => {
                        node.decode(&node.header(), &mut point);
                        components.extend_from_slice(state.model.space.restore(&mut point));
                    }
                }
                Ok(())
            })?;
            reader.release();
            for place in places.drain(..) {
                let Some(shape) = kept else { break };
                shape.read(reader, place, &mut bytes)?;
                reader.release();
                shape.decode(&bytes, &mut point);
                components.extend_from_slice(&point);
            }
            if ids.len() >= CHUNK_ROWS {
                each(&ids, &components)?;
                ids.clear();
                components.clear();
            }
        }
        if ids.is_empty() { Ok(()) } else { each(&ids, &components) }
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

/// Copies the records that rows name to new pages from `first` on, and names the new places.
/// Returns the page after them, and the first of those with room.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` breaks; any error of the reader and of the sink.
fn copy_records<R: Reader>(
    rows: &mut ColumnRows,
    reader: &mut R,
    first: PageId,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<(PageId, u32), Error> {
    let mut writer = RecordWriter::new(sink, first);
    for row in 0..rows.len() {
        if row.is_multiple_of(LOOK_RECORDS) {
            report(progress, "records", row as u64, rows.len() as u64)?;
        }
        let Some(place) = RowValues(rows.row(row)).last_key() else { continue };
        let record = record_pages::read(reader, RecordPlace::of_key(place))?;
        rows.set_place(row, Some(writer.write(&record)?.key()));
    }
    report(progress, "records", rows.len() as u64, rows.len() as u64)?;
    writer.finish()
}

impl<P: Pages> Index<P> {
    /// Builds an index over the live rows of this one, as of its newest commit, and writes its
    /// pages to `sink`, page 0 last. It has the metric, columns, payloads, seed, mark and kind of
    /// kept vectors of this one, and its calibration and audit, which the host may replace.
    ///
    /// Costs as much as a [`build`](crate::build) within `memory_bytes` and on `threads` threads.
    /// An index that keeps no vectors is built over what [`Index::vectors`] returns, so each code
    /// has the error of two encodings.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the host owns the rows; [`Error::Memory`] if memory is too small;
    /// [`Error::Interrupted`] if `progress` breaks; [`Error::Corrupt`]; any error of the host and
    /// of the sink.
    pub fn rebuild(
        &self,
        memory_bytes: u64,
        threads: usize,
        sink: &mut dyn PageSink,
        progress: OnProgress<'_>,
    ) -> Result<BuildReport, Error> {
        let mut reader = self.pages().reader();
        let state: Arc<State> = self.newest().renew(&mut reader)?;
        let old = &state.meta;
        if old.id_kind == IdKind::HostOwned {
            return Err(Error::argument("the host of this index owns its rows, and must build it again"));
        }
        let columns = ColumnRows::of_index(state.columns.columns.clone(), old.has_places());
        let pages = state.node_pages(self.pages());
        let mut source = LivingRows { state: &state, pages, reader, columns, rows: None, error: 0.0 };
        let rows = source.survey(progress)?;
        source.rows = Some(rows);
        let mut meta = if rows == 0 {
            let options = CreateOptions {
                metric: old.metric,
                id_kind: old.id_kind,
                vectors: old.vectors,
                columns: state.columns.columns.clone(),
                payload: old.keeps_payloads,
                seed: old.seed,
            };
            build::write_empty(old.dim, &options, sink)?
        } else {
            let options = BuildOptions {
                metric: old.metric,
                id_kind: old.id_kind,
                vectors: old.vectors,
                memory_bytes,
                threads,
                seed: old.seed,
                calibrate: false,
            };
            let (mut first, mut listed) = (PageId(1), 0);
            if old.has_places() {
                (first, listed) = copy_records(&mut source.columns, &mut source.reader, first, sink, progress)?;
            }
            let mut meta = build::build_from(&mut source, &options, Some(first), sink, progress)?;
            (meta.change.records_head, meta.keeps_payloads) = (listed, old.keeps_payloads);
            meta
        };
        // Changes are counted from 0 again. Those since a measurement stay the same.
        let counted = old.change.added_rows.wrapping_add(old.change.deleted_rows);
        meta.calibration = old.calibration.as_ref().map(|known| known.restart_counts(counted));
        meta.audit = old.audit;
        meta.audit.iter_mut().for_each(|known| known.changes = known.changes.wrapping_sub(counted));
        (meta.change.mark, meta.change.recoded_error) = (old.change.mark, source.error);
        sink.write(PageId(0), &meta.encode())?;
        Ok(BuildReport { rows: meta.rows, pages: meta.page_count })
    }
}
