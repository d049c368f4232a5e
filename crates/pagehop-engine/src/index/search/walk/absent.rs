//! Leave-one-out search: as if the node that the query was taken from, and its duplicates, did not
//! exist.
//!
//! If that node were absent, each of its in-neighbors would use the edge for another node. So the
//! search redirects the edge to a substitute: of the absent node's own neighbors, the one nearest
//! to the in-neighbor.

use crate::Error;
use crate::ids::NodeId;
use crate::index::search::visit::{Probe, Scored};
use crate::index::state::State;
use crate::page::layout::NodeLayout;
use crate::page::node::with_node;
use crate::page::node::{FLAGS_FREE, NodeHeader, NodeRef};
use crate::page::{PageId, Reader};
use crate::quantize::codes::Codes;
use crate::quantize::own::OwnCode;

/// The absent nodes, and the candidates for their substitute.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    /// The node that the query was taken from, and its duplicates; empty if no node is absent.
    nodes: Vec<NodeId>,
    /// The neighbors of the first, with the estimated distances from the query.
    substitutes: Vec<(f32, NodeId)>,
    codes: Codes,
}

impl Absent {
    /// Leaves out `nodes` in searches for the query in `probe`, until the next call. The first is
    /// the node that the query was taken from.
    pub(crate) fn leave_out<R: Reader>(
        &mut self,
        nodes: &[NodeId],
        probe: &mut Probe,
        state: &State,
        reader: &mut R,
    ) -> Result<(), Error> {
        let Self { substitutes, codes, .. } = self;
        substitutes.clear();
        codes.clear();
        codes.dim = state.meta.layout.inner_dim;
        codes.filled_sq = state.meta.filled_sq();
        if let Some(node) = nodes.first() {
            let take = |scored: &Scored<'_>| {
                substitutes.extend(scored.neighbors().filter(|(_, neighbor)| !nodes.contains(neighbor)));
                false
            };
            probe.visit(&state.meta, &state.model, reader, *node, take)?;
            reader.release();
            let mut at = 0;
            while let Some((_, substitute)) = substitutes.get(at) {
                let is_there = with_node(&state.meta.layout, reader, *substitute, |found, header| {
                    if header.flags != FLAGS_FREE {
                        codes.push_hi(OwnCode { step: header.step, norm_sq: header.norm_sq }, found.hi());
                    }
                    header.flags != FLAGS_FREE
                })?;
                reader.release();
                if is_there {
                    at += 1;
                } else {
                    substitutes.swap_remove(at);
                }
            }
        }
        self.nodes.clear();
        self.nodes.extend(nodes);
        Ok(())
    }

    /// Whether no node is absent.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether `node` is absent.
    #[inline]
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    /// Whether an absent node is on `page`. The other nodes of the page are there because they are
    /// near that node. If it were absent, they would be on several pages.
    #[inline]
    pub(crate) fn is_on(&self, page: PageId, layout: &NodeLayout) -> bool {
        self.nodes.iter().any(|node| layout.place(*node).0 == page)
    }

    /// The neighbors of the absent node that exist, with estimates.
    pub(crate) fn neighbors(&self) -> &[(f32, NodeId)] {
        &self.substitutes
    }

    /// The candidate that replaces absent nodes among the neighbors of `node`, with its estimate,
    /// if there are any.
    pub(crate) fn substitute_in(&self, node: NodeId, scored: &Scored<'_>) -> Option<(f32, NodeId)> {
        let is_wanted = !self.is_empty() && scored.neighbors().any(|(_, neighbor)| self.has(neighbor));
        if is_wanted { self.substitute_for(node, &scored.node, &scored.header) } else { None }
    }

    /// The node to which an edge of `node` to an absent node is redirected: of the candidates to
    /// which `node` has no edge, the nearest to `node`.
    fn substitute_for(&self, node: NodeId, found: &NodeRef<'_>, header: &NodeHeader) -> Option<(f32, NodeId)> {
        let step = 2.0 * 16.0 * header.step;
        let has_edge = |substitute: NodeId| found.neighbors().any(|id| id == substitute);
        // Squared distances, minus the squared norm of `node`, which is the same for all.
        let distance = |at: usize| {
            let dot = pagehop_kernels::dot_i8(self.codes.hi(at), found.hi()) as f32;
            self.codes.hi_square(at) - step * self.codes.hi_step(at) * dot
        };
        let open = (0..self.substitutes.len())
            .filter(|at| self.substitutes[*at].1 != node && !has_edge(self.substitutes[*at].1));
        let nearest = open.map(|at| (distance(at), at)).min_by(|a, b| a.0.total_cmp(&b.0));
        nearest.map(|(_, at)| self.substitutes[at])
    }
}
