//! The shape of an index's nodes, and where they lie on a page.
//!
//! Every node of an index has the same size, so a node id is arithmetic: `page * nodes_per_page +
//! slot`. `docs/format.md` has the layout in full; `node.rs` reads and writes one node.

use std::ops::Range;

use super::fields::{Fields, FieldsMut};
use super::{BODY_BYTES, PAGE_BYTES};
use crate::DIM_MAX;
use crate::columns::{COLUMNS_MAX, row_bytes};
use crate::ids::{NodeId, PageId};
use crate::quantize::edge::{BLOCK_EDGES, EdgeHead, EdgeShape};
use crate::quantize::estimate::DEGREE_MAX;
use crate::quantize::own;
use crate::quantize::prepare::INNER_DIM_MIN;

/// First byte of the body that a node may use: with the host header, byte 64 of the page, a cache
/// line.
pub(crate) const NODES_START: usize = 40;
/// Bytes of a node before the values of its columns, which its edges follow.
pub(super) const NODE_HEADER_BYTES: usize = 32;

/// Nearest centroid of an edge's target; then the target's generation, and whether the edge is an
/// anchor.
pub(super) type Origin = [u8; 2];

/// Offset of the byte that says whether a page of nodes is in the list of pages with free slots;
/// the next page of the list follows it.
const LISTED_AT: usize = 1;
const NEXT_AT: usize = 4;

/// Most bits of an edge code in a default layout.
const EDGE_BITS_MAX: usize = 1536;
/// Fewest dimensions of an edge code of which some are left out for more edges.
const DIMS_MANY: usize = 1024;

/// Commit numbers are stored in six bytes.
pub(crate) const COMMIT_END: u64 = 1 << 48;

/// A page of nodes in the list of pages with free slots: the header before its first node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeLink {
    /// Whether the page is in the list. It stays in it when its last slot is taken, until it is the
    /// first.
    pub(crate) listed: bool,
    /// The next page of the list; 0 at its end.
    pub(crate) next: u32,
}

impl FreeLink {
    pub(crate) fn read(body: &[u8]) -> Self {
        Self { listed: body[LISTED_AT] == 1, next: Fields::at(body, NEXT_AT).u32() }
    }

    pub(crate) fn write(self, body: &mut [u8]) {
        body[LISTED_AT] = u8::from(self.listed);
        FieldsMut::at(body, NEXT_AT).u32(self.next);
    }
}

/// The shape of an index's nodes. Equal parameters give equal layouts: the meta page stores only
/// these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeLayout {
    /// Components in the inner space.
    pub(crate) inner_dim: usize,
    /// Most edges of a node, a multiple of 8.
    pub(crate) degree: usize,
    pub(crate) edge: EdgeShape,
    pub(crate) nodes_per_page: usize,
    /// Bytes that the values of a row's columns and the place of its record take: see
    /// [`row_bytes`](crate::columns::row_bytes).
    pub(crate) column_bytes: usize,
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
        (INNER_DIM_MIN..=DIM_MAX).contains(&self.inner_dim)
            && (BLOCK_EDGES..=DEGREE_MAX).contains(&self.degree)
            && self.degree.is_multiple_of(BLOCK_EDGES)
            && (1..=4).contains(&self.edge.bits)
            && (1..=self.inner_dim).contains(&self.edge.dims)
            && (1..=64).contains(&self.nodes_per_page)
            && (0..=COLUMNS_MAX + 1).any(|words| row_bytes(words) == self.column_bytes)
            && self.node_bytes() <= self.stride()
    }

    pub(super) fn heads_start(&self) -> usize {
        NODE_HEADER_BYTES + self.column_bytes
    }

    pub(super) fn origins_start(&self) -> usize {
        self.heads_start() + size_of::<EdgeHead>() * self.degree
    }

    pub(super) fn codes_start(&self) -> usize {
        self.origins_start() + size_of::<Origin>() * self.degree
    }

    pub(super) fn hi_start(&self) -> usize {
        self.codes_start() + self.degree * self.edge.code_bytes()
    }

    pub(super) fn lo_start(&self) -> usize {
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

    /// The parts of a page's body that place a slot's node in space: its header and its own code's
    /// high plane.
    pub(crate) fn place_bytes(&self, slot: usize) -> [Range<usize>; 2] {
        let start = NODES_START + slot * self.stride();
        [start..start + NODE_HEADER_BYTES, start + self.hi_start()..start + self.lo_start()]
    }

    /// The default layout for a dimension, as decided in `docs/decisions/0005-layout.md`: at least
    /// 24 edges, and as many nodes on a page as its size rule asks for, or as fit then. Each of
    /// `words` is a column's value or the place of a record.
    pub(crate) fn choose(inner_dim: usize, words: usize) -> Self {
        let column_bytes = row_bytes(words);
        let dims = match inner_dim % 64 {
            // A few dimensions beyond whole words would cost every edge a word.
            1..8 if inner_dim > 64 => inner_dim / 64 * 64,
            _ => inner_dim,
        };
        let edges = edges(dims);
        for nodes_per_page in (1..=PAGE_BYTES.div_ceil(size_budget(inner_dim)).min(64)).rev() {
            for &(degree, edge) in &edges {
                let fits = |nodes_per_page| Self { inner_dim, degree, edge, nodes_per_page, column_bytes };
                if edge.bits * edge.dims <= EDGE_BITS_MAX && fits(nodes_per_page).is_valid() {
                    let most = (nodes_per_page..).take_while(|n| fits(*n).is_valid()).last();
                    return fits(most.expect("this many fit"));
                }
            }
        }
        Self::project(inner_dim, column_bytes)
    }

    /// For vectors whose own code leaves too little room for full edge codes: as many leading
    /// dimensions of the rotated space as fit, which is a random projection.
    fn project(inner_dim: usize, column_bytes: usize) -> Self {
        let fits = |degree: usize, words: usize| Self {
            inner_dim,
            degree,
            edge: EdgeShape { dims: (words * 64).min(inner_dim), bits: 1 },
            nodes_per_page: 1,
            column_bytes,
        };
        let words_max = inner_dim.div_ceil(64);
        let degree = if inner_dim <= 3200 { 24 } else { 16 };
        let words = (1..=words_max).rev().find(|words| fits(degree, *words).is_valid());
        fits(degree, words.expect("4096 dimensions leave room for 16 edges"))
    }
}

