//! Where each field of a node lies on a page: the only place that knows the bytes of `docs/format.md`.
//!
//! Every node of an index has the same size, so a node id is arithmetic: `page * nodes_per_page + slot`.

use std::ops::Range;

use super::{BODY_BYTES, PAGE_BYTES, PageId};
use crate::quantize::edge::{BLOCK_EDGES, EdgeShape};
use crate::quantize::estimate::{DEGREE_MAX, EdgeCodes};
use crate::quantize::own;
use crate::row_ids::{RowIds, TIDS_MAX};

/// First byte of the body that a node may use: with the host header, byte 64 of the page, a cache line.
pub(crate) const NODES_START: usize = 40;
/// Bytes of a node before its edges.
const NODE_HEADER_BYTES: usize = 32;

/// Byte of a node that holds its flags.
const FLAGS_BYTE: usize = 16;
/// Flags of an empty slot. Edges may still lead to it: they are older than its last row.
pub(crate) const FLAGS_FREE: u8 = 0;
/// Flags of a node that holds a row. The high bits mark the byte as flags at all, so that a search which was
/// led to a page of another kind notices it without touching the page's first cache line.
pub(crate) const FLAGS_LIVE: u8 = 0xA1;
/// Flags of a node whose row was deleted or replaced: it still leads searches on, and older snapshots see it.
pub(crate) const FLAGS_DEAD: u8 = 0xA2;
/// Flags of a dead node out of sight of every snapshot, whose slot waits until no reader can be at it. None of its
/// edges is an anchor, and it needs none.
pub(crate) const FLAGS_UNLINKED: u8 = 0xA3;

/// Bit of an edge's generation byte that makes it an anchor; generations have the others.
const ANCHOR: u8 = 0x80;

/// Commit numbers are stored in six bytes.
pub(crate) const COMMIT_END: u64 = 1 << 48;

/// First byte of a page's body: what the page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Part of the model: mean, centroids, entry points.
    Model = 1,
    /// Nodes.
    Node = 2,
    /// Leaf of the map from row ids to nodes.
    IdLeaf = 3,
    /// Inner page of that map.
    IdInner = 4,
    /// Nodes whose rows were deleted and that wait for vacuum.
    Dead = 5,
    /// Tids that wait for their nodes to take them in.
    Pending = 6,
}

/// A page of nodes in the list of pages with free slots: the header before its first node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeLink {
    /// Whether the page is in the list. It stays in it when its last slot is taken, until it is the first.
    pub(crate) listed: bool,
    /// The next page of the list; 0 at its end.
    pub(crate) next: u32,
}

impl FreeLink {
    pub(crate) fn read(body: &[u8]) -> Self {
        Self { listed: body[1] == 1, next: u32::from_le_bytes(array(body, 4)) }
    }

    pub(crate) fn write(self, body: &mut [u8]) {
        body[1] = u8::from(self.listed);
        body[4..8].copy_from_slice(&self.next.to_le_bytes());
    }
}

/// Id of a node: `page * nodes_per_page + slot`.
pub(crate) type NodeId = u32;

/// The shape of an index's nodes. Equal parameters give equal layouts: the meta page stores only these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeLayout {
    /// Components in the inner space.
    pub(crate) inner_dim: usize,
    /// Most edges of a node, a multiple of 8.
    pub(crate) degree: usize,
    pub(crate) edge: EdgeShape,
    pub(crate) nodes_per_page: usize,
}

impl NodeLayout {
    /// Bytes of one node.
    pub(crate) fn node_bytes(&self) -> usize {
        self.lo_start() + own::lo_bytes(self.inner_dim)
    }

    /// Bytes from one node to the next.
    pub(crate) fn stride(&self) -> usize {
        (BODY_BYTES - NODES_START) / self.nodes_per_page / 8 * 8
    }

