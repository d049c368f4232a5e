//! Insertion of a row into the graph.
//!
//! ```text
//! walk     to the row's point; robust prune chooses neighbors among the visited nodes
//! step     the node, in a slot near its neighbors          (node page, meta page)
//! steps    its postings                                    (the trees of the columns)
//! steps    an anchor from a neighbor, and edges back from
//!          the neighbors that take one                     (the pages of four of them)
//! step     one node in 32 becomes a landmark               (a page of landmarks, meta page)
//! ```
//!
//! Several writers may insert rows at the same time: each step compares the node with what the
//! decision was based on (`steps.rs`). Only postings and kept vectors are written by one writer at
//! a time, in a section with the node's step. No edge leads to a node before it has its anchor, so
//! no row can be anchored below a row without an anchor. An insertion that ends early leaves a node
//! that no search finds, whose row no reader sees.
//!
//! This is the insertion of FreshDiskANN (Singh et al. 2021).
//!
//! A duplicate, a row whose vector equals that of an earlier one, goes another way. As ordinary
//! neighbors, hundreds of duplicates would have only edges to one another, and no edge would lead
//! out. So the first stands in the graph for all of them. Each of the others hangs by an anchor
//! below a duplicate that has an edge left, at most [`DUPLICATE_CHILDREN`] below any, and a search
//! comes down this tree to all of them. A duplicate has an edge up to its anchor parent and copies
//! of that node's edges outward; only the parent has an edge to it.

use super::anchors::{self, WAY_DOWN_MAX, next_way};
use super::explorer::WalkExtent;
use super::landmarks;
use super::post;
use crate::Error;
use crate::graph::equal::DUPLICATE_CHILDREN;
use crate::ids::NodeId;
use crate::index::change::encode::{self, EncodedRow, Target};
use crate::index::change::graph::Graph;
use crate::index::change::pages::slots::{self, NewNode, Posted};
use crate::page::node::FLAGS_LIVE;
use crate::page::{PagesMut, STEP_PAGES};

/// Candidates that the walk of an insertion keeps.
pub(in crate::index::change) const INSERT_LIST: usize = 135;

/// Neighbors that are offered an edge to a new node. Edges to it decide how well it is found, more
/// than its own do, and than a longer list (0014).
fn offers(degree: usize) -> usize {
    degree * 5 / 4
}

/// Edges that a new node begins with; those to later rows fill the rest. More take time and log,
/// for no recall (0014).
fn edges_first(degree: usize) -> usize {
    degree * 5 / 8
}

/// Writes the node of a row, its postings, its edges, and the edges back to it.
pub(in crate::index::change) fn insert<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    row_id: u64,
    encoded: &EncodedRow,
) -> Result<NodeId, Error> {
    walk_to(graph, encoded)?;
    insert_here(graph, row_id, encoded)
}

/// Visits the neighborhood of a row, or ends at a node that is equal to it.
pub(in crate::index::change) fn walk_to<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    encoded: &EncodedRow,
) -> Result<(), Error> {
    graph.walk(&encoded.point, WalkExtent::to_equal(INSERT_LIST, encoded))
}

/// [`insert`] of a row whose neighborhood the walk has visited.
pub(in crate::index::change) fn insert_here<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    row_id: u64,
    encoded: &EncodedRow,
) -> Result<NodeId, Error> {
    if let Some(parent) = way_to_duplicates(graph, row_id, encoded)?.parent {
        return insert_below(graph, parent, row_id, encoded);
    }
    let neighbors = neighbors(graph, encoded);
    if neighbors.is_empty() {
        return insert_first(graph, row_id, encoded);
    }
    insert_among(graph, &neighbors, row_id, encoded)
}

/// Writes a row with edges to the first of `neighbors`, and offers an edge to all of them.
fn insert_among<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    neighbors: &[(NodeId, u8)],
    row_id: u64,
    encoded: &EncodedRow,
) -> Result<NodeId, Error> {
    let near = nodes_tried(graph);
    let first = neighbors.iter().take(edges_first(graph.meta().layout.degree));
    let targets: Vec<Target> =
        first.map(|(id, generation)| graph.target(*id, *generation)).collect::<Result<_, _>>()?;
    let new = NewNode { row_id, encoded, targets: &targets, is_duplicate: false };
    let (node, generation) = place(graph, &new, &near)?;
    let target = encoded.target(node, generation);
    let header = graph.look(node, |_, header| *header)?;
    graph.near_mut().push(node, header, &encoded.hi);
    let neighbors: Vec<NodeId> = neighbors.iter().map(|(id, _)| *id).collect();
    anchors::anchor_among(graph, &neighbors, &target)?;
    landmarks::make(graph, &target)?;
    Ok(node)
}

/// Writes a row if the walk found no live node: searches will find this row first. If several
/// writers do so at once, one makes its row an entry point, and the others find that.
fn insert_first<W: PagesMut>(graph: &mut Graph<'_, W>, row_id: u64, encoded: &EncodedRow) -> Result<NodeId, Error> {
    let placed = graph.in_section(|graph| {
        if graph.steps().is_shared() {
            graph.reload_entries()?;
            walk_to(graph, encoded)?;
            if !graph.near().nodes.is_empty() {
                return Ok(None);
            }
        }
        let new = NewNode { row_id, encoded, targets: &[], is_duplicate: false };
        let (node, generation) = place_and_post(graph, &new, &[])?;
        enter_at(graph, &encoded.target(node, generation), encoded)?;
        Ok(Some(node))
    })?;
    match placed {
        Some(node) => Ok(node),
        None => insert_here(graph, row_id, encoded),
    }
}

