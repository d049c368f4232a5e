//! The neighborhood of a point, as a change needs it: which living nodes are near, how far from each other, and
//! which of them deserve an edge.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::encode::{self, Target};
use super::meta::Meta;
use super::model::{Entry, Model};
use super::node_set::{NodeHasher, NodeSet};
use super::visit::Probe;
use crate::Error;
use crate::graph::equal::SATELLITES;
use crate::graph::list::CandidateList;
use crate::graph::prune::prune;
use crate::graph::{key, key_distance, key_id};
use crate::page::Reader;
use crate::page::layout::{FLAGS_FREE, FLAGS_LIVE, Link, NodeHeader, NodeId, NodeRef, PageKind};
use crate::quantize::codes::Codes;
use crate::quantize::own::OwnCode;

/// Entry points that a walk begins with.
const ENTRIES: usize = 2;
/// Nearest nodes that are asked whether they lie in the place of a row: its distance to them is not 0 to the last bit.
const EQUALS_ASKED: usize = 8;
/// A walk that met fewer living nodes than this starts over with a longer list, up to the longest.
const LIVING_MIN: u64 = 16;
const CAPACITY_MAX: usize = 1 << 14;
/// Nearest nodes that are looked at again when others may have changed the index since the walk: a row that came to lie by them
/// has edges from some.
const SEEN_AGAIN: usize = 8;
/// Candidates of one estimate, to the last bit, that a walk takes: equal rows have it, and all of them would fill its list.
const EQUALS_MET: usize = 2;
/// Edges of a node to others in its own place, beside its anchors: the one it hangs below and those that hang below it.
const EQUALS_NEAR: usize = 1 + SATELLITES;

/// Nodes with their own codes, close together in memory.
#[derive(Debug, Default)]
pub(crate) struct Near {
    pub(crate) nodes: Vec<(NodeId, NodeHeader)>,
    places: HashMap<NodeId, usize, BuildHasherDefault<NodeHasher>>,
    codes: Codes,
    /// Keys of distance to the point and position in `nodes`; in order after a walk.
    pub(crate) keys: Vec<u64>,
}

