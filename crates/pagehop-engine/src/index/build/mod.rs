//! Bulk build: partition, connect, refine, write.
//!
//! ```text
//! read     first pass: count, mean, longest row, a sample                       (bounded memory)
//! train    coarse centroids of the sample
//! encode   second pass: own code and edge code of every row                     (the working set)
//! connect  rows without duplicates -> leaves -> all pairs -> candidates -> prune -> reverse edges
//! refine   search every row in that graph, prune again with the nodes it found
//! write    choose page neighbors and node ids, write node pages in order, the meta page last
//! ```
//!
//! The index depends on the rows, the options and the seed, but not on the number of threads: work
//! is divided by position, and results are joined in order.
//!
//! | file | subject |
//! |---|---|
//! | `job.rs` | what every phase needs: options, layout of nodes, threads, progress |
//! | `memory.rs`, `disk.rs` | estimates of memory and of disk space, before the build starts |
//! | `records.rs` | payloads, text ids and tags, which are written first |
//! | `survey.rs`, `sample.rs` | the first pass over the rows; the rows that the model is trained on |
//! | `rows.rs` | the second pass: the codes of every row |
//! | `connect.rs` | the edges of rows in memory |
//! | `spilled/` | codes in scratch files, if memory has no room for them |
//! | `order.rs`, `anchors.rs` | which rows share a page; an edge to each row that stays |
//! | `write.rs`, `keep.rs` | writes all pages; kept vectors, in the order of nodes |

mod anchors;
mod connect;
mod disk;
mod job;
mod keep;
pub(crate) mod memory;
mod order;
mod records;
mod rows;
mod sample;
mod spilled;
mod survey;
mod write;

use crate::columns::signatures::Signatures;
use crate::columns::{ColumnRows, tag_columns};
use crate::graph::{equal, reach};
use crate::page::columns_page::Columns;
use crate::page::meta::Meta;
use crate::page::{PageId, PageSink, Scratch};
use crate::quantize::codes::Codes;
use crate::quantize::prepare::Space;
use crate::{BuildOptions, BuildReport, CreateOptions, Error, IdKind, OnProgress, VectorSource, row_ids};
use anchors::anchors;
use disk::Demand;
pub(crate) use disk::{graph_bytes, graph_bytes_about};
use job::{Job, check_dim};
use order::page_order;
use records::WithPlaces;
use rows::Rows;
use spilled::plan::Plan;
pub use spilled::plan::build_memory_bytes_min;
use survey::Survey;
use write::{Connected, OwnCodes};

