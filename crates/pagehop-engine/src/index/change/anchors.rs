//! Anchors: edges that are never given up, so that anchors alone lead from the entry points to
//! every node.
//!
//! Each node has an anchor parent, the node that holds the anchor to it; the nodes below a parent
//! are its dependents. An insertion gives the new node a parent. When vacuum removes a parent, its
//! dependents get others. A node gives at most half of its edges as anchors as long as another node
//! near it can give one, and only a few to duplicates of one vector (`graph/equal.rs`).

use std::collections::{HashSet, VecDeque};

use super::encode::{self, Target};
use super::graph::Graph;
use super::steps::can_be_parent;
use crate::Error;
use crate::graph::equal::DUPLICATE_CHILDREN;
use crate::ids::NodeId;
use crate::page::PagesMut;
use crate::page::node::{FLAGS_FREE, Link, NodeRef, with_node};

/// Anchors that are followed down from a node without a free edge, before the search for one begins
/// at the entry points.
pub(super) const WAY_DOWN_MAX: usize = 32;
/// Nearest nodes that are tried as anchor parents.
const PARENTS_TRIED: usize = 8;
/// Largest number of nodes looked at to learn which nodes are below some.
const BELOW_MAX: usize = 1 << 12;

impl<W: PagesMut> Graph<'_, W> {
    /// Gives `target` an anchor from the first of `parents` that has given less than half of its
    /// edges; if all have, from the first with an edge left. `false` if there is none.
    fn anchor(&mut self, parents: &[NodeId], target: &Target) -> Result<bool, Error> {
        let degree = self.meta().layout.degree;
        for most in [degree / 2, degree] {
            for parent in parents {
                let is_free = self.look(*parent, |node, header| {
                    can_be_parent(header.flags)
                        && node.links().filter(|link| link.anchor).count() < most
                        && !has_duplicates(node, target)
                })?;
                if is_free && self.link_anchor(*parent, target)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Gives a duplicate an anchor from `parent`, its equal that the walk went to, or from a node
    /// below that. What gives way in a full parent is its farthest edge: pruning would read all of
    /// its neighbors for nearly the same.
    pub(super) fn anchor_equal(&mut self, parent: NodeId, target: &Target) -> Result<(), Error> {
        let most = self.meta().layout.degree / 2;
        let has_place = self.look(parent, |node, _| {
            node.links().filter(|link| link.anchor).count() < most && !has_duplicates(node, target)
        })?;
        if has_place && self.anchor_in_place_of_farthest(parent, target)? {
            return Ok(());
        }
        self.anchor_or_below(&[parent], target)
    }

    /// Gives a new node an anchor from one of `parents`, or from a node below the first if these
    /// have no edge left, as where hundreds of rows are equal.
    pub(super) fn anchor_or_below(&mut self, parents: &[NodeId], target: &Target) -> Result<(), Error> {
        let Some(first) = parents.first() else { return Ok(()) };
        if self.anchor(parents, target)? || self.anchor_down(*first, target, &[])? {
            return Ok(());
        }
        self.anchor_to_any(&[], target, target.node)
    }

    /// Follows anchors down from `from`, around `avoid`, and anchors `target` to the first node
    /// with a free edge. `false` if there is none on the way.
    fn anchor_down(&mut self, from: NodeId, target: &Target, avoid: &[NodeId]) -> Result<bool, Error> {
        // Each target takes another way, so that nodes form a tree and not a chain.
        let (mut at, mut way) = (from, u64::from(target.node));
        for _ in 0..WAY_DOWN_MAX {
            let (mut dependents, spent) = self.anchors_of(at)?;
            self.clear_spent(at, &spent)?;
            if self.anchor(&[at], target)? {
                return Ok(true);
            }
            let duplicates = self.duplicates_below(at, target)?;
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

    /// Gives the dependents of `gone` other anchor parents: `parent`, which is the parent of `gone`
    /// or the entry point that replaces it, and one another. If `parent` is not known or has no
    /// edge left, the nearest live node that is not below them. So anchors still lead from the
    /// entry points to every node.
    pub(super) fn anchor_again(
        &mut self,
        dependents: &[NodeId],
        parent: Option<NodeId>,
        gone: NodeId,
    ) -> Result<(), Error> {
        if self.steps().is_hosted() && self.meta().rows == 0 {
            // No row is left to be found.
            return Ok(());
        }
        let is_found =
            |node: &NodeId| Some(*node) == parent || self.entries().iter().any(|entry| entry.node == *node);
        let dependents: Vec<NodeId> = dependents.iter().copied().filter(|node| !is_found(node)).collect();
        let mut parents: Vec<NodeId> = parent.into_iter().collect();
        for (at, node) in dependents.iter().enumerate() {
            let target = self.look(*node, |found, _| encode::target(self.meta(), self.model(), *node, found))?;
            let Some(target) = target else { continue };
            if !self.anchor(&parents, &target)? && !self.anchor_below(parent, &target, &dependents[at..], gone)? {
                self.anchor_to_any(&dependents[at..], &target, gone)?;
            }
            parents.push(*node);
        }
        Ok(())
    }

    /// Anchors `target`, the first of `dependents`, below `parent`. Ways over `gone` lead to the
    /// dependents alone.
    fn anchor_below(
        &mut self,
        parent: Option<NodeId>,
        target: &Target,
        dependents: &[NodeId],
        gone: NodeId,
    ) -> Result<bool, Error> {
        let avoid: Vec<NodeId> = dependents.iter().copied().chain([gone]).collect();
        match parent {
            Some(parent) => self.anchor_down(parent, target, &avoid),
            None => Ok(false),
        }
    }

    /// Anchors `target`, the first of `dependents`, to a node that is not below `gone` or
    /// `dependents`: the nearest live node that the walk visited, or else the first with an edge
    /// left below the entry points.
    fn anchor_to_any(&mut self, dependents: &[NodeId], target: &Target, gone: NodeId) -> Result<(), Error> {
        let mut known: HashSet<NodeId> = dependents.iter().copied().chain([gone]).collect();
        let mut below: VecDeque<NodeId> = dependents.iter().copied().collect();
        while let Some(node) = below.pop_front()
            && known.len() < BELOW_MAX
        {
            below.extend(self.dependents_of(node)?.into_iter().filter(|node| known.insert(*node)));
        }
        if known.len() < BELOW_MAX {
            let visited = self.near().nearest().filter(|id| !known.contains(id));
            let visited: Vec<NodeId> = visited.take(PARENTS_TRIED).collect();
            if self.anchor(&visited, target)? {
                return Ok(());
            }
        }
        // From the entry points down, but not past the dependents: first one way, then every way.
        for at in 0..self.entries().len().min(PARENTS_TRIED) {
            let entry = self.entries()[at].node;
            let is_above = entry != gone && !dependents.contains(&entry);
            if is_above && self.anchor_below(Some(entry), target, dependents, gone)? {
                return Ok(());
            }
        }
        let mut known: HashSet<NodeId> = dependents.iter().copied().chain([gone]).collect();
        let entries: Vec<NodeId> = self.entries().iter().map(|entry| entry.node).collect();
        let mut others: VecDeque<NodeId> = entries.into_iter().filter(|entry| known.insert(*entry)).collect();
        while let Some(node) = others.pop_front() {
            let (below, spent) = self.anchors_of(node)?;
            self.clear_spent(node, &spent)?;
            if self.anchor(&[node], target)? {
                return Ok(());
            }
            others.extend(below.into_iter().filter(|node| known.insert(*node)));
        }
        Ok(())
    }

    /// Makes ordinary edges of the anchors of `node` that are `spent`.
    fn clear_spent(&mut self, node: NodeId, spent: &[Link]) -> Result<(), Error> {
        if spent.is_empty() {
            return Ok(());
        }
        self.steps_mut().change_node(node, |node| {
            let places: Vec<usize> = node
                .as_ref()
                .links()
                .enumerate()
                .filter(|(_, link)| spent.contains(link))
                .map(|(at, _)| at)
                .collect();
            places.into_iter().for_each(|at| node.clear_anchor(at));
        })
    }

    /// The nodes, live or dead and not unlinked, that anchors of `node` lead to.
    pub(super) fn dependents_of(&self, node: NodeId) -> Result<Vec<NodeId>, Error> {
        Ok(self.anchors_of(node)?.0)
    }

    /// The dependents of `node`, and its anchors that lead to none.
    fn anchors_of(&self, node: NodeId) -> Result<(Vec<NodeId>, Vec<Link>), Error> {
        let (layout, reader) = (self.steps().layout(), self.steps().reader());
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
    pub(super) fn duplicates_below(&self, node: NodeId, target: &Target) -> Result<Vec<NodeId>, Error> {
        let duplicates = self.look(node, |found, _| {
            let anchors = found.links().enumerate().filter(|(_, link)| link.anchor);
            let duplicates = anchors.filter(|(at, _)| encode::is_edge_to(found, *at, target));
            duplicates.map(|(_, link)| link.node).collect::<Vec<_>>()
        })?;
        let mut dependents = if duplicates.is_empty() { Vec::new() } else { self.dependents_of(node)? };
        dependents.retain(|node| duplicates.contains(node) && *node != target.node);
        Ok(dependents)
    }
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