impl Near {
    pub(crate) fn clear(&mut self, dim: usize) {
        self.nodes.clear();
        self.places.clear();
        self.codes.clear();
        self.codes.dim = dim;
        self.keys.clear();
    }

    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.position(node).is_some()
    }

    pub(crate) fn position(&self, node: NodeId) -> Option<usize> {
        self.places.get(&node).copied()
    }

    /// Adds a node that `other` has at a position.
    fn push_from(&mut self, other: &Self, at: usize) {
        self.places.insert(other.nodes[at].0, self.nodes.len());
        self.nodes.push(other.nodes[at]);
        self.codes.push_hi_of(&other.codes, at);
    }

    /// Adds a node; returns its position.
    pub(crate) fn push(&mut self, id: NodeId, header: NodeHeader, hi: &[i8]) -> usize {
        self.places.insert(id, self.nodes.len());
        self.nodes.push((id, header));
        self.codes.push_hi(OwnCode { step: header.step, norm_sq: header.norm_sq }, hi);
        self.nodes.len() - 1
    }

    /// Whether a node is there and lives.
    pub(crate) fn lives(&self, node: NodeId) -> bool {
        self.position(node).is_some_and(|at| self.nodes[at].1.flags == FLAGS_LIVE)
    }

    /// Squared distance between two nodes.
    pub(crate) fn distance(&self, a: usize, b: usize) -> f32 {
        self.codes.hi_distance(a, b)
    }

    /// Measures every node but the one at `from` and those that are `gone`, from there; fills `keys` in order.
    pub(crate) fn measure_from(&mut self, from: usize, gone: impl Fn(NodeId, &NodeHeader) -> bool) {
        self.keys.clear();
        let is_left = |(id, header): &(NodeId, NodeHeader)| !gone(*id, header);
        let others = (0..self.nodes.len()).filter(|at| *at != from && is_left(&self.nodes[*at]));
        self.keys.extend(others.map(|i| key(self.codes.hi_distance(from, i), i as u32)));
        self.keys.sort_unstable();
    }

    /// Positions of at most `degree` of the nodes in `keys`, chosen as the build chooses neighbors.
    pub(crate) fn choose(&self, degree: usize, alpha_sq: f32) -> Vec<u32> {
        let keys = self.without_equals();
        if keys.len() == degree + 1 {
            return self.all_but_one(&keys, alpha_sq);
        }
        let distance = |a: u32, b: u32| self.codes.hi_distance(a as usize, b as usize);
        let mut kept = Vec::with_capacity(degree);
        prune(&keys, degree, alpha_sq, distance, &mut kept);
        kept
    }

    /// The keys, of living nodes in one place only the first: an edge to another would lead nowhere else. Of those in the node's
    /// own place a few. A dead one takes no place from a living one: a row that was deleted and came back lies where it did.
    fn without_equals(&self) -> Cow<'_, [u64]> {
        let is_same = |a: &u64, b: &u64| {
            let is_as_far = key_distance(*a).to_bits() == key_distance(*b).to_bits();
            is_as_far && self.codes.is_same(key_id(*a) as usize, key_id(*b) as usize)
        };
        let as_far = |pair: &[u64]| key_distance(pair[0]).to_bits() == key_distance(pair[1]).to_bits();
        if !self.keys.windows(2).any(as_far) {
            return Cow::Borrowed(&self.keys);
        }
        let lives = |key: &u64| self.nodes[key_id(*key) as usize].1.flags == FLAGS_LIVE;
        let mut few: Vec<u64> = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let most = if key_distance(*key) == 0.0 { EQUALS_NEAR } else { 1 };
            let equals = few.iter().rev().take_while(|other| is_same(other, key));
            if !lives(key) || equals.filter(|other| lives(other)).count() < most {
                few.push(*key);
            }
        }
        Cow::Owned(few)
    }

    /// The nearest node that lies in the same place as a code.
    pub(crate) fn equal_to(&self, own: OwnCode, hi: &[i8]) -> Option<NodeId> {
        let mut nearest = self.keys.iter().take(EQUALS_ASKED).map(|key| key_id(*key) as usize);
        nearest.find(|at| self.codes.is_same_as(*at, own, hi)).map(|at| self.nodes[at].0)
    }

    /// Leaves nodes in the place of a code out of what there is to choose from.
    pub(crate) fn forget_equals(&mut self, own: OwnCode, hi: &[i8]) {
        self.keys.retain(|key| !self.codes.is_same_as(key_id(*key) as usize, own, hi));
    }

    /// Positions of the nodes in `keys` but for the farthest that one nearer than itself stands in the way of; if
    /// there is none, the farthest. That is whom robust prune would leave out of one too many, unless what
    /// stands in the way was itself dropped.
    fn all_but_one(&self, keys: &[u64], alpha_sq: f32) -> Vec<u32> {
        let in_the_way = |of: usize, key: u64| {
            let nearer = keys[..of].iter().map(|key| key_id(*key) as usize);
            nearer
                .rev()
                .any(|other| alpha_sq * self.codes.hi_distance(other, key_id(key) as usize) <= key_distance(key))
        };
        let victim = (1..keys.len()).rev().find(|at| in_the_way(*at, keys[*at]));
        let victim = victim.unwrap_or(keys.len() - 1);
        keys.iter().enumerate().filter(|(at, _)| *at != victim).map(|(_, key)| key_id(*key)).collect()
    }

    /// The nodes in `keys`, nearest first.
    pub(crate) fn nearest(&self) -> impl Iterator<Item = (NodeId, NodeHeader)> {
        self.keys.iter().map(|key| self.nodes[key_id(*key) as usize])
    }
}

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Candidates that it expands, the best.
    pub(crate) list: usize,
    /// As many where nearly all of them are dead.
    pub(crate) list_max: usize,
    /// Whether it begins at every entry point where those nearby lead to few that live, not only to none.
    pub(crate) everywhere: bool,
}

impl Extent {
    /// As far as it takes to meet some that live.
    pub(crate) fn of(list: usize) -> Self {
        Self { list, list_max: CAPACITY_MAX, everywhere: false }
    }
}

/// Walks to a point and remembers whom it met. Reusable.
#[derive(Debug, Default)]
pub(crate) struct Explorer {
    pub(crate) probe: Probe,
    list: CandidateList,
    entries: Vec<(f32, NodeId)>,
    pub(crate) near: Near,
    /// Every slot the walk came to, living or not.
    pub(crate) visited: Vec<NodeId>,
    /// The same, to look up.
    seen: NodeSet,
    /// For each candidate the node that offered it, and the place of the edge there.
    origins: Vec<(NodeId, NodeId, usize)>,
    equals: Equals,
}

/// Tells candidates of one estimate, to the last bit, from one another: so many lie in one place that is enough of them.
#[derive(Debug, Default)]
struct Equals {
    /// Candidates whose estimates are not above 0, as bits: the list does not tell these apart.
    below: Vec<(u32, NodeId)>,
    /// Nodes without a row, which do not count: others in their place are to be met.
    dead: NodeSet,
    /// Whether some were left out.
    left_out: bool,
    /// Whether all are taken.
    takes_all: bool,
}

impl Equals {
    fn clear(&mut self) {
        self.below.clear();
        self.dead.clear();
        self.left_out = false;
    }

