//! The numbers of the centroids: a short way through all of them, so that centroids with near
//! numbers are near each other.
//!
//! Postings of one value are in the order of their centroids (`page/postings.rs`). A leaf of the
//! postings of few rows has those of several centroids, and covers one region of space only if
//! these are neighbors. The way begins at the first centroid, goes on to the nearest that is left,
//! and then turns parts of itself around as long as that makes it shorter (2-opt, Croes 1958).

use super::codes::Codes;

/// Most rounds over all pairs of places. Fewer than 20 are needed for 256 centroids.
const ROUNDS_MAX: usize = 100;
/// Shortest gain of a turn, as a share of the way that it replaces: rounding is below it.
const GAIN_MIN: f32 = 1e-5;

/// The centers in the order of the way. It does not depend on the CPU.
pub(crate) fn in_order(centers: &Codes) -> Codes {
    let apart = Distances::new(centers);
    let mut way = greedy(&apart);
    for _ in 0..ROUNDS_MAX {
        if !shorten(&apart, &mut way) {
            break;
        }
    }
    centers.gather(way.iter().map(|center| *center as u32))
}

/// The distances between all centers.
struct Distances {
    count: usize,
    table: Vec<f32>,
}

impl Distances {
    fn new(centers: &Codes) -> Self {
        let count = centers.len();
        let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a.min(b), a.max(b))));
        let table = pairs.map(|(a, b)| centers.hi_distance(a, b).max(0.0).sqrt()).collect();
        Self { count, table }
    }

    fn between(&self, a: usize, b: usize) -> f32 {
        self.table[a * self.count + b]
    }
}

fn greedy(apart: &Distances) -> Vec<usize> {
    let mut left: Vec<usize> = (1..apart.count).collect();
    let mut way = vec![0];
    while !left.is_empty() {
        let last = way[way.len() - 1];
        let of_nearest = |a: &usize, b: &usize| {
            let (near, far) = (apart.between(last, left[*a]), apart.between(last, left[*b]));
            near.total_cmp(&far).then(left[*a].cmp(&left[*b]))
        };
        let at = (0..left.len()).min_by(of_nearest).expect("some are left");
        way.push(left.swap_remove(at));
    }
    way
}

/// Reverses each part of the tour for which that makes the tour shorter (2-opt). Returns whether
/// there was one.
fn shorten(apart: &Distances, way: &mut [usize]) -> bool {
    let mut is_shorter = false;
    for first in 1..way.len() {
        for last in first + 1..way.len() {
            let (before, start, end) = (way[first - 1], way[first], way[last]);
            let after = way.get(last + 1);
            let step = |from| after.map_or(0.0, |after| apart.between(from, *after));
            let (now, turned) =
                (apart.between(before, start) + step(end), apart.between(before, end) + step(start));
            if turned < now * (1.0 - GAIN_MIN) {
                way[first..=last].reverse();
                is_shorter = true;
            }
        }
    }
    is_shorter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn points_of_a_line_come_in_the_order_of_the_line() {
        let mut random = Random::new(6, 0);
        let mut places: Vec<f32> = (0..100).map(|at| at as f32).collect();
        for at in 1..places.len() {
            places.swap(at, 1 + random.below(at as u64) as usize);
        }
        // The line is not along an axis, and begins at the first center.
        let point = |place: &f32| (0..64).map(|dim| place * ((dim * dim) as f32).sin()).collect::<Vec<f32>>();
        let mut centers = Codes::new(64);
        places.iter().for_each(|place| centers.push(&point(place)));
        let ordered = in_order(&centers);
        let lengths: Vec<f32> = ordered.hi_norm_sq.clone();
        assert!(lengths.is_sorted(), "{lengths:?}");
        assert_eq!(ordered.len(), places.len());
    }

    #[test]
    fn every_center_stays_and_the_way_becomes_shorter() {
        let mut random = Random::new(7, 0);
        for count in [1, 2, 3, 256] {
            let mut centers = Codes::new(64);
            for _ in 0..count {
                let x: Vec<f32> = (0..64).map(|_| random.below(1000) as f32 - 500.0).collect();
                centers.push(&x);
            }
            let length = |codes: &Codes| -> f32 {
                (1..codes.len()).map(|at| codes.hi_distance(at - 1, at).max(0.0).sqrt()).sum()
            };
            let ordered = in_order(&centers);
            let mut rows: Vec<&[i8]> = (0..count).map(|row| ordered.hi(row)).collect();
            let mut before: Vec<&[i8]> = (0..count).map(|row| centers.hi(row)).collect();
            rows.sort_unstable();
            before.sort_unstable();
            assert_eq!(rows, before);
            assert!(count < 4 || length(&ordered) < 0.95 * length(&centers), "{}", length(&ordered));
        }
    }
}
