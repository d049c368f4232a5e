//! The duplicates of a row that stands for a query.
//!
//! A query has no duplicate among the rows, as a rule. A row that stands for one may have many: the
//! same text twenty times. They would be its nearest rows, and the easiest to find. In an index of
//! twenty copies of each text, searches for a recall of 0.9 found 0.44 of the rows of other
//! queries. So the duplicates are left out with the row itself.

use std::collections::HashSet;

use crate::Error;
use crate::graph::equal::place_hash;
use crate::ids::NodeId;
use crate::index::search::visit::{Probe, Scored};
use crate::index::state::State;
use crate::page::Reader;
use crate::page::node::{FLAGS_FREE, with_node};
use crate::quantize::codes::Codes;
use crate::quantize::own::OwnCode;

/// A row with as many duplicate nodes, or more, stands for a query only if there are no others.
const DUPLICATES_MAX: usize = 64;
/// Neighbors that are no duplicates, after which the farther ones of a node are not looked at. The
/// estimate of a duplicate is nearly 0, so they come first.
const OTHERS_TRIED: usize = 2;

/// Finds the duplicates of one row after the other.
#[derive(Default)]
pub(super) struct DuplicateSearch {
    probe: Probe,
    /// The row's own code.
    code: Codes,
    /// Neighbors of a node, with their estimates.
    near: Vec<(f32, NodeId)>,
    /// Hashes of codes that too many nodes have.
    crowded: HashSet<u64>,
}

impl DuplicateSearch {
    /// A node and its duplicates, as far as edges lead from one to the next, as they do in an index
    /// without damage. `None` if there are too many. `point` is the vector of the node. Each
    /// duplicate costs about one read of a page, and each node two of pages that searches for its
    /// vector read, too.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a node is damaged; any error of the reader.
    pub(super) fn of<R: Reader>(
        &mut self,
        node: NodeId,
        point: &[f32],
        state: &State,
        reader: &mut R,
    ) -> Result<Option<Vec<NodeId>>, Error> {
        let layout = &state.meta.layout;
        self.code.clear();
        self.code.dim = layout.inner_dim;
        with_node(layout, reader, node, |found, header| {
            self.code.push_hi(OwnCode { step: header.step, norm_sq: header.norm_sq }, found.hi());
        })?;
        reader.release();
        let hash = place_hash(&self.code, 0);
        if self.crowded.contains(&hash) {
            return Ok(None);
        }
        self.probe.prepare_euclidean(&state.meta, point);
        let (mut nodes, mut at) = (vec![node], 0);
        while let Some(from) = nodes.get(at) {
            self.look_around(*from, &mut nodes, state, reader)?;
            if nodes.len() > DUPLICATES_MAX {
                self.crowded.insert(hash);
                return Ok(None);
            }
            at += 1;
        }
        Ok(Some(nodes))
    }

    /// Adds the duplicates among the neighbors of `from` that are not among `nodes`.
    fn look_around<R: Reader>(
        &mut self,
        from: NodeId,
        nodes: &mut Vec<NodeId>,
        state: &State,
        reader: &mut R,
    ) -> Result<(), Error> {
        let Self { probe, code, near, .. } = self;
        near.clear();
        probe.visit(&state.meta, &state.model, reader, from, |scored: &Scored<'_>| {
            near.extend(scored.neighbors());
            false
        })?;
        reader.release();
        near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut others = 0;
        for (_, neighbor) in near {
            if nodes.contains(neighbor) {
                continue;
            }
            let is_same = with_node(&state.meta.layout, reader, *neighbor, |found, header| {
                let own = OwnCode { step: header.step, norm_sq: header.norm_sq };
                header.flags != FLAGS_FREE && code.is_same_as(0, own, found.hi())
            })?;
            reader.release();
            if is_same {
                nodes.push(*neighbor);
            } else {
                others += 1;
                if others == OTHERS_TRIED {
                    break;
                }
            }
        }
        Ok(())
    }
}
