//! Rows that are equal to one that is there.
//!
//! Hundreds of equal rows are a plateau: they lie at distance 0 of each other, so as neighbors like any others they would have
//! all of each other's edges, and no way would lead out. Instead the first stands in the graph for all of them, and
//! the others are its *satellites*: each hangs by an anchor below an equal one that has an edge left, no more than two below
//! any. A search comes down this tree to all of them. A satellite has an edge up to the node it hangs below, edges outward like
//! any row, and nobody else takes an edge back to it.

use super::change::Change;
use super::encode::{self, Encoded, Target};
use super::meta::Meta;
use super::near::with_node;
use crate::Error;
use crate::graph::equal::SATELLITES;
use crate::page::PagesMut;
use crate::page::layout::{NodeId, NodeRef};

/// Anchors followed down from a node that has none to give, before the search for one begins from the top.
pub(super) const WAY_DOWN_MAX: usize = 32;

impl<W: PagesMut> Change<'_, W> {
    /// A node that the walk met and that lies in the row's place, and those on a way down from it to one below which another may
    /// hang. Another way for each row: then they are a tree, and not a chain.
    pub(super) fn way_to_equals(&self, row_id: u64, encoded: &Encoded) -> Result<Vec<NodeId>, Error> {
        let Some(mut at) = self.explorer.near.equal_to(encoded.own, &encoded.hi) else { return Ok(Vec::new()) };
        let target = encoded.target(NodeId::MAX, 0);
        let (mut nodes, mut way) = (vec![at], row_id);
        while nodes.len() < WAY_DOWN_MAX {
            let below = self.equals_below(at, &target)?;
            if below.len() < SATELLITES {
                break;
            }
            way = next_way(way);
            at = below[way as usize % below.len()];
            nodes.push(at);
        }
        Ok(nodes)
    }

    /// Nodes with a row, or not yet unlinked, that hang below `node` and are what `target` is.
    pub(super) fn equals_below(&self, node: NodeId, target: &Target) -> Result<Vec<NodeId>, Error> {
        let equals = with_node(&self.meta, &self.pages.reader(), node, |found, _| {
            let anchors = found.links().enumerate().filter(|(_, link)| link.anchor);
            let equals = anchors.filter(|(at, _)| encode::is_edge_to(&self.meta, found, *at, target));
            equals.map(|(_, link)| link.node).collect::<Vec<_>>()
        })?;
        let mut wards = if equals.is_empty() { Vec::new() } else { self.wards_of(node)? };
        wards.retain(|ward| equals.contains(ward) && *ward != target.node);
        Ok(wards)
    }

    /// Writes a row below `host`, which is equal to it. Its edges lead outward from there; none comes back.
    pub(super) fn insert_below(&mut self, host: NodeId, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        self.explorer.near.forget_equals(encoded.own, &encoded.hi);
        let outward = self.meta.layout.degree - 1 - SATELLITES;
        let header = with_node(&self.meta, &self.pages.reader(), host, |_, header| *header)?;
        let mut targets = vec![self.target(host, header.generation)?];
        targets.extend(self.chosen(outward)?);
        let mates: Vec<NodeId> = [host].into_iter().chain(self.mates()).collect();
        let (node, generation) = self.place(row_id, encoded, &targets, &mates, true)?;
        self.anchor_or_below(&[host], &encoded.target(node, generation))?;
        Ok(node)
    }
}

/// Numbers without a pattern, one from the other.
pub(super) fn next_way(way: u64) -> u64 {
    way.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8
}

/// Whether a node has as many satellites that are what `target` is as it may have.
pub(super) fn has_satellites(meta: &Meta, node: &NodeRef<'_>, target: &Target) -> bool {
    let anchors = node.links().enumerate().filter(|(_, link)| link.anchor && link.node != target.node);
    anchors.filter(|(at, _)| encode::is_edge_to(meta, node, *at, target)).count() >= SATELLITES
}
