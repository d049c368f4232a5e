//! One node on a page: its header, its edges, its own code.

use super::Reader;
use super::kind::{self, PageKind};
use super::layout::{COMMIT_END, NODE_HEADER_BYTES, NODES_START, NodeLayout, Origin};
use crate::Error;
use crate::columns::RowValues;
use crate::ids::NodeId;
use crate::quantize::edge::{self, EdgeFactors, EdgeHead};
use crate::quantize::estimate::EdgeCodes;
use crate::quantize::own;
use crate::row_ids::{IdKind, NODE_ROWS_MAX};
use pagehop_kernels::prefetch;

/// Byte of a node that holds its flags.
const FLAGS_BYTE: usize = 16;
/// Flags of an empty slot. Edges may still lead to it: they are older than its last row.
pub(crate) const FLAGS_FREE: u8 = 0;
/// Flags of a node that holds a row. The high bits mark the byte as flags at all, so that a search
/// which was led to a page of another kind notices it without touching the page's first cache line.
pub(crate) const FLAGS_LIVE: u8 = 0xA1;
/// Flags of a node whose row was deleted or replaced: it still leads searches on, and older
/// snapshots see it.
pub(crate) const FLAGS_DEAD: u8 = 0xA2;
/// Flags of a dead node that no snapshot sees, and whose slot is not free until no reader can visit
/// it. It is not an anchor parent, and no anchor leads to it.
pub(crate) const FLAGS_UNLINKED: u8 = 0xA3;

/// Generations that a slot has; then they begin again.
pub(crate) const GENERATIONS: u64 = 128;
/// Bit of an edge's generation byte that makes it an anchor; generations have the others.
const ANCHOR: u8 = 0x80;

/// The header of a node.
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
    pub(crate) fn rows(&self, id_kind: IdKind, snapshot: u64) -> impl Iterator<Item = u64> + use<> {
        let rows = match id_kind {
            IdKind::HostOwned => self.host_rows().map(|row_id| (row_id > 0).then_some(row_id)),
            _ => [self.is_visible(snapshot).then_some(self.row_id), None, None],
        };
        rows.into_iter().flatten()
    }

    /// Under [`IdKind::HostOwned`] the rows of the node, 0 for none: two stand where commit numbers
    /// would.
    pub(crate) fn host_rows(&self) -> [u64; NODE_ROWS_MAX] {
        [self.row_id, self.added, self.deleted]
    }

    /// Whether there is a node, live or dead, or a free slot: whether the flags are flags.
    #[inline]
    pub(crate) fn is_valid(&self, layout: &NodeLayout) -> bool {
        matches!(self.flags, FLAGS_FREE | FLAGS_LIVE | FLAGS_DEAD | FLAGS_UNLINKED)
            && usize::from(self.degree) <= layout.degree
    }
}

/// The target of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) node: NodeId,
    /// Generation of the slot when the edge was made. If the slot has another one, the target is
    /// gone.
    pub(crate) generation: u8,
    /// Whether the target relies on this edge to be found. It is not given up for a better one.
    pub(crate) anchor: bool,
}

/// The first empty slot of a page's body.
pub(crate) fn free_slot(layout: &NodeLayout, body: &[u8]) -> Option<usize> {
    (0..layout.nodes_per_page).find(|slot| body[NODES_START + slot * layout.stride() + FLAGS_BYTE] == FLAGS_FREE)
}

