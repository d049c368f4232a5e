//! Inner pages of the tree of a column, and the shape number of its pages.
//!
//! The shape number of a page says when postings or children last moved to it or from it. In a file
//! it is the number of that commit. Pages of a commit become visible one after the other: a reader
//! that meets a larger number than its snapshot may miss what moved. Where the host owns the rows,
//! each inner page counts how often its children changed. A reader compares the numbers before and
//! after: if they are equal, no page below was split, merged or taken out in between.

use super::kind::{self, PageKind, kind};
use super::postings::PostingKey;
use super::{BODY_BYTES, PageId, Reader};
use crate::Error;

/// Most children of an inner page.
pub(super) const CHILDREN_MAX: usize = 406;
const COUNT_AT: usize = 2;
const SHAPE_NUMBER_AT: usize = 8;
const KEYS_AT: usize = 40;
const KEY_BYTES: usize = 16;
const CHILDREN_AT: usize = KEYS_AT + KEY_BYTES * CHILDREN_MAX;

const _: () = assert!(CHILDREN_AT + 4 * CHILDREN_MAX <= BODY_BYTES);

/// An inner page. Keys from `key(i)` on are below child `i + 1`, smaller ones below the children
/// before it.
#[derive(Clone, Copy)]
pub(super) struct Inner<'a>(&'a [u8]);

impl<'a> Inner<'a> {
    pub(super) fn new(page: PageId, body: &'a [u8]) -> Result<Self, Error> {
        let inner = Self(body);
        if kind(body) != Some(PageKind::ColumnInner) || !(1..=CHILDREN_MAX).contains(&inner.count()) {
            let what = format!("kind {} with {} entries is not a page of a column's tree", body[0], inner.count());
            return Err(Error::corrupt(page, what));
        }
        Ok(inner)
    }

    pub(super) fn count(self) -> usize {
        u16::from_le_bytes([self.0[COUNT_AT], self.0[COUNT_AT + 1]]).into()
    }

    /// Keys of all children but the first.
    fn keys(self) -> impl ExactSizeIterator<Item = PostingKey> + use<'a> {
        let keys: &[[u8; KEY_BYTES]] = self.0[KEYS_AT..CHILDREN_AT].as_chunks().0;
        keys[..self.count() - 1].iter().map(|key| PostingKey(u128::from_le_bytes(*key)))
    }

    pub(super) fn child(self, index: usize) -> PageId {
        PageId(u32::from_le_bytes(self.0[CHILDREN_AT..].as_chunks().0[index]))
    }

    /// The position of the child that leads to `key`.
    pub(super) fn way(self, key: PostingKey) -> usize {
        let keys: &[[u8; KEY_BYTES]] = self.0[KEYS_AT..CHILDREN_AT].as_chunks().0;
        keys[..self.count() - 1].partition_point(|other| PostingKey(u128::from_le_bytes(*other)) <= key)
    }

    /// The children with the least key below each; the least key of the first is not known.
    pub(super) fn children(self) -> Vec<(PostingKey, PageId)> {
        let keys = std::iter::once(PostingKey::LEAST).chain(self.keys());
        keys.enumerate().map(|(at, key)| (key, self.child(at))).collect()
    }
}

/// Makes a body an inner page with these children and shape number 0.
pub(super) fn write_inner(body: &mut [u8], children: &[(PostingKey, PageId)]) {
    kind::clear(body, PageKind::ColumnInner);
    body[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(children.len() as u16).to_le_bytes());
    for (at, (least, child)) in children.iter().enumerate() {
        body[CHILDREN_AT + 4 * at..][..4].copy_from_slice(&child.0.to_le_bytes());
        if at > 0 {
            body[KEYS_AT + KEY_BYTES * (at - 1)..][..KEY_BYTES].copy_from_slice(&least.0.to_le_bytes());
        }
    }
}

/// The shape number of a page of a tree.
pub(super) fn shape_number(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[SHAPE_NUMBER_AT..].as_chunks().0[0])
}

pub(super) fn set_shape_number(body: &mut [u8], number: u64) {
    body[SHAPE_NUMBER_AT..SHAPE_NUMBER_AT + 8].copy_from_slice(&number.to_le_bytes());
}

/// A page that a reader went through, and its shape number then; `None` for a leaf.
pub(crate) type SeenInner = (PageId, Option<u64>);

/// Whether pages, the root of a tree and inner pages on ways down from it, still have the same
/// shape numbers: if so, the pages below are those that they were.
///
/// # Errors
///
/// [`Error::Corrupt`] if one is no inner page any more, and those above it have not changed.
pub(crate) fn have_shape(reader: &mut impl Reader, seen: &[SeenInner]) -> Result<bool, Error> {
    let mut broken = None;
    for (page, before) in seen {
        let now = {
            let body = reader.finish(*page)?;
            match kind(&body) {
                Some(PageKind::ColumnLeaf) => Ok(None),
                _ => Inner::new(*page, &body).map(|_| Some(shape_number(&body))),
            }
        };
        reader.release();
        match now {
            Ok(now) if now != *before => return Ok(false),
            Ok(_) => {}
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    broken.map_or(Ok(true), Err)
}