    /// Whether the numbers make a layout at all; they may come from a page.
    pub(crate) fn is_valid(&self) -> bool {
        (1..=4097).contains(&self.inner_dim)
            && (BLOCK_EDGES..=DEGREE_MAX).contains(&self.degree)
            && self.degree.is_multiple_of(BLOCK_EDGES)
            && (1..=4).contains(&self.edge.bits)
            && (1..=self.inner_dim).contains(&self.edge.dims)
            && (1..=64).contains(&self.nodes_per_page)
            && self.node_bytes() <= self.stride()
    }

    fn add_start(&self) -> usize {
        NODE_HEADER_BYTES + 4 * self.degree
    }

    fn factor_start(&self) -> usize {
        self.add_start() + 4 * self.degree
    }

    fn centroid_start(&self) -> usize {
        self.factor_start() + 4 * self.degree
    }

    fn generation_start(&self) -> usize {
        self.centroid_start() + self.degree
    }

    fn codes_start(&self) -> usize {
        self.generation_start() + self.degree
    }

    fn hi_start(&self) -> usize {
        self.codes_start() + self.degree * self.edge.code_bytes()
    }

    fn lo_start(&self) -> usize {
        self.hi_start() + self.inner_dim
    }

    /// Page and slot of a node.
    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> (PageId, usize) {
        let per_page = self.nodes_per_page as u32;
        (PageId(node / per_page), (node % per_page) as usize)
    }

    /// The node in a slot of a page.
    pub(crate) fn node_id(&self, page: PageId, slot: usize) -> NodeId {
        page.0 * self.nodes_per_page as u32 + slot as u32
    }

    /// The part of a page's body that holds a slot.
    #[inline]
    pub(crate) fn slot_bytes(&self, slot: usize) -> Range<usize> {
        let start = NODES_START + slot * self.stride();
        start..start + self.node_bytes()
    }

    /// The first empty slot of a page's body.
    pub(crate) fn free_slot(&self, body: &[u8]) -> Option<usize> {
        (0..self.nodes_per_page).find(|slot| body[NODES_START + slot * self.stride() + FLAGS_BYTE] == FLAGS_FREE)
    }

    /// The parts of a page's body that place a slot's node in space: its header and its own code's high plane.
    pub(crate) fn place_bytes(&self, slot: usize) -> [Range<usize>; 2] {
        let start = NODES_START + slot * self.stride();
        [start..start + NODE_HEADER_BYTES, start + self.hi_start()..start + self.lo_start()]
    }

    /// The default layout for a dimension, by the size rule of `docs/decisions/0005-layout.md`: all bytes
    /// counted, no larger than a 4-byte-float HNSW index with 32 links per node from 512 dimensions up, and
    /// 1.4 times that below.
    pub(crate) fn choose(inner_dim: usize) -> Self {
        let dims = match inner_dim % 64 {
            // A few dimensions beyond whole words would cost every edge a word.
            1..8 if inner_dim > 64 => inner_dim / 64 * 64,
            _ => inner_dim,
        };
        let budget = size_budget(inner_dim);
        let fewest = PAGE_BYTES.div_ceil(budget).max(1);
        // Below about 160 dimensions one bit ranks too poorly: there more bits beat more edges.
        let preference: &[(usize, usize)] = if dims <= 160 {
            &[(32, 4), (24, 4), (32, 2), (24, 2), (16, 4), (16, 2), (16, 1)]
        } else {
            &[(32, 2), (24, 2), (32, 1), (24, 1), (16, 1)]
        };
        for nodes_per_page in (1..=fewest.min(64)).rev() {
            for &(degree, bits) in preference {
                let edge = EdgeShape { dims, bits };
                let fits = |nodes_per_page| Self { inner_dim, degree, edge, nodes_per_page };
                if bits * dims <= 1536 && fits(nodes_per_page).is_valid() {
                    let most = (nodes_per_page..).take_while(|n| fits(*n).is_valid()).last();
                    return fits(most.expect("this many fit"));
                }
            }
        }
        Self::project(inner_dim)
    }

