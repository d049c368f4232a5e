//! A search as if one node were not there: the one whose vector is the query.
//!
//! Were it not there, whoever has an edge to it would have one to somebody else: a node gives all of its places away. Who that
//! would be is known best of the neighbors of the absent one, which it stands before: the nearest of them takes the place.

use super::near::with_node;
use super::state::State;
use super::visit::Probe;
use crate::Error;
use crate::page::Reader;
use crate::page::layout::{FLAGS_FREE, NodeHeader, NodeId, NodeRef};
use crate::quantize::codes::Codes;
use crate::quantize::own::OwnCode;

/// A node that is left out, if there is one, and its heirs.
#[derive(Debug, Default)]
pub(super) struct Absent {
    pub(super) node: Option<NodeId>,
    /// Its neighbors, and how far the query is from each by estimate.
    heirs: Vec<(f32, NodeId)>,
    codes: Codes,
}

impl Absent {
    /// Leaves out `node`, if there is one, in searches for the query that the probe has, until another takes its place.
    pub(super) fn become_node<R: Reader>(
        &mut self,
        node: Option<NodeId>,
        probe: &mut Probe,
        state: &State,
        reader: &mut R,
    ) -> Result<(), Error> {
        let Self { heirs, codes, .. } = self;
        heirs.clear();
        codes.clear();
        codes.dim = state.meta.layout.inner_dim;
        if let Some(node) = node {
            let offer = |_, estimate, neighbor| heirs.push((estimate, neighbor));
            probe.visit(&state.meta, &state.model, reader, node, offer, |_, _| ())?;
            reader.release();
            let mut at = 0;
            while let Some((_, heir)) = heirs.get(at) {
                let is_there = with_node(&state.meta, reader, *heir, |found, header| {
                    if header.flags != FLAGS_FREE {
                        codes.push_hi(OwnCode { step: header.step, norm_sq: header.norm_sq }, found.hi());
                    }
                    header.flags != FLAGS_FREE
                })?;
                reader.release();
                if is_there {
                    at += 1;
                } else {
                    heirs.swap_remove(at);
                }
            }
        }
        self.node = node;
        Ok(())
    }

    /// Where the edge of `node` to the absent one would lead: to the nearest of the heirs to which it has none.
    pub(super) fn heir_for(&self, node: NodeId, found: &NodeRef<'_>, header: &NodeHeader) -> Option<(f32, NodeId)> {
        let step = 2.0 * 16.0 * header.step;
        let has_edge = |heir: NodeId| found.neighbors().iter().any(|id| NodeId::from_le_bytes(*id) == heir);
        // Squared distances, less the squared length of the node.
        let distance = |at: usize| {
            let dot = pagehop_kernels::dot_i8(self.codes.hi(at), found.hi()) as f32;
            self.codes.hi_norm_sq[at] - step * self.codes.hi_step(at) * dot
        };
        let open = (0..self.heirs.len()).filter(|at| self.heirs[*at].1 != node && !has_edge(self.heirs[*at].1));
        let nearest = open.map(|at| (distance(at), at)).min_by(|a, b| a.0.total_cmp(&b.0));
        nearest.map(|(_, at)| self.heirs[at])
    }
}
