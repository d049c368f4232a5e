//! The edges of one node: it takes a new edge, or its neighbors are chosen again.
//!
//! A node declines an edge to a row that one of its neighbors leads to (`offer.rs`). If none does,
//! it takes the edge if it has room. A full node decides by the neighbors that the walk visited. If
//! these are not enough, the others are read, and robust prune chooses among them and the new one.

use super::explorer::Explorer;
use super::near::{NearNodes, Neighborhood};
use super::offer::{self, Verdict};
use crate::Error;
use crate::ids::NodeId;
use crate::index::change::encode::{self, Target, unknown_centroid};
use crate::index::change::pages::steps::{Seen, Steps, can_be_parent};
use crate::index::model::Model;
use crate::page::node::{FLAGS_LIVE, Link, NodeHeader, NodeMut, NodeRef, with_node};
use crate::page::{PagesMut, Reader};

/// The input for a choice of a node's edges, beside its present neighbors, and the required result.
#[derive(Clone, Copy)]
pub(super) struct Revision<'a> {
    /// Nodes that are offered as neighbors.
    pub(super) extras: Extras<'a>,
    /// A node that must get an edge, which becomes an anchor.
    pub(super) anchor: Option<NodeId>,
    /// Present neighbors that must lose their edge.
    pub(super) gone: Gone,
}

/// Nodes that are offered to another node as neighbors.
#[derive(Clone, Copy)]
pub(super) enum Extras<'a> {
    One(&'a Target),
    Some(&'a [NodeId]),
}

/// Present neighbors that must lose their edge.
#[derive(Clone, Copy)]
pub(super) enum Gone {
    None,
    One(NodeId),
    /// All dead nodes, except the targets of anchors.
    AllDead,
}

/// Kinds of edges of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EdgeCount {
    /// Edges to live nodes.
    pub(super) live: usize,
    /// Anchors to nodes that are not live.
    pub(super) dead_anchors: usize,
    /// Whether the node that was to get an anchor gets it.
    is_anchored: bool,
}

/// Changes the edges of nodes, one node at a time. Holds only buffers, which it uses again.
#[derive(Default)]
pub(super) struct Edges {
    around: Neighborhood,
}

impl EdgeCount {
    pub(super) fn add(&mut self, is_live: bool, is_anchor: bool) {
        self.live += usize::from(is_live);
        self.dead_anchors += usize::from(is_anchor && !is_live);
    }
}

impl Gone {
    fn contains(self, id: NodeId, header: &NodeHeader) -> bool {
        match self {
            Self::None => false,
            Self::One(gone) => id == gone,
            Self::AllDead => header.flags != FLAGS_LIVE,
        }
    }
}

impl Extras<'_> {
    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let (one, some) = match self {
            Self::One(target) => (Some(target.node), &[][..]),
            Self::Some(nodes) => (None, *nodes),
        };
        one.into_iter().chain(some.iter().copied())
    }
}

impl Edges {
    /// Offers `node` an edge to `target`. It takes the edge if it is to be an anchor. Otherwise it
    /// may decline ([`offer::is_declined`]), and takes the edge if it has room, or if pruning
    /// prefers it to a present edge. The change of the node waits ([`Steps::change_node_later`]),
    /// and leads if it is an anchor. `false` if there is to be an anchor and cannot: the node is
    /// gone, or all its edges are anchors.
    pub(super) fn link<W: PagesMut>(
        &mut self,
        steps: &mut Steps<'_, W>,
        model: &Model,
        explorer: &mut Explorer,
        node: NodeId,
        target: &Target,
        anchor: bool,
    ) -> Result<bool, Error> {
        let seen = steps.look(node, Seen::of)?;
        if anchor && !seen.can_be_parent() {
            return Ok(false);
        }
        let degree = seen.links().len();
        let present = seen.links().iter().position(|link| link.node == target.node);
        match present.map(|at| (at, seen.links()[at])) {
            Some((at, link)) if link.generation == target.generation => {
                if anchor && !link.anchor {
                    let target = target.clone();
                    steps.change_node_later(node, seen, true, move |node| node.set_edge(at, &target.edge(true)))?;
                }
                Ok(true)
            }
            None if !anchor && offer::is_declined(steps.meta(), explorer.near(), node, seen.links(), target) => {
                Ok(true)
            }
            None if degree < steps.layout().degree => {
                let target = target.clone();
                steps.change_node_later(node, seen, anchor, move |node| {
                    node.set_edge(degree, &target.edge(anchor));
                    node.set_degree(degree + 1);
                })?;
                Ok(true)
            }
            found => {
                let verdict = match found {
                    None if !anchor => offer::judge(steps.meta(), explorer.near(), node, seen.links(), target),
                    _ => Verdict::Unclear,
                };
                match verdict {
                    Verdict::Declined => return Ok(true),
                    Verdict::Replaces(place) => {
                        let target = target.clone();
                        let change = move |node: &mut NodeMut<'_>| node.set_edge(place, &target.edge(false));
                        steps.change_node_later(node, seen, false, change)?;
                        return Ok(true);
                    }
                    Verdict::Unclear => {}
                }
                let revision = Revision {
                    extras: Extras::One(target),
                    anchor: anchor.then_some(target.node),
                    gone: Gone::None,
                };
                let edges = self.revise(steps, model, explorer.near_mut(), node, &revision)?;
                Ok(!anchor || edges.is_anchored)
            }
        }
    }

