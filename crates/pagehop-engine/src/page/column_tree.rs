//! The tree of a column: a B+ tree of postings, whose leaves are not sorted.
//!
//! It grows as the map from row ids to nodes does (`id_map.rs`): full pages are split on the way
//! down, and the root stays where it is. Pages that become nearly empty are merged with their
//! neighbors (`column_change.rs`).

use super::column_inner::{CHILDREN_MAX, Inner, SeenInner, have_shape, shape_number, write_inner};
use super::kind::{PageKind, kind};
use super::postings::{Posting, PostingKey, PostingLeaf, PostingShape};
use super::{BODY_BYTES, PageId, PageSink, Reader};
use crate::Error;
use crate::ids::NodeId;

/// Children that a bulk build puts on an inner page; of 10 places of a leaf it uses 9.
const CHILDREN_BUILT: usize = 365;
/// More levels than 2^32 pages can need: a longer path is a circle.
pub(super) const DEPTH_MAX: usize = 8;
/// Leaves that are prefetched.
const LEAVES_AHEAD: usize = 16;
/// How often a way down is tried again because pages of it were split or merged.
const TRIES_MAX: usize = 1000;

/// The tree of one column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    pub(crate) root: PageId,
    pub(crate) column: usize,
    pub(crate) shape: PostingShape,
    /// Whether the host owns the rows: what shape numbers mean.
    pub(crate) is_hosted: bool,
    /// The largest shape number that a reader of a file accepts: that of its snapshot.
    pub(crate) newest: u64,
}

/// A page of a tree.
pub(super) enum TreePage<'a> {
    Inner(Inner<'a>),
    Leaf(PostingLeaf<'a>),
}

/// How full a page of a tree is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fill {
    /// Postings or children.
    pub(crate) count: usize,
    /// The most that the page may have.
    pub(crate) capacity: usize,
}

impl Fill {
    /// Whether the page may be merged with a neighbor.
    pub(crate) fn is_sparse(self) -> bool {
        self.count <= self.capacity / 4
    }

    /// Whether the page and a neighbor become one.
    pub(crate) fn fits(self, other: Self) -> bool {
        self.count.min(other.count) == 0 || self.count + other.count <= self.capacity * 3 / 4
    }
}

pub(crate) fn circles(page: PageId) -> Error {
    Error::corrupt(page, "the tree of a column goes in circles")
}

impl Tree {
    /// A page of the tree.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is not a page of the tree, or if a commit after the reader's
    /// snapshot moved its postings: other pages may still be older.
    pub(super) fn page<'a>(&'a self, page: PageId, body: &'a [u8]) -> Result<TreePage<'a>, Error> {
        let found = match kind(body) {
            Some(PageKind::ColumnLeaf) => TreePage::Leaf(PostingLeaf::new(&self.shape, page, body)?),
            _ => TreePage::Inner(Inner::new(page, body)?),
        };
        let number = shape_number(body);
        if !self.is_hosted && number > self.newest {
            let what = format!("commit {number} moved postings, and commit {} is read", self.newest);
            return Err(Error::corrupt(page, what));
        }
        Ok(found)
    }

    /// The postings of a page that is a leaf.
    ///
    /// # Errors
    ///
    /// Those of the other pages of a tree; [`Error::Corrupt`] if it is an inner page.
    pub(crate) fn leaf_page<'a>(&'a self, page: PageId, body: &'a [u8]) -> Result<PostingLeaf<'a>, Error> {
        match self.page(page, body)? {
            TreePage::Leaf(leaf) => Ok(leaf),
            TreePage::Inner(_) => Err(Error::corrupt(page, "it is an inner page in place of a leaf of postings")),
        }
    }

    /// How full a page is.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is no page of a tree; any error of the reader.
    pub(crate) fn fill(&self, reader: &impl Reader, page: PageId) -> Result<Fill, Error> {
        let body = reader.finish(page)?;
        Ok(match self.page(page, &body)? {
            TreePage::Leaf(leaf) => Fill { count: leaf.count(), capacity: self.shape.capacity },
            TreePage::Inner(inner) => Fill { count: inner.count(), capacity: CHILDREN_MAX },
        })
    }

    /// Whether a page of the tree is a leaf.
    ///
    /// # Errors
    ///
    /// As [`Tree::fill`].
    pub(crate) fn is_leaf(&self, reader: &impl Reader, page: PageId) -> Result<bool, Error> {
        let body = reader.finish(page)?;
        Ok(matches!(self.page(page, &body)?, TreePage::Leaf(_)))
    }

    /// The pages from the root to the leaf for `key`, each with the position of the next one among
    /// its children; 0 for the leaf.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; any error of the reader.
    pub(crate) fn way(&self, reader: &impl Reader, key: PostingKey) -> Result<Vec<(PageId, usize)>, Error> {
        let (mut way, mut page) = (Vec::new(), self.root);
        while way.len() < DEPTH_MAX {
            let body = reader.finish(page)?;
            let TreePage::Inner(inner) = self.page(page, &body)? else {
                way.push((page, 0));
                return Ok(way);
            };
            let at = inner.way(key);
            way.push((page, at));
            page = inner.child(at);
        }
        Err(circles(page))
    }

