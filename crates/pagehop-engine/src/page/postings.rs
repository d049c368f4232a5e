//! Postings: the entries of a column's tree, and the leaves that hold them.
//!
//! A posting has the content of an edge to the row's node, and the values of all its columns. So a
//! search reads one leaf, tests the filter and estimates the distances of about 80 rows, and reads
//! the node pages of the nearest only: an inverted file with codes (Jegou et al. 2011), with the
//! codes of RaBitQ.
//!
//! If nodes have no records, the postings of a row with several tags form a chain: that of its word
//! names the first tag, and that of each tag the next, in ascending order. So the tags of a node
//! can be found from its word.

use super::kind::{self, PageKind, kind};
use super::layout::NodeLayout;
use super::{BODY_BYTES, PageId};
use crate::Error;
use crate::columns::RowValues;
use crate::ids::NodeId;
use crate::quantize::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeHead, EdgeShape};
use crate::quantize::estimate::{DEGREE_MAX, EdgeCodes};

const COUNT_AT: usize = 2;
const HEADS_AT: usize = 40;
/// Bytes of a posting before its values: the head of an edge to its node, and its centroid.
const FIXED_BYTES: usize = size_of::<EdgeHead>() + 1;

/// The place of a posting in a column's tree: rows without a value last, then by value, nearest
/// centroid and node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PostingKey(pub(crate) u128);

impl PostingKey {
    pub(crate) const LEAST: Self = Self(0);

    #[inline]
    pub(crate) fn new(value: Option<u64>, centroid: u8, node: NodeId) -> Self {
        let missing = u128::from(value.is_none()) << 104;
        let value = u128::from(value.unwrap_or(0)) << 40;
        Self(missing | value | u128::from(centroid) << 32 | u128::from(node))
    }

    /// The value; `None` if it is missing.
    pub(crate) fn value(self) -> Option<u64> {
        (self.0 >> 104 == 0).then_some((self.0 >> 40) as u64)
    }

    /// The nearest centroid.
    pub(crate) fn centroid(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// The first and the last place of rows with values from `low` to `high`; for `None`, those of
    /// rows without a value.
    pub(crate) fn range(values: Option<(u64, u64)>) -> (Self, Self) {
        let (low, high) = (values.map(|range| range.0), values.map(|range| range.1));
        (Self::new(low, 0, 0), Self::new(high, u8::MAX, NodeId::MAX))
    }
}

/// A posting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Posting {
    pub(crate) node: NodeId,
    pub(crate) centroid: u8,
    pub(crate) factors: EdgeFactors,
    /// The values of the row's columns, as its node has them.
    pub(crate) values: Vec<u8>,
    pub(crate) code: Vec<u64>,
    /// In the tree of a column of tags, the tag of the posting, 0 for none; `None` in other trees.
    pub(crate) tag: Option<u64>,
    /// In a tree with chains, the next tag of the row; 0 for none, and in other trees.
    pub(crate) next: u64,
}

/// The tags that postings store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tagging {
    /// No tags: the tree of another column.
    None,
    /// The tag of each posting.
    Tags,
    /// The tag of each posting, and the next one of the row.
    Chains,
}

impl Posting {
    /// The place of the posting in the tree of a column.
    pub(crate) fn key(&self, column: usize) -> PostingKey {
        let value = RowValues(&self.values).key(column);
        PostingKey::new(value.map(|value| self.tag.unwrap_or(value)), self.centroid, self.node)
    }
}

/// The shape of an index's leaves of postings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingShape {
    edge: EdgeShape,
    column_bytes: usize,
    tagging: Tagging,
    /// Most postings of a leaf, a multiple of [`BLOCK_EDGES`].
    pub(crate) capacity: usize,
}

