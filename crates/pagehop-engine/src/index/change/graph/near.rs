//! Sets of nodes near a point, and the choice of neighbors among them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::Error;
use crate::graph::equal::DUPLICATE_CHILDREN;
use crate::graph::prune::{Cover, alpha_sq, prune};
use crate::graph::{key, key_distance, key_id};
use crate::ids::NodeId;
use crate::index::change::pages::steps::Seen;
use crate::index::node_set::NodeHasher;
use crate::page::Reader;
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_FREE, FLAGS_LIVE, Link, NodeHeader, with_node};
use crate::quantize::codes::Codes;
use crate::quantize::own::OwnCode;

/// Nearest nodes that are tested for equality with a row. The computed distance of an equal node
/// may differ from 0, so it may not be the first.
const EQUALS_TRIED: usize = 8;
/// Largest number of edges of a node to its duplicates, beside its anchors: to its anchor parent,
/// and to its own children.
const DUPLICATES_NEAR: usize = 1 + DUPLICATE_CHILDREN;

/// Nodes with the high planes of their own codes, close together in memory.
#[derive(Debug, Default)]
pub(crate) struct NearNodes {
    pub(crate) nodes: Vec<(NodeId, NodeHeader)>,
    places: HashMap<NodeId, usize, BuildHasherDefault<NodeHasher>>,
    codes: Codes,
    /// Keys of distance to the point and position in `nodes`; sorted after a walk.
    pub(crate) keys: Vec<u64>,
    /// Squared distances from the point to the nodes that a walk visited. They are the first.
    point_distance: Vec<f32>,
}

impl NearNodes {
    pub(crate) fn clear(&mut self, meta: &Meta) {
        self.nodes.clear();
        self.places.clear();
        self.codes.clear();
        self.codes.dim = meta.layout.inner_dim;
        self.codes.filled_sq = meta.filled_sq();
        self.keys.clear();
        self.point_distance.clear();
    }

    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.position(node).is_some()
    }

    pub(crate) fn position(&self, node: NodeId) -> Option<usize> {
        self.places.get(&node).copied()
    }

    /// Adds the node at a position of `other`.
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

    /// Notes the distance of the node that was pushed last from the point of the walk.
    pub(super) fn measured(&mut self, distance: f32) {
        self.keys.push(key(distance, self.point_distance.len() as u32));
        self.point_distance.push(distance);
        debug_assert_eq!(self.point_distance.len(), self.nodes.len(), "a walk measures each node");
    }

    /// Squared distance from the point of the walk to a node that it visited.
    pub(super) fn point_distance(&self, at: usize) -> Option<f32> {
        self.point_distance.get(at).copied()
    }

    /// Whether the set has this node, and the node is live.
    pub(crate) fn lives(&self, node: NodeId) -> bool {
        self.position(node).is_some_and(|at| self.nodes[at].1.flags == FLAGS_LIVE)
    }

    /// Squared distance between two nodes.
    pub(crate) fn distance(&self, a: usize, b: usize) -> f32 {
        self.codes.hi_distance(a, b)
    }

    /// Fills `keys` with the distances from the node at `from` to the others, except those that are
    /// `gone`.
    pub(crate) fn measure_from(&mut self, from: usize, gone: impl Fn(NodeId, &NodeHeader) -> bool) {
        self.keys.clear();
        let is_left = |(id, header): &(NodeId, NodeHeader)| !gone(*id, header);
        let others = (0..self.nodes.len()).filter(|at| *at != from && is_left(&self.nodes[*at]));
        let distance = |i| if self.codes.is_same(from, i) { 0.0 } else { self.codes.hi_distance(from, i) };
        self.keys.extend(others.map(|i| key(distance(i), i as u32)));
        self.keys.sort_unstable();
    }

    /// Positions of at most `degree` of the nodes in `keys`, chosen by robust prune as in the build
    /// for a node with this squared norm.
    pub(crate) fn choose(&self, degree: usize, norm_sq: f32) -> Vec<u32> {
        let keys = self.without_duplicates();
        if keys.len() == degree + 1 {
            return self.all_but_one(&keys);
        }
        let mut kept = Vec::with_capacity(degree);
        prune(&keys, degree, &Cover { codes: &self.codes, norm_sq }, &mut kept);
        kept
    }

    /// The keys without duplicates: only the first of several live nodes with equal codes, since an
    /// edge to another would lead to the same place. [`DUPLICATES_NEAR`] duplicates of the node
    /// itself stay. A dead node does not displace a live one: a row that was deleted and added
    /// again has the same code.
    fn without_duplicates(&self) -> Cow<'_, [u64]> {
        let is_same = |a: &u64, b: &u64| {
            let is_as_far = key_distance(*a).to_bits() == key_distance(*b).to_bits();
            is_as_far && self.codes.is_same(key_id(*a) as usize, key_id(*b) as usize)
        };
        let as_far = |pair: &[u64]| key_distance(pair[0]).to_bits() == key_distance(pair[1]).to_bits();
        if !self.keys.windows(2).any(as_far) {
            return Cow::Borrowed(&self.keys);
        }
        let lives = |key: &u64| self.nodes[key_id(*key) as usize].1.flags == FLAGS_LIVE;
        let mut kept: Vec<u64> = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let most = if key_distance(*key) == 0.0 { DUPLICATES_NEAR } else { 1 };
            let equals = kept.iter().rev().take_while(|other| is_same(other, key));
            if !lives(key) || equals.filter(|other| lives(other)).count() < most {
                kept.push(*key);
            }
        }
        Cow::Owned(kept)
    }

    /// The nearest node with this code.
    pub(crate) fn equal_to(&self, own: OwnCode, hi: &[i8]) -> Option<NodeId> {
        // Under the inner product an equal node may be farther than others.
        let tried = if self.codes.filled_sq.is_some() { usize::MAX } else { EQUALS_TRIED };
        let mut nearest = self.keys.iter().take(tried).map(|key| key_id(*key) as usize);
        nearest.find(|at| self.codes.is_same_as(*at, own, hi)).map(|at| self.nodes[at].0)
    }

    /// Whether the node at a position has this code.
    pub(crate) fn is_same_as(&self, at: usize, own: OwnCode, hi: &[i8]) -> bool {
        self.codes.is_same_as(at, own, hi)
    }

    /// Positions of the nodes in `keys` except one: the farthest that a nearer node covers, or else
    /// the farthest. Robust prune would drop the same one, unless the node that covers it was
    /// itself dropped.
    fn all_but_one(&self, keys: &[u64]) -> Vec<u32> {
        let alpha_sq = alpha_sq(self.codes.dim, self.codes.filled_sq);
        let is_covered = |of: usize, key: u64| {
            let nearer = keys[..of].iter().map(|key| key_id(*key) as usize);
            nearer
                .rev()
                .any(|other| alpha_sq * self.codes.hi_distance(other, key_id(key) as usize) <= key_distance(key))
        };
        let victim = (1..keys.len()).rev().find(|at| is_covered(*at, keys[*at]));
        let victim = victim.unwrap_or(keys.len() - 1);
        keys.iter().enumerate().filter(|(at, _)| *at != victim).map(|(_, key)| key_id(*key)).collect()
    }

    /// The nodes in `keys`, nearest first after a walk.
    pub(crate) fn nearest(&self) -> impl Iterator<Item = NodeId> {
        self.keys.iter().map(|key| self.nodes[key_id(*key) as usize].0)
    }
}