    /// For vectors whose own code leaves too little room for full edge codes: as many leading dimensions of
    /// the rotated space as fit, which is a random projection.
    fn project(inner_dim: usize) -> Self {
        let fits = |degree: usize, words: usize| Self {
            inner_dim,
            degree,
            edge: EdgeShape { dims: (words * 64).min(inner_dim), bits: 1 },
            nodes_per_page: 1,
        };
        let words_max = inner_dim.div_ceil(64);
        let degree = if inner_dim <= 3200 { 24 } else { 16 };
        let words = (1..=words_max).rev().find(|words| fits(degree, *words).is_valid());
        fits(degree, words.expect("4097 dimensions leave room for 16 edges"))
    }
}

/// Bytes per row that the default layout may take.
fn size_budget(dim: usize) -> usize {
    // Vector, tuple headers, ten row pointers, 32 links and the share of upper levels; then whole tuples on
    // pages of 8 KiB.
    let tuples = 4 * dim + 300;
    let parity = PAGE_BYTES / (PAGE_BYTES / tuples).max(1);
    if dim >= 512 { parity } else { parity * 14 / 10 }
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NodeHeader {
    pub(crate) row_id: u64,
    pub(crate) norm_sq: f32,
    pub(crate) step: f32,
    pub(crate) flags: u8,
    pub(crate) generation: u8,
    pub(crate) degree: u8,
    pub(crate) centroid: u8,
    /// Commit that added the row; 0 in a bulk build.
    pub(crate) added: u64,
    /// Commit that deleted the row; 0 while it lives.
    pub(crate) deleted: u64,
}

impl NodeHeader {
    /// Whether a reader of `snapshot` sees the row.
    #[inline]
    pub(crate) fn is_visible(&self, snapshot: u64) -> bool {
        self.added <= snapshot && (self.flags == FLAGS_LIVE || self.flags == FLAGS_DEAD && self.deleted > snapshot)
    }

    /// The rows of the node that a reader of `snapshot` sees, or that the host may see.
    #[inline]
    pub(crate) fn rows(&self, row_ids: RowIds, snapshot: u64) -> impl Iterator<Item = u64> + use<> {
        let rows = match row_ids {
            RowIds::Mapped => [self.is_visible(snapshot).then_some(self.row_id), None, None],
            RowIds::Tids => self.tids().map(|tid| (tid > 0).then_some(tid)),
        };
        rows.into_iter().flatten()
    }

    /// Under [`RowIds::Tids`] the rows of the node, 0 for none: two stand where commit numbers would.
    pub(crate) fn tids(&self) -> [u64; TIDS_MAX] {
        [self.row_id, self.added, self.deleted]
    }

    /// Whether there is a node, living or dead, or a free slot: whether the flags are flags.
    #[inline]
    pub(crate) fn is_valid(&self, layout: &NodeLayout) -> bool {
        matches!(self.flags, FLAGS_FREE | FLAGS_LIVE | FLAGS_DEAD | FLAGS_UNLINKED)
            && usize::from(self.degree) <= layout.degree
    }
}

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) node: NodeId,
    /// Generation of the slot when the edge was made: of any other, its target is gone.
    pub(crate) generation: u8,
    /// Whether the target relies on this edge to be found. It is not given up for a better one.
    pub(crate) anchor: bool,
}

/// A node on a page, to read.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'a> {
    layout: &'a NodeLayout,
    bytes: &'a [u8],
}

impl<'a> NodeRef<'a> {
    /// The node in a slot of a page's body.
    #[inline]
    pub(crate) fn new(layout: &'a NodeLayout, body: &'a [u8], slot: usize) -> Self {
        Self { layout, bytes: &body[layout.slot_bytes(slot)] }
    }

    #[inline]
    pub(crate) fn header(&self) -> NodeHeader {
        let b = self.bytes;
        NodeHeader {
            row_id: u64::from_le_bytes(array(b, 0)),
            norm_sq: f32::from_le_bytes(array(b, 8)),
            step: f32::from_le_bytes(array(b, 12)),
            flags: b[FLAGS_BYTE],
            generation: b[17],
            degree: b[18],
            centroid: b[19],
            added: u48(b, 20),
            deleted: u48(b, 26),
        }
    }