    /// The child of an inner page at a position.
    ///
    /// # Errors
    ///
    /// As [`Tree::way`].
    pub(crate) fn child(&self, reader: &impl Reader, page: PageId, at: usize) -> Result<PageId, Error> {
        let body = reader.finish(page)?;
        match self.page(page, &body)? {
            TreePage::Inner(inner) if at < inner.count() => Ok(inner.child(at)),
            _ => Err(Error::corrupt(page, format!("it has no child {at}"))),
        }
    }

    /// The next tag in the chain of a node after that of `tag`, whose place is `key`; 0 at its end,
    /// `None` without that posting.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; any error of the reader.
    pub(crate) fn next_tag(
        &self,
        reader: &impl Reader,
        key: PostingKey,
        (node, tag): (NodeId, u64),
    ) -> Result<Option<u64>, Error> {
        let page = self.leaf(reader, key)?;
        let body = reader.finish(page)?;
        Ok(self.leaf_page(page, &body)?.next_of(node, tag))
    }

    /// The leaf for `key`.
    pub(crate) fn leaf(&self, reader: &impl Reader, key: PostingKey) -> Result<PageId, Error> {
        let mut page = self.root;
        for _ in 0..DEPTH_MAX {
            let body = reader.finish(page)?;
            match self.page(page, &body)? {
                TreePage::Leaf(_) => return Ok(page),
                TreePage::Inner(inner) => page = inner.child(inner.way(key)),
            }
        }
        Err(circles(page))
    }

    /// Passes every leaf that may have postings from `low` to `high` to `each`, in order. The
    /// leaves at both ends may have others, too.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; those of `each`; any error of the reader.
    pub(crate) fn scan<R: Reader>(
        &self,
        reader: &mut R,
        page_count: u32,
        (low, high): (PostingKey, PostingKey),
        mut each: impl FnMut(PageId, &PostingLeaf<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Pages to read, the next one last; those behind it are leaves for the most part.
        let mut stack = vec![(self.root, 0)];
        let mut seen = 0;
        while let Some((page, depth)) = stack.pop() {
            if depth == DEPTH_MAX || seen == page_count {
                return Err(circles(page));
            }
            if let Some(ahead) = stack.len().checked_sub(LEAVES_AHEAD) {
                reader.start(stack[ahead].0, 0..0);
            }
            {
                let body = reader.finish(page)?;
                match self.page(page, &body)? {
                    TreePage::Leaf(leaf) => each(page, &leaf)?,
                    TreePage::Inner(inner) => {
                        let (first, last) = (inner.way(low), inner.way(high));
                        if first > last {
                            return Err(Error::corrupt(page, "its keys are not in order"));
                        }
                        stack.extend((first..=last).rev().map(|at| (inner.child(at), depth + 1)));
                        stack.iter().rev().take(LEAVES_AHEAD).for_each(|(page, _)| reader.start(*page, 0..0));
                    }
                }
            }
            reader.release();
            seen += 1;
        }
        Ok(())
    }

    /// The place of a key among the postings: leaves are taken as equally full. Reads a page of
    /// each level.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::scan`]; [`Error::Busy`] if pages keep being split or merged.
    pub(crate) fn share_before(&self, reader: &mut impl Reader, key: PostingKey) -> Result<Share, Error> {
        for _ in 0..TRIES_MAX {
            let mut seen = Vec::new();
            let found = self.share_on_way(reader, key, &mut seen);
            match found {
                // A page of the way may have been taken out, and used again for something else.
                Err(Error::Corrupt { .. }) if self.is_hosted && matches!(have_shape(reader, &seen), Ok(false)) => {}
                found => return found,
            }
        }
        Err(Error::busy("postings moved too often while a filter was planned; try again"))
    }

    fn share_on_way(
        &self,
        reader: &mut impl Reader,
        key: PostingKey,
        seen: &mut Vec<SeenInner>,
    ) -> Result<Share, Error> {
        let (mut page, mut before, mut width) = (self.root, 0.0, 1.0);
        for _ in 0..DEPTH_MAX {
            let next = {
                let body = reader.finish(page)?;
                match self.page(page, &body)? {
                    TreePage::Leaf(leaf) => {
                        let count = leaf.count();
                        let less = (0..count).filter(|at| leaf.key(*at, self.column) < key).count();
                        return Ok(Share { leaf: page, begin: before, width, less, count });
                    }
                    TreePage::Inner(inner) => {
                        seen.push((page, Some(shape_number(&body))));
                        let at = inner.way(key);
                        width /= inner.count() as f64;
                        before += width * at as f64;
                        inner.child(at)
                    }
                }
            };
            reader.release();
            page = next;
        }
        Err(circles(page))
    }
}

/// The position of a key in a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) leaf: PageId,
    /// The estimated share of all postings before the leaf, and that on it.
    pub(crate) begin: f64,
    pub(crate) width: f64,
    /// Postings of the leaf before the key, and all of the leaf.
    pub(crate) less: usize,
    pub(crate) count: usize,
}

