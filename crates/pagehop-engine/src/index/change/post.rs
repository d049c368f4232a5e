//! The postings of a row, one in the tree of each column.
//!
//! A row has them from the transaction that adds it to the vacuum that takes its node out of the
//! graph: a reader of an older snapshot may still look for it.
//!
//! Where each step is durable by itself, the meta page names the node whose postings are being
//! written. If that does not end, the next change begins with them.

use super::encode::{self, Encoded, unknown_centroid};
use super::graph::Graph;
use crate::Error;
use crate::ids::NodeId;
use crate::page::PagesMut;
use crate::page::column_tree::Tree;
use crate::page::node::FLAGS_LIVE;
use crate::page::postings::{Posting, PostingKey, PostingShape};
use crate::quantize::own::OwnCode;

impl<W: PagesMut> Graph<'_, W> {
    fn trees(&self) -> Vec<Tree> {
        let shape = PostingShape::new(&self.meta().layout);
        let roots = self.columns().roots.iter().enumerate();
        roots.map(|(column, root)| Tree { root: *root, column, shape }).collect()
    }

    /// Adds the postings of a node that was written.
    pub(super) fn post(&mut self, node: NodeId, encoded: &Encoded) -> Result<(), Error> {
        let Encoded { centroid, factors, ref code, ref values, .. } = *encoded;
        let posting = Posting { node, centroid, factors, values: values.clone(), code: code.clone() };
        for tree in self.trees() {
            tree.insert(self.steps_mut().pages_mut(), &posting)?;
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
        let encoded = self.encoded(node)?;
        self.post(node, &encoded)
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
        for tree in self.trees() {
            let key = self.look(node, |found, header| {
                PostingKey::new(found.values().key(tree.column), header.centroid, node)
            })?;
            tree.remove(self.steps_mut().pages_mut(), key, node)?;
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
        (encoded.centroid, encoded.factors, encoded.code) = (target.centroid, target.factors, target.code);
        Ok(encoded)
    }
}
