//! Insertion of a row into the graph.
//!
//! ```text
//! walk     to the row's point; robust prune chooses neighbors among the visited nodes
//! step     the node, in a slot near its neighbors          (node page, meta page)
//! steps    its postings                                    (the trees of the columns)
//! step     an anchor from a neighbor                       (its page)
//! steps    the neighbors that take an edge back            (the pages of four of them)
//! step     one node in 32 becomes a landmark               (a page of landmarks, meta page)
//! ```
//!
//! Several writers may insert rows at the same time: each step compares what was decided on
//! (`steps.rs`). Only postings and kept vectors are written by one writer at a time, in a section
//! with the node's step. No edge leads to a node before it has its anchor, so no other row can be
//! anchored below one that is not. An insertion that ends early leaves a node that no search finds,
//! whose row no reader sees.
//!
//! This is the insertion of FreshDiskANN (Singh et al. 2021).
//!
//! A duplicate, a row whose vector equals that of an earlier one, goes another way. As ordinary
//! neighbors, hundreds of duplicates would have only edges to one another, and no edge would lead
//! out. So the first stands in the graph for all of them. Each of the others hangs by an anchor
//! below a duplicate that has an edge left, at most [`DUPLICATE_CHILDREN`] below any, and a search
//! comes down this tree to all of them. A duplicate has an edge up to its anchor parent and copies
//! of that node's edges outward; only the parent has an edge to it.

use super::anchors::{WAY_DOWN_MAX, next_way};
use super::encode::{self, Encoded, Target};
use super::explorer::Extent;
use super::graph::Graph;
use super::slots::{self, NewNode, Posted};
use crate::Error;
use crate::graph::equal::DUPLICATE_CHILDREN;
use crate::ids::NodeId;
use crate::page::node::FLAGS_LIVE;
use crate::page::{PagesMut, STEP_PAGES};

/// Candidates that the walk of an insertion keeps.
pub(super) const INSERT_LIST: usize = 150;

/// Edges that a new node begins with; those to later rows fill the rest. With all that pruning
/// finds an insertion takes more time and log, at the same recall (0014).
fn edges_first(degree: usize) -> usize {
    degree * 3 / 4
}