/// Postings of a leaf that [`write`] writes.
fn built_postings(shape: &PostingShape) -> usize {
    (shape.capacity * 9 / 10).max(1)
}

/// Pages of the tree that [`write`] writes of that many postings.
pub(crate) fn pages(shape: &PostingShape, postings: usize) -> u32 {
    let mut level = postings.div_ceil(built_postings(shape)).max(1);
    let mut pages = level;
    while level > 1 {
        level = level.div_ceil(CHILDREN_BUILT);
        pages += level;
    }
    pages as u32
}

/// Writes the tree of a column to pages from `first` on. `postings` are in order; returns the root
/// and the page after it. `look` gets the number of postings that are left, before each leaf, and
/// may end the work.
///
/// # Errors
///
/// Those of `look` and of the sink.
pub(crate) fn write(
    shape: &PostingShape,
    column: usize,
    mut postings: impl ExactSizeIterator<Item = Posting>,
    first: PageId,
    sink: &mut dyn PageSink,
    mut look: impl FnMut(usize) -> Result<(), Error>,
) -> Result<(PageId, PageId), Error> {
    let mut body = vec![0; BODY_BYTES];
    let mut page = first.0;
    let mut level: Vec<(PostingKey, PageId)> = Vec::new();
    let most = built_postings(shape);
    while level.is_empty() || postings.len() > 0 {
        look(postings.len())?;
        let part: Vec<Posting> = postings.by_ref().take(most).collect();
        shape.write(&mut body, &part);
        sink.write(PageId(page), &body)?;
        level.push((part.first().map_or(PostingKey::LEAST, |posting| posting.key(column)), PageId(page)));
        page += 1;
    }
    while level.len() > 1 {
        let mut above = Vec::new();
        // Estimates take the children of a page as equally full, so none gets just what is left.
        let count = level.len().div_ceil(CHILDREN_BUILT);
        for part in 0..count {
            let children = &level[part * level.len() / count..(part + 1) * level.len() / count];
            write_inner(&mut body, children);
            sink.write(PageId(page), &body)?;
            above.push((children[0].0, PageId(page)));
            page += 1;
        }
        level = above;
    }
    Ok((level[0].1, PageId(page)))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::page::layout::NodeLayout;
    use crate::page::postings::Tagging;
    use crate::quantize::edge::EdgeFactors;

    /// Pages from the first one on.
    #[derive(Default)]
    struct Written(Vec<Vec<u8>>);

    impl PageSink for Written {
        fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
            assert_eq!(page.0 as usize, self.0.len());
            self.0.push(body.to_vec());
            Ok(())
        }
    }

    impl Reader for Written {
        type Guard<'r> = &'r [u8];

        fn start(&self, _: PageId, _: Range<usize>) {}

        fn finish(&self, page: PageId) -> Result<&[u8], Error> {
            Ok(&self.0[page.0 as usize])
        }

        fn release(&mut self) {}

        fn pages_missed(&self) -> u64 {
            0
        }
    }

    #[test]
    fn shares_are_estimated_where_a_level_has_one_child_more_than_a_page() {
        let layout = NodeLayout::choose(384, 1);
        let shape = PostingShape::new(&layout, Tagging::None);
        let of_leaf = built_postings(&shape);
        for leaves in [CHILDREN_BUILT - 1, CHILDREN_BUILT, CHILDREN_BUILT + 1, 2 * CHILDREN_BUILT + 7] {
            let count = leaves * of_leaf;
            let posting = |value: usize| {
                let values = [0, value as u64].iter().flat_map(|word| word.to_le_bytes()).collect();
                Posting {
                    node: value as NodeId,
                    centroid: 0,
                    factors: EdgeFactors { add: 0.0, factor: 0.0 },
                    values,
                    code: vec![0; layout.edge.words()],
                    tag: None,
                    next: 0,
                }
            };
            let mut pages = Written::default();
            let (root, end) = write(&shape, 0, (0..count).map(posting), PageId(0), &mut pages, |_| Ok(()))
                .expect("it is written");
            assert_eq!(end.0, super::pages(&shape, count));
            let tree = Tree { root, column: 0, shape, is_hosted: false, newest: u64::MAX };
            for share in [0.05, 0.5, 0.95, 0.999] {
                let (key, _) = PostingKey::range(Some(((share * count as f64) as u64, u64::MAX)));
                let Share { begin, width, less, count: of_leaf, .. } =
                    tree.share_before(&mut pages, key).expect("a tree");
                let found = begin + width * less as f64 / of_leaf as f64;
                assert!((found - share).abs() < 0.01, "{leaves} leaves: {found} for {share}");
            }
        }
    }
}