    /// Ids of all slots for neighbors, used or not.
    #[inline]
    pub(crate) fn neighbors(&self) -> &'a [[u8; 4]] {
        words(&self.bytes[NODE_HEADER_BYTES..self.layout.add_start()])
    }

    #[inline]
    pub(crate) fn edges(&self) -> EdgeCodes<'a> {
        let l = self.layout;
        EdgeCodes {
            codes: &self.bytes[l.codes_start()..l.hi_start()],
            add: words(&self.bytes[l.add_start()..l.factor_start()]),
            factor: words(&self.bytes[l.factor_start()..l.centroid_start()]),
            centroid: &self.bytes[l.centroid_start()..l.generation_start()],
        }
    }

    /// Where the edges in use lead.
    pub(crate) fn links(&self) -> impl Iterator<Item = Link> + use<'a> {
        let degree = usize::from(self.header().degree).min(self.layout.degree);
        let generations = &self.bytes[self.layout.generation_start()..self.layout.codes_start()];
        self.neighbors()[..degree].iter().zip(generations).map(|(id, byte)| Link {
            node: NodeId::from_le_bytes(*id),
            generation: byte & !ANCHOR,
            anchor: byte & ANCHOR != 0,
        })
    }

    /// The own code's high plane.
    #[inline]
    pub(crate) fn hi(&self) -> &'a [i8] {
        bytemuck::cast_slice(&self.bytes[self.layout.hi_start()..self.layout.lo_start()])
    }

    /// The own code's low plane.
    #[inline]
    pub(crate) fn lo(&self) -> &'a [u8] {
        &self.bytes[self.layout.lo_start()..]
    }
}

/// A node on a page, to write.
pub(crate) struct NodeMut<'a> {
    layout: &'a NodeLayout,
    bytes: &'a mut [u8],
}

impl<'a> NodeMut<'a> {
    pub(crate) fn new(layout: &'a NodeLayout, body: &'a mut [u8], slot: usize) -> Self {
        Self { layout, bytes: &mut body[layout.slot_bytes(slot)] }
    }

    pub(crate) fn set_header(&mut self, header: &NodeHeader) {
        let b = &mut *self.bytes;
        b[..8].copy_from_slice(&header.row_id.to_le_bytes());
        b[8..12].copy_from_slice(&header.norm_sq.to_le_bytes());
        b[12..16].copy_from_slice(&header.step.to_le_bytes());
        b[16..20].copy_from_slice(&[header.flags, header.generation, header.degree, header.centroid]);
        debug_assert!(header.added < COMMIT_END && header.deleted < COMMIT_END);
        b[20..26].copy_from_slice(&header.added.to_le_bytes()[..6]);
        b[26..32].copy_from_slice(&header.deleted.to_le_bytes()[..6]);
    }