/// The numbers and the shapes of a node's edges, the best first, for edges of `dims` dimensions.
/// Where these do not fit, edges have at least five sixths of them.
fn edges(dims: usize) -> Vec<(usize, EdgeShape)> {
    let full = |(degree, bits)| (degree, EdgeShape { dims, bits });
    let shorter = (dims.div_ceil(6) * 5..dims).rev().filter(|dims| dims.is_multiple_of(64));
    let with = |degree, bits| move |dims| (degree, EdgeShape { dims, bits });
    // Up to about 160 dimensions one bit ranks too poorly: there more bits beat more edges.
    if dims <= 160 {
        let all = [(32, 4), (24, 4), (32, 2), (24, 2)].map(full);
        return all.into_iter().chain(shorter.map(with(24, 2))).collect();
    }
    // Codes of many dimensions rank well: there more edges beat more dimensions.
    let more = shorter.clone().filter(|dims| *dims >= DIMS_MANY).map(with(32, 1));
    let all = [(32, 2), (24, 2), (40, 1), (32, 1)].map(full).into_iter();
    all.chain(more).chain([full((24, 1))]).chain(shorter.map(with(24, 1))).collect()
}

/// Bytes per row that the default layout may take if 24 edges fit: no more than a 4-byte-float HNSW
/// index with 32 links per node from 512 dimensions up, 1.4 times that below.
fn size_budget(dim: usize) -> usize {
    // Vector, tuple headers, ten row pointers, 32 links and the share of upper levels; then whole
    // tuples on pages of 8 KiB.
    let tuples = 4 * dim + 300;
    let parity = PAGE_BYTES / (PAGE_BYTES / tuples).max(1);
    if dim >= 512 { parity } else { parity * 14 / 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_has_a_layout_with_enough_edges() {
        for dim in INNER_DIM_MIN..=DIM_MAX {
            for words in 0..=COLUMNS_MAX + 1 {
                let layout = NodeLayout::choose(dim, words);
                assert!(layout.is_valid(), "{layout:?}");
                assert!(layout.degree >= 24 || dim > 3200, "{layout:?}");
                assert!(layout.edge.bits >= 2 || dim > 160, "{layout:?}");
                assert!(6 * layout.edge.dims >= 5 * dim || layout.nodes_per_page == 1, "{layout:?}");
            }
        }
    }

    #[test]
    fn most_dimensions_have_a_layout_within_the_size_rule() {
        let larger = |words: usize| -> Vec<(usize, usize)> {
            let bytes = |dim| PAGE_BYTES / NodeLayout::choose(dim, words).nodes_per_page;
            let dims: Vec<usize> =
                (INNER_DIM_MIN..=DIM_MAX).filter(|dim| bytes(*dim) > size_budget(*dim)).collect();
            dims.chunk_by(|a, b| a + 1 == *b).map(|some| (some[0], some[some.len() - 1])).collect()
        };
        assert_eq!(larger(0), [(64, 160), (535, 607), (919, 949)]);
        assert_eq!(larger(COLUMNS_MAX + 1), [(64, 160), (535, 607), (881, 949)]);
    }
}