/// Builds an index over all rows of `source` and writes its pages to `sink`.
///
/// Scans the source twice, and once to eight times more for vectors that are kept. Memory stays
/// within `options.memory_bytes`. If that is less than
/// [`build_memory_bytes`](memory::build_memory_bytes), about `1.7 * dim + 450` bytes per row, and
/// an eighth of the bytes of kept vectors, rows are put aside in the sink's
/// [`Scratch`](crate::Scratch) files.
///
/// # Errors
///
/// [`Error::Argument`] if there are no rows, a vector is invalid for the metric (the message has
/// its position), an id repeats, or ids are not of the kind of `options.id_kind`;
/// [`Error::Memory`] if memory is too small; [`Error::Interrupted`] if `progress` breaks; any error
/// of the source or the sink.
pub fn build(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<BuildReport, Error> {
    let payloads = source.columns().is_some_and(|columns| columns.payloads().is_some());
    let has_tags = source.columns().is_some_and(ColumnRows::has_tags) && options.id_kind != IdKind::HostOwned;
    let texts = texts(source, options)?;
    let has_records = payloads || has_tags || texts.is_some();
    // If rows have records, each node has one more word: the place of its record.
    let words = source.columns().map_or(0, ColumnRows::words) + usize::from(has_records);
    let job = &mut Job::new(options, (source.dim(), words), &mut *progress)?;
    refuse_early(job, source, records::record_bytes(source.columns(), texts.as_deref()), sink.scratch())?;
    let meta = match has_records {
        false => build_from(source, options, None, sink, progress)?,
        true => {
            let (mut source, first, listed) = WithPlaces::write(job, source, texts, PageId(1), sink)?;
            let mut meta = build_from(&mut source, options, Some(first), sink, progress)?;
            (meta.change.records_head, meta.keeps_payloads) = (listed, payloads);
            meta
        }
    };
    sink.write(PageId(0), &meta.encode())?;
    Ok(BuildReport { rows: meta.rows, pages: meta.page_count })
}

/// The text ids of a source, if the ids of the index are texts.
fn texts(source: &dyn VectorSource, options: &BuildOptions) -> Result<Option<Vec<String>>, Error> {
    match (source.text_ids(), options.id_kind) {
        (Some(texts), IdKind::Text) => Ok(Some(texts.to_vec())),
        (None, IdKind::Text) => row_ids::check_kind(IdKind::Text, IdKind::Int).map(|()| None),
        (Some(_), other) => row_ids::check_kind(other, IdKind::Text).map(|()| None),
        (None, _) => Ok(None),
    }
}

/// Writes an index without rows, which grows by changes.
///
/// # Errors
///
/// [`Error::Argument`] if `dim` is out of range, or if the options keep vectors or payloads that
/// the host of the index has; those of [`ColumnRows::new`]; any error of the sink.
pub fn create(dim: usize, options: &CreateOptions, sink: &mut dyn PageSink) -> Result<(), Error> {
    let meta = write_empty(dim, options, sink)?;
    sink.write(PageId(0), &meta.encode())
}

/// Writes the pages of an index without rows but page 0, and returns the meta page.
pub(crate) fn write_empty(dim: usize, options: &CreateOptions, sink: &mut dyn PageSink) -> Result<Meta, Error> {
    let CreateOptions { metric, id_kind, vectors, ref columns, payload, seed } = *options;
    check_dim(dim)?;
    keep::check(id_kind, vectors, payload)?;
    ColumnRows::new(columns.clone())?;
    let has_tags = tag_columns(columns) > 0;
    let has_records = payload || id_kind == IdKind::Text || has_tags && id_kind != IdKind::HostOwned;
    let words = columns.len() + usize::from(has_records);
    let mut meta = Meta::empty(metric, dim, words, seed, id_kind);
    (meta.vectors, meta.keeps_payloads, meta.has_tags) = (vectors, payload, has_tags);
    if !columns.is_empty() {
        sink.write(PageId(1), &Columns::without_trees(columns).encode())?;
        meta.change.columns_page = 1;
        meta.page_count = 2;
    }
    Ok(meta)
}

/// Builds model, nodes and row id map on consecutive pages from `first` or [`PageSink::first`], and
/// returns the meta page that makes them the index.
pub(crate) fn build_from(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    first: Option<PageId>,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<Meta, Error> {
    let dim = source.dim();
    let payload = source.columns().is_some_and(ColumnRows::has_places);
    keep::check(options.id_kind, options.vectors, payload)?;
    let source = &mut keep::Rounded { source, vectors: options.vectors, id_kind: options.id_kind };
    let job = &mut Job::new(options, (dim, source.columns().map_or(0, ColumnRows::words)), progress)?;
    refuse_early(job, source, 0, sink.scratch())?;
    let mut survey = Survey::read(job, source)?;
    let (total, known) = (survey.row_ids.len(), source.columns());
    if let Some(known) = known.filter(|known| known.words() > 0 && known.len() != total) {
        let what = format!("there are {total} vectors, and columns of {} rows", known.len());
        return Err(Error::argument(what));
    }
    let demand = Demand { rows: total, dim, columns: source.columns(), records: 0 };
    let plan = plan(job, &demand, sink.scratch())?;
    survey.needed_bytes = plan.as_ref().map_or_else(
        || memory::build_memory_bytes(total, dim, job.threads),
        |plan| plan.resident_bytes + plan.cache_bytes,
    );
    let space = survey.space(job);
    let sample = survey.take_sample(&space)?;
    let centers = survey::train(job, &sample)?;
    let (mut connected, mut own) = match (plan, sink.scratch()) {
        (Some(plan), Some(scratch)) => {
            spilled::connect(job, source, &survey, (&space, &centers, sample), &plan, scratch)?
        }
        _ => {
            drop(sample);
            in_memory(job, source, &survey, (&space, &centers))?
        }
    };
    let signatures = source.columns().map(Signatures::train).unwrap_or_default();
    source.columns().iter().for_each(|columns| connected.rows.sign(&signatures, columns));
    let model = (&space, &signatures);
    let meta = write::write(job, (&survey, model), &connected, &mut *own, source, first, sink)?;
    job.step("write", u64::from(meta.page_count), u64::from(meta.page_count))?;
    Ok(meta)
}

/// Refuses a build that memory or the disk has no room for before anything is read or written, if
/// the source knows how many rows it has. Records of `records` bytes will be written first.
fn refuse_early(
    job: &Job<'_>,
    source: &dyn VectorSource,
    records: usize,
    scratch: Option<&dyn Scratch>,
) -> Result<(), Error> {
    let Some(rows) = source.row_count().filter(|rows| *rows > 0) else { return Ok(()) };
    let demand = Demand { rows: rows as usize, dim: source.dim(), columns: source.columns(), records };
    plan(job, &demand, scratch).map(|_| ())
}

/// Decides whether all rows fit in memory. If not, plans how to put them aside, with a limit for
/// caches. Refuses a build that memory or the disk has no room for.
fn plan(job: &Job<'_>, demand: &Demand<'_>, scratch: Option<&dyn Scratch>) -> Result<Option<Plan>, Error> {
    let Demand { rows, dim, .. } = *demand;
    if rows > u32::MAX as usize {
        return Err(Error::full(format!("{rows} rows are more than an index can name, {} at most", u32::MAX)));
    }
    let needed =
        memory::build_memory_bytes(rows, dim, job.threads) + memory::kept_bytes_min(job.options.vectors, rows, dim);
    let fits = needed <= job.options.memory_bytes;
    let Some(scratch) = scratch else {
        return if fits { Ok(None) } else { Err(memory::too_little(rows, needed, job.options.memory_bytes)) };
    };
    let plan = if fits { None } else { Some(Plan::new(job, rows, dim)?) };
    plan.iter().for_each(|plan| scratch.limit_cache(plan.cache_bytes));
    disk::check(job, demand, plan.as_ref(), scratch)?;
    Ok(plan)
}

/// Connects rows whose codes are all in memory.
fn in_memory(
    job: &mut Job<'_>,
    source: &mut dyn VectorSource,
    survey: &Survey,
    (space, centers): (&Space, &Codes),
) -> Result<(Connected, Box<dyn OwnCodes>), Error> {
    let (layout, total) = (job.layout, survey.row_ids.len());
    let filled_sq = survey.filled_sq(space.metric);
    let mut codes = Codes { filled_sq, ..Codes::with_capacity(layout.inner_dim, total) };
    let encoded = rows::encode(job, source, survey, (space, centers), &mut |some| {
        codes.append(some);
        Ok(())
    })?;
    let rows = Rows::new(encoded, layout.inner_dim, equal::firsts(&codes));
    (job.before, job.total) = (0, total as u64);
    let mut graph = connect::connect(job, &codes, &rows, total)?;
    let duplicates = (0..total as u32).filter(|row| !rows.is_first(*row as usize));
    equal::link_duplicates(&mut graph, &rows.firsts, duplicates);
    let entries: Vec<u32> = rows.entries.iter().map(|entry| entry.node).collect();
    reach::attach_unreachable(&mut graph, &entries, |done| job.step_rows("reach", done))?;
    let shape = (layout.nodes_per_page, job.threads);
    let order = page_order(&graph, &codes, shape, || job.step_rows("reach", total))?;
    let distance = |row: usize, neighbor: usize, _: usize| codes.hi_distance(row, neighbor);
    let anchors = anchors(&graph, &rows.entries, distance, |done| job.step_rows("anchor", done))?;
    Ok((Connected { rows, graph, order, anchors }, Box::new(codes)))
}
