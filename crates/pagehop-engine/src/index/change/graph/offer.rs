//! Whether a node takes an edge to a row that was inserted near it.
//!
//! Robust prune (`graph/prune.rs`) of the node's neighbors and the row would decide it, and would
//! read all neighbors. The walk of the insertion has visited most of those that matter, so the node
//! decides among these, and no page is read. Only if they are not enough the others are read.

use crate::graph::prune::alpha_sq;
use crate::ids::NodeId;
use crate::index::change::encode::Target;
use crate::index::change::graph::near::NearNodes;
use crate::page::meta::Meta;
use crate::page::node::Link;

/// A neighbor declines the row if it covers it by this factor (squared distances). On real text and
/// token embeddings 1.1 and 1.2 lose no recall, 1.0 a little.
const CLEARLY_SQ: f32 = 1.1;
/// The same for a node with room, which loses no other edge if it takes this one. 1.2 loses no
/// recall, 1.1 a little.
const CLEARLY_WITH_ROOM_SQ: f32 = 1.2;

/// The decision of a full node about an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A neighbor covers the row.
    Declined,
    /// The row takes the place of a neighbor that it or another neighbor covers.
    Replaces(usize),
    /// The visited neighbors are not enough to decide.
    Unclear,
}

/// A neighbor of the node that the walk visited, by squared distances.
#[derive(Clone, Copy, Debug)]
struct Neighbor {
    /// Position among the visited nodes.
    at: usize,
    /// Place of the edge.
    place: usize,
    from_node: f32,
    from_row: f32,
    is_anchor: bool,
}

/// Whether `node` with the edges `links` declines an edge to `target`, the row that the walk went
/// to, because of a neighbor that the walk visited: that one clearly covers the row. It is so for
/// most rows that are declined. `false` if an edge is known to be stale.
pub(super) fn is_declined(meta: &Meta, near: &NearNodes, node: NodeId, links: &[Link], target: &Target) -> bool {
    let Some((at, from_node)) = position(near, node, target) else { return false };
    let clearly_sq = if links.len() < meta.layout.degree { CLEARLY_WITH_ROOM_SQ } else { CLEARLY_SQ };
    let factor_sq = clearly_sq * alpha_sq(meta.layout.inner_dim, meta.filled_sq());
    let mut is_declined = false;
    for link in links {
        let Some(known) = near.position(link.node) else { continue };
        if near.nodes[known].1.generation != link.generation {
            return false;
        }
        // Few neighbors are that near to the row, and only they are compared with the node.
        let may_cover = near.point_distance(known).is_some_and(|from_row| factor_sq * from_row <= from_node);
        is_declined = is_declined || may_cover && near.distance(at, known) < from_node;
    }
    is_declined
}

/// Decides whether the full `node`, which has not declined ([`is_declined`]), takes an edge to
/// `target`, the row that the walk went to.
pub(super) fn judge(meta: &Meta, near: &NearNodes, node: NodeId, links: &[Link], target: &Target) -> Verdict {
    let Some((at, from_node)) = position(near, node, target) else { return Verdict::Unclear };
    let mut neighbors = Vec::with_capacity(links.len());
    for (place, link) in links.iter().enumerate() {
        let Some((known, from_row)) = near.position(link.node).and_then(|at| Some((at, near.point_distance(at)?)))
        else {
            continue;
        };
        if near.nodes[known].1.generation != link.generation {
            // A choice among all neighbors takes stale edges away.
            return Verdict::Unclear;
        }
        let from_node = near.distance(at, known);
        neighbors.push(Neighbor { at: known, place, from_node, from_row, is_anchor: link.anchor });
    }
    let alpha_sq = alpha_sq(meta.layout.inner_dim, meta.filled_sq());
    judge_among(&mut neighbors, from_node, alpha_sq, |a, b| near.distance(a, b))
}

