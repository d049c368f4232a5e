//! Writes what was built: model, entry points, nodes in the order of their pages, map, columns.

use super::job::Job;
use super::keep::write_vectors;
use super::order::PageOrder;
use super::rows::Rows;
use super::survey::Survey;
use crate::columns::signatures::Signatures;
use crate::columns::tags::{PostingTag, posting_keys};
use crate::columns::{Column, ColumnKind, ColumnRows, RowValues};
use crate::graph::Adjacency;
use crate::graph::edge_table::TableRow;
use crate::page::columns_page::Columns;
use crate::page::kind::{self, PageKind};
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::model_pages::{self, Entry};
use crate::page::node::{Edge, FLAGS_LIVE, NodeHeader, NodeMut};
use crate::page::postings::{Posting, PostingKey};
use crate::page::{BODY_BYTES, PageId, PageSink, column_tree, id_map, landmark_pages};
use crate::quantize::codes::Codes;
use crate::quantize::landmarks::Landmark;
use crate::quantize::own::OwnCode;
use crate::quantize::prepare::Space;
use crate::{Error, IdKind, VectorSource};

/// Postings between two calls of the progress callback.
const LOOK_POSTINGS: usize = 4096;

/// Rows with their edges and places.
pub(super) struct Connected {
    pub(super) rows: Rows,
    pub(super) graph: Adjacency,
    pub(super) order: PageOrder,
    /// The anchor parent of each row.
    pub(super) anchors: Vec<u32>,
}

/// The own codes of all rows, wherever they are.
pub(super) trait OwnCodes {
    /// Brings the codes of rows on pages from `first` on into memory, and lets go of others.
    /// Returns the page after them, above `first`.
    fn bring(&mut self, order: &PageOrder, first: usize) -> Result<usize, Error>;

    /// The code of a row that was brought: its numbers and its planes.
    fn code(&self, row: u32) -> (OwnCode, &[i8], &[u8]);
}

/// All of them are in memory.
impl OwnCodes for Codes {
    fn bring(&mut self, order: &PageOrder, _: usize) -> Result<usize, Error> {
        Ok(order.len())
    }

    fn code(&self, row: u32) -> (OwnCode, &[i8], &[u8]) {
        let row = row as usize;
        (self.own[row], self.hi(row), self.lo(row))
    }
}

/// Writes the model, the entry points, the nodes, the map and the trees of columns to pages from
/// `first` or [`PageSink::first`] on. Returns the meta page.
pub(super) fn write(
    job: &mut Job<'_>,
    (survey, (space, signatures)): (&Survey, (&Space, &Signatures)),
    connected: &Connected,
    own: &mut dyn OwnCodes,
    source: &mut dyn VectorSource,
    first: Option<PageId>,
    sink: &mut dyn PageSink,
) -> Result<Meta, Error> {
    let Connected { rows, order, .. } = connected;
    let (layout, total) = (job.layout, rows.firsts.len());
    let columns = named(source);
    let mut meta = Meta {
        centroids: rows.centroids.len(),
        query_digits: rows.table.query_digits,
        rows: total as u64,
        norm_sq_max: survey.norm_sq_max,
        change: rows.counted(first.unwrap_or(PageId(1))),
        vectors: job.options.vectors,
        keeps_payloads: columns.is_some_and(ColumnRows::has_places),
        has_tags: columns.is_some_and(ColumnRows::has_tags),
        ..Meta::empty(
            space.metric,
            space.dim,
            columns.map_or(0, ColumnRows::words),
            job.options.seed,
            job.options.id_kind,
        )
    };
    let landmark_count = rows.landmarks.iter().map(Vec::len).sum();
    if first.is_none() {
        let before_nodes = place_model(&mut meta, landmark_count) - meta.change.model_start;
        let pages = before_nodes + order.len() as u32 + column_pages(&meta, columns);
        meta.change.model_start = sink.first(pages)?.0;
    }
    let first = place_model(&mut meta, landmark_count);
    // An upper bound of the number of pages: the map has about one page per 600 rows. The sum
    // cannot overflow.
    let kept_pages = meta.kept().map_or(0, |shape| shape.pages((order.len() * layout.nodes_per_page) as u64));
    let pages = u64::from(first) + order.len() as u64 + kept_pages + total as u64 / 512 + 2;
    if pages * layout.nodes_per_page as u64 > u64::from(u32::MAX) {
        return Err(Error::full(format!("{total} rows need {pages} pages, too many for node ids of 32 bits")));
    }
    let mut node_of = vec![0u32; total];
    for (page, page_rows) in order.pages().enumerate() {
        for (slot, row) in page_rows.iter().enumerate() {
            node_of[*row as usize] = layout.node_id(PageId(first + page as u32), slot);
        }
    }
    model_pages::write_model(&meta, &space.mean, &rows.centroids, signatures, sink)?;
    let in_place = |entry: &Entry| Entry { node: node_of[entry.node as usize], ..*entry };
    let entries: Vec<Entry> = rows.entries.iter().map(in_place).collect();
    sink.write(PageId(meta.change.entries_page), &model_pages::entries_page(&entries))?;
    landmark_pages::write(&meta, &landmarks(rows, &node_of), sink)?;
    let of_rows = (&*survey.row_ids, &*node_of, columns);
    let mut page = write_nodes(job, connected, own, of_rows, PageId(first), &mut meta, sink)?;
    if let Some(shape) = meta.kept() {
        page = write_vectors(job, source, survey, (&shape, &layout), (&node_of, first..page), sink)?;
    }
    meta.page_count = page;
    if meta.id_kind != IdKind::HostOwned {
        meta.page_count =
            write_map(&mut meta, survey.row_ids.iter().copied().zip(node_of.iter().copied()), page, sink)?;
    }
    if let Some(columns) = named(source).filter(|columns| !columns.columns().is_empty()) {
        write_columns(job, &mut meta, columns, (rows, &node_of), sink)?;
    }
    Ok(meta)
}

