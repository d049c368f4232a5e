//! Anchors: edges that are never given up, so that anchors alone lead from the entry points to
//! every node.
//!
//! Each node has an anchor parent, the node that holds the anchor to it; the nodes below a parent
//! are its dependents. An insertion gives the new node a parent. When vacuum removes a parent, its
//! dependents get others. A node gives at most half of its edges as anchors as long as another node
//! near it can give one, and only a few to duplicates of one vector (`graph/equal.rs`).

use std::collections::{HashSet, VecDeque};

use crate::Error;
use crate::graph::equal::DUPLICATE_CHILDREN;
use crate::ids::NodeId;
use crate::index::change::encode::{self, Target};
use crate::index::change::graph::Graph;
use crate::index::change::pages::steps::can_be_parent;
use crate::page::PagesMut;
use crate::page::node::{FLAGS_FREE, Link, NodeRef, with_node};

/// Anchors that are followed down from a node without a free edge, before the search for one begins
/// at the entry points.
pub(super) const WAY_DOWN_MAX: usize = 32;
/// Nearest nodes that are tried as anchor parents.
const PARENTS_TRIED: usize = 8;
/// Largest number of nodes looked at to learn which nodes are below some.
const BELOW_MAX: usize = 1 << 12;

/// Gives `target` an anchor from the first of `parents` that has given less than half of its
/// edges; if all have, from the first with an edge left. `false` if there is none.
fn anchor<W: PagesMut>(graph: &mut Graph<'_, W>, parents: &[NodeId], target: &Target) -> Result<bool, Error> {
    let degree = graph.meta().layout.degree;
    Ok(anchor_from(graph, parents, degree / 2, &[], target)? || anchor_from(graph, parents, degree, &[], target)?)
}

/// Gives `target` an anchor from the first of `parents` that has given fewer than `most`, and
/// offers `others` an edge to it. `false` if there is none: then no other node has changed.
fn anchor_from<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    parents: &[NodeId],
    most: usize,
    others: &[NodeId],
    target: &Target,
) -> Result<bool, Error> {
    for parent in parents {
        let is_free = graph.look(*parent, |node, header| {
            can_be_parent(header.flags)
                && node.links().filter(|link| link.anchor).count() < most
                && !has_duplicates(node, target)
        })?;
        if is_free && graph.link_anchor(*parent, others, target)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives a new node an anchor, from one of its `neighbors` if any can give one, and offers all of
/// these an edge to it.
pub(super) fn anchor_among<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    neighbors: &[NodeId],
    target: &Target,
) -> Result<(), Error> {
    let most = graph.meta().layout.degree / 2;
    if anchor_from(graph, neighbors, most, neighbors, target)? {
        return Ok(());
    }
    anchor_or_below(graph, neighbors, target)?;
    graph.link_back(neighbors, target)
}

/// Gives a duplicate an anchor from `parent`, the equal node that the walk ended at, or from a node
/// below that. A full parent gives up its farthest edge: pruning would read all of its neighbors
/// for nearly the same result.
pub(super) fn anchor_equal<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    parent: NodeId,
    target: &Target,
) -> Result<(), Error> {
    let most = graph.meta().layout.degree / 2;
    let has_place = graph.look(parent, |node, _| {
        node.links().filter(|link| link.anchor).count() < most && !has_duplicates(node, target)
    })?;
    if has_place && graph.anchor_in_place_of_farthest(parent, target)? {
        return Ok(());
    }
    anchor_or_below(graph, &[parent], target)
}

/// Gives a new node an anchor from one of `parents`, or from a node below the first if these have
/// no edge left, for example if hundreds of rows are equal.
pub(super) fn anchor_or_below<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    parents: &[NodeId],
    target: &Target,
) -> Result<(), Error> {
    let Some(first) = parents.first() else { return Ok(()) };
    if anchor(graph, parents, target)? || anchor_down(graph, *first, target, &[])? {
        return Ok(());
    }
    anchor_to_any(graph, &[], target, target.node)
}

