//! Whether a node that has all its edges takes one to a new row, judged by what its own page says of its neighbors.
//!
//! [`Change::reconsider`] reads every neighbor for that: some twenty pages for one edge. The page has a code of each, which
//! estimates how far it is from the new row and from the node itself; those whom the walk met are known better. That is enough
//! where the new row clearly lies behind a neighbor, or a neighbor behind it: two offers of three. For the third they are read.

use super::build;
use super::change::{Change, unknown_centroid};
use super::encode::{self, Target};
use super::near::with_node;
use crate::Error;
use crate::page::PagesMut;
use crate::page::layout::{Link, NodeId, NodeMut};
use crate::quantize::estimate::DEGREE_MAX;

/// What becomes of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// A neighbor leads there.
    Declined,
    /// It takes the place of a neighbor to whom it leads.
    InPlaceOf(usize),
    /// That has nothing to do with it.
    Unclear,
}

/// A neighbor of the node, by squared distances.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbor {
    from_node: f32,
    from_row: f32,
    is_anchor: bool,
}

impl<W: PagesMut> Change<'_, W> {
    /// Offers a full `node` an edge to `target`, the row that the walk went to, which has been in `explorer.near` since it was
    /// written. `false` if the node's page does not tell whether it deserves one.
    pub(super) fn offer(&mut self, node: NodeId, target: &Target) -> Result<bool, Error> {
        let near = &self.explorer.near;
        let (Some(row), Some(at)) = (near.position(target.node), near.position(node)) else { return Ok(false) };
        let from_node = near.distance(at, row);
        let Some(neighbors) = self.neighbors(node, at, row)? else { return Ok(false) };
        let place = match judge(&neighbors, from_node) {
            Verdict::Unclear => return Ok(false),
            Verdict::Declined => return Ok(true),
            Verdict::InPlaceOf(place) => place,
        };
        let layout = self.meta.layout;
        let (page, slot) = layout.place(node);
        self.pages.step(&[page], &mut |bodies| {
            NodeMut::new(&layout, bodies[0], slot).set_edge(place, &target.edge(false));
            Ok(())
        })?;
        Ok(true)
    }

    /// The neighbors of `node`, at `at` in `explorer.near`, in the order of its edges; how far each is from it and from the row at
    /// `row`. `None` if one is known to be gone.
    fn neighbors(&mut self, node: NodeId, at: usize, row: usize) -> Result<Option<Vec<Neighbor>>, Error> {
        let Self { meta, model, explorer, pages, probe, point, .. } = self;
        let (mut from_node, mut from_row) = ([0.0; DEGREE_MAX], [0.0; DEGREE_MAX]);
        let links = with_node(meta, &pages.reader(), node, |found, header| {
            encode::decode(found, header, point);
            probe.prepare_inner(meta, point);
            let degree = usize::from(header.degree);
            probe.estimate(model, found, &mut from_node[..degree])?;
            explorer.probe.estimate(model, found, &mut from_row[..degree])?;
            Some(found.links().collect::<Vec<Link>>())
        })?;
        let links = links.ok_or_else(|| unknown_centroid(meta, node))?;
        let mut neighbors = Vec::with_capacity(links.len());
        for (link, (from_node, from_row)) in links.iter().zip(from_node.into_iter().zip(from_row)) {
            let mut neighbor = Neighbor { from_node, from_row, is_anchor: link.anchor };
            if let Some(known) = explorer.near.position(link.node) {
                if explorer.near.nodes[known].1.generation != link.generation {
                    return Ok(None);
                }
                neighbor.from_node = explorer.near.distance(at, known);
                neighbor.from_row = explorer.near.distance(row, known);
            }
            neighbors.push(neighbor);
        }
        Ok(Some(neighbors))
    }
}

/// Robust prune of one too many, as far as the new row, `from_node` away, has to do with it: the farthest neighbor goes that the
/// row stands in the way of, but for anchors; if there is none, the row itself if somebody stands in its way.
fn judge(neighbors: &[Neighbor], from_node: f32) -> Verdict {
    let is_behind =
        |n: &Neighbor| !n.is_anchor && n.from_node > from_node && build::ALPHA_SQ * n.from_row <= n.from_node;
    let behind = neighbors.iter().enumerate().filter(|(_, n)| is_behind(n));
    if let Some((farthest, _)) = behind.max_by(|a, b| a.1.from_node.total_cmp(&b.1.from_node)) {
        return Verdict::InPlaceOf(farthest);
    }
    let leads_there = |n: &Neighbor| n.from_node < from_node && build::ALPHA_SQ * n.from_row <= from_node;
    if neighbors.iter().any(leads_there) { Verdict::Declined } else { Verdict::Unclear }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbors on a line, seen from a node at 0; the row lies at `row`.
    fn on_a_line(row: f32, at: &[f32]) -> Vec<Neighbor> {
        let seen = |x: &f32| Neighbor { from_node: x * x, from_row: (x - row).powi(2), is_anchor: false };
        at.iter().map(seen).collect()
    }

    #[test]
    fn who_lies_behind_goes_the_farthest_first() {
        let mut neighbors = on_a_line(2.0, &[-1.0, 2.5, 3.0, -9.0]);
        assert_eq!(judge(&neighbors, 4.0), Verdict::InPlaceOf(2));
        neighbors[2].is_anchor = true;
        assert_eq!(judge(&neighbors, 4.0), Verdict::InPlaceOf(1));
        neighbors[1].is_anchor = true;
        assert_eq!(judge(&neighbors, 4.0), Verdict::Unclear);
    }

    #[test]
    fn a_row_behind_a_neighbor_is_declined() {
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, 1.5, -9.0]), 4.0), Verdict::Declined);
        // It leads to somebody, too: that one is farther.
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, 1.5, 2.5]), 4.0), Verdict::InPlaceOf(2));
        assert_eq!(judge(&on_a_line(2.0, &[-1.0, -9.0]), 4.0), Verdict::Unclear);
        assert_eq!(judge(&[], 4.0), Verdict::Unclear);
    }
}
