//! Whether a node takes an edge to a new row, decided by its own page alone.
//!
//! Reading every neighbor of a node takes about twenty pages for one edge. But the page of a full
//! node has a code of each neighbor, which estimates its distance from the new row and from the
//! node; the distances of neighbors that the walk visited are known more exactly. These decide 14
//! offers of 15: a neighbor covers the new row, or the new row covers a neighbor, in the sense of
//! robust prune. For the others the neighbors are read. To replace the farthest neighbor instead
//! lowers recall (`docs/decisions/0014-many-writers.md`).
//!
//! A node with room declines the row only for a neighbor that the walk visited.

use super::explorer::Explorer;
use super::near::NearNodes;
use crate::Error;
use crate::graph::prune::alpha_sq;
use crate::ids::NodeId;
use crate::index::change::encode::{Target, unknown_centroid};
use crate::index::change::pages::steps::{Seen, Steps};
use crate::index::model::Model;
use crate::index::search::visit::Probe;
use crate::page::PagesMut;
use crate::page::meta::Meta;
use crate::page::node::Link;
use crate::quantize::estimate::DEGREE_MAX;

/// A neighbor declines the row if it covers it by this factor (squared distances). It is tested
/// before the neighbors that the row covers. On real text and token embeddings 1.1 and 1.2 lose no
/// recall, 1.0 a little.
const CLEARLY_SQ: f32 = 1.1;
/// The same for a node with room, which loses no other edge if it takes this one. 1.2 loses no
/// recall, 1.1 a little.
const CLEARLY_WITH_ROOM_SQ: f32 = 1.2;

/// The decision about an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// A neighbor covers the row.
    Declined,
    /// The row takes the place of a neighbor that it covers.
    Replaces(usize),
    /// The page of the node is not enough to decide.
    Unclear,
}

/// A neighbor of the node, by squared distances.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbor {
    from_node: f32,
    from_row: f32,
    is_anchor: bool,
}

/// Decides on offers. Holds only buffers, which it uses again.
#[derive(Default)]
pub(super) struct Offers {
    probe: Probe,
    point: Vec<f32>,
}

impl Offers {
    /// Offers a full `node` that has not declined ([`is_declined`]) an edge to `target`, the row
    /// that the walk went to and that is in `explorer.near()`. `false` if the node's page does not
    /// decide it.
    pub(super) fn offer<W: PagesMut>(
        &mut self,
        steps: &mut Steps<'_, W>,
        model: &Model,
        explorer: &mut Explorer,
        node: NodeId,
        target: &Target,
    ) -> Result<bool, Error> {
        let near = explorer.near();
        let (Some(row), Some(at)) = (near.position(target.node), near.position(node)) else { return Ok(false) };
        let from_node = near.distance(at, row);
        let alpha_sq = alpha_sq(steps.meta().layout.inner_dim, steps.meta().filled_sq());
        let Some((seen, neighbors)) = self.neighbors(steps, model, explorer, [at, row])? else { return Ok(false) };
        match judge(&neighbors, from_node, alpha_sq) {
            Verdict::Unclear => Ok(false),
            Verdict::Declined => Ok(true),
            Verdict::Replaces(place) => {
                let target = target.clone();
                steps
                    .change_node_later(node, seen, false, move |node| node.set_edge(place, &target.edge(false)))?;
                Ok(true)
            }
        }
    }

    /// The neighbors of the node at `at` in `explorer.near()`, in the order of its edges, with
    /// their distances from the node and from the row at `row`, and its edges at that time. `None`
    /// if an edge is known to be stale.
    fn neighbors<W: PagesMut>(
        &mut self,
        steps: &Steps<'_, W>,
        model: &Model,
        explorer: &mut Explorer,
        [at, row]: [usize; 2],
    ) -> Result<Option<(Seen, Vec<Neighbor>)>, Error> {
        let Self { probe, point } = self;
        let node = explorer.near().nodes[at].0;
        let (mut from_node, mut from_row) = ([0.0; DEGREE_MAX], [0.0; DEGREE_MAX]);
        let seen = steps.look(node, |found, header| {
            found.decode(header, point);
            probe.prepare_inner(steps.meta(), point);
            let degree = usize::from(header.degree);
            probe.estimate(model, found, &mut from_node[..degree])?;
            explorer.estimate(model, found, &mut from_row[..degree])?;
            Some(Seen::of(found, header))
        })?;
        let seen = seen.ok_or_else(|| unknown_centroid(steps.meta(), node))?;
        let near = explorer.near();
        let mut neighbors = Vec::with_capacity(seen.links().len());
        for (link, (from_node, from_row)) in seen.links().iter().zip(from_node.into_iter().zip(from_row)) {
            let mut neighbor = Neighbor { from_node, from_row, is_anchor: link.anchor };
            if let Some(known) = near.position(link.node) {
                if near.nodes[known].1.generation != link.generation {
                    return Ok(None);
                }
                neighbor.from_node = near.distance(at, known);
                neighbor.from_row = near.distance(row, known);
            }
            neighbors.push(neighbor);
        }
        Ok(Some((seen, neighbors)))
    }
}