impl PostingShape {
    pub(crate) fn new(layout: &NodeLayout, tagging: Tagging) -> Self {
        let (edge, column_bytes) = (layout.edge, layout.column_bytes);
        let shape = Self { edge, column_bytes, tagging, capacity: 0 };
        let posting = FIXED_BYTES + column_bytes + shape.tag_bytes() + edge.code_bytes();
        Self { capacity: (BODY_BYTES - HEADS_AT) / posting / BLOCK_EDGES * BLOCK_EDGES, ..shape }
    }

    /// Bytes of the tags of a posting.
    fn tag_bytes(&self) -> usize {
        match self.tagging {
            Tagging::None => 0,
            Tagging::Tags => 8,
            Tagging::Chains => 16,
        }
    }

    fn centroid_at(&self) -> usize {
        HEADS_AT + size_of::<EdgeHead>() * self.capacity
    }

    fn values_at(&self) -> usize {
        self.centroid_at() + self.capacity
    }

    fn tags_at(&self) -> usize {
        self.values_at() + self.capacity * self.column_bytes
    }

    fn next_at(&self) -> usize {
        self.tags_at() + 8 * self.capacity
    }

    fn codes_at(&self) -> usize {
        self.tags_at() + self.capacity * self.tag_bytes()
    }

    /// The codes of a block: where they begin, and how many there are.
    fn block(&self, block: usize) -> (usize, usize) {
        let first = block * DEGREE_MAX;
        (self.codes_at() + first * self.edge.code_bytes(), (self.capacity - first).min(DEGREE_MAX))
    }

    /// Makes a body a leaf of these postings, at most [`PostingShape::capacity`].
    pub(crate) fn write(&self, body: &mut [u8], postings: &[Posting]) {
        kind::clear(body, PageKind::ColumnLeaf);
        set_count(body, postings.len());
        postings.iter().enumerate().for_each(|(at, posting)| self.set(body, at, posting));
    }

    fn set(&self, body: &mut [u8], at: usize, posting: &Posting) {
        let mut put = |start: usize, bytes: &[u8]| {
            let at = start + at * bytes.len();
            body[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(HEADS_AT, &posting.factors.head(posting.node));
        put(self.centroid_at(), &[posting.centroid]);
        put(self.values_at(), &posting.values);
        if let Some(tag) = posting.tag {
            put(self.tags_at(), &tag.to_le_bytes());
        }
        if self.tagging == Tagging::Chains {
            put(self.next_at(), &posting.next.to_le_bytes());
        }
        let (start, slots) = self.block(at / DEGREE_MAX);
        let codes = &mut body[start..start + slots * self.edge.code_bytes()];
        edge::interleave(self.edge, &posting.code, at % DEGREE_MAX, slots, codes);
    }

    /// Adds a posting to a leaf that has room.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is not a leaf, has no room, or has the posting.
    pub(crate) fn put(&self, page: PageId, body: &mut [u8], posting: &Posting) -> Result<(), Error> {
        let leaf = PostingLeaf::new(self, page, body)?;
        let count = leaf.count();
        if count == self.capacity || leaf.position(posting.node, posting.tag).is_some() {
            let what = format!("the leaf of postings is full, or already has node {}", posting.node);
            return Err(Error::corrupt(page, what));
        }
        self.set(body, count, posting);
        set_count(body, count + 1);
        Ok(())
    }

    /// Removes the posting of a node from a leaf, or that of its `tag` if there are several.
    /// Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is not a leaf.
    pub(crate) fn remove(
        &self,
        page: PageId,
        body: &mut [u8],
        (node, tag): (NodeId, Option<u64>),
    ) -> Result<bool, Error> {
        let leaf = PostingLeaf::new(self, page, body)?;
        let Some(at) = leaf.position(node, tag) else { return Ok(false) };
        let last = leaf.count() - 1;
        let moved = leaf.posting(last);
        if at < last {
            self.set(body, at, &moved);
        }
        set_count(body, last);
        Ok(true)
    }
}

fn set_count(body: &mut [u8], count: usize) {
    body[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(count as u16).to_le_bytes());
}

/// A leaf of postings, in no order.
#[derive(Clone, Copy)]
pub(crate) struct PostingLeaf<'a> {
    shape: &'a PostingShape,
    body: &'a [u8],
}

impl<'a> PostingLeaf<'a> {
    /// The leaf, if the bytes are a leaf.
    pub(crate) fn new(shape: &'a PostingShape, page: PageId, body: &'a [u8]) -> Result<Self, Error> {
        let leaf = Self { shape, body };
        if kind(body) != Some(PageKind::ColumnLeaf) || leaf.count() > shape.capacity {
            let what = format!("kind {} with {} entries is not a leaf of postings", body[0], leaf.count());
            return Err(Error::corrupt(page, what));
        }
        Ok(leaf)
    }

