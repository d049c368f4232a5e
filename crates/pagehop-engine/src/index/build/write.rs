//! Writes what was built: model, entry points, nodes in the order of their pages, map, columns.

use super::job::Job;
use super::keep::write_vectors;
use super::order::page_order;
use super::rows::Rows;
use super::survey::Survey;
use crate::columns::{ColumnRows, RowValues};
use crate::graph::Graph;
use crate::page::columns_page::Columns;
use crate::page::kind::{self, PageKind};
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::model_pages::{self, Entry};
use crate::page::node::{Edge, FLAGS_LIVE, NodeHeader, NodeMut};
use crate::page::postings::{Posting, PostingKey, PostingShape};
use crate::page::{BODY_BYTES, PageId, PageSink, column_tree, id_map};
use crate::quantize::codes::Codes;
use crate::quantize::landmarks::Landmark;
use crate::quantize::own;
use crate::quantize::prepare::Space;
use crate::{Error, RowIds, VectorSource};

/// What is to be written.
pub(super) struct Built<'a> {
    pub(super) survey: &'a Survey,
    pub(super) space: &'a Space,
    pub(super) rows: &'a Rows,
    pub(super) graph: &'a Graph,
}

/// Writes the model, the entry points, the nodes, the map and the trees of columns to pages from
/// `first` on. Returns the meta page.
pub(super) fn write(
    job: &mut Job<'_>,
    built: &Built<'_>,
    source: &mut dyn VectorSource,
    first: PageId,
    sink: &mut dyn PageSink,
) -> Result<Meta, Error> {
    let Built { survey, space, rows, graph } = *built;
    let (layout, total) = (job.layout, rows.codes.len());
    let columns = named(source);
    let order = page_order(graph, &rows.codes, layout.nodes_per_page);
    let mut meta = Meta {
        centroids: rows.centroids.len(),
        query_digits: rows.table.query_digits,
        rows: total as u64,
        norm_sq_max: survey.norm_sq_max,
        change: rows.counted(first),
        vectors: job.options.vectors,
        keeps_payloads: columns.is_some_and(ColumnRows::has_places),
        ..Meta::empty(
            space.metric,
            space.dim,
            columns.map_or(0, ColumnRows::words),
            job.options.seed,
            job.options.row_ids,
        )
    };
    meta.change.landmarks = rows.landmarks.iter().map(Vec::len).sum::<usize>() as u32;
    // Landmarks and entry points name nodes, whose pages come after theirs.
    let entries_page = meta.change.model_start + model_pages::model_pages(&meta);
    meta.change.entries_page = entries_page;
    let first = entries_page + 1;
    // An upper bound of the number of pages: the map has about one page per 600 rows. The sum
    // cannot overflow.
    let kept_pages = meta.kept().map_or(0, |shape| shape.pages((order.len() * layout.nodes_per_page) as u64));
    let pages = u64::from(first) + order.len() as u64 + kept_pages + total as u64 / 512 + 2;
    if pages * layout.nodes_per_page as u64 > u64::from(u32::MAX) {
        return Err(Error::full(format!("{total} rows need {pages} pages, more than ids can name")));
    }
    let mut node_of = vec![0u32; total];
    for (page, page_rows) in order.iter().enumerate() {
        for (slot, row) in page_rows.iter().enumerate() {
            node_of[*row as usize] = layout.node_id(PageId(first + page as u32), slot);
        }
    }
    let landmarks = landmarks(rows, &node_of);
    model_pages::write_model(&meta, &space.mean, &rows.centroids, &landmarks, sink)?;
    let in_place = |entry: &Entry| Entry { node: node_of[entry.node as usize], ..*entry };
    let entries: Vec<Entry> = rows.entries.iter().map(in_place).collect();
    sink.write(PageId(entries_page), &model_pages::entries_page(&entries))?;
    let mut page = write_nodes(job, built, columns, (&order, &node_of), PageId(first), &mut meta, sink)?;
    if let Some(shape) = meta.kept() {
        page = write_vectors(job, source, survey, (&shape, &layout), (&node_of, first..page), sink)?;
    }
    meta.page_count = page;
    if meta.row_ids == RowIds::Mapped {
        meta.page_count =
            write_map(&mut meta, survey.row_ids.iter().copied().zip(node_of.iter().copied()), page, sink)?;
    }
    if let Some(columns) = named(source).filter(|columns| !columns.columns().is_empty()) {
        job.step("columns", 0, 1)?;
        write_columns(&mut meta, columns, rows, &node_of, sink)?;
    }
    Ok(meta)
}

/// The columns of a source and the places of its payloads, if there are any.
fn named(source: &dyn VectorSource) -> Option<&ColumnRows> {
    source.columns().filter(|columns| columns.words() > 0)
}

/// Writes the nodes in their `order` to pages from `first` on; returns the page after them. Free
/// slots go to the list in `meta`.
fn write_nodes(
    job: &mut Job<'_>,
    built: &Built<'_>,
    columns: Option<&ColumnRows>,
    (order, node_of): (&[Vec<u32>], &[u32]),
    first: PageId,
    meta: &mut Meta,
    sink: &mut dyn PageSink,
) -> Result<u32, Error> {
    let Built { survey, rows, graph, .. } = *built;
    let layout = job.layout;
    let anchors = anchors(&rows.codes, graph, &rows.entries);
    let mut page = first.0;
    for page_rows in order {
        let mut body = vec![0; BODY_BYTES];
        kind::clear(&mut body, PageKind::Node);
        for (slot, row) in page_rows.iter().enumerate() {
            let row = *row as usize;
            let mut node = NodeMut::new(&layout, &mut body, slot);
            write_node(&mut node, survey.row_ids[row], row, rows, graph.neighbors(row), node_of, &anchors);
            columns.iter().for_each(|columns| node.set_values(columns.row(row)));
        }
        if let Some(shape) = meta.kept() {
            let number = (page - first.0) * layout.nodes_per_page as u32;
            shape.place(first.0 + order.len() as u32, number).write(&mut body);
        }
        let spare = layout.nodes_per_page - page_rows.len();
        if spare > 0 {
            FreeLink { listed: true, next: meta.change.free_head }.write(&mut body);
            meta.change.free_head = page;
            meta.change.free_slots += spare as u32;
        }
        sink.write(PageId(page), &body)?;
        page += 1;
        if page.is_multiple_of(1024) {
            job.step("write", u64::from(page - first.0), order.len() as u64)?;
        }
    }
    Ok(page)
}

