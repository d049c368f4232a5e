//! The walk of a change: a search toward a point that records every node it visits.

use super::near::NearNodes;
use crate::Error;
use crate::graph::list::CandidateList;
use crate::ids::NodeId;
use crate::index::change::encode::{self, EncodedRow, Target};
use crate::index::model::Model;
use crate::index::node_set::NodeSet;
use crate::index::search::visit::Probe;
use crate::page::Reader;
use crate::page::meta::Meta;
use crate::page::model_pages::Entry;
use crate::page::node::{FLAGS_LIVE, Link, NodeHeader, NodeRef, with_node};
use crate::quantize::estimate::DEGREE_MAX;
use crate::quantize::landmarks::Start;
use pagehop_kernels as kernels;

/// Nearest entry points that a walk begins with, beside landmarks.
const ENTRIES: usize = 2;
/// A walk that visited fewer live nodes than this starts again with a longer list, up to the
/// longest.
const LIVE_MIN: u64 = 16;
const LIST_MAX: usize = 1 << 14;
/// Nearest nodes that [`Explorer::catch_up`] visits again: a row that was added near them has an
/// edge from one.
const VISITED_AGAIN: usize = 8;
/// Largest number of candidates with one estimate.
const EQUALS_MAX: usize = 2;

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkExtent<'e> {
    /// Length of the candidate list.
    pub(crate) list: usize,
    /// Largest length, where nearly all candidates are dead.
    pub(crate) list_max: usize,
    /// Whether the walk also begins at all other entry points if the nearest lead to few live
    /// nodes. If not, it does so only if they lead to none.
    pub(crate) everywhere: bool,
    /// A row whose duplicate the walk looks for: it ends at a live node with the same code.
    pub(crate) sought: Option<&'e EncodedRow>,
}

impl<'e> WalkExtent<'e> {
    /// A walk with `list` candidates, or more if it finds few live nodes.
    pub(crate) fn of(list: usize) -> Self {
        Self { list, list_max: LIST_MAX, everywhere: false, sought: None }
    }

    /// The same walk, which ends at a node that is equal to a row.
    pub(crate) fn to_equal(list: usize, sought: &'e EncodedRow) -> Self {
        Self { sought: Some(sought), ..Self::of(list) }
    }
}

/// Best-first search toward a point that records the nodes it visited. Reusable.
#[derive(Debug, Default)]
pub(crate) struct Explorer {
    probe: Probe,
    list: CandidateList,
    entries: Vec<(f32, NodeId)>,
    /// The landmarks that the walk begins at, if it begins at landmarks.
    landmarks: Vec<Start>,
    begins_at_landmarks: bool,
    /// Estimated distance of each centroid.
    coarse: Vec<f32>,
    near: NearNodes,
    /// Every slot that was visited, live or not.
    visited: Vec<NodeId>,
    /// The slots in `visited`, as a set.
    seen: NodeSet,
    /// For each candidate: the node whose edge led to it, and the position of that edge.
    origins: Vec<(NodeId, NodeId, usize)>,
    equals: Equals,
    /// Whether the walk has found the equal node that it looks for.
    is_at_equal: bool,
}

/// Limits the number of candidates with the same estimate, to the last bit. Duplicates have the
/// same estimate, and all of them would fill the candidate list.
#[derive(Debug, Default)]
struct Equals {
    /// A Bloom filter of estimates: it proves at once that most new ones are absent.
    known: EstimateBits,
    /// Candidates with estimates of at most 0, as bits: the list treats these as equal.
    below: Vec<(u32, NodeId)>,
    /// Nodes without a row. They do not count, so that their live duplicates are found.
    dead: NodeSet,
    /// Whether a candidate was left out.
    left_out: bool,
    /// Whether all candidates are taken.
    takes_all: bool,
}

/// A Bloom filter of estimates: it has false positives.
#[derive(Debug)]
struct EstimateBits([u64; 128]);

impl Default for EstimateBits {
    fn default() -> Self {
        Self([0; 128])
    }
}

impl EstimateBits {
    fn of(estimate: f32) -> (usize, u64) {
        // The list treats all estimates of at most 0 as equal.
        let bits = if estimate > 0.0 { estimate.to_bits() } else { 0 };
        let hash = bits.wrapping_mul(0x9E37_79B9) >> 19;
        (hash as usize / 64, 1 << (hash % 64))
    }

    fn add(&mut self, estimate: f32) {
        let (word, bit) = Self::of(estimate);
        self.0[word] |= bit;
    }

    fn may_have(&self, estimate: f32) -> bool {
        let (word, bit) = Self::of(estimate);
        self.0[word] & bit != 0
    }
}

impl Equals {
    fn clear(&mut self) {
        self.known = EstimateBits::default();
        self.below.clear();
        self.dead.clear();
        self.left_out = false;
    }