    pub(crate) fn count(&self) -> usize {
        u16::from_le_bytes([self.body[COUNT_AT], self.body[COUNT_AT + 1]]).into()
    }

    #[inline]
    pub(crate) fn node(&self, at: usize) -> NodeId {
        edge::target_of(&self.heads()[at])
    }

    #[inline]
    pub(crate) fn values(&self, at: usize) -> RowValues<'a> {
        let bytes = self.shape.column_bytes;
        RowValues(&self.body[self.shape.values_at() + at * bytes..][..bytes])
    }

    /// The place of a posting in the tree of `column`.
    #[inline]
    pub(crate) fn key(&self, at: usize, column: usize) -> PostingKey {
        let value = self.values(at).key(column);
        PostingKey::new(value.map(|value| self.tag(at).unwrap_or(value)), self.centroid(at), self.node(at))
    }

    /// See [`Posting::tag`].
    #[inline]
    fn tag(&self, at: usize) -> Option<u64> {
        let tags = &self.body[self.shape.tags_at()..];
        (self.shape.tagging != Tagging::None).then(|| u64::from_le_bytes(tags.as_chunks().0[at]))
    }

    /// See [`Posting::next`].
    fn next(&self, at: usize) -> u64 {
        let next = &self.body[self.shape.next_at()..];
        if self.shape.tagging == Tagging::Chains { u64::from_le_bytes(next.as_chunks().0[at]) } else { 0 }
    }

    /// The next tag in the chain of a node after that of `tag`; `None` without that posting.
    pub(crate) fn next_of(&self, node: NodeId, tag: u64) -> Option<u64> {
        self.position(node, Some(tag)).map(|at| self.next(at))
    }

    fn centroid(&self, at: usize) -> u8 {
        self.body[self.shape.centroid_at() + at]
    }

