//! The disk space of a build, estimated before it puts anything there.

use std::io;

use super::job::Job;
use super::spilled::files::{letter_bytes, row_bytes};
use super::spilled::plan::Plan;
use super::write::{column_pages, tree_pages};
use crate::columns::{Column, ColumnKind, ColumnRows};
use crate::page::meta::Meta;
use crate::page::{PAGE_BYTES, Scratch, landmark_pages, model_pages};
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::landmarks::built_landmarks;
use crate::{Error, IdKind};

/// Bytes of a row in the map from ids to nodes, free space of its pages included.
const MAP_ROW_BYTES: usize = 16;

/// The size of what is built: rows, their dimensions and columns, and the bytes of records that are
/// not written yet.
#[derive(Clone, Copy)]
pub(super) struct Demand<'a> {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) columns: Option<&'a ColumnRows>,
    pub(super) records: usize,
}

/// Refuses a build that the disk has no room for.
///
/// A build in memory writes the pages of the index. A spilled build needs up to three copies of all
/// rows at first, then two copies, letters and kept work. While it writes pages, the files of
/// partitions go one by one.
///
/// # Errors
///
/// [`Error::Full`].
pub(super) fn check(
    job: &Job<'_>,
    demand: &Demand<'_>,
    plan: Option<&Plan>,
    scratch: &dyn Scratch,
) -> Result<(), Error> {
    let pages = page_bytes(job, demand);
    let beside = if scratch.has_pages() { pages } else { 0 };
    let needed = plan.map_or(beside, |plan| aside_bytes(job, demand.rows, plan, beside, scratch));
    let free = scratch.free_bytes().map(|free| free.saturating_add(scratch.kept_bytes()));
    refuse_beyond(free, needed + demand.records * usize::from(scratch.has_pages()), "disk space", (job, demand))?;
    if scratch.has_pages() {
        return Ok(());
    }
    refuse_beyond(scratch.free_page_bytes(), pages + demand.records, "disk space for its pages", (job, demand))
}

/// The most bytes of scratch files, kept work and `pages` at once.
fn aside_bytes(job: &Job<'_>, rows: usize, plan: &Plan, pages: usize, scratch: &dyn Scratch) -> usize {
    let (row, letter) = (row_bytes(job.layout.inner_dim), letter_bytes(job.layout.degree));
    let kept = if scratch.keeps_work() { rows * (letter + 4 * job.layout.degree + 8) } else { 0 };
    let connected = rows * (2 * row + letter) + kept;
    let written = pages + plan.capacity.min(rows) * row + kept;
    (3 * rows * row + scratch.kept_bytes() as usize).max(connected).max(written)
}

/// Bytes of the pages of the index.
fn page_bytes(job: &Job<'_>, demand: &Demand<'_>) -> usize {
    let options = job.options;
    let columns = demand.columns.filter(|columns| columns.words() > 0);
    let words = columns.map_or(0, ColumnRows::words);
    let mut meta = Meta::empty(options.metric, demand.dim, words, options.seed, options.id_kind);
    (meta.vectors, meta.has_tags) = (options.vectors, columns.is_some_and(ColumnRows::has_tags));
    bytes_with(&meta, demand.rows, column_pages(&meta, columns))
}

/// Bytes of the pages of a graph of `rows` rows, with `columns` pages for the trees of columns.
/// Uses only the fields of `meta` that a rebuild keeps.
fn bytes_with(meta: &Meta, rows: usize, columns: u32) -> usize {
    let meta = Meta { centroids: CENTROIDS_MAX, ..meta.clone() };
    let landmarks = landmark_pages::pages(&meta, built_landmarks(rows));
    let pages = model_pages::model_pages(&meta) + landmarks + columns;
    let map = if meta.id_kind == IdKind::HostOwned { 0 } else { MAP_ROW_BYTES };
    let slots = rows.next_multiple_of(meta.layout.nodes_per_page) as u64;
    let kept = meta.kept().map_or(0, |shape| shape.pages(slots));
    let row = PAGE_BYTES.div_ceil(meta.layout.nodes_per_page) + map;
    (u64::from(pages) + kept) as usize * PAGE_BYTES + rows * row
}

/// An upper estimate of the bytes of the pages of the graph that a build of `rows` rows with these
/// values of columns makes, for an index with this meta page.
pub(crate) fn graph_bytes(meta: &Meta, rows: usize, columns: &ColumnRows) -> u64 {
    bytes_with(meta, rows, column_pages(meta, Some(columns))) as u64
}

/// The same before the values are read. A row is taken to have `tags` tags in each column of tags.
pub(crate) fn graph_bytes_about(meta: &Meta, rows: usize, columns: &[Column], tags: usize) -> u64 {
    let postings = |column: usize| if columns[column].kind == ColumnKind::Tags { tags * rows } else { rows };
    bytes_with(meta, rows, tree_pages(meta, columns, postings)) as u64
}

/// Refuses `needed` bytes if fewer are `free`; `None` if that is not known.
fn refuse_beyond(
    free: Option<u64>,
    needed: usize,
    what: &str,
    (job, demand): (&Job<'_>, &Demand<'_>),
) -> Result<(), Error> {
    let Some(free) = free.filter(|free| needed as u64 > *free) else { return Ok(()) };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let what = format!(
        "a build of {} rows in {} MiB of memory needs {} MiB of {what}, {} MiB are free",
        demand.rows,
        job.options.memory_bytes >> 20,
        mib(needed as u64),
        free >> 20,
    );
    Err(Error::io(what, io::ErrorKind::StorageFull.into()))
}
