//! The postings of a row, one in the tree of each column, and one for each tag in that of a column
//! of tags.
//!
//! Where nodes have no records, the postings of a row with several tags are a chain
//! (`postings.rs`). It is written from its head and removed from its end. So what an interrupted
//! change leaves of it can be found from the head.
//!
//! A row has them from the transaction that adds it to the vacuum that takes its node out of the
//! graph: a reader of an older snapshot may still look for it.
//!
//! The first two come with the node, in its step. Where a row has more and each step is durable by
//! itself, the meta page names the node whose postings are being written. If a crash
//! interrupts that, the next change writes the rest first.

use super::encode::{self, Encoded, unknown_centroid};
use super::graph::Graph;
use crate::Error;
use crate::columns::tags::{PostingTag, TagSets, posting_keys, says_all};
use crate::columns::{ColumnKind, RowValues, tag_columns};
use crate::ids::NodeId;
use crate::page::column_tree::Tree;
use crate::page::node::FLAGS_LIVE;
use crate::page::postings::{Posting, PostingKey};
use crate::page::row_record::read_tags;
use crate::page::{PageId, PagesMut, STEP_PAGES};
use crate::quantize::own::OwnCode;

/// A posting, and the tree that it belongs to.
pub(super) type TreePosting = (Tree, Posting);

/// Writes postings to the `bodies` of their `leaves`.
pub(super) fn put_all(leaves: &[PageId], bodies: &mut [&mut [u8]], postings: &[TreePosting]) -> Result<(), Error> {
    for ((leaf, body), (tree, posting)) in leaves.iter().zip(bodies).zip(postings) {
        tree.shape.put(*leaf, body, posting)?;
    }
    Ok(())
}

