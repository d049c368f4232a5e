//! The kind of a page, in the first byte of its body.

use crate::Error;
use crate::ids::PageId;

/// The kind of a page: the first byte of its body.
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
    /// Payloads: records of rows.
    Payload = 11,
    /// Part of a long payload.
    PayloadPart = 12,
    /// Landmarks.
    Landmarks = 13,
}

/// The kind of a page; `None` for an unknown byte.
#[inline]
pub(crate) fn kind(body: &[u8]) -> Option<PageKind> {
    Some(match body[0] {
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
        11 => PageKind::Payload,
        12 => PageKind::PayloadPart,
        13 => PageKind::Landmarks,
        _ => return None,
    })
}

/// The kind of a page that was written or allocated.
///
/// # Errors
///
/// [`Error::Corrupt`] for an unknown byte.
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
