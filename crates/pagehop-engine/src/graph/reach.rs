//! Reachability: repairs a graph in which some rows cannot be reached from the entry points, before
//! it is written.
//!
//! A breadth-first walk marks the reachable rows, and protects the edge through which it first
//! reached each row. An unreachable row gets an edge from a reachable row near it, in a free slot
//! or in place of an edge that is not protected. Then the walk continues from that row. The
//! protected edges form a forest, which has fewer edges than rows, so there are always slots left.

use super::Adjacency;
use crate::Error;
use std::collections::VecDeque;

/// Rows between two calls of `look`.
const LOOK_ROWS: usize = 1 << 16;

/// Makes every row reachable from `entries`. Returns the number of rows that were attached. `look`
/// gets the number of rows that are known to be reachable, and may end the work.
///
/// # Errors
///
/// Those of `look`.
pub(crate) fn attach_unreachable(
    graph: &mut Adjacency,
    entries: &[u32],
    mut look: impl FnMut(usize) -> Result<(), Error>,
) -> Result<usize, Error> {
    let rows = graph.len();
    let mut walk =
        ReachWalk { seen: vec![false; rows], parent: vec![u32::MAX; rows], queue: VecDeque::new(), left: 0 };
    for &entry in entries {
        walk.visit(entry, u32::MAX);
    }
    walk.run(graph, &mut look)?;
    let mut attached = 0;
    for row in 0..rows as u32 {
        if !walk.seen[row as usize] {
            walk.attach(graph, row, entries);
            walk.run(graph, &mut look)?;
            attached += 1;
        }
    }
    Ok(attached)
}

struct ReachWalk {
    seen: Vec<bool>,
    /// The row from which the walk first reached this one: that edge is protected.
    parent: Vec<u32>,
    queue: VecDeque<u32>,
    /// Rows that have left the queue.
    left: usize,
}

impl ReachWalk {
    fn visit(&mut self, row: u32, parent: u32) {
        if !std::mem::replace(&mut self.seen[row as usize], true) {
            self.parent[row as usize] = parent;
            self.queue.push_back(row);
        }
    }

    fn run(&mut self, graph: &Adjacency, look: &mut impl FnMut(usize) -> Result<(), Error>) -> Result<(), Error> {
        while let Some(row) = self.queue.pop_front() {
            if self.left.is_multiple_of(LOOK_ROWS) {
                look(self.left)?;
            }
            self.left += 1;
            for i in 0..graph.neighbors(row as usize).len() {
                self.visit(graph.neighbors(row as usize)[i], row);
            }
        }
        Ok(())
    }

    /// Adds an edge to `row` from the first reachable row with a slot. It looks outward from
    /// `row`'s own neighbors.
    fn attach(&mut self, graph: &mut Adjacency, row: u32, entries: &[u32]) {
        let mut tried = std::collections::HashSet::new();
        let mut from: VecDeque<u32> = graph.neighbors(row as usize).iter().copied().collect();
        from.extend(entries);
        while let Some(host) = from.pop_front() {
            if host == row || !tried.insert(host) {
                continue;
            }
            if self.seen[host as usize] && self.take_slot(graph, host, row) {
                self.visit(row, host);
                return;
            }
            from.extend(graph.neighbors(host as usize));
        }
        unreachable!("a spanning forest leaves free slots among the reachable rows");
    }

    fn take_slot(&self, graph: &mut Adjacency, host: u32, row: u32) -> bool {
        if graph.push(host as usize, row) {
            return true;
        }
        let spare = |n: &u32| self.parent[*n as usize] != host;
        match graph.neighbors(host as usize).iter().rposition(spare) {
            Some(slot) => {
                graph.replace(host as usize, slot, row);
                true
            }
            None => false,
        }
    }
}