impl<W: PagesMut> Graph<'_, W> {
    fn trees(&self) -> Vec<Tree> {
        (0..self.columns().roots.len()).map(|column| self.columns().tree(self.meta(), column)).collect()
    }

    /// The values of the postings of a row in a tree, and what they say of tags.
    fn posting_keys(
        &self,
        tree: &Tree,
        values: RowValues<'_>,
        sets: &[Vec<u64>],
    ) -> Vec<(Option<u64>, Option<PostingTag>)> {
        let (value, columns) = (values.key(tree.column), &self.columns().columns);
        if columns[tree.column].kind != ColumnKind::Tags {
            return vec![(value, None)];
        }
        let before = tag_columns(&columns[..tree.column]);
        let set = sets.get(before).map_or(&[][..], Vec::as_slice);
        let tags = posting_keys(value, set, self.meta().has_tag_chains());
        tags.into_iter().map(|tag| (tag.tag, Some(tag))).collect()
    }

    /// The tags of a node that its `values` do not say.
    pub(super) fn sets_of(&self, node: NodeId, values: &[u8]) -> Result<TagSets, Error> {
        let meta = self.meta();
        if !meta.has_tags {
            return Ok(TagSets::new());
        }
        if meta.has_tag_chains() {
            return self.chained_sets(node, RowValues(values));
        }
        let (page, columns) = (meta.layout.place(node).0, &self.columns().columns);
        read_tags(&mut self.steps().reader(), meta.record_shape(), columns, (page, RowValues(values)))
    }

    /// [`Graph::sets_of`] of an index with chains, as far as the chains of the node go. No other
    /// writer writes postings in the time.
    fn chained_sets(&self, node: NodeId, values: RowValues<'_>) -> Result<TagSets, Error> {
        let centroid = self.look(node, |_, header| header.centroid)?;
        let columns = &self.columns().columns;
        let of_tags = self.trees().into_iter().filter(|tree| columns[tree.column].kind == ColumnKind::Tags);
        let mut sets = TagSets::new();
        for tree in of_tags {
            let mut set = Vec::new();
            let mut at = values.key(tree.column).filter(|word| !says_all(*word)).unwrap_or(0);
            while at > 0 && tree.root.0 > 0 {
                let key = PostingKey::new(Some(at), centroid, node);
                let next = tree.next_tag(&self.steps().reader(), key, (node, at))?;
                // A tag counts once its own posting was found.
                set.extend(next.filter(|_| says_all(at)).map(|_| at));
                let next = next.unwrap_or(0);
                if next > 0 && (!says_all(next) || says_all(at) && next <= at) {
                    let what = format!("the tags of node {node} are no chain");
                    return Err(Error::corrupt(tree.root, what));
                }
                at = next;
            }
            sets.push(set);
        }
        Ok(sets)
    }

    /// The postings of a node, in the order in which they are written.
    pub(super) fn postings(&self, node: NodeId, encoded: &Encoded) -> Vec<TreePosting> {
        let Encoded { centroid, factors, ref code, ref values, ref sets, .. } = *encoded;
        let posting =
            Posting { node, centroid, factors, values: values.clone(), code: code.clone(), tag: None, next: 0 };
        let mut postings = Vec::new();
        for tree in self.trees() {
            for (_, tag) in self.posting_keys(&tree, RowValues(values), sets) {
                let (tag, next) = tag.map_or((None, 0), PostingTag::of_posting);
                postings.push((tree, Posting { tag, next, ..posting.clone() }));
            }
        }
        postings
    }

    /// The leaves of the first of `postings`, at most `most`, with room for them. Each is another
    /// one, so that one step can write to all.
    pub(super) fn leaves(&mut self, postings: &[TreePosting], most: usize) -> Result<Vec<PageId>, Error> {
        let mut leaves = Vec::with_capacity(most);
        for (tree, posting) in postings.iter().take(most) {
            let leaf = tree.make_room(self.steps_mut().pages_mut(), posting.key(tree.column))?;
            if leaves.contains(&leaf) {
                break;
            }
            leaves.push(leaf);
        }
        Ok(leaves)
    }

    /// Adds `postings` of a node that was written, in steps of up to three leaves. The last one
    /// says that they are complete.
    pub(super) fn post(&mut self, mut postings: &[TreePosting]) -> Result<(), Error> {
        while !postings.is_empty() {
            let leaves = self.leaves(postings, STEP_PAGES - 1)?;
            let (now, later) = postings.split_at(leaves.len());
            let steps = self.steps_mut();
            if later.is_empty() && steps.meta().change.unposted > 0 {
                steps.step_meta(&leaves, &mut |meta, bodies| {
                    meta.change.unposted = 0;
                    put_all(&leaves, bodies, now)
                })?;
            } else {
                steps.step(&leaves, &mut |bodies| put_all(&leaves, bodies, now))?;
            }
            postings = later;
        }
        self.posted()
    }

    /// Ends the postings of the node that the meta page names.
    fn posted(&mut self) -> Result<(), Error> {
        if self.meta().change.unposted == 0 {
            return Ok(());
        }
        self.steps_mut().step_meta(&[], &mut |meta, _| {
            meta.change.unposted = 0;
            Ok(())
        })
    }

    /// Writes the postings that an earlier change did not finish.
    pub(super) fn post_unfinished(&mut self) -> Result<(), Error> {
        let node = self.meta().change.unposted;
        if node == 0 {
            return Ok(());
        }
        if self.look(node, |_, header| header.flags != FLAGS_LIVE)? {
            return self.posted();
        }
        self.unpost(node)?;
        let postings = self.postings(node, &self.encoded(node)?);
        self.post(&postings)
    }

    /// Removes the postings of a dead node, while other writers may write theirs.
    pub(super) fn unpost_beside_others(&mut self, node: NodeId) -> Result<(), Error> {
        match self.meta().layout.column_bytes {
            0 => Ok(()),
            _ => self.in_section(|graph| graph.unpost(node)),
        }
    }

    /// Removes the postings of a dead node.
    pub(super) fn unpost(&mut self, node: NodeId) -> Result<(), Error> {
        let (values, centroid) = self.look(node, |found, header| (found.values().0.to_vec(), header.centroid))?;
        let sets = self.sets_of(node, &values)?;
        for tree in self.trees() {
            for (value, tag) in self.posting_keys(&tree, RowValues(&values), &sets).into_iter().rev() {
                let tag = tag.and_then(|tag| tag.of_posting().0);
                let key = PostingKey::new(value, centroid, node);
                tree.remove(self.steps_mut().pages_mut(), key, (node, tag))?;
            }
        }
        Ok(())
    }

    /// What a node holds, as if its row was to be added again.
    pub(super) fn encoded(&self, node: NodeId) -> Result<Encoded, Error> {
        let (mut encoded, header) = self.look(node, |found, header| {
            let (hi, lo, values) = (found.hi().to_vec(), found.lo().to_vec(), found.values().0.to_vec());
            (Encoded { hi, lo, values, ..Encoded::default() }, *header)
        })?;
        let target = self.look(node, |found, _| encode::target(self.meta(), self.model(), node, found))?;
        let target = target.ok_or_else(|| unknown_centroid(self.meta(), node))?;
        encoded.own = OwnCode { step: header.step, norm_sq: header.norm_sq };
        encoded.point = self.point_of(node)?;
        encoded.exact = encoded.point.clone();
        encoded.kept = self.steps().kept_vector(node)?;
        encoded.sets = self.sets_of(node, &encoded.values)?;
        (encoded.centroid, encoded.factors, encoded.code) = (target.centroid, target.factors, target.code);
        Ok(encoded)
    }
}
