//! Checks nodes and their edges, and that the row id map and the list of free slots agree with
//! them.

use std::ops::ControlFlow;

use crate::ids::NodeId;
use crate::index::model::Model;
use crate::index::state::State;
use crate::page::id_map;
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_DEAD, FLAGS_FREE, FLAGS_LIVE, FLAGS_UNLINKED, GENERATIONS, NodeHeader, NodeRef};
use crate::page::{PageId, Reader};
use crate::quantize::edge::{self, EdgeFactors};
use crate::quantize::own;
use crate::row_ids::{IdKind, NODE_ROWS_MAX};
use crate::{CheckReport, Error};

/// Largest relative difference between two sums of the same numbers.
const TOLERANCE: f32 = 1e-3;

/// The hash of no words.
const HASH_OF_NONE: u64 = 0xCBF2_9CE4_8422_2325;

/// Nodes of a walk between two calls of the progress callback.
const NODES_PER_LOOK: u64 = 1 << 16;

/// Bytes of memory per slot.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();

/// The number of counts that both passes add to.
pub(super) const COUNTS: usize = 6;

/// The content of a slot, and what its in-neighbors must store about it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slot {
    /// Whether this is a slot of the graph.
    pub(super) exists: bool,
    pub(super) flags: u8,
    pub(super) generation: u8,
    pub(super) centroid: u8,
    /// Whether the map or the dead list names the node.
    pub(super) listed: bool,
    /// Whether the node's row was added by an incomplete commit.
    pub(super) pending: bool,
    /// The edges that are anchors, one bit each.
    pub(super) anchors: u64,
    pub(super) row_id: u64,
    pub(super) code_hash: u64,
    pub(super) factors: EdgeFactors,
    /// A hash of the values of its columns, and the columns whose trees have its posting, one bit
    /// each.
    pub(super) values_hash: u64,
    pub(super) posted: u8,
}

/// A check in progress: what was found of the nodes.
pub(super) struct Check<'a> {
    pub(super) meta: &'a Meta,
    pub(super) model: &'a Model,
    centroids: Vec<f32>,
    pub(super) slots: Vec<Slot>,
    pub(super) neighbors: Vec<NodeId>,
    /// Pages that are marked as listed in the list of free slots, and the links that follow.
    links: Vec<(PageId, FreeLink)>,
    /// Edges that have the generation of their target and another code, and the first of them.
    pub(super) contradicting: u64,
    contradiction: Option<Error>,
    pub(super) report: CheckReport,
    visible: u64,
    buffers: Buffers,
}

/// The targets of a node's edges, by a bit for the lowest twelve bits of each.
struct Targets([u64; 64]);

impl Default for Targets {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Targets {
    /// Adds a target. Returns whether it may have been added before.
    fn add(&mut self, target: NodeId) -> bool {
        let bits = &mut self.0[target as usize / 64 % 64];
        let bit = 1 << (target % 64);
        std::mem::replace(bits, *bits | bit) & bit > 0
    }
}

/// Vectors that are used for each node or edge, so that none allocates memory.
#[derive(Default)]
struct Buffers {
    values: Vec<i16>,
    x: Vec<f32>,
    code: Vec<u64>,
    /// Hashes of the codes of a node's edges.
    hashes: Vec<u64>,
}

impl<'a> Check<'a> {
    /// A check of an index with `pages` pages, before its nodes are read.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn new(state: &'a State, pages: u32) -> Result<Self, Error> {
        let meta = &state.meta;
        let slots = pages as usize * meta.layout.nodes_per_page;
        Ok(Self {
            meta,
            model: &state.model,
            centroids: state.model.centroids.decode(),
            slots: filled(Slot::default(), slots)?,
            neighbors: filled(NodeId::MAX, slots * meta.layout.degree)?,
            links: Vec::new(),
            contradicting: 0,
            contradiction: None,
            report: CheckReport { pages, ..CheckReport::default() },
            visible: 0,
            buffers: Buffers::default(),
        })
    }

    /// The content of a slot; nothing for a node that does not exist.
    pub(super) fn slot(&self, node: NodeId) -> Slot {
        self.slots.get(node as usize).copied().unwrap_or_default()
    }

    /// The numbers of the nodes that a page may have.
    pub(super) fn nodes_of(&self, page: PageId) -> std::ops::Range<usize> {
        let first = self.meta.layout.node_id(page, 0) as usize;
        first..first + self.meta.layout.nodes_per_page
    }