    pub(crate) fn as_ref(&self) -> NodeRef<'_> {
        NodeRef { layout: self.layout, bytes: self.bytes }
    }

    /// Empties the slot for the next row, whose generation tells it from the last. What was behind the header
    /// stays, which keeps the log small.
    pub(crate) fn free(&mut self) {
        let generation = self.as_ref().header().generation.wrapping_add(1) & !ANCHOR;
        self.set_header(&NodeHeader { flags: FLAGS_FREE, generation, ..NodeHeader::default() });
    }

    /// Marks the row as deleted by `commit`.
    pub(crate) fn bury(&mut self, commit: u64) {
        let header = self.as_ref().header();
        self.set_header(&NodeHeader { flags: FLAGS_DEAD, deleted: commit, ..header });
    }

    /// Copies the edge in one place to another.
    pub(crate) fn move_edge(&mut self, from: usize, to: usize) {
        let l = self.layout;
        let mut code = vec![0; l.edge.words()];
        let node = self.as_ref();
        let edges = node.edges();
        crate::quantize::edge::deinterleave(l.edge, edges.codes, from, l.degree, &mut code);
        let link = node.links().nth(from).expect("an edge in use");
        let edge = Edge {
            neighbor: link.node,
            generation: link.generation,
            anchor: link.anchor,
            centroid: edges.centroid[from],
            factors: crate::quantize::edge::EdgeFactors {
                add: f32::from_le_bytes(edges.add[from]),
                factor: f32::from_le_bytes(edges.factor[from]),
            },
            code: &code,
        };
        self.set_edge(to, &edge);
    }

    /// Makes an edge one that stays.
    pub(crate) fn set_anchor(&mut self, slot: usize) {
        self.bytes[self.layout.generation_start() + slot] |= ANCHOR;
    }

    /// Makes it one like others.
    pub(crate) fn clear_anchor(&mut self, slot: usize) {
        self.bytes[self.layout.generation_start() + slot] &= !ANCHOR;
    }

    /// Makes `tids` the rows of the node. Without any it is dead.
    pub(crate) fn set_tids(&mut self, tids: [u64; TIDS_MAX]) {
        let [row_id, added, deleted] = tids;
        let flags = if tids == [0; TIDS_MAX] { FLAGS_DEAD } else { FLAGS_LIVE };
        let header = self.as_ref().header();
        self.set_header(&NodeHeader { row_id, added, deleted, flags, ..header });
    }

    /// Marks a dead node as one on which nobody relies any more, and that relies on nobody to be found.
    pub(crate) fn unlink(&mut self) {
        let header = self.as_ref().header();
        self.set_header(&NodeHeader { flags: FLAGS_UNLINKED, ..header });
        let bytes = self.layout.generation_start()..self.layout.codes_start();
        self.bytes[bytes].iter_mut().for_each(|byte| *byte &= !ANCHOR);
    }

    /// Sets how many edges are in use.
    pub(crate) fn set_degree(&mut self, degree: usize) {
        let header = self.as_ref().header();
        self.set_header(&NodeHeader { degree: degree as u8, ..header });
    }

    pub(crate) fn set_own(&mut self, hi: &[i8], lo: &[u8]) {
        let (hi_start, lo_start) = (self.layout.hi_start(), self.layout.lo_start());
        self.bytes[hi_start..lo_start].copy_from_slice(bytemuck::cast_slice(hi));
        self.bytes[lo_start..].copy_from_slice(lo);
    }

    /// Writes one edge; its code is the target's, as `quantize::edge` encodes it.
    pub(crate) fn set_edge(&mut self, slot: usize, edge: &Edge<'_>) {
        let l = self.layout;
        let mut put = |start: usize, bytes: &[u8]| {
            let at = start + slot * bytes.len();
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(NODE_HEADER_BYTES, &edge.neighbor.to_le_bytes());
        put(l.add_start(), &edge.factors.add.to_le_bytes());
        put(l.factor_start(), &edge.factors.factor.to_le_bytes());
        put(l.centroid_start(), &[edge.centroid]);
        put(l.generation_start(), &[edge.generation | if edge.anchor { ANCHOR } else { 0 }]);
        let codes = &mut self.bytes[l.codes_start()..l.hi_start()];
        crate::quantize::edge::interleave(l.edge, edge.code, slot, l.degree, codes);
    }
}

/// One edge, to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge<'a> {
    pub(crate) neighbor: NodeId,
    pub(crate) generation: u8,
    pub(crate) anchor: bool,
    pub(crate) centroid: u8,
    pub(crate) factors: crate::quantize::edge::EdgeFactors,
    pub(crate) code: &'a [u64],
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes is an array of N bytes")
}

#[inline]
fn u48(bytes: &[u8], at: usize) -> u64 {
    // The six bytes and the two before them, which are shifted out.
    u64::from_le_bytes(array(bytes, at - 2)) >> 16
}

#[inline]
fn words(bytes: &[u8]) -> &[[u8; 4]] {
    bytes.as_chunks().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_has_a_layout_within_its_size() {
        for dim in 64..=4097 {
            let layout = NodeLayout::choose(dim);
            assert!(layout.is_valid(), "{layout:?}");
            let bytes = PAGE_BYTES / layout.nodes_per_page;
            assert!(bytes <= size_budget(dim), "{layout:?}: {bytes} bytes a node");
        }
    }
}
