//! The kind of a page, and the graph that it belongs to, in the first byte of its body.
//!
//! Where the host owns the rows, pages of several graphs lie among each other: of the one that
//! searches use, of a new one that is being made, and of those that were replaced. Each graph has a
//! number from 0 to 15. In a file it is always 0.

use crate::Error;
use crate::ids::PageId;

/// Graphs that pages can tell apart.
pub(crate) const GRAPHS: u8 = 16;

/// The kind of a page: the lower four bits of the first byte of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Nothing: the page was allocated and not written yet.
    Empty = 0,
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
    /// Row ids that wait for their nodes to take them in.
    Pending = 6,
    /// The columns.
    Columns = 7,
    /// Leaf of the tree of a column: postings.
    ColumnLeaf = 8,
    /// Inner page of that tree.
    ColumnInner = 9,
    /// Kept vectors.
    Vectors = 10,
    /// Records of rows.
    Records = 11,
    /// Part of a long record.
    RecordPart = 12,
    /// Landmarks.
    Landmarks = 13,
}

/// The kind of a page; `None` for an unknown one.
#[inline]
pub(crate) fn kind(body: &[u8]) -> Option<PageKind> {
    Some(match body[0] % GRAPHS {
        0 => PageKind::Empty,
        1 => PageKind::Model,
        2 => PageKind::Node,
        3 => PageKind::IdLeaf,
        4 => PageKind::IdInner,
        5 => PageKind::Dead,
        6 => PageKind::Pending,
        7 => PageKind::Columns,
        8 => PageKind::ColumnLeaf,
        9 => PageKind::ColumnInner,
        10 => PageKind::Vectors,
        11 => PageKind::Records,
        12 => PageKind::RecordPart,
        13 => PageKind::Landmarks,
        _ => return None,
    })
}

/// The kind of a page that was written or allocated.
///
/// # Errors
///
/// [`Error::Corrupt`] for an unknown kind.
pub(crate) fn known_kind(page: PageId, body: &[u8]) -> Result<PageKind, Error> {
    kind(body).ok_or_else(|| Error::corrupt(page, format!("there is no page kind {}", body[0])))
}

/// Refuses a page of another kind than `expected`.
///
/// # Errors
///
/// [`Error::Corrupt`].
#[inline]
pub(crate) fn expect_kind(page: PageId, body: &[u8], expected: PageKind) -> Result<(), Error> {
    if kind(body) == Some(expected) {
        return Ok(());
    }
    let what = format!("a page of kind {expected:?} begins with {}, this one with {}", expected as u8, body[0]);
    Err(Error::corrupt(page, what))
}

/// Makes a body an empty page of a kind: zeros after the kind.
pub(crate) fn clear(body: &mut [u8], kind: PageKind) {
    body.fill(0);
    body[0] = kind as u8;
}

/// The number of the graph that a page belongs to.
#[inline]
pub(crate) fn graph(body: &[u8]) -> u8 {
    body[0] / GRAPHS
}

/// Makes a page one of a graph. An empty page belongs to none.
pub(crate) fn set_graph(body: &mut [u8], graph: u8) {
    let kind = body[0] % GRAPHS;
    body[0] = if kind == PageKind::Empty as u8 { kind } else { kind | (graph * GRAPHS) };
}

/// Whether it is a page of nodes of a graph.
#[inline]
pub(crate) fn is_of_nodes(body: &[u8], graph: u8) -> bool {
    body[0] == PageKind::Node as u8 | (graph * GRAPHS)
}