    /// Chooses the edges of `node` again, among those it has and edges to the extras. Stale edges
    /// go first, with those to nodes that are gone. Anchors stay. The change of the node waits
    /// ([`Steps::change_node_later`]). Returns the number of edges that it then has, by kind.
    pub(super) fn revise<W: PagesMut>(
        &mut self,
        steps: &mut Steps<'_, W>,
        model: &Model,
        known: &mut NearNodes,
        node: NodeId,
        revision: &Revision<'_>,
    ) -> Result<EdgeCount, Error> {
        let Self { around, .. } = self;
        let Revision { extras, anchor, gone } = *revision;
        let meta = steps.meta();
        let layout = meta.layout;
        let mut reader = steps.reader();
        if !around.read(meta, &mut reader, node, known)? || anchor.is_some() && !around.seen.can_be_parent() {
            return Ok(EdgeCount::default());
        }
        for extra in extras.nodes() {
            around.add(meta, &mut reader, extra, known)?;
        }
        around.near.measure_from(0, |id, header| gone.contains(id, header));
        let chosen = choose(around, layout.degree, anchor, gone);
        let is_anchored = anchor.is_some_and(|anchor| chosen.contains(&anchor));
        let mut edges = EdgeCount { is_anchored, ..EdgeCount::default() };
        for id in &chosen {
            let is_anchor =
                anchor == Some(*id) || around.links().iter().any(|link| link.anchor && link.node == *id);
            edges.add(around.near.lives(*id), is_anchor);
        }
        // Edges that stay keep their places. Two are written again: a stale edge to a chosen node,
        // and an edge that becomes an anchor.
        let mut kept = Vec::new();
        let stays = |link: &Link| {
            let becomes_anchor = anchor == Some(link.node) && !link.anchor;
            let stays = chosen.contains(&link.node)
                && around.is_current(link)
                && !becomes_anchor
                // On a damaged page two edges may lead to one node.
                && !kept.contains(&link.node);
            kept.extend(stays.then_some(link.node));
            stays
        };
        let stays: Vec<bool> = around.links().iter().map(stays).collect();
        let mut fresh = Vec::new();
        for id in chosen.iter().filter(|id| !kept.contains(id)) {
            let target = match extras {
                Extras::One(target) if target.node == *id => Some(target.clone()),
                _ => with_node(&layout, &reader, *id, |found, _| encode::target(meta, model, *id, found))?,
            };
            fresh.push((target.ok_or_else(|| unknown_centroid(meta, *id))?, anchor == Some(*id)));
            reader.release();
        }
        drop(reader);
        if !fresh.is_empty() || stays.iter().any(|stays| !stays) {
            let seen = around.seen.clone();
            steps.change_node_later(node, seen, anchor.is_some(), move |node| rewrite(node, &stays, &fresh))?;
        }
        Ok(edges)
    }
}

/// Gives `node` an anchor to `target` by its own page alone: the edge that is there, a free place,
/// or that of the edge that `gives_way`, which is not an anchor. `false` if the node is gone or has
/// no such place.
pub(super) fn anchor_in_place<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    node: NodeId,
    target: &Target,
    mut gives_way: impl FnMut(&NodeRef<'_>, &[Link]) -> Option<usize>,
) -> Result<bool, Error> {
    let most = steps.layout().degree;
    let mut is_anchored = false;
    steps.change_node(node, |node| {
        let links: Vec<Link> = node.as_ref().links().collect();
        let present = links.iter().position(|link| link.node == target.node);
        let free = (links.len() < most).then_some(links.len());
        let place = present.or(free).or_else(|| gives_way(&node.as_ref(), &links));
        let place = place.filter(|_| can_be_parent(node.as_ref().header().flags));
        is_anchored = place.is_some();
        if let Some(place) = place {
            node.set_edge(place, &target.edge(true));
            node.set_degree(links.len().max(place + 1));
        }
    })?;
    Ok(is_anchored)
}

/// The nodes that pruning chooses, and the targets of anchors. A present anchor is never replaced.
fn choose(around: &Neighborhood, degree: usize, anchor: Option<NodeId>, gone: Gone) -> Vec<NodeId> {
    let kept = around.near.choose(degree, around.near.nodes[0].1.norm_sq);
    let mut chosen: Vec<NodeId> = kept.iter().map(|at| around.near.nodes[*at as usize].0).collect();
    let is_gone = |id: NodeId| matches!(gone, Gone::One(gone) if gone == id);
    let current =
        around.links().iter().filter(|link| link.anchor && !is_gone(link.node) && around.is_current(link));
    let current: Vec<NodeId> = current.map(|link| link.node).collect();
    for id in current.iter().copied().chain(anchor) {
        if chosen.contains(&id) || !around.near.contains(id) {
            continue;
        }
        if chosen.len() == degree {
            let Some(last) = chosen.iter().rposition(|other| !current.contains(other)) else { continue };
            chosen.remove(last);
        }
        chosen.push(id);
    }
    chosen
}

/// Writes `fresh` edges to the places of edges that do not stay, then behind the last edge. Fills
/// places that are left with edges from the end.
fn rewrite(node: &mut NodeMut<'_>, stays: &[bool], fresh: &[(Target, bool)]) {
    let mut places: Vec<usize> = (0..stays.len()).filter(|at| !stays[*at]).collect();
    let mut degree = stays.len();
    for (target, anchor) in fresh {
        if places.is_empty() {
            node.set_edge(degree, &target.edge(*anchor));
            degree += 1;
        } else {
            node.set_edge(places.remove(0), &target.edge(*anchor));
        }
    }
    // From the last place to the first: an edge that moves must be one that stays.
    while let Some(place) = places.pop() {
        degree -= 1;
        if place != degree {
            node.move_edge(degree, place);
        }
    }
    node.set_degree(degree);
}
