//! Equal rows of a build: the first of them stands in the graph for all, the others hang below it.
//!
//! Rows in one place have one set of neighbors, and as neighbors of each other they would fill it. So only the first is
//! connected. The others are a tree with two branches at every row, whose root is the first: each has an edge to the row it
//! hangs below, those to the rows below it, and the first's edges outward.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Graph;
use crate::quantize::codes::Codes;

/// Rows that hang below one in the same place, at most.
pub(crate) const SATELLITES: usize = 2;

/// For each row the first that lies in its place: itself, if no other does.
pub(crate) fn firsts(codes: &Codes) -> Vec<u32> {
    let mut places: Vec<(u64, u32)> = (0..codes.len()).map(|row| (place_hash(codes, row), row as u32)).collect();
    places.sort_unstable();
    let mut firsts: Vec<u32> = (0..codes.len() as u32).collect();
    for same in places.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        // Different rows of one hash are as rare as they are harmless: only the first's equals hang below it.
        let first = same[0].1;
        for (_, row) in same.iter().filter(|(_, row)| codes.is_same(first as usize, *row as usize)) {
            firsts[*row as usize] = first;
        }
    }
    firsts
}

/// Equal for rows in one place.
fn place_hash(codes: &Codes, row: usize) -> u64 {
    if codes.is_nothing(row) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    codes.own[row].step.to_bits().hash(&mut hasher);
    codes.hi(row).hash(&mut hasher);
    hasher.finish()
}

/// Hangs every row that is not a first below its first.
pub(crate) fn hang(graph: &mut Graph, firsts: &[u32]) {
    let mut places: HashMap<u32, Vec<u32>> = HashMap::new();
    for (row, first) in firsts.iter().enumerate().filter(|(row, first)| *row as u32 != **first) {
        places.entry(*first).or_insert_with(|| vec![*first]).push(row as u32);
    }
    for (first, rows) in places {
        let outward = graph.neighbors(first as usize).to_vec();
        for (at, row) in rows.iter().enumerate() {
            let above = (at > 0).then(|| rows[(at - 1) / SATELLITES]);
            let below = rows.iter().skip(at * SATELLITES + 1).take(SATELLITES);
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
    fn equal_rows_hang_below_the_first_and_nobody_else_does() {
        let (dim, degree) = (64, 8);
        let mut random = Random::new(3, 0);
        let points: Vec<Vec<f32>> =
            (0..9).map(|_| (0..dim).map(|_| random.below(1000) as f32 - 500.0).collect()).collect();
        let picked: Vec<usize> = (0..200).map(|row| if row < 9 { row } else { random.below(5) as usize }).collect();
        let mut codes = Codes::new(dim);
        picked.iter().for_each(|at| codes.push(&points[*at]));
        let firsts = firsts(&codes);
        assert!(firsts.iter().zip(&picked).all(|(first, at)| *first as usize == *at), "{firsts:?}");
        let mut graph = Graph::new(200, degree);
        (0..9).for_each(|row| graph.set(row, &[(row as u32 + 1) % 9, (row as u32 + 2) % 9]));
        hang(&mut graph, &firsts);
        // Who comes from whom, over edges within a place.
        let mut found: Vec<u32> = (0..9).collect();
        let mut at = 0;
        while at < found.len() {
            let row = found[at] as usize;
            for other in graph.neighbors(row) {
                if firsts[*other as usize] == firsts[row] && !found.contains(other) {
                    found.push(*other);
                }
            }
            assert!(graph.neighbors(row).contains(&((firsts[row] + 1) % 9)), "row {row} leads outward");
            at += 1;
        }
        assert_eq!(found.len(), 200);
    }
}
