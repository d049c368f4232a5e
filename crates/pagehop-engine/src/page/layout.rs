//! Where each field of a node lies on a page: the only place that knows the bytes of `docs/format.md`.
//!
//! Every node of an index has the same size, so a node id is arithmetic: `page * nodes_per_page + slot`.

use std::ops::Range;

use super::{BODY_BYTES, PAGE_BYTES, PageId};
use crate::quantize::edge::{BLOCK_EDGES, EdgeShape};
use crate::quantize::estimate::{DEGREE_MAX, EdgeCodes};
use crate::quantize::own;

/// First byte of the body that a node may use: with the host header, byte 64 of the page, a cache line.
pub(crate) const NODES_START: usize = 40;
/// Bytes of a node before its edges.
const NODE_HEADER_BYTES: usize = 32;

/// Flags of a node that holds a row. The high bits mark the byte as flags at all, so that a search which was
/// led to a page of another kind notices it without touching the page's first cache line.
pub(crate) const FLAGS_LIVE: u8 = 0xA1;

/// First byte of a page's body: what the page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Part of the model: mean, centroids, entry points.
    Model = 1,
    /// Nodes.
    Node = 2,
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
            flags: b[16],
            generation: b[17],
            degree: b[18],
            centroid: b[19],
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

    /// Generations the edges expect of their neighbors.
    pub(crate) fn generations(&self) -> &'a [u8] {
        &self.bytes[self.layout.generation_start()..self.layout.codes_start()]
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
        put(l.generation_start(), &[edge.generation]);
        let codes = &mut self.bytes[l.codes_start()..l.hi_start()];
        crate::quantize::edge::interleave(l.edge, edge.code, slot, l.degree, codes);
    }
}

/// One edge, to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge<'a> {
    pub(crate) neighbor: NodeId,
    pub(crate) generation: u8,
    pub(crate) centroid: u8,
    pub(crate) factors: crate::quantize::edge::EdgeFactors,
    pub(crate) code: &'a [u64],
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes is an array of N bytes")
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