/// Whether `node` with the edges `links` declines an edge to `target` because of a neighbor that
/// the walk visited: that one clearly covers the row. It is so for most rows that are declined, and
/// needs no estimates. `false` if an edge is known to be stale.
pub(super) fn is_declined(meta: &Meta, near: &NearNodes, node: NodeId, links: &[Link], target: &Target) -> bool {
    let (Some(row), Some(at)) = (near.position(target.node), near.position(node)) else { return false };
    let from_node = near.distance(at, row);
    let clearly_sq = if links.len() < meta.layout.degree { CLEARLY_WITH_ROOM_SQ } else { CLEARLY_SQ };
    let factor_sq = clearly_sq * alpha_sq(meta.layout.inner_dim, meta.filled_sq());
    let mut is_declined = false;
    for link in links {
        let Some(known) = near.position(link.node) else { continue };
        if near.nodes[known].1.generation != link.generation {
            return false;
        }
        is_declined =
            is_declined || covers(near.distance(at, known), near.distance(row, known), from_node, factor_sq);
    }
    is_declined
}

/// Whether a neighbor covers the row, by squared distances and a factor of these.
fn covers(neighbor_from_node: f32, neighbor_from_row: f32, from_node: f32, factor_sq: f32) -> bool {
    neighbor_from_node < from_node && factor_sq * neighbor_from_row <= from_node
}

/// Robust prune of one node too many, as far as it concerns the new row, at distance `from_node`:
/// it drops the row if a neighbor covers it by [`CLEARLY_SQ`]; if not, the farthest neighbor that
/// the row covers, except anchors; if there is none, the row, if a neighbor covers it at all.
/// Without the first rule, half of the full nodes take the row in place of a neighbor, half of
/// these although another neighbor leads to it (`docs/decisions/0014-many-writers.md`).
fn judge(neighbors: &[Neighbor], from_node: f32, alpha_sq: f32) -> Verdict {
    let is_row_covered =
        |factor_sq: f32| neighbors.iter().any(|n| covers(n.from_node, n.from_row, from_node, factor_sq));
    if is_row_covered(CLEARLY_SQ * alpha_sq) {
        return Verdict::Declined;
    }
    let is_covered = |n: &Neighbor| !n.is_anchor && n.from_node > from_node && alpha_sq * n.from_row <= n.from_node;
    let covered = neighbors.iter().enumerate().filter(|(_, n)| is_covered(n));
    match covered.max_by(|a, b| a.1.from_node.total_cmp(&b.1.from_node)) {
        Some((farthest, _)) => Verdict::Replaces(farthest),
        None if is_row_covered(alpha_sq) => Verdict::Declined,
        None => Verdict::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbors on a line and a new row at `row`, all of a node at 0.
    fn on_a_line(row: f32, at: &[f32]) -> Vec<Neighbor> {
        let neighbor = |x: &f32| Neighbor { from_node: x * x, from_row: (x - row).powi(2), is_anchor: false };
        at.iter().map(neighbor).collect()
    }

    #[test]
    fn of_the_neighbors_that_the_row_covers_the_farthest_goes() {
        let mut neighbors = on_a_line(2.0, &[-1.0, 2.5, 3.0, -9.0]);
        assert_eq!(judge(&neighbors, 4.0, 1.15), Verdict::Replaces(2));
        neighbors[2].is_anchor = true;
        assert_eq!(judge(&neighbors, 4.0, 1.15), Verdict::Replaces(1));
        neighbors[1].is_anchor = true;
        assert_eq!(judge(&neighbors, 4.0, 1.15), Verdict::Unclear);
    }

    #[test]
    fn a_row_behind_a_neighbor_is_declined() {
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, 1.5, -9.0]), 4.0, 1.15), Verdict::Declined);
        // The row also covers a neighbor that is farther.
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, 1.5, 2.5]), 4.0, 1.15), Verdict::Declined);
        // A neighbor that hardly covers the row decides only if the row covers no neighbor.
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, 0.17, 2.5]), 4.0, 1.15), Verdict::Replaces(2));
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, 0.17, -9.0]), 4.0, 1.15), Verdict::Declined);
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, -9.0]), 4.0, 1.15), Verdict::Unclear);
        assert_eq!(judge(&[], 4.0, 1.15), Verdict::Unclear);
    }
}
