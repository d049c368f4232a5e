//! Edges that lead back: who takes one to a new node, who chooses anew when it lost one.

use super::build;
use super::change::{Change, unknown_centroid};
use super::encode::{self, Target};
use super::equal::{WAY_DOWN_MAX, has_satellites, next_way};
use super::near::{Neighborhood, with_node};
use crate::Error;
use crate::graph::equal::SATELLITES;
use crate::page::layout::{FLAGS_LIVE, NodeHeader, NodeId, NodeMut};
use crate::page::{PagesMut, Reader};

/// Nodes that are offered to another as neighbors.
#[derive(Clone, Copy)]
pub(super) enum Extras<'a> {
    One(&'a Target),
    Some(&'a [NodeId]),
}

/// Present neighbors that get no edge again.
#[derive(Clone, Copy)]
pub(super) enum Gone {
    Nobody,
    One(NodeId),
    /// All that do not live, but for those who rely on it.
    TheDead,
}

/// How many edges of a node lead to the living, and how many are anchors of others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edges {
    pub(super) living: usize,
    pub(super) promised: usize,
}

impl Edges {
    pub(super) fn count(&mut self, lives: bool, is_anchor: bool) {
        self.living += usize::from(lives);
        self.promised += usize::from(is_anchor && !lives);
    }
}