    /// Whether to leave out this candidate.
    fn leave_out(&mut self, list: &CandidateList, estimate: f32) -> bool {
        let leaves = !self.takes_all && self.are_many(list, estimate);
        self.left_out |= leaves;
        leaves
    }

    /// Whether the list has enough candidates with that estimate.
    fn are_many(&self, list: &CandidateList, estimate: f32) -> bool {
        if !self.known.may_have(estimate) {
            return false;
        }
        let lives = |id: &NodeId| !self.dead.contains(id);
        if estimate > 0.0 {
            return list.of_estimate(estimate).filter(lives).count() >= EQUALS_MAX;
        }
        let same = self.below.iter().filter(|(bits, _)| *bits == estimate.to_bits());
        same.filter(|(_, id)| lives(id)).count() >= EQUALS_MAX
    }

    fn take(&mut self, estimate: f32, id: NodeId) {
        self.known.add(estimate);
        if estimate <= 0.0 {
            self.below.push((estimate.to_bits(), id));
        }
    }
}

impl Explorer {
    /// The live nodes that were visited.
    pub(super) fn near(&self) -> &NearNodes {
        &self.near
    }

    pub(super) fn near_mut(&mut self) -> &mut NearNodes {
        &mut self.near
    }

    /// Every slot that was visited, live or not.
    pub(super) fn visited(&self) -> &[NodeId] {
        &self.visited
    }

    /// The place of the edge whose estimate is farthest from the point. Anchors do not count.
    pub(super) fn farthest(&mut self, model: &Model, node: &NodeRef<'_>, links: &[Link]) -> Option<usize> {
        let mut estimates = [0.0; DEGREE_MAX];
        self.probe.estimate(model, node, &mut estimates[..links.len()])?;
        let others = links.iter().zip(estimates).enumerate().filter(|(_, (link, _))| !link.anchor);
        others.max_by(|a, b| a.1.1.total_cmp(&b.1.1)).map(|(place, _)| place)
    }