    /// The counts that both passes add to.
    fn counted(&mut self) -> [&mut u64; COUNTS] {
        let CheckReport { nodes, dead_nodes, free_slots, edges, stale_edges, .. } = &mut self.report;
        [nodes, dead_nodes, free_slots, &mut self.visible, edges, stale_edges]
    }

    /// The counts so far.
    pub(super) fn counts(&mut self) -> [u64; COUNTS] {
        self.counted().map(|count| *count)
    }

    /// How much was added to the counts since they were `before`.
    pub(super) fn counts_since(&mut self, before: &[u64; COUNTS]) -> [u64; COUNTS] {
        let now = self.counts();
        std::array::from_fn(|at| now[at] - before[at])
    }

    /// Adds to the counts.
    pub(super) fn add_counts(&mut self, more: &[u64; COUNTS]) {
        self.counted().into_iter().zip(more).for_each(|(count, more)| *count += more);
    }

    /// Remembers a page that is in the list of free slots. Returns whether it is marked as such.
    pub(super) fn link(&mut self, page: PageId, body: &[u8]) -> bool {
        let link = FreeLink::read(body);
        if link.listed {
            self.links.push((page, link));
        }
        link.listed
    }

    /// First pass: checks every node, and records what its in-neighbors must store.
    pub(super) fn nodes(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let layout = self.meta.layout;
        let is_listed = self.link(page, body);
        let mut free = 0;
        for slot in 0..layout.nodes_per_page {
            let node = NodeRef::new(&layout, body, slot);
            let header = node.header();
            let at = layout.node_id(page, slot) as usize;
            let empty = Slot { exists: true, generation: header.generation, ..Slot::default() };
            self.slots[at] = match header.flags {
                FLAGS_FREE => empty,
                _ => self.node(page, slot, &node, &header)?,
            };
            free += u64::from(header.flags == FLAGS_FREE);
        }
        if free > 0 && !is_listed {
            return Err(Error::corrupt(
                page,
                format!("{free} slots are free, but the page is not in the list of free slots"),
            ));
        }
        self.report.free_slots += free;
        Ok(())
    }

    fn node(&mut self, page: PageId, slot: usize, node: &NodeRef<'_>, header: &NodeHeader) -> Result<Slot, Error> {
        let layout = self.meta.layout;
        let bad = |what: String| Error::corrupt(page, format!("slot {slot}: {what}"));
        if !header.is_valid(&layout) {
            return Err(bad(format!("flags {:#x}, degree {} of {}", header.flags, header.degree, layout.degree)));
        }
        if usize::from(header.centroid) >= self.model.centroids.len() {
            return Err(bad(format!("centroid {} of {}", header.centroid, self.model.centroids.len())));
        }
        let mapped = self.meta.id_kind != IdKind::HostOwned;
        let is_dead = if mapped { header.deleted > 0 } else { header.host_rows() == [0; NODE_ROWS_MAX] };
        if is_dead == (header.flags == FLAGS_LIVE) {
            return Err(bad(format!("flags {:#x} and rows or commits {:?}", header.flags, header.host_rows())));
        }
        let Buffers { values, x, code, .. } = &mut self.buffers;
        values.resize(layout.inner_dim, 0);
        x.resize(layout.inner_dim, 0.0);
        code.resize(layout.edge.words(), 0);
        own::decode(header.step, node.hi(), node.lo(), values, x);
        let norm_sq = pagehop_kernels::dot_f32(x, x);
        if !close(norm_sq, header.norm_sq, header.norm_sq) {
            return Err(bad(format!("squared norm {} in the header, {norm_sq} of the code", header.norm_sq)));
        }
        let center = &self.centroids[usize::from(header.centroid) * layout.inner_dim..][..layout.inner_dim];
        let factors = self.model.signed(edge::encode(layout.edge, x, center, code), node.values());
        let commit = self.meta.change.commit;
        self.visible += u64::from(if mapped { header.is_visible(commit) } else { !is_dead });
        self.report.nodes += u64::from(header.flags == FLAGS_LIVE);
        self.report.dead_nodes += u64::from(matches!(header.flags, FLAGS_DEAD | FLAGS_UNLINKED));
        Ok(Slot {
            exists: true,
            flags: header.flags,
            generation: header.generation,
            centroid: header.centroid,
            listed: false,
            pending: mapped && header.added > commit,
            anchors: 0,
            row_id: header.row_id,
            code_hash: hash(code.iter().copied()),
            factors,
            values_hash: hash_bytes(node.values().0),
            posted: 0,
        })
    }

