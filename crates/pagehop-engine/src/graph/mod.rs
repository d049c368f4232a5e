//! Neighbors: who points to whom, and how a search walks.

pub(crate) mod connect;
pub(crate) mod equal;
pub(crate) mod leaves;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod reach;
pub(crate) mod refine;

/// A candidate as one integer: distance first, then id, so that integer order is the order of search and
/// equal distances are ordered by id. Distances below 0, which only estimates can be, count as 0.
#[inline]
pub(crate) fn key(distance: f32, id: u32) -> u64 {
    u64::from(distance.max(0.0).to_bits()) << 32 | u64::from(id)
}

/// The id of a [`key`].
#[inline]
pub(crate) fn key_id(key: u64) -> u32 {
    key as u32
}

/// The distance of a [`key`].
#[inline]
pub(crate) fn key_distance(key: u64) -> f32 {
    f32::from_bits((key >> 32) as u32)
}

/// Out-neighbors of every row, at most `degree` each, most useful first.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) degree: usize,
    neighbors: Vec<u32>,
    counts: Vec<u8>,
}

impl Graph {
    pub(crate) fn new(rows: usize, degree: usize) -> Self {
        Self { degree, neighbors: vec![0; rows * degree], counts: vec![0; rows] }
    }

    /// Adds the rows of `next` behind this graph's.
    pub(crate) fn append(&mut self, mut next: Self) {
        self.neighbors.append(&mut next.neighbors);
        self.counts.append(&mut next.counts);
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn neighbors(&self, row: usize) -> &[u32] {
        &self.neighbors[row * self.degree..][..usize::from(self.counts[row])]
    }

    pub(crate) fn set(&mut self, row: usize, neighbors: &[u32]) {
        self.neighbors[row * self.degree..][..neighbors.len()].copy_from_slice(neighbors);
        self.counts[row] = neighbors.len() as u8;
    }

    /// Adds an edge if there is room.
    pub(crate) fn push(&mut self, row: usize, neighbor: u32) -> bool {
        let count = usize::from(self.counts[row]);
        if count == self.degree {
            return false;
        }
        self.neighbors[row * self.degree + count] = neighbor;
        self.counts[row] += 1;
        true
    }

    /// Replaces the edge in `slot`.
    pub(crate) fn replace(&mut self, row: usize, slot: usize, neighbor: u32) {
        self.neighbors[row * self.degree + slot] = neighbor;
    }
}
