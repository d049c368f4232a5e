//! The leaves of a run in the tree of a column, before they are read: the inner pages above give
//! the range of keys of each.

use super::column_inner::{Inner, SeenInner, shape_number};
use super::column_tree::{DEPTH_MAX, Tree, TreePage, circles};
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

impl LeafRange {
    /// Whether all its keys have the same value.
    pub(crate) fn has_one_value(&self) -> bool {
        self.low.value() == self.high.value()
    }
}

/// Every leaf that may have postings from `low` to `high`, in order. `choose` selects the page of
/// each level whose kind is tested. Pages above the leaves are added to `seen`, also if this fails;
/// so is a root that is a leaf.
///
/// # Errors
///
/// [`Error::Corrupt`] if pages contradict each other; any error of the reader.
pub(crate) fn leaf_ranges<R: Reader>(
    tree: &Tree,
    reader: &mut R,
    page_count: u32,
    (low, high): (PostingKey, PostingKey),
    seen: &mut Vec<SeenInner>,
    mut choose: impl FnMut(&[LeafRange]) -> usize,
) -> Result<Vec<LeafRange>, Error> {
    let mut level = vec![LeafRange { page: tree.root, low, high }];
    for depth in 0..DEPTH_MAX {
        // The pages of a level are of one kind.
        let Some(looked_at) = level.get(choose(&level)) else { break };
        let is_leaf = tree.is_leaf(reader, looked_at.page)?;
        reader.release();
        if is_leaf {
            if depth == 0 {
                seen.push((tree.root, None));
            }
            return Ok(level);
        }
        level.iter().for_each(|range| reader.start(range.page, 0..0));
        let mut below = Vec::new();
        seen.make_room(level.len())?;
        for range in &level {
            {
                let body = reader.finish(range.page)?;
                let TreePage::Inner(inner) = tree.page(range.page, &body)? else {
                    return Err(Error::corrupt(range.page, "it is a leaf beside inner pages"));
                };
                seen.push((range.page, Some(shape_number(&body))));
                children(range, inner, &mut below)?;
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

/// Adds the children of an inner page that may have keys of its range to `below`.
fn children(range: &LeafRange, inner: Inner<'_>, below: &mut Vec<LeafRange>) -> Result<(), Error> {
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
    Ok(())
}