    /// Second pass: checks every edge against its target.
    pub(super) fn edges(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let layout = self.meta.layout;
        for slot in 0..layout.nodes_per_page {
            let id = layout.node_id(page, slot);
            if self.slot(id).flags != FLAGS_FREE {
                let mut hashes = std::mem::take(&mut self.buffers.hashes);
                let checked = self.edges_of(page, slot, &NodeRef::new(&layout, body, slot), &mut hashes);
                self.buffers.hashes = hashes;
                checked?;
            }
        }
        Ok(())
    }

    /// Checks the edges of the node in a slot. `hashes` is a buffer.
    fn edges_of(
        &mut self,
        page: PageId,
        slot: usize,
        node: &NodeRef<'_>,
        hashes: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let layout = self.meta.layout;
        let id = layout.node_id(page, slot);
        let edges = node.edges();
        hashes.clear();
        hashes.resize(layout.degree, HASH_OF_NONE);
        edge::each_word(layout.edge, edges.codes, layout.degree, |first, words| {
            hashes[first..].iter_mut().zip(words).for_each(|(hash, word)| *hash = with_word(*hash, word));
        });
        let mut earlier = Targets::default();
        for (i, link) in node.links().enumerate() {
            let target = link.node;
            let bad = |what: &str| Error::corrupt(page, format!("slot {slot}, edge {i} to node {target}: {what}"));
            let expected = self.slot(target);
            if !expected.exists || target == id {
                return Err(bad("the target is not another node"));
            }
            if earlier.add(target) && edges.heads[..i].iter().any(|head| edge::target_of(head) == target) {
                return Err(bad("an edge before it leads to the same node"));
            }
            self.report.edges += 1;
            if expected.flags == FLAGS_FREE || link.generation != expected.generation {
                self.report.stale_edges += 1;
                continue;
            }
            let stored = (edges.centroids[i][0], EdgeFactors::of_head(&edges.heads[i]), hashes[i]);
            if let Err(what) = edge_matches(stored, &expected, !self.model.signatures.is_empty()) {
                self.contradicts(link.anchor, bad(what))?;
                continue;
            }
            self.neighbors[id as usize * layout.degree + i] = target;
            self.slots[id as usize].anchors |= u64::from(link.anchor) << i;
        }
        Ok(())
    }

    /// Takes an edge that has the generation of its target and another code. After as many other
    /// rows as there are generations in a slot, such an edge is a stale one. But that is the share
    /// of one stale edge in [`GENERATIONS`]: more of them than of all others are an error, and so
    /// are anchors, which are never stale.
    fn contradicts(&mut self, is_anchor: bool, error: Error) -> Result<(), Error> {
        if is_anchor || self.meta.change.deleted_rows < GENERATIONS {
            return Err(error);
        }
        self.report.stale_edges += 1;
        self.contradicting += 1;
        self.contradiction.get_or_insert(error);
        Ok(())
    }

    /// Checks that the meta page counts the visible rows, and that few edges contradict their
    /// targets.
    pub(super) fn rows(&mut self) -> Result<(), Error> {
        let others = self.report.stale_edges - self.contradicting;
        if let Some(error) = self.contradiction.take_if(|_| self.contradicting > others) {
            return Err(error);
        }
        if self.visible == self.meta.rows {
            return Ok(());
        }
        let what = format!("the meta page counts {} rows, the pages hold {}", self.meta.rows, self.visible);
        Err(Error::corrupt(PageId(0), what))
    }

    /// Checks that the list of free slots has every page that is marked as listed.
    pub(super) fn free_list(&mut self) -> Result<(), Error> {
        let listed = self.meta.change.free_slots.into();
        if self.report.free_slots != listed {
            let what = format!("the meta page counts {listed} free slots, there are {}", self.report.free_slots);
            return Err(Error::corrupt(PageId(0), what));
        }
        let mut head = self.meta.change.free_head;
        for _ in 0..self.links.len() {
            let at = self.links.binary_search_by_key(&PageId(head), |link| link.0);
            let Ok(at) = at else {
                return Err(Error::corrupt(
                    PageId(head),
                    "the list of free slots leads to this page, which is not marked as listed",
                ));
            };
            head = self.links[at].1.next;
        }
        if head != 0 {
            return Err(Error::corrupt(PageId(head), "the list of free slots has a cycle"));
        }
        Ok(())
    }