    /// Whether a candidate is to be left out.
    fn leave_out(&mut self, list: &CandidateList, estimate: f32) -> bool {
        let leaves = !self.takes_all && self.are_many(list, estimate);
        self.left_out |= leaves;
        leaves
    }

    /// Whether enough candidates of that estimate are in the list.
    fn are_many(&self, list: &CandidateList, estimate: f32) -> bool {
        let lives = |id: &NodeId| !self.dead.contains(id);
        if estimate > 0.0 {
            return list.of_estimate(estimate).filter(lives).count() >= EQUALS_MET;
        }
        let same = self.below.iter().filter(|(bits, _)| *bits == estimate.to_bits());
        same.filter(|(_, id)| lives(id)).count() >= EQUALS_MET
    }

    fn take(&mut self, estimate: f32, id: NodeId) {
        if estimate <= 0.0 {
            self.below.push((estimate.to_bits(), id));
        }
    }
}

impl Explorer {
    /// Expands the best candidates for `point`; the living nodes met are in `near`, nearest first. Of equal ones it
    /// meets two.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page contradicts the format; whatever the reader reports.
    pub(crate) fn walk<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        entries: &[Entry],
        reader: &mut R,
        point: &[f32],
        mut extent: Extent,
    ) -> Result<(), Error> {
        self.equals.takes_all = false;
        loop {
            self.walk_once(meta, model, entries, reader, point, extent)?;
            if self.near.nodes.is_empty() && self.equals.left_out {
                // Only dead ones were met: of their equals some may live.
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
        self.near.keys.len() as u64 >= LIVING_MIN.min(meta.rows)
    }

    fn walk_once<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        entries: &[Entry],
        reader: &mut R,
        point: &[f32],
        extent: Extent,
    ) -> Result<(), Error> {
        self.near.clear(meta.layout.inner_dim);
        self.visited.clear();
        self.seen.clear();
        self.origins.clear();
        self.equals.clear();
        self.list.reset(extent.list);
        self.probe.prepare_inner(meta, point);
        self.entries.clear();
        self.entries.extend(self.probe.entries(model, entries));
        if self.entries.len() > ENTRIES {
            self.entries.select_nth_unstable_by(ENTRIES, |a, b| a.0.total_cmp(&b.0));
        }
        self.entries.iter().take(ENTRIES).for_each(|(estimate, node)| {
            self.list.insert(*estimate, *node);
        });
        self.expand_all(meta, model, reader)?;
        if self.near.nodes.is_empty() || extent.everywhere && !self.has_enough(meta) {
            // Nothing lives around there, or little: the other entry points may lead to something.
            self.entries.iter().skip(ENTRIES).for_each(|(estimate, node)| {
                self.list.insert(*estimate, *node);
            });
            self.expand_all(meta, model, reader)?;
        }
        self.near.keys.sort_unstable();
        Ok(())
    }

    /// What an edge to a node that was met carries: a copy of the edge it was met by, or made anew.
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
            let copy = |node: &NodeRef<'_>, _: &NodeHeader| encode::copy(meta, node, *place);
            target = with_node(meta, reader, *from, copy)?.filter(|t| t.node == id && t.generation == generation);
        }
        if target.is_none() {
            target = with_node(meta, reader, id, |node, _| encode::target(meta, model, id, node))?;
        }
        reader.release();
        Ok(target)
    }

    /// Brings what a walk met up to date, when others may have changed the index since: the nearest are looked at again, and rows
    /// that came to lie by them are met. `false` if somebody whom it met has gone meanwhile: then it takes another walk.
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
        if !self.has_enough(meta) {
            return Ok(false);
        }
        for (id, before) in &self.near.nodes {
            let is_there =
                |_: &NodeRef<'_>, now: &NodeHeader| now.flags == FLAGS_LIVE && now.generation == before.generation;
            if !with_node(meta, reader, *id, is_there)? {
                return Ok(false);
            }
            reader.release();
        }
        let nearest: Vec<NodeId> = self.near.nearest().take(SEEN_AGAIN).map(|near| near.0).collect();
        for id in nearest {
            self.look_at(meta, model, reader, id, false)?;
        }
        self.expand_all(meta, model, reader)?;
        self.near.keys.sort_unstable();
        Ok(true)
    }

    fn expand_all<R: Reader>(&mut self, meta: &Meta, model: &Model, reader: &mut R) -> Result<(), Error> {
        while let Some((_, id)) = self.list.expand() {
            // A slot is met twice only if an edge was meant for a row before the one in it.
            if !self.seen.insert(id) {
                continue;
            }
            self.visited.push(id);
            if let Some((_, next)) = self.list.open().next() {
                let (page, slot) = meta.layout.place(next);
                reader.start(page, meta.layout.slot_bytes(slot));
            }
            self.look_at(meta, model, reader, id, true)?;
        }
        Ok(())
    }

    /// Visits a node, and takes those to whom its edges lead for candidates; remembers one that `is_new`.
    fn look_at<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &mut R,
        id: NodeId,
        is_new: bool,
    ) -> Result<(), Error> {
        let Self { probe, list, near, origins, equals, .. } = self;
        let offer = |place: usize, estimate: f32, neighbor: NodeId| {
            let is_near = estimate < list.bound() && !equals.leave_out(list, estimate);
            if is_near && list.insert(estimate, neighbor) {
                origins.push((neighbor, id, place));
                equals.take(estimate, neighbor);
            }
        };
        let mut at = None;
        let remember = |node: &NodeRef<'_>, header: &NodeHeader| {
            if is_new && header.flags == FLAGS_LIVE {
                at = Some(near.push(id, *header, node.hi()));
            }
        };
        let met = probe.visit(meta, model, reader, id, offer, remember)?;
        reader.release();
        match at {
            Some(at) => near.keys.push(key(met.distance, at as u32)),
            None if is_new => _ = equals.dead.insert(id),
            None => {}
        }
        Ok(())
    }
}