impl Gone {
    fn is(self, id: NodeId, header: &NodeHeader) -> bool {
        match self {
            Self::Nobody => false,
            Self::One(gone) => id == gone,
            Self::TheDead => header.flags != FLAGS_LIVE,
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

impl<W: PagesMut> Change<'_, W> {
    /// Gives `target` an edge that stays, from the first of `guardians` that has not promised half its edges yet;
    /// if all have, from the first that has one left. None has more than a few for equal nodes. `false` if there is none.
    pub(super) fn anchor(&mut self, guardians: &[NodeId], target: &Target) -> Result<bool, Error> {
        let layout = self.meta.layout;
        for most in [layout.degree / 2, layout.degree] {
            for guardian in guardians {
                let (page, slot) = layout.place(*guardian);
                let (free, present) = with_node(&self.meta, &self.pages.reader(), *guardian, |node, _| {
                    let free = node.links().filter(|link| link.anchor).count() < most
                        && !has_satellites(&self.meta, node, target);
                    (free, node.links().position(|l| l.node == target.node && l.generation == target.generation))
                })?;
                if !free {
                    continue;
                }
                match present {
                    Some(at) => self.pages.step(&[page], &mut |bodies| {
                        NodeMut::new(&layout, bodies[0], slot).set_anchor(at);
                        Ok(())
                    })?,
                    None => self.link(*guardian, target, true)?,
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// [`Change::anchor`]; if all of `guardians` have promised all their edges, as where hundreds of rows are equal, one
    /// of those found through them gives one.
    pub(super) fn anchor_or_below(&mut self, guardians: &[NodeId], target: &Target) -> Result<(), Error> {
        let Some(first) = guardians.first() else { return Ok(()) };
        if self.anchor(guardians, target)? {
            return Ok(());
        }
        if self.anchor_down(*first, target, &[])? {
            return Ok(());
        }
        self.anchor_to_any(&[], target, target.node)
    }

    /// Anchors `target` to the first node with an edge left on a way down over anchors from `from` on, not by `avoid`. `false`
    /// if the way ends before. The last nodes of all ways have edges left.
    pub(super) fn anchor_down(&mut self, from: NodeId, target: &Target, avoid: &[NodeId]) -> Result<bool, Error> {
        // Another way for each: then they are a tree, and not a chain.
        let (mut at, mut way) = (from, u64::from(target.node));
        for _ in 0..WAY_DOWN_MAX {
            let mut wards = self.wards_of(at)?;
            self.forget_spent(at, &wards)?;
            if self.relies_on_anchors(at)? && self.anchor(&[at], target)? {
                return Ok(true);
            }
            let equals = self.equals_below(at, target)?;
            if equals.len() >= SATELLITES {
                wards = equals;
            }
            wards.retain(|ward| *ward != target.node && !avoid.contains(ward));
            way = next_way(way);
            let Some(ward) = wards.get((way % wards.len().max(1) as u64) as usize) else { return Ok(false) };
            at = *ward;
        }
        Ok(false)
    }

    /// Offers `node` an edge to `target`. It takes it if it has none and has room, if it deserves it more than one
    /// of the present edges, or if it is to be an anchor.
    pub(super) fn link(&mut self, node: NodeId, target: &Target, anchor: bool) -> Result<(), Error> {
        let layout = self.meta.layout;
        let (page, slot) = layout.place(node);
        let (degree, present) = with_node(&self.meta, &self.pages.reader(), node, |found, header| {
            (usize::from(header.degree), found.links().find(|link| link.node == target.node))
        })?;
        match present {
            Some(link) if link.generation == target.generation => Ok(()),
            None if degree < layout.degree => self.pages.step(&[page], &mut |bodies| {
                let mut node = NodeMut::new(&layout, bodies[0], slot);
                node.set_edge(degree, &target.edge(anchor));
                node.set_degree(degree + 1);
                Ok(())
            }),
            None if !anchor && self.offer(node, target)? => Ok(()),
            _ => {
                self.reconsider(node, Extras::One(target), anchor.then_some(target.node), Gone::Nobody).map(|_| ())
            }
        }
    }

    /// Chooses the edges of `node` anew, among those it has and edges to `extras`. Edges to rows that are gone
    /// go first, with the one to `gone`; anchors stay whatever the choice, and so does an edge to `anchor`, which
    /// becomes one. Returns what edges it has then.
    pub(super) fn reconsider(
        &mut self,
        node: NodeId,
        extras: Extras<'_>,
        anchor: Option<NodeId>,
        gone: Gone,
    ) -> Result<Edges, Error> {
        let Self { meta, model, around, explorer, pages, .. } = self;
        let layout = meta.layout;
        let mut reader = pages.reader();
        if !around.read(meta, &mut reader, node, &mut explorer.near)? {
            return Ok(Edges::default());
        }
        for extra in extras.nodes() {
            around.add(meta, &mut reader, extra, &explorer.near)?;
        }
        around.near.measure_from(0, |id, header| gone.is(id, header));
        let chosen = choose(around, layout.degree, anchor, gone);
        let mut edges = Edges::default();
        for id in &chosen {
            let is_promised =
                anchor == Some(*id) || around.links.iter().any(|link| link.anchor && link.node == *id);
            edges.count(around.near.lives(*id), is_promised);
        }
        // Edges that stay keep their places; a stale edge to a node that is chosen is written anew.
        let stays: Vec<bool> =
            around.links.iter().map(|link| chosen.contains(&link.node) && around.is_current(link)).collect();
        let staying = |id: &NodeId| around.links.iter().zip(&stays).any(|(link, stays)| *stays && link.node == *id);
        let mut fresh = Vec::new();
        for id in chosen.iter().filter(|id| !staying(id)) {
            let target = match extras {
                Extras::One(target) if target.node == *id => Some(target.clone()),
                _ => with_node(meta, &reader, *id, |found, _| encode::target(meta, model, *id, found))?,
            };
            fresh.push((target.ok_or_else(|| unknown_centroid(meta, *id))?, anchor == Some(*id)));
            reader.release();
        }
        drop(reader);
        if fresh.is_empty() && stays.iter().all(|stays| *stays) {
            return Ok(edges);
        }
        let (page, slot) = layout.place(node);
        self.pages.step(&[page], &mut |bodies| {
            let mut node = NodeMut::new(&layout, bodies[0], slot);
            rewrite_edges(&mut node, &stays, &fresh);
            Ok(())
        })?;
        Ok(edges)
    }
}

/// The nodes that deserve an edge, with those that have or get one which stays.
fn choose(around: &Neighborhood, degree: usize, anchor: Option<NodeId>, gone: Gone) -> Vec<NodeId> {
    let kept = around.near.choose(degree, build::ALPHA_SQ);
    let mut chosen: Vec<NodeId> = kept.iter().map(|at| around.near.nodes[*at as usize].0).collect();
    let is_gone = |id: NodeId| matches!(gone, Gone::One(gone) if gone == id);
    let current = around.links.iter().filter(|link| link.anchor && !is_gone(link.node) && around.is_current(link));
    let anchors: Vec<NodeId> = current.map(|link| link.node).chain(anchor).collect();
    for id in &anchors {
        if chosen.contains(id) || !around.near.contains(*id) {
            continue;
        }
        if chosen.len() == degree {
            let Some(last) = chosen.iter().rposition(|other| !anchors.contains(other)) else { continue };
            chosen.remove(last);
        }
        chosen.push(*id);
    }
    chosen
}

/// Writes `fresh` edges into the places of those that do not stay, then behind them; what is left of the places
/// is filled from the end.
fn rewrite_edges(node: &mut NodeMut<'_>, stays: &[bool], fresh: &[(Target, bool)]) {
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
    // The last places first: what moves into a place must be an edge that stays.
    while let Some(place) = places.pop() {
        degree -= 1;
        if place != degree {
            node.move_edge(degree, place);
        }
    }
    node.set_degree(degree);
}
