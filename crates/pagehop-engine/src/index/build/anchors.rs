//! Anchors: for each row an edge that stays, so that changes cannot make the row unreachable.

use crate::Error;
use crate::graph::Adjacency;
use crate::page::model_pages::Entry;

/// Rows between two calls of `look`.
const LOOK_ROWS: usize = 1 << 16;

/// The anchor parent of each row: the nearest of the rows that come before it in a walk from
/// `entries` and have an edge to it. `distance` gets a row, its neighbor, and the slot of that
/// edge. `u32::MAX` for entry points that no row leads to. `look` gets the number of rows whose
/// edges a round has examined, and may end the work.
///
/// # Errors
///
/// Those of `look`.
pub(super) fn anchors(
    graph: &Adjacency,
    entries: &[Entry],
    distance: impl Fn(usize, usize, usize) -> f32,
    mut look: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Vec<u32>, Error> {
    let order = walk_order(graph, entries);
    let mut rank = vec![u32::MAX; graph.len()];
    order.iter().enumerate().for_each(|(at, row)| rank[*row as usize] = at as u32);
    let mut anchors = vec![u32::MAX; graph.len()];
    let mut given = vec![0u8; graph.len()];
    // The first round finds a parent for nearly all rows. Rows that were rejected try again, at
    // last with parents that already gave half of their edges.
    let mut most = graph.degree as u8 / 2;
    loop {
        let mut found_some = false;
        let mut nearest = vec![(f32::INFINITY, u32::MAX); graph.len()];
        for (at, row) in order.iter().map(|row| *row as usize).enumerate() {
            if at.is_multiple_of(LOOK_ROWS) {
                look(at)?;
            }
            if given[row] >= most {
                continue;
            }
            for (slot, neighbor) in graph.neighbors(row).iter().enumerate() {
                let neighbor = *neighbor as usize;
                if anchors[neighbor] == u32::MAX && rank[row] < rank[neighbor] {
                    let distance = distance(row, neighbor, slot);
                    if distance < nearest[neighbor].0 {
                        nearest[neighbor] = (distance, row as u32);
                    }
                }
            }
        }
        for (anchor, (_, row)) in anchors.iter_mut().zip(nearest) {
            if row != u32::MAX && given[row as usize] < most {
                given[row as usize] += 1;
                *anchor = row;
                found_some = true;
            }
        }
        if !found_some && usize::from(most) == graph.degree {
            return Ok(anchors);
        }
        if !found_some {
            most = graph.degree as u8;
        }
    }
}

fn walk_order(graph: &Adjacency, entries: &[Entry]) -> Vec<u32> {
    let mut seen = vec![false; graph.len()];
    let mut order = Vec::with_capacity(graph.len());
    let reach = |row: u32, order: &mut Vec<u32>, seen: &mut Vec<bool>| {
        if !std::mem::replace(&mut seen[row as usize], true) {
            order.push(row);
        }
    };
    entries.iter().for_each(|entry| reach(entry.node, &mut order, &mut seen));
    let mut at = 0;
    while let Some(row) = order.get(at).copied() {
        graph.neighbors(row as usize).iter().for_each(|neighbor| reach(*neighbor, &mut order, &mut seen));
        at += 1;
    }
    order
}