    /// Checks that the map names every live node once, except those of an incomplete commit.
    pub(super) fn map(&mut self, reader: &mut impl Reader) -> Result<(), Error> {
        if self.meta.change.id_root > 0 {
            let slots = &mut self.slots;
            id_map::scan(reader, self.report.pages, PageId(self.meta.change.id_root), |page, id, node| {
                let bad = |what| Error::corrupt(page, format!("the row id map has id {id} in node {node}, {what}"));
                match slots.get_mut(node as usize) {
                    Some(slot) if slot.flags == FLAGS_LIVE && slot.row_id == id && !slot.listed => {
                        slot.listed = true;
                        Ok(())
                    }
                    Some(slot) if slot.listed => Err(bad("which is named twice".into())),
                    Some(slot) => Err(bad(format!("which has flags {:#x} and id {}", slot.flags, slot.row_id))),
                    None => Err(bad("which does not exist".into())),
                }
            })?;
            let unlisted = |slot: &Slot| slot.flags == FLAGS_LIVE && !slot.listed && !slot.pending;
            if let Some(node) = self.slots.iter().position(unlisted) {
                let (page, slot) = self.meta.layout.place(node as NodeId);
                return Err(Error::corrupt(page, format!("slot {slot}: the row id map does not name it")));
            }
        }
        Ok(())
    }

    /// Counts the live nodes that a walk from `entries` reaches. The walk uses all edges, or only
    /// anchors if `over` is 0.
    pub(super) fn reach(
        &self,
        mut stack: Vec<NodeId>,
        over: u64,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<u64, Error> {
        let mut seen = filled(false, self.slots.len())?;
        let (mut living, mut reached) = (0, 0_u64);
        while let Some(node) = stack.pop() {
            let slot = self.slot(node);
            if !slot.exists {
                let what = format!("entry point {node} is not a node");
                return Err(Error::corrupt(PageId(self.meta.change.entries_page), what));
            }
            if slot.flags != FLAGS_FREE && !std::mem::replace(&mut seen[node as usize], true) {
                reached += 1;
                if reached % NODES_PER_LOOK == 0 && go_on().is_break() {
                    return Err(Error::Interrupted);
                }
                living += u64::from(slot.flags == FLAGS_LIVE);
                let degree = self.meta.layout.degree;
                let neighbors = &self.neighbors[node as usize * degree..][..degree];
                let mut edges = slot.anchors | over;
                while let Some(neighbor) = neighbors.get(edges.trailing_zeros() as usize) {
                    edges &= edges - 1;
                    if *neighbor != NodeId::MAX {
                        stack.push(*neighbor);
                    }
                }
            }
        }
        Ok(living)
    }
}

/// `count` times `value`. The memory is asked for first: where Rust's own growth fails, the process
/// ends.
fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    if all.try_reserve_exact(count).is_err() {
        let needed_bytes = count.saturating_mul(size_of::<T>()) as u64;
        let mib = needed_bytes.div_ceil(1 << 20);
        let what =
            format!("the system refused {mib} MiB of memory for a check; free memory, or use a machine with more");
        return Err(Error::Memory { what, needed_bytes });
    }
    all.resize(count, value);
    Ok(all)
}

/// Checks that an edge stores what follows from its target: the centroid, the factors, the hash of
/// the code, and the signature in an index with columns.
pub(super) fn edge_matches(
    (centroid, factors, code_hash): (u8, EdgeFactors, u64),
    target: &Slot,
    are_signed: bool,
) -> Result<(), &'static str> {
    if centroid != target.centroid {
        return Err("the centroid differs from the target's");
    }
    if code_hash != target.code_hash || !are_close(factors, target.factors) {
        return Err("the code differs from the target's");
    }
    if are_signed && factors.signature() != target.factors.signature() {
        return Err("the signature differs from that of the target's columns");
    }
    Ok(())
}

/// Whether factors are those that are expected, up to rounding and the signature.
fn are_close(factors: EdgeFactors, expected: EdgeFactors) -> bool {
    let scale = expected.add.abs().max(f32::MIN_POSITIVE);
    close(factors.add, expected.add, scale) && close(factors.factor, expected.factor, expected.factor)
}

/// Whether two sums of the same numbers agree, relative to `scale`.
fn close(a: f32, b: f32, scale: f32) -> bool {
    (a - b).abs() <= TOLERANCE * scale.abs()
}

pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    hash(bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))))
}

/// An FNV-1a-like hash of words.
pub(super) fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(HASH_OF_NONE, with_word)
}

/// The hash of some words and one more.
fn with_word(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_system_has_is_refused() {
        let refused = filled(Slot::default(), 1 << 50);
        assert!(matches!(refused, Err(Error::Memory { needed_bytes, .. }) if needed_bytes > 1 << 55));
        assert_eq!(filled(7, 3).unwrap(), [7, 7, 7]);
    }
}