/// Follows anchors down from `from`, around `avoid`, and anchors `target` to the first node
/// with a free edge. `false` if there is none on the way.
fn anchor_down<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    from: NodeId,
    target: &Target,
    avoid: &[NodeId],
) -> Result<bool, Error> {
    // Each target takes another way, so that nodes form a tree and not a chain.
    let (mut at, mut way) = (from, u64::from(target.node));
    for _ in 0..WAY_DOWN_MAX {
        let (mut dependents, spent) = anchors_of(graph, at)?;
        clear_spent(graph, at, &spent)?;
        if anchor(graph, &[at], target)? {
            return Ok(true);
        }
        let duplicates = duplicates_below(graph, at, target)?;
        if duplicates.len() >= DUPLICATE_CHILDREN {
            dependents = duplicates;
        }
        dependents.retain(|node| *node != target.node && !avoid.contains(node));
        way = next_way(way);
        let next = dependents.get((way % dependents.len().max(1) as u64) as usize);
        let Some(next) = next else { return Ok(false) };
        at = *next;
    }
    Ok(false)
}

/// Gives the dependents of `gone` other anchor parents: `parent`, which is the parent of `gone` or
/// the entry point that replaces it, and one another. If `parent` is not known or has no edge left,
/// the nearest live node that is not below them takes its place. So anchors still lead from the
/// entry points to every node.
pub(super) fn anchor_again<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    dependents: &[NodeId],
    parent: Option<NodeId>,
    gone: NodeId,
) -> Result<(), Error> {
    if graph.steps().is_hosted() && graph.meta().rows == 0 {
        // No row is left to be found.
        return Ok(());
    }
    let is_found = |node: &NodeId| Some(*node) == parent || graph.entries().iter().any(|entry| entry.node == *node);
    let dependents: Vec<NodeId> = dependents.iter().copied().filter(|node| !is_found(node)).collect();
    let mut parents: Vec<NodeId> = parent.into_iter().collect();
    for (at, node) in dependents.iter().enumerate() {
        let target = graph.look(*node, |found, _| encode::target(graph.meta(), graph.model(), *node, found))?;
        let Some(target) = target else { continue };
        if !anchor(graph, &parents, &target)? && !anchor_below(graph, parent, &target, &dependents[at..], gone)? {
            anchor_to_any(graph, &dependents[at..], &target, gone)?;
        }
        parents.push(*node);
    }
    Ok(())
}

/// Anchors `target`, the first of `dependents`, below `parent`. Ways over `gone` lead to the
/// dependents alone.
fn anchor_below<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    parent: Option<NodeId>,
    target: &Target,
    dependents: &[NodeId],
    gone: NodeId,
) -> Result<bool, Error> {
    let avoid: Vec<NodeId> = dependents.iter().copied().chain([gone]).collect();
    match parent {
        Some(parent) => anchor_down(graph, parent, target, &avoid),
        None => Ok(false),
    }
}

/// Anchors `target`, the first of `dependents`, to a node that is not below `gone` or
/// `dependents`: the nearest live node that the walk visited, or else the first with an edge
/// left below the entry points.
fn anchor_to_any<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    dependents: &[NodeId],
    target: &Target,
    gone: NodeId,
) -> Result<(), Error> {
    let mut known: HashSet<NodeId> = dependents.iter().copied().chain([gone]).collect();
    let mut below: VecDeque<NodeId> = dependents.iter().copied().collect();
    while let Some(node) = below.pop_front()
        && known.len() < BELOW_MAX
    {
        below.extend(dependents_of(graph, node)?.into_iter().filter(|node| known.insert(*node)));
    }
    if known.len() < BELOW_MAX {
        let visited = graph.near().nearest().filter(|id| !known.contains(id));
        let visited: Vec<NodeId> = visited.take(PARENTS_TRIED).collect();
        if anchor(graph, &visited, target)? {
            return Ok(());
        }
    }
    // From the entry points down, but not past the dependents: first one way, then every way.
    for at in 0..graph.entries().len().min(PARENTS_TRIED) {
        let entry = graph.entries()[at].node;
        let is_above = entry != gone && !dependents.contains(&entry);
        if is_above && anchor_below(graph, Some(entry), target, dependents, gone)? {
            return Ok(());
        }
    }
    let mut known: HashSet<NodeId> = dependents.iter().copied().chain([gone]).collect();
    let entries: Vec<NodeId> = graph.entries().iter().map(|entry| entry.node).collect();
    let mut others: VecDeque<NodeId> = entries.into_iter().filter(|entry| known.insert(*entry)).collect();
    while let Some(node) = others.pop_front() {
        let (below, spent) = anchors_of(graph, node)?;
        clear_spent(graph, node, &spent)?;
        if anchor(graph, &[node], target)? {
            return Ok(());
        }
        others.extend(below.into_iter().filter(|node| known.insert(*node)));
    }
    Ok(())
}