/// Gives the entry points and the landmarks their pages, which come before those of the nodes that
/// they name. Returns the page after them.
fn place_model(meta: &mut Meta, landmarks: usize) -> u32 {
    let entries_page = meta.change.model_start + model_pages::model_pages(meta);
    let (first, pages) = (entries_page + 1, landmark_pages::pages(meta, landmarks));
    (meta.change.entries_page, meta.change.landmarks) = (entries_page, landmarks as u32);
    if pages > 0 {
        // The next landmark may go to any page: they are about equally full.
        (meta.change.landmarks_head, meta.change.landmarks_page) = (first, first + pages - 1);
    }
    first + pages
}

/// The columns of a source and the places of its payloads, if there are any.
fn named(source: &dyn VectorSource) -> Option<&ColumnRows> {
    source.columns().filter(|columns| columns.words() > 0)
}

/// Writes the nodes in their order to the pages from `first` on; returns the page after them. Free
/// slots go to the list in `meta`.
fn write_nodes(
    job: &mut Job<'_>,
    connected: &Connected,
    own: &mut dyn OwnCodes,
    (row_ids, node_of, columns): (&[u64], &[u32], Option<&ColumnRows>),
    first: PageId,
    meta: &mut Meta,
    sink: &mut dyn PageSink,
) -> Result<u32, Error> {
    let layout = job.layout;
    let Connected { rows, graph, order, anchors } = connected;
    let mut ready = 0;
    for at in 0..order.len() {
        if at == ready {
            ready = own.bring(order, at)?;
        }
        let (page, page_rows) = (first.0 + at as u32, order.page(at));
        let mut body = vec![0; BODY_BYTES];
        kind::clear(&mut body, PageKind::Node);
        for (slot, row) in page_rows.iter().enumerate() {
            let mut node = NodeMut::new(&layout, &mut body, slot);
            node.set_header(&header(row_ids[*row as usize], rows.table.centroid(*row as usize), own.code(*row).0));
            write_node(&mut node, *row, own.code(*row), (rows, graph.neighbors(*row as usize)), (node_of, anchors));
            columns.iter().for_each(|columns| node.set_values(columns.row(*row as usize)));
        }
        if let Some(shape) = meta.kept() {
            let number = at as u32 * layout.nodes_per_page as u32;
            shape.place(first.0 + order.len() as u32, number).write(&mut body);
        }
        let spare = layout.nodes_per_page - page_rows.len();
        if spare > 0 {
            FreeLink { listed: true, next: meta.change.free_head }.write(&mut body);
            meta.change.free_head = page;
            meta.change.free_slots += spare as u32;
        }
        sink.write(PageId(page), &body)?;
        if (page + 1).is_multiple_of(1024) {
            job.step("write", at as u64 + 1, order.len() as u64)?;
        }
    }
    job.step("write", order.len() as u64, order.len() as u64)?;
    Ok(first.0 + order.len() as u32)
}

/// Pages of the trees of the columns, with the page that names them.
pub(super) fn column_pages(meta: &Meta, columns: Option<&ColumnRows>) -> u32 {
    let Some(columns) = columns else { return 0 };
    tree_pages(meta, columns.columns(), |column| match columns.columns()[column].kind {
        ColumnKind::Tags => (0..columns.len()).map(|row| postings_of(meta, columns, row, column).len()).sum(),
        _ => columns.len(),
    })
}

/// The same of `columns`, with the number of `postings` of each.
pub(super) fn tree_pages(meta: &Meta, columns: &[Column], postings: impl Fn(usize) -> usize) -> u32 {
    if columns.is_empty() {
        return 0;
    }
    let named = Columns::without_trees(columns);
    let trees = 0..columns.len();
    1 + trees.map(|column| column_tree::pages(&named.tree(meta, column).shape, postings(column))).sum::<u32>()
}

/// The tags of a row's postings in a column of tags.
fn postings_of(meta: &Meta, columns: &ColumnRows, row: usize, column: usize) -> Vec<PostingTag> {
    posting_keys(RowValues(columns.row(row)).key(column), columns.set_of(row, column), meta.has_tag_chains())
}