/// Writes the node of a row, and its postings. A kept vector is written for a certain slot,
/// which no other writer may take before the node does.
fn place<W: PagesMut>(graph: &mut Graph<'_, W>, new: &NewNode<'_>, near: &[NodeId]) -> Result<(NodeId, u8), Error> {
    if graph.meta().layout.column_bytes == 0 && graph.meta().kept().is_none() {
        return slots::place(graph.steps_mut(), new, near);
    }
    graph.in_section(|graph| place_and_post(graph, new, near))
}

/// [`place`], called in a section.
fn place_and_post<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    new: &NewNode<'_>,
    near: &[NodeId],
) -> Result<(NodeId, u8), Error> {
    if graph.steps().is_shared() {
        post::post_unfinished(graph)?;
    }
    loop {
        let (page, is_new) = slots::page_for(graph.steps_mut(), near)?;
        let Some(node) = slots::next_on(graph.steps(), page, is_new)? else { continue };
        let postings = post::postings(graph, node, new.encoded);
        let leaves = post::leaves(graph, &postings, STEP_PAGES - 2)?;
        let (first, others) = postings.split_at(leaves.len());
        let posted = Posted { leaves: &leaves, postings: first, is_all: others.is_empty() };
        if let Some(placed) = slots::place_on(graph.steps_mut(), page, is_new, new, &posted)? {
            post::post(graph, others)?;
            return Ok(placed);
        }
    }
}

/// Nodes of a tree of duplicates, which are equal to a row.
#[derive(Default)]
pub(in crate::index::change) struct Duplicates {
    /// The one that can take another duplicate below it, if there are any.
    pub(in crate::index::change) parent: Option<NodeId>,
    /// Those on the way down to it, and beside that way.
    pub(in crate::index::change) seen: Vec<NodeId>,
}

/// Follows a way down from a visited node that is equal to the row. Each row takes another way, so
/// that duplicates form a tree and not a chain.
pub(in crate::index::change) fn way_to_duplicates<W: PagesMut>(
    graph: &Graph<'_, W>,
    row_id: u64,
    encoded: &EncodedRow,
) -> Result<Duplicates, Error> {
    let Some(mut at) = graph.near().equal_to(encoded.own, &encoded.hi) else { return Ok(Duplicates::default()) };
    let target = encoded.target(NodeId::MAX, 0);
    let (mut seen, mut way) = (vec![at], row_id);
    for _ in 0..WAY_DOWN_MAX {
        let below = anchors::duplicates_below(graph, at, &target)?;
        seen.extend(&below);
        if below.len() < DUPLICATE_CHILDREN {
            break;
        }
        way = next_way(way);
        at = below[way as usize % below.len()];
    }
    Ok(Duplicates { parent: Some(at), seen })
}

/// Writes a row below `parent`, which is equal to it, with copies of its edges: they were chosen
/// for the same place. No edge leads back. A copy is stale if the edge of the parent is. Reading
/// the targets would be a quarter of the work (0015). When vacuum removes the parent, for example
/// the old node of an updated row, it reads the targets and chooses again.
fn insert_below<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    parent: NodeId,
    row_id: u64,
    encoded: &EncodedRow,
) -> Result<NodeId, Error> {
    let (generation, equal) = graph.look(parent, |node, header| {
        let is_same = node.lo() == encoded.lo && header.centroid == encoded.centroid;
        (header.generation, is_same.then(|| encoded.target_of(graph.model(), parent, node)))
    })?;
    let equal = match equal {
        Some(equal) => equal,
        None => graph.target(parent, generation)?,
    };
    let most = graph.meta().layout.degree - DUPLICATE_CHILDREN;
    let mut targets = Vec::with_capacity(most);
    targets.push(equal);
    graph.look(parent, |node, _| {
        for at in 0..node.links().count() {
            if targets.len() < most && !encode::is_edge_to(node, at, &targets[0]) {
                targets.extend(encode::copy(node, at));
            }
        }
    })?;
    let near: Vec<NodeId> = [parent].into_iter().chain(nodes_tried(graph)).collect();
    let new = NewNode { row_id, encoded, targets: &targets, is_duplicate: true };
    let (node, generation) = place(graph, &new, &near)?;
    anchors::anchor_equal(graph, parent, &encoded.target(node, generation))?;
    Ok(node)
}

/// The neighbors of a row among the visited nodes, chosen by robust prune, each with the generation
/// of its slot. The first are those that no other covers.
fn neighbors<W: PagesMut>(graph: &Graph<'_, W>, encoded: &EncodedRow) -> Vec<(NodeId, u8)> {
    let near = graph.near();
    let most = offers(graph.meta().layout.degree);
    let chosen = near.choose(most, encoded.own.norm_sq).into_iter().map(|at| near.nodes[at as usize]);
    chosen.map(|(id, header)| (id, header.generation)).collect()
}

/// The nearest nodes, whose pages are tried for the new node.
fn nodes_tried<W: PagesMut>(graph: &Graph<'_, W>) -> Vec<NodeId> {
    graph.near().nearest().take(slots::nodes_tried(graph.meta(), INSERT_LIST)).collect()
}

/// Makes a node without neighbors the entry point in place of all that lead to no live node.
fn enter_at<W: PagesMut>(graph: &mut Graph<'_, W>, target: &Target, encoded: &EncodedRow) -> Result<(), Error> {
    for centroid in 0..graph.entries().len() {
        let entry = graph.entries()[centroid].node;
        let leads = graph.look(entry, |_, header| header.flags == FLAGS_LIVE && entry != target.node)?;
        if !leads {
            graph.set_entry(centroid, target.node, &encoded.point)?;
        }
    }
    Ok(())
}
