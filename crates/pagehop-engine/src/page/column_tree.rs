//! The tree of a column: a B+ tree of postings, whose leaves are not sorted.
//!
//! It grows as the map from row ids to nodes does (`id_map.rs`): full pages are split on the way
//! down, the root stays where it is, and pages are never merged.

use super::kind::{self, PageKind, kind};
use super::postings::{Posting, PostingKey, PostingLeaf, PostingShape};
use super::{BODY_BYTES, PageId, PageSink, PagesMut, Reader, step};
use crate::Error;
use crate::ids::NodeId;

/// Most children of an inner page.
const CHILDREN_MAX: usize = 406;
/// Children that a bulk build puts on one; of 10 places of a leaf it uses 9.
const CHILDREN_BUILT: usize = 365;
const COUNT_AT: usize = 2;
const KEYS_AT: usize = 40;
const KEY_BYTES: usize = 16;
const CHILDREN_AT: usize = KEYS_AT + KEY_BYTES * CHILDREN_MAX;
/// More levels than 2^32 pages can need: a longer path is a circle.
pub(super) const DEPTH_MAX: usize = 8;
/// Leaves that are prefetched.
const LEAVES_AHEAD: usize = 16;

const _: () = assert!(CHILDREN_AT + 4 * CHILDREN_MAX <= BODY_BYTES);

