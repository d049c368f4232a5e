//! Takes a dead node out of the edges that lead to it.
//!
//! Most in-neighbors of a dead node are near it, so a walk to it finds them; a pass over all pages
//! finds the others (`in_edges.rs`). The edges of each are chosen again, among those it has and
//! edges to replacements, live nodes near the dead one: the in-place repair of IP-DiskANN (Xu et
//! al. 2025). Edges that are missed stay. Their generation tells them from edges to the next row of
//! the slot; they cost a search a hop now and then, and go when their node's edges are next chosen.
//!
//! Other writers may insert rows at the same time. The step that changes an in-neighbor compares
//! what was decided on, as theirs do (`steps.rs`). They may anchor new nodes to the dead one, or
//! below its dependents, but they never change the anchor parent of an older node. So an older node
//! that is not below a dependent now never will be. It can become the dependent's anchor parent.
//! The last step tests that the dead node has the edges it had when its dependents were read. No
//! slot becomes free beside other writers, so a node that one of them has read is the same until
//! its turn ends.

use super::anchors;
use super::edges::{EdgeCount, Extras, Gone, Revision};
use super::explorer::WalkExtent;
use super::in_edges::InEdges;
use super::post;
use crate::Error;
use crate::ids::NodeId;
use crate::index::change::encode;
use crate::index::change::graph::{DECISIONS_MAX, Graph};
use crate::index::change::pages::dead;
use crate::index::change::pages::rows;
use crate::index::change::pages::steps::{Seen, can_be_parent};
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_FREE, FLAGS_LIVE, Link, with_node};
use crate::page::{PageId, PagesMut, Reader};

/// Candidates of the walk to a dead node, and their largest number if nearly all candidates are
/// dead.
const REPAIR_LIST: usize = 64;
const REPAIR_LIST_MAX: usize = 4 * REPAIR_LIST;
/// A node with fewer edges to live nodes gets edges to others, however far they are.
const EDGES_MIN: usize = 4;
/// Replacements, nearest first, that are offered to each in-neighbor of a dead node.
const REPLACEMENTS: usize = 12;
/// The nearest live nodes to a dead node, which are replacements also if it has no edge to them. A
/// row that was deleted and added again is one: the old node has no edge to it, and as long as that
/// node is there, it keeps others from taking an edge to the new one.
const NEAREST: usize = 6;

/// Chooses the edges of every in-neighbor that is found again, gives the node's dependents other
/// anchor parents, and marks it at its `place` in the list of dead nodes. The node keeps its own
/// edges, because a search may be about to follow them. Returns the number of in-neighbors; `None`
/// if the node stays, because other writers kept anchoring nodes to it.
pub(in crate::index::change) fn unlink<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    known: &InEdges,
    node: NodeId,
    place: (PageId, usize),
) -> Result<Option<u64>, Error> {
    let generation = graph.look(node, |_, header| header.generation)?;
    let point = graph.point_of(node)?;
    graph.walk(&point, WalkExtent { list_max: REPAIR_LIST_MAX, ..WalkExtent::of(REPAIR_LIST) })?;
    let (replacements, dependents) = (replacements(graph, node)?, anchors::dependents_of(graph, node)?);
    let entry = replace_entries(graph, node)?;
    let candidates = replacements.iter().copied().chain(known.of(node));
    let (in_neighbors, parent) = in_neighbors(graph, node, generation, candidates)?;
    let repaired = in_neighbors.len() as u64;
    // The anchor parent may itself be below the node that became the entry point.
    let parent = entry.or(parent);
    // Before the node loses its own anchor: so an end at any step leaves every node anchored.
    anchors::anchor_again(graph, &dependents, parent, node)?;
    let mut poor = Vec::new();
    for neighbor in in_neighbors {
        let edges = revise_without(graph, neighbor, node, &replacements)?;
        poor.extend(has_few(graph, edges).then_some(neighbor));
    }
    poor.extend(with_few(graph, &dependents)?);
    poor.into_iter().try_for_each(|node| look_around(graph, node))?;
    post::unpost_beside_others(graph, node)?;
    Ok(leave(graph, node, dependents, parent, place)?.then_some(repaired))
}