impl<W: PagesMut> Graph<'_, W> {
    /// Writes the node of a row, its postings, its edges, and those that lead back.
    pub(super) fn insert(&mut self, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        self.walk_to(encoded)?;
        self.insert_here(row_id, encoded)
    }

    /// Visits the neighborhood of a row, or comes to a node that is equal to it.
    pub(super) fn walk_to(&mut self, encoded: &Encoded) -> Result<(), Error> {
        self.walk(&encoded.point, Extent::to_equal(INSERT_LIST, encoded))
    }

    /// [`Graph::insert`] of a row whose neighborhood the walk has visited.
    pub(super) fn insert_here(&mut self, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        if let Some(parent) = self.way_to_duplicates(row_id, encoded)?.last() {
            return self.insert_below(*parent, row_id, encoded);
        }
        let targets = self.chosen(edges_first(self.meta().layout.degree), encoded)?;
        if targets.is_empty() {
            return self.insert_first(row_id, encoded);
        }
        self.insert_among(&targets, row_id, encoded)
    }

    /// Writes a row with edges to `targets`.
    fn insert_among(&mut self, targets: &[Target], row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        let near = self.nodes_tried();
        let new = NewNode { row_id, encoded, targets, is_duplicate: false };
        let (node, generation) = self.place(&new, &near)?;
        let target = encoded.target(node, generation);
        let header = self.look(node, |_, header| *header)?;
        self.near_mut().push(node, header, &encoded.hi);
        let neighbors: Vec<NodeId> = targets.iter().map(|target| target.node).collect();
        self.anchor_or_below(&neighbors, &target)?;
        self.link_back(&neighbors, &target)?;
        self.make_landmark(&target)?;
        Ok(node)
    }

    /// Writes a row where the walk found no live node: the first that searches find. Of several
    /// writers that come here one makes its row an entry point, and the others find that.
    fn insert_first(&mut self, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        let placed = self.in_section(|graph| {
            if graph.steps().is_shared() {
                graph.reload_entries()?;
                graph.walk_to(encoded)?;
                if !graph.near().nodes.is_empty() {
                    return Ok(None);
                }
            }
            let new = NewNode { row_id, encoded, targets: &[], is_duplicate: false };
            let (node, generation) = graph.place_and_post(&new, &[])?;
            graph.enter_at(&encoded.target(node, generation), encoded)?;
            Ok(Some(node))
        })?;
        match placed {
            Some(node) => Ok(node),
            None => self.insert_here(row_id, encoded),
        }
    }

    /// Does `work` while no other writer is in its section.
    pub(super) fn in_section<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.steps_mut().begin_section()?;
        let done = work(self);
        self.steps_mut().end_section();
        done
    }

    /// Writes the node of a row, and its postings. A kept vector is written for a certain slot,
    /// which no other writer may take before the node does.
    fn place(&mut self, new: &NewNode<'_>, near: &[NodeId]) -> Result<(NodeId, u8), Error> {
        if self.meta().layout.column_bytes == 0 && self.meta().kept().is_none() {
            return self.steps_mut().place(new, near);
        }
        self.in_section(|graph| graph.place_and_post(new, near))
    }

    /// The same, called in a section.
    fn place_and_post(&mut self, new: &NewNode<'_>, near: &[NodeId]) -> Result<(NodeId, u8), Error> {
        if self.steps().is_shared() {
            self.post_unfinished()?;
        }
        loop {
            let (page, is_new) = self.steps_mut().page_for(near)?;
            let Some(node) = self.steps().next_on(page, is_new)? else { continue };
            let postings = self.postings(node, new.encoded);
            let leaves = self.leaves(&postings, STEP_PAGES - 2)?;
            let (first, others) = postings.split_at(leaves.len());
            let posted = Posted { leaves: &leaves, postings: first, is_all: others.is_empty() };
            if let Some(placed) = self.steps_mut().place_on(page, is_new, new, &posted)? {
                self.post(others)?;
                return Ok(placed);
            }
        }
    }

    /// A visited node that is equal to the row, and the nodes on a way down from it to one that can
    /// take another duplicate below it. Each row takes another way, so that duplicates form a tree
    /// and not a chain.
    pub(super) fn way_to_duplicates(&self, row_id: u64, encoded: &Encoded) -> Result<Vec<NodeId>, Error> {
        let Some(mut at) = self.near().equal_to(encoded.own, &encoded.hi) else { return Ok(Vec::new()) };
        let target = encoded.target(NodeId::MAX, 0);
        let (mut nodes, mut way) = (vec![at], row_id);
        while nodes.len() < WAY_DOWN_MAX {
            let below = self.duplicates_below(at, &target)?;
            if below.len() < DUPLICATE_CHILDREN {
                break;
            }
            way = next_way(way);
            at = below[way as usize % below.len()];
            nodes.push(at);
        }
        Ok(nodes)
    }

    /// Writes a row below `parent`, which is equal to it, with copies of its edges: they were
    /// chosen for the same place. None leads back. A copy may be stale, as the edge of the parent
    /// is then. To read the other ends is a quarter of the work (0015). When vacuum removes the
    /// parent, as the old node of an updated row, it reads them and chooses again.
    fn insert_below(&mut self, parent: NodeId, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        let (generation, is_same) = self.look(parent, |node, header| {
            (header.generation, node.lo() == encoded.lo && header.centroid == encoded.centroid)
        })?;
        let equal = match is_same {
            true => encoded.target(parent, generation),
            false => self.target(parent, generation)?,
        };
        let most = self.meta().layout.degree - DUPLICATE_CHILDREN;
        let mut targets = Vec::with_capacity(most);
        targets.push(equal);
        self.look(parent, |node, _| {
            for at in 0..node.links().count() {
                if targets.len() < most && !encode::is_edge_to(node, at, &targets[0]) {
                    targets.extend(encode::copy(node, at));
                }
            }
        })?;
        let near: Vec<NodeId> = [parent].into_iter().chain(self.nodes_tried()).collect();
        let new = NewNode { row_id, encoded, targets: &targets, is_duplicate: true };
        let (node, generation) = self.place(&new, &near)?;
        self.anchor_equal(parent, &encoded.target(node, generation))?;
        Ok(node)
    }

    /// Edges of a row to at most `most` of the visited nodes, chosen by robust prune.
    fn chosen(&self, most: usize, encoded: &Encoded) -> Result<Vec<Target>, Error> {
        let near = self.near();
        let chosen = near.choose(most, encoded.own.norm_sq).into_iter().map(|at| near.nodes[at as usize]);
        chosen.map(|(id, header)| self.target(id, header.generation)).collect()
    }

    /// The nearest nodes, whose pages are tried for the new node.
    fn nodes_tried(&self) -> Vec<NodeId> {
        self.near().nearest().take(slots::nodes_tried(self.meta(), INSERT_LIST)).collect()
    }

    /// Makes a node without neighbors the entry point in place of all that lead to no live node.
    fn enter_at(&mut self, target: &Target, encoded: &Encoded) -> Result<(), Error> {
        for centroid in 0..self.entries().len() {
            let entry = self.entries()[centroid].node;
            let leads = self.look(entry, |_, header| header.flags == FLAGS_LIVE && entry != target.node)?;
            if !leads {
                self.set_entry(centroid, target.node, &encoded.point)?;
            }
        }
        Ok(())
    }
}