/// A node's present neighbors, read for a decision about its edges.
#[derive(Debug, Default)]
pub(crate) struct Neighborhood {
    /// The node itself first, then its neighbors that are there, then others that were added.
    pub(crate) near: Near,
    /// Present edges.
    pub(crate) links: Vec<Link>,
}

impl Neighborhood {
    /// Reads `node` and the neighbors its edges were meant for, those in `known` from there; the others are known
    /// from then on. `false` if no node is there.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page contradicts the format; whatever the reader reports.
    pub(crate) fn read<R: Reader>(
        &mut self,
        meta: &Meta,
        reader: &mut R,
        node: NodeId,
        known: &mut Near,
    ) -> Result<bool, Error> {
        self.near.clear(meta.layout.inner_dim);
        self.links.clear();
        let Self { near, links } = self;
        let exists = with_node(meta, reader, node, |found, header| {
            links.extend(found.links());
            near.push(node, *header, found.hi());
            header.flags != FLAGS_FREE
        })?;
        if !exists {
            return Ok(false);
        }
        let mut unknown = Vec::with_capacity(links.len());
        for link in &*links {
            match known.position(link.node) {
                Some(at) if known.nodes[at].1.generation == link.generation => near.push_from(known, at),
                Some(_) => {}
                None => {
                    let (page, slot) = meta.layout.place(link.node);
                    meta.layout.place_bytes(slot).into_iter().for_each(|bytes| reader.start(page, bytes));
                    unknown.push(*link);
                }
            }
        }
        for link in &unknown {
            with_node(meta, reader, link.node, |found, header| {
                if header.flags != FLAGS_FREE && header.generation == link.generation {
                    let at = known.push(link.node, *header, found.hi());
                    near.push_from(known, at);
                }
            })?;
            reader.release();
        }
        Ok(true)
    }

    /// Whether an edge leads to the row it was meant for.
    pub(crate) fn is_current(&self, link: &Link) -> bool {
        self.near.position(link.node).is_some_and(|at| self.near.nodes[at].1.generation == link.generation)
    }

    /// Adds a node that an edge might lead to, unless it is there or its slot is free.
    pub(crate) fn add<R: Reader>(
        &mut self,
        meta: &Meta,
        reader: &mut R,
        node: NodeId,
        known: &Near,
    ) -> Result<(), Error> {
        if let Some(at) = known.position(node).filter(|_| !self.near.contains(node)) {
            self.near.push_from(known, at);
        } else if !self.near.contains(node) {
            let near = &mut self.near;
            with_node(meta, reader, node, |found, header| {
                if header.flags != FLAGS_FREE {
                    near.push(node, *header, found.hi());
                }
            })?;
            reader.release();
        }
        Ok(())
    }
}

/// Looks at one slot.
pub(crate) fn with_node<R: Reader, T>(
    meta: &Meta,
    reader: &R,
    node: NodeId,
    look: impl FnOnce(&NodeRef<'_>, &NodeHeader) -> T,
) -> Result<T, Error> {
    let (page, slot) = meta.layout.place(node);
    let guard = reader.finish(page)?;
    if guard[0] != PageKind::Node as u8 {
        return Err(Error::corrupt(page, format!("a node page has kind 2, this one {}", guard[0])));
    }
    let found = NodeRef::new(&meta.layout, &guard, slot);
    let header = found.header();
    if !header.is_valid(&meta.layout) {
        let what = format!("slot {slot} has flags {} and degree {}", header.flags, header.degree);
        return Err(Error::corrupt(page, what));
    }
    Ok(look(&found, &header))
}