/// Prefetches the headers of all nodes of a page, and the values of their columns.
#[inline]
pub(crate) fn prefetch_heads(layout: &NodeLayout, body: &[u8]) {
    for slot in 0..layout.nodes_per_page {
        let start = layout.slot_bytes(slot).start;
        prefetch(&body[start..start + layout.heads_start()]);
    }
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

    /// The values of the row's columns.
    #[inline]
    pub(crate) fn values(&self) -> RowValues<'a> {
        RowValues(&self.bytes[NODE_HEADER_BYTES..self.layout.heads_start()])
    }

    /// Prefetches the node's own code.
    #[inline]
    pub(crate) fn prefetch_own(&self) {
        prefetch(&self.bytes[self.layout.hi_start()..]);
    }

    /// Prefetches the whole node.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.bytes);
    }

    /// Targets of all edges there is room for, used or not.
    #[inline]
    pub(crate) fn neighbors(&self) -> impl Iterator<Item = NodeId> + use<'a> {
        self.heads().iter().map(edge::target_of)
    }

    /// The target of the edge in place `at`, used or not.
    #[inline]
    pub(crate) fn neighbor(&self, at: usize) -> NodeId {
        edge::target_of(&self.heads()[at])
    }

    /// The generation of the target of the edge in place `at`.
    #[inline]
    pub(crate) fn generation(&self, at: usize) -> u8 {
        self.origins()[at][1] & !ANCHOR
    }

    #[inline]
    pub(crate) fn edges(&self) -> EdgeCodes<'a, { size_of::<Origin>() }> {
        let codes = &self.bytes[self.layout.codes_start()..self.layout.hi_start()];
        EdgeCodes { codes, heads: self.heads(), centroids: self.origins() }
    }

    #[inline]
    fn heads(&self) -> &'a [EdgeHead] {
        self.bytes[self.layout.heads_start()..self.layout.origins_start()].as_chunks().0
    }

    #[inline]
    fn origins(&self) -> &'a [Origin] {
        self.bytes[self.layout.origins_start()..self.layout.codes_start()].as_chunks().0
    }

    /// Where the edges in use lead.
    pub(crate) fn links(&self) -> impl Iterator<Item = Link> + use<'a> {
        let degree = usize::from(self.header().degree).min(self.layout.degree);
        self.neighbors().take(degree).zip(self.origins()).map(|(node, [_, byte])| Link {
            node,
            generation: byte & !ANCHOR,
            anchor: byte & ANCHOR != 0,
        })
    }

    /// The centroid that an edge's code is relative to, and the factors of its estimate.
    pub(crate) fn edge_factors(&self, at: usize) -> (u8, EdgeFactors) {
        (self.origins()[at][0], EdgeFactors::of_head(&self.heads()[at]))
    }

    /// The signature of an edge's target.
    #[inline]
    pub(crate) fn signature(&self, at: usize) -> u16 {
        EdgeFactors::of_head(&self.heads()[at]).signature()
    }

    /// The code of the target that is stored with an edge.
    pub(crate) fn edge_code(&self, at: usize) -> Vec<u64> {
        let mut code = vec![0; self.layout.edge.words()];
        edge::deinterleave(self.layout.edge, self.edges().codes, at, self.layout.degree, &mut code);
        code
    }

    /// The vector that the own code decodes to, in the inner space.
    pub(crate) fn decode(&self, header: &NodeHeader, x: &mut Vec<f32>) {
        let mut values = vec![0; self.hi().len()];
        x.resize(self.hi().len(), 0.0);
        own::decode(header.step, self.hi(), self.lo(), &mut values, x);
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

    pub(crate) fn set_values(&mut self, values: &[u8]) {
        self.bytes[NODE_HEADER_BYTES..self.layout.heads_start()].copy_from_slice(values);
    }

    pub(crate) fn as_ref(&self) -> NodeRef<'_> {
        NodeRef { layout: self.layout, bytes: self.bytes }
    }

    /// Empties the slot for the next row, which has another generation. The bytes behind the header
    /// stay, which keeps the log small.
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
        let node = self.as_ref();
        let Link { node: neighbor, generation, anchor } = node.links().nth(from).expect("an edge in use");
        let ((centroid, factors), code) = (node.edge_factors(from), node.edge_code(from));
        let edge = Edge { neighbor, generation, anchor, centroid, factors, code: &code };
        self.set_edge(to, &edge);
    }

    /// Makes an anchor an ordinary edge.
    pub(crate) fn clear_anchor(&mut self, slot: usize) {
        self.origins()[slot][1] &= !ANCHOR;
    }

    /// Makes `row_ids` the rows of the node. Without any it is dead.
    pub(crate) fn set_host_rows(&mut self, row_ids: [u64; NODE_ROWS_MAX]) {
        let [row_id, added, deleted] = row_ids;
        let flags = if row_ids == [0; NODE_ROWS_MAX] { FLAGS_DEAD } else { FLAGS_LIVE };
        let header = self.as_ref().header();
        self.set_header(&NodeHeader { row_id, added, deleted, flags, ..header });
    }

    /// Marks a dead node as unlinked: it is not an anchor parent, and needs no anchor.
    pub(crate) fn unlink(&mut self) {
        let header = self.as_ref().header();
        self.set_header(&NodeHeader { flags: FLAGS_UNLINKED, ..header });
        self.origins().iter_mut().for_each(|[_, byte]| *byte &= !ANCHOR);
    }

    fn origins(&mut self) -> &mut [Origin] {
        self.bytes[self.layout.origins_start()..self.layout.codes_start()].as_chunks_mut().0
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
        put(l.heads_start(), &edge.factors.head(edge.neighbor));
        let origin: Origin = [edge.centroid, edge.generation | if edge.anchor { ANCHOR } else { 0 }];
        put(l.origins_start(), &origin);
        let codes = &mut self.bytes[l.codes_start()..l.hi_start()];
        edge::interleave(l.edge, edge.code, slot, l.degree, codes);
    }
}

/// One edge, to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge<'a> {
    pub(crate) neighbor: NodeId,
    pub(crate) generation: u8,
    pub(crate) anchor: bool,
    pub(crate) centroid: u8,
    pub(crate) factors: EdgeFactors,
    pub(crate) code: &'a [u64],
}

/// Passes one slot's node to `look`.
///
/// # Errors
///
/// [`Error::Corrupt`] if there is no slot, or no node in it; any error of the reader.
pub(crate) fn with_node<R: Reader, T>(
    layout: &NodeLayout,
    reader: &R,
    node: NodeId,
    look: impl FnOnce(&NodeRef<'_>, &NodeHeader) -> T,
) -> Result<T, Error> {
    let (page, slot) = layout.place(node);
    let body = reader.finish(page)?;
    kind::expect_kind(page, &body, PageKind::Node)?;
    let found = NodeRef::new(layout, &body, slot);
    let header = found.header();
    if !header.is_valid(layout) {
        let what = format!("slot {slot} has flags {} and degree {}", header.flags, header.degree);
        return Err(Error::corrupt(page, what));
    }
    Ok(look(&found, &header))
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
