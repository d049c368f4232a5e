//! Duplicate rows in a build: only the first of them is connected in the graph, and the others form
//! a tree below it.
//!
//! Duplicate rows have the same neighbors, and as neighbors of each other they would use up all
//! edges. So the graph connects only the first one, the representative. It is the root of a binary
//! tree of all its duplicates. Each duplicate has an edge to its parent, edges to its children, and
//! copies of the representative's edges to other rows.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Adjacency;
use crate::quantize::codes::Codes;

/// Largest number of children of a row in a tree of duplicates.
pub(crate) const DUPLICATE_CHILDREN: usize = 2;

/// For each row, the first row that equals it: the row itself if it has no earlier duplicate.
pub(crate) fn firsts(codes: &Codes) -> Vec<u32> {
    let mut places = Places::default();
    places.add(codes);
    // Different rows with the same hash are rare and harmless: only rows that equal the first one
    // are its duplicates.
    places.firsts_where(|first, row| codes.is_same(first as usize, row as usize))
}

/// Hashes of rows whose codes are not all in memory.
#[derive(Default)]
pub(crate) struct Places {
    hashes: Vec<(u64, u32)>,
}

impl Places {
    /// Adds rows that follow those before.
    pub(crate) fn add(&mut self, codes: &Codes) {
        let first = self.hashes.len();
        self.hashes.extend((0..codes.len()).map(|row| (place_hash(codes, row), (first + row) as u32)));
    }

    /// [`firsts`] by hashes alone. Two different rows of ten million have the same hash once in
    /// 400,000 builds. Then one of them is found only by way of the other.
    pub(crate) fn firsts(self) -> Vec<u32> {
        self.firsts_where(|_, _| true)
    }

    fn firsts_where(mut self, is_same: impl Fn(u32, u32) -> bool) -> Vec<u32> {
        self.hashes.sort_unstable();
        let mut firsts: Vec<u32> = (0..self.hashes.len() as u32).collect();
        for same in self.hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let first = same[0].1;
            for (_, row) in same.iter().filter(|(_, row)| is_same(first, *row)) {
                firsts[*row as usize] = first;
            }
        }
        firsts
    }
}

/// A hash that is the same for duplicate rows.
pub(crate) fn place_hash(codes: &Codes, row: usize) -> u64 {
    if codes.is_zero(row) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    codes.own[row].step.to_bits().hash(&mut hasher);
    codes.hi(row).hash(&mut hasher);
    hasher.finish()
}

/// Links `duplicates`, in their order, into the trees below their representatives. All duplicates
/// of a row must be among them.
pub(crate) fn link_duplicates(graph: &mut Adjacency, firsts: &[u32], duplicates: impl Iterator<Item = u32>) {
    let mut places: HashMap<u32, Vec<u32>> = HashMap::new();
    for row in duplicates {
        let first = firsts[row as usize];
        places.entry(first).or_insert_with(|| vec![first]).push(row);
    }
    for (first, rows) in places {
        let outward = graph.neighbors(first as usize).to_vec();
        for (at, row) in rows.iter().enumerate() {
            let above = (at > 0).then(|| rows[(at - 1) / DUPLICATE_CHILDREN]);
            let below = rows.iter().skip(at * DUPLICATE_CHILDREN + 1).take(DUPLICATE_CHILDREN);
            let room = graph.degree - usize::from(above.is_some()) - below.len();
            let outward = outward.iter().take(room);
            let edges: Vec<u32> = above.iter().chain(outward).chain(below).copied().collect();
            graph.set(*row as usize, &edges);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn duplicates_are_in_the_tree_of_their_representative_and_no_other_row_is() {
        let (dim, degree) = (64, 8);
        let mut random = Random::new(3, 0);
        let points: Vec<Vec<f32>> =
            (0..9).map(|_| (0..dim).map(|_| random.below(1000) as f32 - 500.0).collect()).collect();
        let picked: Vec<usize> = (0..200).map(|row| if row < 9 { row } else { random.below(5) as usize }).collect();
        let mut codes = Codes::new(dim);
        picked.iter().for_each(|at| codes.push(&points[*at]));
        let firsts = firsts(&codes);
        assert!(firsts.iter().zip(&picked).all(|(first, at)| *first as usize == *at), "{firsts:?}");
        let mut graph = Adjacency::new(200, degree);
        (0..9).for_each(|row| graph.set(row, &[(row as u32 + 1) % 9, (row as u32 + 2) % 9]));
        let duplicates = (0..200).filter(|row| firsts[*row as usize] != *row);
        link_duplicates(&mut graph, &firsts, duplicates);
        // Walks the tree of each representative along edges between equal rows.
        let mut found: Vec<u32> = (0..9).collect();
        let mut at = 0;
        while at < found.len() {
            let row = found[at] as usize;
            for other in graph.neighbors(row) {
                if firsts[*other as usize] == firsts[row] && !found.contains(other) {
                    found.push(*other);
                }
            }
            assert!(
                graph.neighbors(row).contains(&((firsts[row] + 1) % 9)),
                "row {row} has an edge to another place"
            );
            at += 1;
        }
        assert_eq!(found.len(), 200);
    }
}