    #[inline]
    fn heads(&self) -> &'a [EdgeHead] {
        &self.body[HEADS_AT..].as_chunks().0[..self.shape.capacity]
    }

    fn position(&self, node: NodeId, tag: Option<u64>) -> Option<usize> {
        let mut heads = self.heads()[..self.count()].iter().enumerate();
        heads.find(|(at, head)| edge::target_of(head) == node && self.tag(*at) == tag).map(|(at, _)| at)
    }

    /// The postings as edges, in blocks of [`DEGREE_MAX`], the last of which may be shorter.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (usize, EdgeCodes<'a>)> + use<'a> {
        let (shape, body, count) = (self.shape, self.body, self.count());
        let heads = self.heads();
        (0..count.div_ceil(DEGREE_MAX)).map(move |block| {
            let (start, slots) = shape.block(block);
            let first = block * DEGREE_MAX;
            let centroids = body[shape.centroid_at() + first..][..slots].as_chunks().0;
            let codes = &body[start..start + slots * shape.edge.code_bytes()];
            let heads = &heads[first..first + slots];
            ((count - first).min(DEGREE_MAX), EdgeCodes { codes, heads, centroids })
        })
    }

    /// A posting, decoded.
    pub(crate) fn posting(&self, at: usize) -> Posting {
        let shape = self.shape;
        let factors = EdgeFactors::of_head(&self.heads()[at]);
        let (start, slots) = shape.block(at / DEGREE_MAX);
        let codes = &self.body[start..start + slots * shape.edge.code_bytes()];
        let mut code = vec![0; shape.edge.words()];
        edge::deinterleave(shape.edge, codes, at % DEGREE_MAX, slots, &mut code);
        Posting {
            node: self.node(at),
            centroid: self.centroid(at),
            factors,
            values: self.values(at).0.to_vec(),
            code,
            tag: self.tag(at),
            next: self.next(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn leaves_take_postings_and_give_them_up() {
        let mut random = Random::new(3, 0);
        for (at, (dim, columns)) in [(64, 1), (384, 2), (784, 7), (4096, 1), (256, 3)].into_iter().enumerate() {
            let layout = NodeLayout::choose(dim, columns);
            let tagging = if at == 3 { Tagging::Chains } else { [Tagging::None, Tagging::Tags][at % 2] };
            let shape = PostingShape::new(&layout, tagging);
            assert!(shape.capacity >= BLOCK_EDGES && shape.block(0).0.is_multiple_of(8), "{shape:?}");
            let mut body = vec![0; BODY_BYTES];
            shape.write(&mut body, &[]);
            let mut kept: Vec<Posting> = Vec::new();
            for step in 0..4 * shape.capacity as u32 {
                // Some nodes have two postings, with different tags.
                let (node, tag) = if at % 2 == 1 { (step / 2, Some(step.into())) } else { (step, None) };
                let posting = Posting {
                    node,
                    centroid: random.below(256) as u8,
                    factors: EdgeFactors { add: random.below(100) as f32, factor: random.below(100) as f32 },
                    values: (0..layout.column_bytes).map(|_| random.below(256) as u8).collect(),
                    code: (0..layout.edge.words()).map(|_| random.next()).collect(),
                    tag,
                    next: if at == 3 { random.next() } else { 0 },
                };
                if kept.len() == shape.capacity || random.below(3) == 0 && !kept.is_empty() {
                    let gone = kept.swap_remove(random.below(kept.len() as u64) as usize);
                    assert!(shape.remove(PageId(5), &mut body, (gone.node, gone.tag)).expect("a leaf"));
                    assert!(!shape.remove(PageId(5), &mut body, (gone.node, gone.tag)).expect("a leaf"));
                }
                shape.put(PageId(5), &mut body, &posting).expect("there is room");
                kept.push(posting);
                let leaf = PostingLeaf::new(&shape, PageId(5), &body).expect("a leaf");
                let found: Vec<Posting> = (0..leaf.count()).map(|at| leaf.posting(at)).collect();
                assert_eq!(found, kept);
                let scored: usize = leaf.blocks().map(|(count, _)| count).sum();
                assert_eq!(scored, kept.len());
            }
        }
    }

    #[test]
    fn keys_have_the_order_of_values_and_missing_ones_come_last() {
        let keys = [
            PostingKey::new(Some(0), 0, 0),
            PostingKey::new(Some(0), 0, 9),
            PostingKey::new(Some(0), 1, 3),
            PostingKey::new(Some(7), 0, 0),
            PostingKey::new(Some(u64::MAX), 255, u32::MAX),
            PostingKey::new(None, 0, 0),
        ];
        assert!(keys.is_sorted_by(|a, b| a < b));
        let values = keys.map(PostingKey::value);
        assert_eq!(values, [Some(0), Some(0), Some(0), Some(7), Some(u64::MAX), None]);
        let (low, high) = PostingKey::range(Some((0, 6)));
        assert!(keys[..3].iter().all(|key| (low..=high).contains(key)) && keys[3] > high);
        let (low, high) = PostingKey::range(None);
        assert!(keys[4] < low && (low..=high).contains(&keys[5]));
    }
}