/// A node's present neighbors, read to decide about its edges.
#[derive(Debug, Default)]
pub(crate) struct Neighborhood {
    /// The node itself first, then its neighbors that exist, then others that were added.
    pub(crate) near: NearNodes,
    /// Present edges.
    pub(super) seen: Seen,
}

impl Neighborhood {
    /// Reads `node` and the targets of its current edges. Targets in `known` are taken from there;
    /// the others are added to it. `false` if the slot is free.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page contradicts the format; any error of the reader.
    pub(crate) fn read<R: Reader>(
        &mut self,
        meta: &Meta,
        reader: &mut R,
        node: NodeId,
        known: &mut NearNodes,
    ) -> Result<bool, Error> {
        self.near.clear(meta);
        let Self { near, seen } = self;
        let exists = with_node(&meta.layout, reader, node, |found, header| {
            *seen = Seen::of(found, header);
            near.push(node, *header, found.hi());
            header.flags != FLAGS_FREE
        })?;
        if !exists {
            return Ok(false);
        }
        let mut unknown = Vec::with_capacity(seen.links().len());
        for link in seen.links() {
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
            with_node(&meta.layout, reader, link.node, |found, header| {
                if header.flags != FLAGS_FREE && header.generation == link.generation {
                    let at = known.push(link.node, *header, found.hi());
                    near.push_from(known, at);
                }
            })?;
            reader.release();
        }
        Ok(true)
    }

    /// Present edges.
    pub(crate) fn links(&self) -> &[Link] {
        self.seen.links()
    }

    /// Whether an edge is not stale.
    pub(crate) fn is_current(&self, link: &Link) -> bool {
        self.near.position(link.node).is_some_and(|at| self.near.nodes[at].1.generation == link.generation)
    }

    /// Adds a candidate for an edge, unless it is there already or its slot is free.
    pub(crate) fn add<R: Reader>(
        &mut self,
        meta: &Meta,
        reader: &mut R,
        node: NodeId,
        known: &NearNodes,
    ) -> Result<(), Error> {
        if let Some(at) = known.position(node).filter(|_| !self.near.contains(node)) {
            self.near.push_from(known, at);
        } else if !self.near.contains(node) {
            let near = &mut self.near;
            with_node(&meta.layout, reader, node, |found, header| {
                if header.flags != FLAGS_FREE {
                    near.push(node, *header, found.hi());
                }
            })?;
            reader.release();
        }
        Ok(())
    }
}