/// Marks a node whose `settled` dependents have other anchor parents. Until then other writers may
/// anchor new nodes to it, which also get other anchor parents. `false` if they keep doing so.
fn leave<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    node: NodeId,
    mut settled: Vec<NodeId>,
    parent: Option<NodeId>,
    place: (PageId, usize),
) -> Result<bool, Error> {
    for _ in 0..DECISIONS_MAX {
        let seen = graph.look(node, Seen::of)?;
        let mut new = anchors::dependents_of(graph, node)?;
        new.retain(|dependent| !settled.contains(dependent));
        anchors::anchor_again(graph, &new, parent, node)?;
        settled.extend(new);
        if dead::mark_unlinked(graph.steps_mut(), node, &seen, place)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a dead node can leave the graph while other writers insert rows: it is not an entry
/// point, and most nodes are live.
pub(in crate::index::change) fn can_unlink_beside_others<W: PagesMut>(graph: &Graph<'_, W>, node: NodeId) -> bool {
    !are_most_dead(graph.meta()) && graph.entries().iter().all(|entry| entry.node != node)
}

/// Whether most nodes are dead.
pub(in crate::index::change) fn are_most_dead(meta: &Meta) -> bool {
    meta.change.dead_rows >= meta.rows
}

/// Whether a node has too few edges to live nodes.
fn has_few<W: PagesMut>(graph: &Graph<'_, W>, edges: EdgeCount) -> bool {
    let room = graph.meta().layout.degree.saturating_sub(edges.dead_anchors);
    let others = graph.meta().rows.saturating_sub(1);
    edges.live < EDGES_MIN.min(room).min(others.try_into().unwrap_or(EDGES_MIN))
}

/// The `dependents` with too few edges to live nodes. Where most nodes die, walks miss many nodes
/// that lose edges.
fn with_few<W: PagesMut>(graph: &Graph<'_, W>, dependents: &[NodeId]) -> Result<Vec<NodeId>, Error> {
    let mut poor = Vec::new();
    if !are_most_dead(graph.meta()) {
        return Ok(poor);
    }
    let layout = graph.steps().layout();
    for node in dependents {
        let mut reader = graph.steps().reader();
        let links: Vec<Link> = with_node(&layout, &reader, *node, |found, header| {
            found.links().filter(|_| header.flags == FLAGS_LIVE).collect()
        })?;
        let mut edges = EdgeCount::default();
        for link in &links {
            let is_live = with_node(&layout, &reader, link.node, |_, header| {
                header.flags == FLAGS_LIVE && header.generation == link.generation
            })?;
            reader.release();
            edges.add(is_live, link.anchor);
        }
        poor.extend((!links.is_empty() && has_few(graph, edges)).then_some(*node));
    }
    Ok(poor)
}

/// Walks from a node until enough live nodes are visited, and gives it edges to these alone. After
/// that it loses no more edges to dead nodes, so each node pays for this once.
fn look_around<W: PagesMut>(graph: &mut Graph<'_, W>, node: NodeId) -> Result<(), Error> {
    let point = graph.point_of(node)?;
    graph.walk(&point, WalkExtent { everywhere: true, ..WalkExtent::of(REPAIR_LIST) })?;
    let visited = graph.near().nearest().filter(|id| *id != node);
    let visited: Vec<NodeId> = visited.take(REPAIR_LIST).collect();
    let revision = Revision { extras: Extras::Some(&visited), anchor: None, gone: Gone::AllDead };
    graph.revise(node, &revision)?;
    Ok(())
}

/// Live neighbors of a dead node and the live nodes that are nearest to it, in the order of the
/// walk to it.
fn replacements<W: PagesMut>(graph: &Graph<'_, W>, node: NodeId) -> Result<Vec<NodeId>, Error> {
    let (layout, mut reader) = (graph.steps().layout(), graph.steps().reader());
    let links: Vec<Link> = with_node(&layout, &reader, node, |found, _| found.links().collect())?;
    let mut replacements = Vec::with_capacity(links.len());
    for link in links {
        let flags = with_node(&layout, &reader, link.node, |_, header| {
            if header.generation == link.generation { header.flags } else { FLAGS_FREE }
        })?;
        reader.release();
        replacements.extend((flags == FLAGS_LIVE).then_some(link.node));
    }
    let others = graph.near().nearest().filter(|id| *id != node);
    for (at, id) in others.take(REPLACEMENTS).enumerate() {
        if (at < NEAREST || replacements.len() < REPLACEMENTS) && !replacements.contains(&id) {
            replacements.push(id);
        }
    }
    let rank = |id: &NodeId| graph.near().nearest().position(|near| near == *id).unwrap_or(usize::MAX);
    replacements.sort_by_cached_key(rank);
    Ok(replacements)
}

/// Live nodes with an edge to `node`, among those that the walk visited, those that `node` leads
/// to and the `others`; and the anchor parent of `node`, live or dead.
fn in_neighbors<W: PagesMut>(
    graph: &Graph<'_, W>,
    node: NodeId,
    generation: u8,
    others: impl Iterator<Item = NodeId>,
) -> Result<(Vec<NodeId>, Option<NodeId>), Error> {
    let led_to = graph.look(node, |found, _| found.links().collect::<Vec<_>>())?;
    let visited = graph.visited().iter().copied().chain(others);
    let candidates = visited.chain(led_to.iter().map(|link| link.node)).filter(|id| *id != node);
    let mut candidates: Vec<NodeId> = candidates.collect();
    candidates.sort_unstable();
    candidates.dedup();
    let (layout, mut reader) = (graph.steps().layout(), graph.steps().reader());
    let (mut live, mut parent) = (Vec::new(), None);
    for candidate in candidates {
        let link = with_node(&layout, &reader, candidate, |other, header| {
            let link = other.links().find(|l| l.node == node && l.generation == generation);
            let link = link.filter(|_| header.flags != FLAGS_FREE);
            // A node that has left the graph keeps its anchors, but no anchor leads to it.
            link.map(|link| (header.flags == FLAGS_LIVE, link.anchor && can_be_parent(header.flags)))
        })?;
        reader.release();
        if let Some((is_live, is_parent)) = link {
            live.extend(is_live.then_some(candidate));
            parent = parent.or(is_parent.then_some(candidate));
        }
    }
    Ok((live, parent))
}

/// Replaces a dead node where it is an entry point: by the nearest live node, or by any. If no row
/// is left, the slot may still be reused: a search skips an entry point without a node.
fn replace_entries<W: PagesMut>(graph: &mut Graph<'_, W>, node: NodeId) -> Result<Option<NodeId>, Error> {
    if graph.entries().iter().all(|entry| entry.node != node) {
        return Ok(None);
    }
    let nearest = graph.near().nearest().next();
    let replacement = match nearest {
        Some(nearest) => Some(nearest),
        None => live_entry(graph)?.map_or_else(|| rows::any_row(graph.steps()), |entry| Ok(Some(entry)))?,
    };
    let Some(replacement) = replacement else { return Ok(None) };
    // The nodes below the dead node are below the new entry point until they have other parents.
    let target = graph.look(node, |found, _| encode::target(graph.meta(), graph.model(), node, found))?;
    if let Some(target) = target {
        anchors::anchor_or_below(graph, &[replacement], &target)?;
    }
    for centroid in 0..graph.entries().len() {
        if graph.entries()[centroid].node == node {
            let point = graph.point_of(replacement)?;
            graph.set_entry(centroid, replacement, &point)?;
        }
    }
    Ok(Some(replacement))
}

/// An entry point that is live, if there is one.
fn live_entry<W: PagesMut>(graph: &Graph<'_, W>) -> Result<Option<NodeId>, Error> {
    for entry in graph.entries() {
        if graph.look(entry.node, |_, header| header.flags == FLAGS_LIVE)? {
            return Ok(Some(entry.node));
        }
    }
    Ok(None)
}

/// Chooses the edges of `node` again, with some of `replacements` in place of the edge to
/// `gone`.
fn revise_without<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    node: NodeId,
    gone: NodeId,
    replacements: &[NodeId],
) -> Result<EdgeCount, Error> {
    let extras: Vec<NodeId> =
        replacements.iter().copied().filter(|other| *other != node).take(REPLACEMENTS).collect();
    graph.revise(node, &Revision { extras: Extras::Some(&extras), anchor: None, gone: Gone::One(gone) })
}
