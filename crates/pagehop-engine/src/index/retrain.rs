//! What a change does now and then: it trains the model anew as a young index grows, and brings an index of an
//! older format up to this one.
//!
//! A model learned from ten rows serves a million badly, so the whole is built anew each time the rows have
//! grown eightfold, until the model was trained on enough. The new graph lies on new pages; readers of older
//! snapshots go on with the old one, whose pages become free when nobody can be there any more.

use std::collections::{HashMap, HashSet};

use super::bound::restored_error;
use super::change::{AddReport, Change};
use super::meta::Meta;
use super::near::with_node;
use super::{BuildOptions, EachChunk, OnProgress, VectorSource, build, encode, ids, model};
use crate::page::layout::{FLAGS_LIVE, NodeId, NodeMut, NodeRef, PageKind};
use crate::page::{PageId, PageSink, PagesMut, Reader};
use crate::{Error, Metric, RowIds};

/// Growth after which the model is trained again.
const GROWTH: u64 = 8;
/// A model trained on so many rows is kept for good: no addition builds the index anew, unless for a row too long.
pub const TRAINED_ENOUGH: u64 = 16_384;
/// Pages of a retired graph that one transaction frees.
const SWEPT_PAGES: usize = 1024;
/// Squared length that rows may have after a build for rows too long, over the longest of then.
const NORM_ROOM: f32 = 2.0;

/// Pages at the end of a writer's, one after the other.
struct Sink<'w, W: PagesMut>(&'w mut W);

impl<W: PagesMut> PageSink for Sink<'_, W> {
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let allocated = self.0.allocate(1)?;
        if allocated != page {
            let what = format!("page {} was made where page {} was expected", allocated.0, page.0);
            return Err(Error::corrupt(page, what));
        }
        self.0.step(&[page], &mut |bodies| {
            bodies[0].copy_from_slice(body);
            Ok(())
        })
    }
}