    /// Expands the best candidates for `point`. The live nodes visited are in [`Explorer::near`],
    /// nearest first. At most [`EQUALS_MAX`] of several duplicates are visited.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page contradicts the format; any error of the reader.
    pub(crate) fn walk<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        entries: &[Entry],
        reader: &mut R,
        point: &[f32],
        mut extent: WalkExtent<'_>,
    ) -> Result<(), Error> {
        self.equals.takes_all = false;
        self.begins_at_landmarks = true;
        loop {
            self.walk_once(meta, model, entries, reader, point, extent)?;
            if self.is_at_equal {
                return Ok(());
            }
            if self.near.nodes.is_empty() && self.begins_at_landmarks {
                // Dead nodes that no entry point leads to may have filled the list.
                self.begins_at_landmarks = false;
                continue;
            }
            if self.near.nodes.is_empty() && self.equals.left_out {
                // All visited nodes are dead, but some of their duplicates may be live.
                self.equals.takes_all = true;
                continue;
            }
            if self.has_enough(meta) || !self.list.is_full() || extent.list >= extent.list_max {
                return Ok(());
            }
            extent.list *= 4;
        }
    }

    fn has_enough(&self, meta: &Meta) -> bool {
        self.near.keys.len() as u64 >= LIVE_MIN.min(meta.rows)
    }

    fn walk_once<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        entries: &[Entry],
        reader: &mut R,
        point: &[f32],
        extent: WalkExtent<'_>,
    ) -> Result<(), Error> {
        self.near.clear(meta);
        self.visited.clear();
        self.seen.clear();
        self.origins.clear();
        self.equals.clear();
        self.is_at_equal = false;
        self.list.reset(extent.list);
        self.probe.prepare_inner(meta, point);
        self.entries.clear();
        self.probe.coarse(model, &mut self.coarse);
        let estimates = self.probe.entries(&self.coarse, entries);
        self.entries.extend(estimates.zip(entries.iter().map(|entry| entry.node)));
        if self.entries.len() > ENTRIES {
            self.entries.select_nth_unstable_by(ENTRIES, |a, b| a.0.total_cmp(&b.0));
        }
        self.landmarks.clear();
        if self.begins_at_landmarks {
            self.probe.landmarks(model, &self.coarse, &mut self.landmarks);
        }
        for start in &self.landmarks {
            // The slot may have another row by now, which may not have its anchor yet.
            if with_node(&meta.layout, reader, start.node, |_, header| header.generation == start.generation)? {
                self.equals.known.add(start.estimate);
                self.list.insert(start.estimate, start.node);
            }
            reader.release();
        }
        self.entries.iter().take(ENTRIES).for_each(|(estimate, node)| {
            self.equals.known.add(*estimate);
            self.list.insert(*estimate, *node);
        });
        self.expand_all(meta, model, reader, extent.sought)?;
        if self.near.nodes.is_empty() || extent.everywhere && !self.has_enough(meta) {
            // There are few live nodes in this region: the other entry points may lead to more.
            self.entries.iter().skip(ENTRIES).for_each(|(estimate, node)| {
                self.equals.known.add(*estimate);
                self.list.insert(*estimate, *node);
            });
            self.expand_all(meta, model, reader, extent.sought)?;
        }
        self.near.keys.sort_unstable();
        Ok(())
    }

    /// The content of an edge to a visited node: a copy of the edge that led to it, or computed
    /// from its code.
    pub(crate) fn target<R: Reader>(
        &self,
        meta: &Meta,
        model: &Model,
        reader: &mut R,
        id: NodeId,
        generation: u8,
    ) -> Result<Option<Target>, Error> {
        let mut target = None;
        if let Some((_, from, place)) = self.origins.iter().find(|origin| origin.0 == id) {
            let copy = |node: &NodeRef<'_>, _: &NodeHeader| encode::copy(node, *place);
            target = with_node(&meta.layout, reader, *from, copy)?
                .filter(|t| t.node == id && t.generation == generation);
        }
        if target.is_none() {
            target = with_node(&meta.layout, reader, id, |node, _| encode::target(meta, model, id, node))?;
        }
        reader.release();
        Ok(target)
    }

    /// Brings the result of an earlier walk up to date when others may have changed the index
    /// since: visits the nearest nodes again, and rows that were added near them. `false` if a
    /// visited node is gone: then a new walk is needed.
    ///
    /// # Errors
    ///
    /// As [`Explorer::walk`].
    pub(crate) fn catch_up<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &mut R,
    ) -> Result<bool, Error> {
        if !self.has_enough(meta) && !self.is_at_equal {
            return Ok(false);
        }
        for (id, before) in &self.near.nodes {
            let is_there =
                |_: &NodeRef<'_>, now: &NodeHeader| now.flags == FLAGS_LIVE && now.generation == before.generation;
            if !with_node(&meta.layout, reader, *id, is_there)? {
                return Ok(false);
            }
            reader.release();
        }
        if self.is_at_equal {
            return Ok(true);
        }
        let nearest: Vec<NodeId> = self.near.nearest().take(VISITED_AGAIN).collect();
        for id in nearest {
            self.look_at(meta, model, reader, id, false)?;
        }
        self.expand_all(meta, model, reader, None)?;
        self.near.keys.sort_unstable();
        Ok(true)
    }

    fn expand_all<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &mut R,
        sought: Option<&EncodedRow>,
    ) -> Result<(), Error> {
        while let Some((_, id)) = self.list.expand() {
            // A slot can be a candidate twice, under two estimates, if one of the edges to it is
            // stale.
            if !self.seen.insert(id) {
                continue;
            }
            self.visited.push(id);
            if let Some((_, next)) = self.list.open().next() {
                let (page, slot) = meta.layout.place(next);
                reader.start(page, meta.layout.slot_bytes(slot));
            }
            let found = self.look_at(meta, model, reader, id, true)?;
            let is_equal = |at| sought.is_some_and(|row| self.near.is_same_as(at, row.own, &row.hi));
            self.is_at_equal = found.is_some_and(is_equal);
            if self.is_at_equal {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Visits a node and offers its neighbors as candidates. Records the node if it `is_new`, and
    /// returns its position if it is live.
    fn look_at<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &mut R,
        id: NodeId,
        is_new: bool,
    ) -> Result<Option<usize>, Error> {
        let Self { probe, list, near, origins, equals, .. } = self;
        let mut at = None;
        let visited = probe.visit(meta, model, reader, id, |scored| {
            let mut within = kernels::at_most(scored.estimates, f32::INFINITY, list.bound());
            while within != 0 {
                let place = within.trailing_zeros() as usize;
                within &= within - 1;
                let (estimate, neighbor) = (scored.estimates[place], scored.node.neighbor(place));
                // Most candidates were offered before.
                let is_new = estimate < list.bound() && !list.took_lately(estimate, neighbor);
                if is_new && !equals.leave_out(list, estimate) && list.insert(estimate, neighbor) {
                    origins.push((neighbor, id, place));
                    equals.take(estimate, neighbor);
                }
            }
            if is_new && scored.header.flags == FLAGS_LIVE {
                at = Some(near.push(id, scored.header, scored.node.hi()));
            }
            at.is_some()
        })?;
        reader.release();
        match at {
            Some(_) => near.measured(visited.distance),
            None if is_new => _ = equals.dead.insert(id),
            None => {}
        }
        Ok(at)
    }
}
