//! The leaves of a run in the tree of a column, before they are read: the inner pages above give
//! the range of keys of each.

use super::column_tree::{DEPTH_MAX, Inner, Tree, circles};
use super::kind::{PageKind, kind};
use super::postings::PostingKey;
use super::{PageId, Reader};
use crate::Error;
use crate::memory::MakeRoom;

/// A page of a tree, and the first and the last key of the run that it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeafRange {
    pub(crate) page: PageId,
    pub(crate) low: PostingKey,
    pub(crate) high: PostingKey,
}

/// The leaves of a run, in order.
#[derive(Debug, Default)]
pub(crate) struct LeafRanges {
    pub(crate) leaves: Vec<LeafRange>,
    /// The inner pages that were read, and how many children each had. A root that is a leaf has
    /// none.
    pub(crate) inner: Vec<(PageId, usize)>,
}

impl LeafRanges {
    /// Every leaf that may have postings from `low` to `high`. `choose` selects the page of each
    /// level whose kind is tested.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; any error of the reader.
    pub(crate) fn of<R: Reader>(
        tree: &Tree,
        reader: &mut R,
        page_count: u32,
        (low, high): (PostingKey, PostingKey),
        mut choose: impl FnMut(&[LeafRange]) -> usize,
    ) -> Result<Self, Error> {
        let mut level = vec![LeafRange { page: tree.root, low, high }];
        let mut inner = Vec::new();
        for _ in 0..DEPTH_MAX {
            // The pages of a level are of one kind.
            let Some(looked_at) = level.get(choose(&level)) else { break };
            let is_leaf = kind(&reader.finish(looked_at.page)?) == Some(PageKind::ColumnLeaf);
            reader.release();
            if is_leaf {
                if inner.is_empty() {
                    inner.push((tree.root, 0));
                }
                return Ok(Self { leaves: level, inner });
            }
            level.iter().for_each(|range| reader.start(range.page, 0..0));
            let mut below = Vec::new();
            inner.make_room(level.len())?;
            for range in &level {
                {
                    let body = reader.finish(range.page)?;
                    inner.push((range.page, children(range, &body, &mut below)?));
                }
                reader.release();
                if below.len() > page_count as usize {
                    return Err(circles(range.page));
                }
            }
            level = below;
        }
        Err(circles(tree.root))
    }
}

/// Whether inner pages still have the same number of children. A split adds a child to an inner
/// page, or halves it.
pub(crate) fn have_shape(reader: &mut impl Reader, inner: &[(PageId, usize)]) -> Result<bool, Error> {
    for (page, children) in inner {
        let is_same = {
            let body = reader.finish(*page)?;
            let is_leaf = kind(&body) == Some(PageKind::ColumnLeaf);
            *children == if is_leaf { 0 } else { Inner::new(*page, &body)?.count() }
        };
        reader.release();
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds the children of an inner page that may have keys of its range to `below`. Returns how many
/// children it has.
fn children(range: &LeafRange, body: &[u8], below: &mut Vec<LeafRange>) -> Result<usize, Error> {
    let inner = Inner::new(range.page, body)?;
    let (first, last) = (inner.way(range.low), inner.way(range.high));
    if first > last {
        return Err(Error::corrupt(range.page, "its keys are not in order"));
    }
    let all = inner.children();
    below.make_room(last + 1 - first)?;
    for at in first..=last {
        let low = range.low.max(all[at].0);
        let high = if at < last { all[at + 1].0 } else { range.high };
        below.push(LeafRange { page: all[at].1, low, high });
    }
    Ok(all.len())
}
