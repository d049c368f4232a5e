//! Centers in up to two levels, so that a row finds its nearest center without a comparison with
//! all.
//!
//! The number of leaves grows with the rows. One level of centers would compare every row with
//! every center, which is quadratic in rows: at ten million rows it would take as long as all the
//! rest of a build. From [`FLAT_MAX`] on, centers lie in cells. A row is compared with the centers
//! of the cells, then with the centers in the [`BEAM`] nearest cells. The nearest center is rarely
//! in another cell, and such a row misses one of its leaves only in part: its neighbors at the
//! border of a cell miss the same one.

use crate::quantize::centroids;
use crate::quantize::codes::Codes;
use crate::threads;

/// Most centers of one level.
const FLAT_MAX: usize = 1024;
/// Cells whose centers a row is compared with.
const BEAM: usize = 8;

/// Trained centers.
pub(crate) struct CenterTree {
    /// The centers themselves if there are no cells, otherwise the centers of the cells.
    top: Codes,
    cells: Vec<Cell>,
}

struct Cell {
    centers: Codes,
    /// Number of the cell's first center.
    first: u32,
}

impl CenterTree {
    /// Trains about `count` centers on `sample`, which must not be empty. `rounds` is the number of
    /// Lloyd iterations.
    pub(crate) fn train(sample: &Codes, count: usize, rounds: usize, seed: u64, workers: usize) -> Self {
        Self::train_flat_to(FLAT_MAX, sample, count, rounds, seed, workers)
    }

    /// [`CenterTree::train`] with cells from `flat_max` centers on.
    fn train_flat_to(
        flat_max: usize,
        sample: &Codes,
        count: usize,
        rounds: usize,
        seed: u64,
        workers: usize,
    ) -> Self {
        if count <= flat_max {
            return Self { top: centroids::train(sample, count, rounds, seed, workers), cells: Vec::new() };
        }
        // As many cells as centers in each: the fewest comparisons of a row.
        let top = centroids::train(sample, count.isqrt().max(BEAM), rounds, seed, workers);
        let mut members = vec![Vec::new(); top.len()];
        for (row, cell) in centroids::assign(sample, &top, 1, workers).into_iter().enumerate() {
            members[cell as usize].push(row as u32);
        }
        let mut first = 0;
        let cells = members.into_iter().enumerate().map(|(cell, members)| {
            // A cell without rows of the sample gets one center: its own.
            let members = if members.is_empty() { None } else { Some(sample.gather(members.into_iter())) };
            let centers = match members {
                Some(members) => {
                    let share = (members.len() * count).div_ceil(sample.len());
                    centroids::train(&members, share, rounds, seed + cell as u64, workers)
                }
                None => top.gather(std::iter::once(cell as u32)),
            };
            first += centers.len() as u32;
            Cell { first: first - centers.len() as u32, centers }
        });
        let cells = cells.collect();
        Self { top, cells }
    }

    /// The number of centers.
    pub(crate) fn len(&self) -> usize {
        self.cells.last().map_or(self.top.len(), |cell| cell.first as usize + cell.centers.len())
    }

    /// The numbers of the `fanout` nearest centers of each row, nearest first, as
    /// [`centroids::assign`]. `fanout` is at most [`BEAM`] and at most the number of centers.
    pub(crate) fn assign(&self, rows: &Codes, fanout: usize, workers: usize) -> Vec<u32> {
        if self.cells.is_empty() {
            return centroids::assign(rows, &self.top, fanout, workers);
        }
        assert!(fanout <= BEAM, "each of the nearest cells has a center at least");
        let beam = BEAM.min(self.top.len());
        let mut members = vec![Vec::new(); self.cells.len()];
        for (row, cells) in centroids::assign(rows, &self.top, beam, workers).chunks_exact(beam).enumerate() {
            cells.iter().for_each(|cell| members[*cell as usize].push(row as u32));
        }
        let found = threads::map(workers, self.cells.len(), |cell| {
            let some = rows.gather(members[cell].iter().copied());
            let centers = &self.cells[cell].centers;
            centroids::nearest(&some, 0..some.len(), centers, fanout.min(centers.len()))
        });
        let mut best: Vec<Vec<(f32, u32)>> = vec![Vec::with_capacity(fanout + 1); rows.len()];
        for ((cell, members), found) in self.cells.iter().zip(&members).zip(found) {
            let each = fanout.min(cell.centers.len());
            for (row, found) in members.iter().zip(found.chunks_exact(each)) {
                let best = &mut best[*row as usize];
                best.extend(found.iter().map(|(distance, center)| (*distance, cell.first + center)));
                best.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                best.truncate(fanout);
            }
        }
        best.into_iter().flatten().map(|(_, center)| center).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Rows around `clusters` centers.
    fn rows(count: usize, clusters: u64) -> Codes {
        let dim = 64;
        let mut random = Random::new(5, 0);
        let mut codes = Codes::new(dim);
        for _ in 0..count {
            let mut place = Random::new(6, random.below(clusters));
            let x: Vec<f32> =
                (0..dim).map(|_| place.below(1000) as f32 - 500.0 + random.below(200) as f32).collect();
            codes.push(&x);
        }
        codes
    }

    #[test]
    fn two_levels_find_nearly_the_centers_that_one_finds() {
        let codes = rows(6000, 150);
        let tree = CenterTree::train_flat_to(64, &codes, 300, 3, 1, 2);
        assert!((300..420).contains(&tree.len()), "{} centers", tree.len());
        let mut all = Codes::new(codes.dim);
        tree.cells.iter().for_each(|cell| all.append(cell.centers.clone()));
        let (flat, found) = (centroids::assign(&codes, &all, 2, 2), tree.assign(&codes, 2, 2));
        let same = flat.iter().zip(&found).filter(|(a, b)| a == b).count();
        println!("{same} of {} are the same", flat.len());
        assert!(same * 100 > flat.len() * 97, "{same} of {}", flat.len());
        assert_eq!(found, tree.assign(&codes, 2, 1));
    }

    #[test]
    fn a_sample_of_equal_rows_has_centers_too() {
        let mut codes = Codes::new(64);
        (0..500).for_each(|_| codes.push(&[1.0; 64]));
        let tree = CenterTree::train_flat_to(16, &codes, 100, 3, 1, 1);
        let found = tree.assign(&codes, 2, 1);
        assert_eq!(found.len(), 1000);
        assert!(found.iter().all(|center| (*center as usize) < tree.len()));
    }
}