/// The tree of one column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    pub(crate) root: PageId,
    pub(crate) column: usize,
    pub(crate) shape: PostingShape,
}

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

    fn child(self, index: usize) -> PageId {
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

fn write_inner(body: &mut [u8], children: &[(PostingKey, PageId)]) {
    kind::clear(body, PageKind::ColumnInner);
    body[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(children.len() as u16).to_le_bytes());
    for (at, (least, child)) in children.iter().enumerate() {
        body[CHILDREN_AT + 4 * at..][..4].copy_from_slice(&child.0.to_le_bytes());
        if at > 0 {
            body[KEYS_AT + KEY_BYTES * (at - 1)..][..KEY_BYTES].copy_from_slice(&least.0.to_le_bytes());
        }
    }
}

pub(super) fn circles(page: PageId) -> Error {
    Error::corrupt(page, "the tree of a column goes in circles")
}

impl Tree {
    /// Removes the posting of a node, or that of its `tag` if it has several; `key` is its place.
    /// Returns whether there was one.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::make_room`].
    pub(crate) fn remove<W: PagesMut>(
        &self,
        pages: &mut W,
        key: PostingKey,
        of_node: (NodeId, Option<u64>),
    ) -> Result<bool, Error> {
        let leaf = self.leaf(&pages.reader(), key)?;
        let mut was_there = false;
        step(pages, &[leaf], &mut |bodies| {
            was_there = self.shape.remove(leaf, bodies[0], of_node)?;
            Ok(())
        })?;
        Ok(was_there)
    }

    /// The next tag in the chain of a node after that of `tag`, whose place is `key`; 0 at its end,
    /// `None` without that posting.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::make_room`].
    pub(crate) fn next_tag(
        &self,
        reader: &impl Reader,
        key: PostingKey,
        (node, tag): (NodeId, u64),
    ) -> Result<Option<u64>, Error> {
        let page = self.leaf(reader, key)?;
        let body = reader.finish(page)?;
        Ok(PostingLeaf::new(&self.shape, page, &body)?.next_of(node, tag))
    }

    /// The leaf for `key`.
    pub(crate) fn leaf(&self, reader: &impl Reader, key: PostingKey) -> Result<PageId, Error> {
        let mut page = self.root;
        for _ in 0..DEPTH_MAX {
            let body = reader.finish(page)?;
            if kind(&body) == Some(PageKind::ColumnLeaf) {
                return Ok(page);
            }
            let inner = Inner::new(page, &body)?;
            page = inner.child(inner.way(key));
        }
        Err(circles(page))
    }

    /// The leaf for `key`, with room for a posting: full pages on the way are split.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; any error of the host.
    pub(crate) fn make_room<W: PagesMut>(&self, pages: &mut W, key: PostingKey) -> Result<PageId, Error> {
        if self.is_full(pages, self.root)? {
            self.split_root(pages)?;
        }
        let mut page = self.root;
        // After a split the parent is read again.
        for _ in 0..2 * DEPTH_MAX {
            let (at, child) = {
                let reader = pages.reader();
                let body = reader.finish(page)?;
                if kind(&body) == Some(PageKind::ColumnLeaf) {
                    return Ok(page);
                }
                let inner = Inner::new(page, &body)?;
                let at = inner.way(key);
                (at, inner.child(at))
            };
            if self.is_full(pages, child)? {
                self.split_child(pages, page, at, child)?;
            } else {
                page = child;
            }
        }
        Err(circles(page))
    }

    fn is_full<W: PagesMut>(&self, pages: &W, page: PageId) -> Result<bool, Error> {
        let reader = pages.reader();
        let body = reader.finish(page)?;
        if kind(&body) == Some(PageKind::ColumnLeaf) {
            return Ok(PostingLeaf::new(&self.shape, page, &body)?.count() == self.shape.capacity);
        }
        Ok(Inner::new(page, &body)?.count() == CHILDREN_MAX)
    }

    /// Writes what `body` holds to two bodies; returns the least key of the second.
    fn halve(&self, page: PageId, body: &[u8], front: &mut [u8], back: &mut [u8]) -> Result<PostingKey, Error> {
        if kind(body) == Some(PageKind::ColumnLeaf) {
            let leaf = PostingLeaf::new(&self.shape, page, body)?;
            let mut postings: Vec<Posting> = (0..leaf.count()).map(|at| leaf.posting(at)).collect();
            postings.sort_by_key(|posting| posting.key(self.column));
            let (low, high) = postings.split_at(postings.len() / 2);
            self.shape.write(front, low);
            self.shape.write(back, high);
            return Ok(high[0].key(self.column));
        }
        let children = Inner::new(page, body)?.children();
        let (low, high) = children.split_at(children.len() / 2);
        write_inner(front, low);
        write_inner(back, high);
        Ok(high[0].0)
    }

    /// The root keeps its place and gets two children.
    fn split_root<W: PagesMut>(&self, pages: &mut W) -> Result<(), Error> {
        // A writer beside others allocates one page at a time.
        let (front, back) = (pages.allocate(1)?, pages.allocate(1)?);
        step(pages, &[self.root, front, back], &mut |bodies| {
            let [root_body, front_body, back_body] = bodies else { unreachable!("three pages were asked for") };
            let middle = self.halve(self.root, root_body, front_body, back_body)?;
            write_inner(root_body, &[(PostingKey::LEAST, front), (middle, back)]);
            Ok(())
        })
    }

    /// The upper half of a full child moves to a new page behind it. The parent has room.
    fn split_child<W: PagesMut>(
        &self,
        pages: &mut W,
        parent: PageId,
        at: usize,
        full: PageId,
    ) -> Result<(), Error> {
        let new = pages.allocate(1)?;
        step(pages, &[parent, full, new], &mut |bodies| {
            let [parent_body, full_body, new_body] = bodies else { unreachable!("three pages were asked for") };
            let whole = full_body.to_vec();
            let middle = self.halve(full, &whole, full_body, new_body)?;
            let mut children = Inner::new(parent, parent_body)?.children();
            children.insert(at + 1, (middle, new));
            write_inner(parent_body, &children);
            Ok(())
        })
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
                if kind(&body) == Some(PageKind::ColumnLeaf) {
                    each(page, &PostingLeaf::new(&self.shape, page, &body)?)?;
                } else {
                    let inner = Inner::new(page, &body)?;
                    let (first, last) = (inner.way(low), inner.way(high));
                    if first > last {
                        return Err(Error::corrupt(page, "its keys are not in order"));
                    }
                    stack.extend((first..=last).rev().map(|at| (inner.child(at), depth + 1)));
                    stack.iter().rev().take(LEAVES_AHEAD).for_each(|(page, _)| reader.start(*page, 0..0));
                }
            }
            reader.release();
            seen += 1;
        }
        Ok(())
    }

    /// The estimated share of the postings before `key`: leaves are taken as equally full. Reads a
    /// page of each level.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::scan`].
    pub(crate) fn share_before(&self, reader: &mut impl Reader, key: PostingKey) -> Result<Share, Error> {
        let (mut page, mut before, mut width) = (self.root, 0.0, 1.0);
        for _ in 0..DEPTH_MAX {
            let next = {
                let body = reader.finish(page)?;
                if kind(&body) == Some(PageKind::ColumnLeaf) {
                    let leaf = PostingLeaf::new(&self.shape, page, &body)?;
                    let count = leaf.count();
                    let less = (0..count).filter(|at| leaf.key(*at, self.column) < key).count();
                    let share = before + width * less as f64 / count.max(1) as f64;
                    return Ok(Share { leaf: page, less, share, postings: count as f64 / width });
                }
                let inner = Inner::new(page, &body)?;
                let at = inner.way(key);
                width /= inner.count() as f64;
                before += width * at as f64;
                inner.child(at)
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
    /// Postings of the leaf before the key.
    pub(crate) less: usize,
    /// The estimated share of all postings before the key.
    pub(crate) share: f64,
    /// Estimated postings of the tree.
    pub(crate) postings: f64,
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
            let tree = Tree { root, column: 0, shape };
            for share in [0.05, 0.5, 0.95, 0.999] {
                let (key, _) = PostingKey::range(Some(((share * count as f64) as u64, u64::MAX)));
                let found = tree.share_before(&mut pages, key).expect("a tree").share;
                assert!((found - share).abs() < 0.01, "{leaves} leaves: {found} for {share}");
            }
        }
    }
}