/// Rows in memory.
struct Rows {
    dim: usize,
    ids: Vec<u64>,
    components: Vec<f32>,
}

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        self.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        for (ids, rows) in self.ids.chunks(4096).zip(self.components.chunks(4096 * self.dim)) {
            each(ids, rows)?;
        }
        Ok(())
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Whether the rows to come should be built into the index together with all others.
    pub(super) fn wants_training(&self, more: usize, vectors: &[f32]) -> bool {
        let trained = self.meta.change.trained_rows;
        if self.meta.centroids == 0 {
            return more > 0;
        }
        let (rows, equal_rows) = (self.meta.rows, self.meta.change.equal_rows);
        let is_small = rows < TRAINED_ENOUGH * GROWTH;
        // Another of many equal rows teaches nothing; and a few others are not worth it to build all of those anew.
        let places = (rows + more as u64).saturating_sub(equal_rows);
        let grown = places >= trained.saturating_mul(GROWTH) && trained < TRAINED_ENOUGH;
        grown && (is_small || equal_rows < rows / 2) || is_small && self.first_too_long(vectors).is_some()
    }

    /// The first row that is longer than the added dimension of the inner product has room for.
    pub(super) fn first_too_long(&self, vectors: &[f32]) -> Option<(usize, f32)> {
        if self.meta.metric != Metric::InnerProduct {
            return None;
        }
        let lengths = vectors.chunks_exact(self.meta.dim).map(|row| pagehop_kernels::dot_f32(row, row));
        lengths.enumerate().find(|(_, norm_sq)| *norm_sq > self.meta.norm_sq_max)
    }

    /// Builds everything anew with the given rows in it.
    pub(super) fn train_with(
        &mut self,
        ids: &[u64],
        vectors: &[f32],
        report: &mut AddReport,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        let dim = self.meta.dim;
        // Of rows with the same id the last counts.
        let last: HashMap<u64, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut source = Rows { dim, ids: Vec::new(), components: Vec::new() };
        let (replaced, recoded_error) = self.read_rows(&mut source, &last)?;
        for (i, (id, row)) in ids.iter().zip(vectors.chunks_exact(dim)).enumerate() {
            if last[id] == i {
                source.ids.push(*id);
                source.components.extend_from_slice(row);
            }
        }
        report.replaced = replaced;
        report.added = last.len() as u64 - replaced;
        let too_long = self.meta.centroids > 0 && self.first_too_long(vectors).is_some();
        let (metric, seed, row_ids) = (self.meta.metric, self.meta.seed, self.meta.row_ids);
        // A host that decides what is seen may be a process of one thread.
        let threads = usize::from(row_ids == RowIds::Tids);
        let options = BuildOptions { metric, memory_bytes: u64::MAX, threads, seed, row_ids, calibrate: false };
        let first = PageId(self.pages.page_count());
        if row_ids == RowIds::Tids {
            self.step_meta(&[], &mut |meta, _| {
                meta.change.unfinished = first.0;
                Ok(())
            })?;
        }
        let room = if too_long { NORM_ROOM } else { 1.0 };
        let built = build::build_from(&mut source, &options, room, first, &mut Sink(self.pages), progress)?;
        let commit = self.pages.commit_number();
        self.step_meta(&[], &mut |meta, _| {
            let (before, rows, calibration) = (meta.change.clone(), meta.rows, meta.calibration.take());
            let (page_count, mut audit) = (meta.page_count, meta.audit);
            // Changes are counted from 0 again; how many there were since is not forgotten.
            let counted = before.added_rows.wrapping_add(before.deleted_rows);
            let calibration = calibration.map(|known| known.counted_anew(counted));
            audit.iter_mut().for_each(|known| known.changes = known.changes.wrapping_sub(counted));
            *meta = Meta { calibration, audit, ..built.clone() };
            if row_ids == RowIds::Mapped {
                // `finish` counts the rows that are new.
                meta.rows = rows;
            }
            meta.page_count = page_count;
            meta.change.commit = before.commit;
            meta.change.mark = before.mark;
            meta.change.retired_end = first.0;
            meta.change.retired_at = commit;
            meta.change.recoded_error = recoded_error;
            Ok(())
        })?;
        let mut reader = self.pages.reader();
        self.model = model::read_model(&self.meta, &mut reader)?.into();
        self.entries = model::read_entries(&self.meta, &mut reader)?;
        Ok(())
    }

    /// Reads every living row that `replacing` does not name into `rows`; returns how many it names, and how far what was
    /// read may be from what the user gave.
    fn read_rows(&mut self, rows: &mut Rows, replacing: &HashMap<u64, usize>) -> Result<(u64, f32), Error> {
        let mut nodes = Vec::new();
        let mut replaced = 0;
        if self.meta.row_ids == RowIds::Tids {
            nodes = self.tids()?;
        }
        let mut reader = self.pages.reader();
        if self.meta.change.id_root > 0 {
            ids::scan(&mut reader, self.pages.page_count(), PageId(self.meta.change.id_root), |_, id, node| {
                match replacing.contains_key(&id) {
                    true => replaced += 1,
                    false => nodes.push((id, node)),
                }
                Ok(())
            })?;
        }
        // In an order that does not depend on where the map has them.
        nodes.sort_unstable();
        let mean_sq = pagehop_kernels::dot_f32(&self.model.space.mean, &self.model.space.mean);
        let (mut point, mut error) = (Vec::new(), 0.0f32);
        for (id, node) in nodes {
            with_node(&self.meta, &reader, node, |found, header| {
                encode::decode(found, header, &mut point);
                error = error.max(restored_error(header.step, header.norm_sq, mean_sq, point.len()));
            })?;
            reader.release();
            rows.ids.push(id);
            rows.components.extend_from_slice(self.model.space.restore(&mut point));
        }
        Ok((replaced, self.meta.change.recoded_error + error))
    }

    /// Frees pages of a graph that was replaced, once no reader can be there: a thousand in each transaction, from
    /// the last to the first, the meta page knowing how far it has come.
    pub(super) fn sweep_retired(&mut self) -> Result<(), Error> {
        if self.meta.change.retired_end == 0 || self.meta.change.retired_at > self.pages.oldest_snapshot() {
            return Ok(());
        }
        let layout = self.meta.layout;
        for _ in 0..SWEPT_PAGES {
            if self.meta.change.retired_end == 0 {
                break;
            }
            let page = PageId(self.meta.change.retired_end - 1);
            if page.0 == 0 {
                return self.step_meta(&[], &mut |meta, _| {
                    meta.change.retired_end = 0;
                    Ok(())
                });
            }
            self.step_meta(&[page], &mut |meta, bodies| {
                let body = &mut *bodies[0];
                if body[0] == PageKind::Node as u8 {
                    (0..layout.nodes_per_page).for_each(|slot| NodeMut::new(&layout, body, slot).free());
                } else {
                    body.fill(0);
                    body[0] = PageKind::Node as u8;
                }
                meta.change.list_free(page, body, layout.nodes_per_page);
                meta.change.retired_end = page.0;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Frees the pages of a graph whose building did not end. Nobody has been there.
    pub(super) fn sweep_unfinished(&mut self) -> Result<(), Error> {
        while self.meta.change.unfinished != 0 {
            let page = PageId(self.meta.change.unfinished);
            if page.0 >= self.pages.page_count() {
                return self.step_meta(&[], &mut |meta, _| {
                    meta.change.unfinished = 0;
                    Ok(())
                });
            }
            let nodes_per_page = self.meta.layout.nodes_per_page;
            self.step_meta(&[page], &mut |meta, bodies| {
                bodies[0].fill(0);
                bodies[0][0] = PageKind::Node as u8;
                meta.change.list_free(page, bodies[0], nodes_per_page);
                meta.change.unfinished = page.0 + 1;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Gives an index of version 1 what changes need: a map of its rows, a page for its entry points, a list of
    /// its free slots.
    pub(super) fn upgrade(&mut self) -> Result<(), Error> {
        if self.meta.version > 1 {
            return Ok(());
        }
        let layout = self.meta.layout;
        let (mut rows, mut spare) = (Vec::new(), Vec::new());
        let mut reader = self.pages.reader();
        for page in (1..self.meta.page_count).map(PageId) {
            let body = reader.finish(page)?;
            if body[0] == PageKind::Node as u8 {
                let nodes =
                    (0..layout.nodes_per_page).map(|slot| (slot, NodeRef::new(&layout, &body, slot).header()));
                let living = nodes.filter(|(_, header)| header.flags == FLAGS_LIVE);
                let before = rows.len();
                rows.extend(living.map(|(slot, header)| (header.row_id, layout.node_id(page, slot))));
                let free = layout.nodes_per_page - (rows.len() - before);
                spare.extend((free > 0).then_some((page, free)));
            }
            drop(body);
            reader.release();
        }
        drop(reader);
        refuse_repeated(&rows)?;
        rows.sort_unstable();
        let first = PageId(self.pages.page_count());
        let (root, entries_page) = ids::write(&rows, first, &mut Sink(self.pages))?;
        Sink(self.pages).write(entries_page, &model::entries_page(&self.entries))?;
        self.step_meta(&[], &mut |meta, _| {
            meta.version = super::meta::FORMAT_VERSION;
            meta.change.id_root = root.0;
            meta.change.entries_page = entries_page.0;
            Ok(())
        })?;
        for (page, free) in spare {
            self.step_meta(&[page], &mut |meta, bodies| {
                meta.change.list_free(page, bodies[0], free);
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn refuse_repeated(rows: &[(u64, NodeId)]) -> Result<(), Error> {
    let mut seen = HashSet::with_capacity(rows.len());
    match rows.iter().find(|(id, _)| !seen.insert(*id)) {
        Some((id, _)) => {
            Err(Error::argument(format!("id {id} stands for more than one row; build the index anew")))
        }
        None => Ok(()),
    }
}