/// Writes the trees of the columns, then the page that names them.
fn write_columns(
    meta: &mut Meta,
    columns: &ColumnRows,
    rows: &Rows,
    node_of: &[u32],
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    let shape = PostingShape::new(&meta.layout);
    let mut page = PageId(meta.page_count);
    let mut written = Columns::without_trees(columns.columns());
    for (column, root) in written.roots.iter_mut().enumerate() {
        let key = |row: &u32| {
            let row = *row as usize;
            PostingKey::new(RowValues(columns.row(row)).key(column), rows.table.centroid[row], node_of[row])
        };
        let mut order: Vec<u32> = (0..rows.codes.len() as u32).collect();
        order.sort_unstable_by_key(key);
        let postings = order.into_iter().map(|row| {
            let row = row as usize;
            Posting {
                node: node_of[row],
                centroid: rows.table.centroid[row],
                factors: rows.table.factors[row],
                values: columns.row(row).to_vec(),
                code: rows.table.code(row).to_vec(),
            }
        });
        (*root, page) = column_tree::write(&shape, column, postings, page, sink)?;
    }
    sink.write(page, &written.encode())?;
    meta.change.columns_page = page.0;
    meta.page_count = page.0 + 1;
    Ok(())
}

/// The landmarks, in the order of their centroids.
fn landmarks(rows: &Rows, node_of: &[u32]) -> Vec<Landmark> {
    let landmark = |row: &u32| {
        let row = *row as usize;
        let (centroid, factors) = (rows.table.centroid[row], rows.table.factors[row]);
        Landmark { node: node_of[row], centroid, factors, code: rows.table.code(row).to_vec() }
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

fn anchors(codes: &Codes, graph: &Graph, entries: &[Entry]) -> Vec<u32> {
    let order = walk_order(graph, entries);
    let mut rank = vec![u32::MAX; graph.len()];
    order.iter().enumerate().for_each(|(at, row)| rank[*row as usize] = at as u32);
    let mut anchors = vec![u32::MAX; graph.len()];
    let mut given = vec![0; graph.len()];
    // The first round finds a parent for nearly all rows. Rows that were rejected try again, at
    // last with parents that already gave half of their edges.
    let mut most = graph.degree / 2;
    loop {
        let mut found_some = false;
        let mut nearest = vec![(f32::INFINITY, u32::MAX); graph.len()];
        for row in order.iter().map(|row| *row as usize).filter(|row| given[*row] < most) {
            for neighbor in graph.neighbors(row).iter().map(|neighbor| *neighbor as usize) {
                if anchors[neighbor] == u32::MAX && rank[row] < rank[neighbor] {
                    let distance = codes.hi_distance(row, neighbor);
                    if distance < nearest[neighbor].0 {
                        nearest[neighbor] = (distance, row as u32);
                    }
                }
            }
        }
        for (anchor, (_, row)) in anchors.iter_mut().zip(nearest) {
            if row != u32::MAX && given[row as usize] < most {
                given[row as usize] += 1;
                *anchor = row;
                found_some = true;
            }
        }
        if !found_some && most == graph.degree {
            return anchors;
        }
        if !found_some {
            most = graph.degree;
        }
    }
}

fn walk_order(graph: &Graph, entries: &[Entry]) -> Vec<u32> {
    let mut seen = vec![false; graph.len()];
    let mut order = Vec::with_capacity(graph.len());
    let reach = |row: u32, order: &mut Vec<u32>, seen: &mut Vec<bool>| {
        if !std::mem::replace(&mut seen[row as usize], true) {
            order.push(row);
        }
    };
    entries.iter().for_each(|entry| reach(entry.node, &mut order, &mut seen));
    let mut at = 0;
    while let Some(row) = order.get(at).copied() {
        graph.neighbors(row as usize).iter().for_each(|neighbor| reach(*neighbor, &mut order, &mut seen));
        at += 1;
    }
    order
}

fn write_node(
    node: &mut NodeMut<'_>,
    row_id: u64,
    row: usize,
    rows: &Rows,
    neighbors: &[u32],
    node_of: &[u32],
    anchors: &[u32],
) {
    let own::OwnCode { step, norm_sq } = rows.codes.own[row];
    node.set_header(&NodeHeader {
        row_id,
        norm_sq,
        step,
        flags: FLAGS_LIVE,
        generation: 0,
        degree: neighbors.len() as u8,
        centroid: rows.table.centroid[row],
        added: 0,
        deleted: 0,
    });
    node.set_own(rows.codes.hi(row), rows.codes.lo(row));
    for (slot, neighbor) in neighbors.iter().enumerate() {
        let target = *neighbor as usize;
        node.set_edge(
            slot,
            &Edge {
                neighbor: node_of[target],
                generation: 0,
                anchor: anchors[target] as usize == row,
                centroid: rows.table.centroid[target],
                factors: rows.table.factors[target],
                code: rows.table.code(target),
            },
        );
    }
}