/// Turns the anchors of `node` that are `spent` into ordinary edges.
fn clear_spent<W: PagesMut>(graph: &mut Graph<'_, W>, node: NodeId, spent: &[Link]) -> Result<(), Error> {
    if spent.is_empty() {
        return Ok(());
    }
    graph.steps_mut().change_node(node, |node| {
        let places: Vec<usize> =
            node.as_ref().links().enumerate().filter(|(_, link)| spent.contains(link)).map(|(at, _)| at).collect();
        places.into_iter().for_each(|at| node.clear_anchor(at));
    })
}

/// The nodes, live or dead and not unlinked, that anchors of `node` lead to.
pub(super) fn dependents_of<W: PagesMut>(graph: &Graph<'_, W>, node: NodeId) -> Result<Vec<NodeId>, Error> {
    Ok(anchors_of(graph, node)?.0)
}

/// The dependents of `node`, and its anchors that lead to no node.
fn anchors_of<W: PagesMut>(graph: &Graph<'_, W>, node: NodeId) -> Result<(Vec<NodeId>, Vec<Link>), Error> {
    let (layout, reader) = (graph.steps().layout(), graph.steps().reader());
    let anchors: Vec<Link> = with_node(&layout, &reader, node, |found, header| {
        found.links().filter(|link| link.anchor && header.flags != FLAGS_FREE).collect()
    })?;
    let (mut dependents, mut spent) = (Vec::with_capacity(anchors.len()), Vec::new());
    for link in anchors {
        let depends = with_node(&layout, &reader, link.node, |_, header| {
            header.generation == link.generation && can_be_parent(header.flags)
        })?;
        if depends { dependents.push(link.node) } else { spent.push(link) }
    }
    Ok((dependents, spent))
}

/// The dependents of `node` that are equal to `target`.
pub(super) fn duplicates_below<W: PagesMut>(
    graph: &Graph<'_, W>,
    node: NodeId,
    target: &Target,
) -> Result<Vec<NodeId>, Error> {
    let duplicates = graph.look(node, |found, _| {
        let anchors = found.links().enumerate().filter(|(_, link)| link.anchor);
        let duplicates = anchors.filter(|(at, _)| encode::is_edge_to(found, *at, target));
        duplicates.map(|(_, link)| link.node).collect::<Vec<_>>()
    })?;
    let mut dependents = if duplicates.is_empty() { Vec::new() } else { dependents_of(graph, node)? };
    dependents.retain(|node| duplicates.contains(node) && *node != target.node);
    Ok(dependents)
}

/// Pseudorandom numbers, each from the one before.
pub(super) fn next_way(way: u64) -> u64 {
    way.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8
}

/// Whether a node has as many children equal to `target` as it may have.
fn has_duplicates(node: &NodeRef<'_>, target: &Target) -> bool {
    let anchors = node.links().enumerate().filter(|(_, link)| link.anchor && link.node != target.node);
    anchors.filter(|(at, _)| encode::is_edge_to(node, *at, target)).count() >= DUPLICATE_CHILDREN
}