/// Position of `node` among the nodes that the walk to `target` visited, and its distance from the
/// row.
fn position(near: &NearNodes, node: NodeId, target: &Target) -> Option<(usize, f32)> {
    debug_assert!(near.position(target.node).is_some_and(|row| near.point_distance(row).is_none()), "a new row");
    let at = near.position(node)?;
    Some((at, near.point_distance(at)?))
}

/// Robust prune of one node too many, as far as `neighbors` decide it: of the neighbors that the
/// row covers the farthest goes; if there is none, the row, if a neighbor covers it; if not, the
/// farthest neighbor that another covers. Anchors stay. `from_node` is the distance of the row.
fn judge_among(
    neighbors: &mut [Neighbor],
    from_node: f32,
    alpha_sq: f32,
    distance: impl Fn(usize, usize) -> f32,
) -> Verdict {
    neighbors.sort_unstable_by(|a, b| a.from_node.total_cmp(&b.from_node));
    let of_row = |n: &Neighbor| n.from_node > from_node && alpha_sq * n.from_row <= n.from_node;
    if let Some(farthest) = neighbors.iter().rev().find(|n| !n.is_anchor && of_row(n)) {
        return Verdict::Replaces(farthest.place);
    }
    if neighbors.iter().any(|n| n.from_node < from_node && alpha_sq * n.from_row <= from_node) {
        return Verdict::Declined;
    }
    let of_another = |at: &usize| {
        let n = &neighbors[*at];
        let mut nearer = neighbors[..*at].iter().rev();
        !n.is_anchor && nearer.any(|other| alpha_sq * distance(other.at, n.at) <= n.from_node)
    };
    let farthest = (1..neighbors.len()).rev().find(of_another);
    farthest.map_or(Verdict::Unclear, |at| Verdict::Replaces(neighbors[at].place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decision of a node at 0 about a row at `row`, with neighbors on a line.
    fn on_a_line(row: f32, at: &[f32], anchors: &[usize]) -> Verdict {
        let neighbor = |(place, x): (usize, &f32)| Neighbor {
            at: place,
            place,
            from_node: x * x,
            from_row: (x - row).powi(2),
            is_anchor: anchors.contains(&place),
        };
        let mut neighbors: Vec<Neighbor> = at.iter().enumerate().map(neighbor).collect();
        judge_among(&mut neighbors, row * row, 1.15, |a, b| (at[a] - at[b]).powi(2))
    }

    #[test]
    fn of_the_neighbors_that_the_row_covers_the_farthest_goes() {
        let at = [-1.0, 2.5, 3.0, -9.0];
        assert_eq!(on_a_line(2.0, &at, &[]), Verdict::Replaces(2));
        assert_eq!(on_a_line(2.0, &at, &[2]), Verdict::Replaces(1));
        // The row also has a neighbor that covers it.
        assert_eq!(on_a_line(2.0, &[-1.0, 1.5, 2.5], &[]), Verdict::Replaces(2));
    }

    #[test]
    fn a_row_behind_a_neighbor_is_declined() {
        assert_eq!(on_a_line(2.0, &[-1.0, 1.5, -9.0], &[]), Verdict::Declined);
        assert_eq!(on_a_line(2.0, &[-1.0, 1.5, -9.0], &[1]), Verdict::Declined);
    }

    #[test]
    fn a_neighbor_behind_another_goes_if_the_row_is_apart() {
        assert_eq!(on_a_line(2.0, &[-1.0, -9.0, -8.0, -1.1], &[]), Verdict::Replaces(1));
        assert_eq!(on_a_line(2.0, &[-1.0, -9.0, -8.0, -1.1], &[1]), Verdict::Replaces(2));
        assert_eq!(on_a_line(2.0, &[-1.0], &[]), Verdict::Unclear);
        assert_eq!(on_a_line(2.0, &[-1.0, -9.0], &[1]), Verdict::Unclear);
        assert_eq!(on_a_line(2.0, &[], &[]), Verdict::Unclear);
    }
}