/// Reports that `left` of a column's `postings` are not written yet, as rows of all columns.
fn look_at_postings(
    job: &mut Job<'_>,
    columns: &ColumnRows,
    column: usize,
    (left, postings): (usize, usize),
) -> Result<(), Error> {
    let (rows, all) = (columns.len() as u64, columns.columns().len() as u64);
    let done = rows * (postings - left) as u64 / postings.max(1) as u64;
    job.step("columns", column as u64 * rows + done, all * rows)
}

/// Writes the trees of the columns, then the page that names them.
fn write_columns(
    job: &mut Job<'_>,
    meta: &mut Meta,
    columns: &ColumnRows,
    (rows, node_of): (&Rows, &[u32]),
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    let mut page = PageId(meta.page_count);
    let mut written = Columns::without_trees(columns.columns());
    for column in 0..written.roots.len() {
        look_at_postings(job, columns, column, (1, 1))?;
        let shape = written.tree(meta, column).shape;
        let place =
            |row: u32, value| PostingKey::new(value, rows.table.centroid(row as usize), node_of[row as usize]);
        let posting = |row: u32, (tag, next): (Option<u64>, u64)| {
            let row = row as usize;
            let TableRow { factors, centroid, code } = rows.table.row(row);
            Posting {
                node: node_of[row],
                centroid,
                factors,
                values: columns.row(row).to_vec(),
                code: code.to_vec(),
                tag,
                next,
            }
        };
        let all = 0..rows.firsts.len() as u32;
        let value = |row: &u32| RowValues(columns.row(*row as usize)).key(column);
        // Calls that come after fewer postings are left out.
        let mut looked = usize::MAX;
        let mut look = |left: usize, postings: usize| {
            if looked - left < LOOK_POSTINGS {
                return Ok(());
            }
            looked = left;
            look_at_postings(job, columns, column, (left, postings))
        };
        (written.roots[column], page) = match columns.columns()[column].kind {
            ColumnKind::Tags => {
                let of_row = |row: u32| {
                    postings_of(meta, columns, row as usize, column).into_iter().map(move |tag| (row, tag))
                };
                let mut order: Vec<(u32, PostingTag)> = all.flat_map(of_row).collect();
                order.sort_unstable_by_key(|(row, tag)| place(*row, tag.tag));
                let postings = order.into_iter().map(|(row, tag)| posting(row, tag.of_posting()));
                let count = postings.len();
                column_tree::write(&shape, column, postings, page, sink, |left| look(left, count))?
            }
            _ => {
                let mut order: Vec<u32> = all.collect();
                order.sort_unstable_by_key(|row| place(*row, value(row)));
                let postings = order.into_iter().map(|row| posting(row, (None, 0)));
                let count = postings.len();
                column_tree::write(&shape, column, postings, page, sink, |left| look(left, count))?
            }
        };
    }
    look_at_postings(job, columns, written.roots.len() - 1, (0, 1))?;
    sink.write(page, &written.encode())?;
    meta.change.columns_page = page.0;
    meta.page_count = page.0 + 1;
    Ok(())
}

/// The landmarks, in the order of their centroids.
fn landmarks(rows: &Rows, node_of: &[u32]) -> Vec<Landmark> {
    let landmark = |row: &u32| {
        let TableRow { factors, centroid, code } = rows.table.row(*row as usize);
        Landmark { node: node_of[*row as usize], generation: 0, centroid, factors, code: code.to_vec() }
    };
    rows.landmarks.iter().flatten().map(landmark).collect()
}

fn write_map(
    meta: &mut Meta,
    nodes: impl Iterator<Item = (u64, u32)>,
    first: u32,
    sink: &mut dyn PageSink,
) -> Result<u32, Error> {
    let mut nodes: Vec<(u64, u32)> = nodes.collect();
    nodes.sort_unstable();
    let (root, end) = id_map::write(&nodes, PageId(first), sink)?;
    meta.change.id_root = root.0;
    Ok(end.0)
}

/// The header of a new node, without its degree.
fn header(row_id: u64, centroid: u8, own: OwnCode) -> NodeHeader {
    let OwnCode { step, norm_sq } = own;
    NodeHeader { row_id, norm_sq, step, flags: FLAGS_LIVE, centroid, ..NodeHeader::default() }
}

/// Writes what follows the header of a node, and its degree.
fn write_node(
    node: &mut NodeMut<'_>,
    row: u32,
    (_, hi, lo): (OwnCode, &[i8], &[u8]),
    (rows, neighbors): (&Rows, &[u32]),
    (node_of, anchors): (&[u32], &[u32]),
) {
    node.set_degree(neighbors.len());
    node.set_own(hi, lo);
    for (slot, neighbor) in neighbors.iter().enumerate() {
        let target = *neighbor as usize;
        let (neighbor, anchor) = (node_of[target], anchors[target] == row);
        let TableRow { factors, centroid, code } = rows.table.row(target);
        node.set_edge(slot, &Edge { neighbor, generation: 0, anchor, centroid, factors, code });
    }
}
