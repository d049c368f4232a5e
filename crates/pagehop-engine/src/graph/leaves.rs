//! Candidate neighbors without a search: partition the rows into small overlapping leaves, then
//! compare all pairs within each leaf with the fastest kernel.
//!
//! The idea is from PiPNN (2025): matrix products replace random memory access, which limits
//! insertion by search. Every row is in the leaves of its `fanout` nearest centers, so near rows
//! share at least one leaf almost always. `refine` finds the neighbors that are still separated by
//! a leaf border.

use super::center_tree::CenterTree;
use super::key;
use crate::quantize::codes::Codes;
use crate::{Error, threads};

/// Target number of rows per leaf: enough that neighbors share a leaf, and few enough that its high
/// planes stay in the second-level cache.
const LEAF_ROWS: usize = 800;
/// A leaf with more rows than this is split again.
const LEAF_ROWS_MAX: usize = 2 * LEAF_ROWS;
/// Rows whose inner products with the whole leaf are computed at once.
const BLOCK_ROWS: usize = 32;
/// Sampled rows per trained center.
const SAMPLE_PER_CENTER: usize = 24;
const ROUNDS: usize = 3;
/// Candidates that a build keeps from the leaves for each row.
pub(crate) const LEAF_CANDIDATES: usize = 32;
/// Rows that are assigned to leaves between two calls of the progress callback.
const PIECE_ROWS: usize = 1 << 13;

/// Partitions `rows`: the rows of each leaf. Each row is in up to `fanout` leaves. `done` is called
/// with the number of assigned rows.
pub(crate) fn partition(
    codes: &Codes,
    rows: Vec<u32>,
    fanout: usize,
    seed: u64,
    workers: usize,
    done: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Vec<Vec<u32>>, Error> {
    let mut partition = LeafPartition { codes, workers, leaves: Vec::new(), done };
    partition.split(rows, fanout, seed)?;
    Ok(partition.leaves)
}

struct LeafPartition<'a, F> {
    codes: &'a Codes,
    workers: usize,
    leaves: Vec<Vec<u32>>,
    done: F,
}

impl<F: FnMut(usize) -> Result<(), Error>> LeafPartition<'_, F> {
    fn split(&mut self, rows: Vec<u32>, fanout: usize, seed: u64) -> Result<(), Error> {
        if rows.len() <= LEAF_ROWS_MAX {
            self.leaves.push(rows);
            return Ok(());
        }
        for part in self.assign(&rows, fanout, seed)? {
            if part.len() <= LEAF_ROWS_MAX {
                self.leaves.push(part);
            } else if part.len() * 10 > rows.len() * 9 {
                // No center separates these rows; most are duplicates.
                self.leaves.extend(part.chunks(LEAF_ROWS).map(<[u32]>::to_vec));
            } else {
                self.split(part, 1, seed + 1)?;
            }
        }
        Ok(())
    }

    /// Trains centers on `rows`, and returns the rows that are assigned to each center.
    fn assign(&mut self, rows: &[u32], fanout: usize, seed: u64) -> Result<Vec<Vec<u32>>, Error> {
        let count = (rows.len() * fanout).div_ceil(LEAF_ROWS);
        let stride = (rows.len() / (count * SAMPLE_PER_CENTER)).max(1);
        let sample = self.codes.gather(rows.iter().step_by(stride).copied());
        let centers = CenterTree::train(&sample, count, ROUNDS, seed, self.workers);
        let fanout = fanout.min(centers.len());
        let mut parts = vec![Vec::new(); centers.len()];
        // Rows are copied in pieces of bounded size: a copy of all rows would double the memory of
        // the build.
        for (i, piece) in rows.chunks(PIECE_ROWS).enumerate() {
            let gathered = self.codes.gather(piece.iter().copied());
            let nearest = centers.assign(&gathered, fanout, self.workers);
            for (row, nearest) in piece.iter().zip(nearest.chunks_exact(fanout)) {
                nearest.iter().for_each(|center| parts[*center as usize].push(*row));
            }
            (self.done)(i * PIECE_ROWS + piece.len())?;
        }
        Ok(parts)
    }
}

/// The candidates of every row: sorted [keys](super::key) without repeats, in one array.
pub(crate) struct Candidates {
    keep: usize,
    keys: Vec<u64>,
    counts: Vec<u8>,
}

impl Candidates {
    fn new(rows: usize, keep: usize) -> Self {
        assert!(keep <= usize::from(u8::MAX), "counts are bytes");
        Self { keep, keys: vec![0; rows * keep], counts: vec![0; rows] }
    }

    /// The candidates of one row.
    pub(crate) fn of(&self, row: usize) -> &[u64] {
        &self.keys[row * self.keep..][..usize::from(self.counts[row])]
    }

    /// Merges a sorted list without repeats into that of a row, and keeps the smallest.
    fn merge(&mut self, row: usize, from: &[u64]) {
        let (mut a, mut b) = (self.of(row).iter().peekable(), from.iter().peekable());
        let mut merged = Vec::with_capacity(self.keep);
        while merged.len() < self.keep {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) => **x.min(y),
                (Some(x), None) => **x,
                (None, Some(y)) => **y,
                (None, None) => break,
            };
            a.next_if(|key| **key == next);
            b.next_if(|key| **key == next);
            merged.push(next);
        }
        self.keys[row * self.keep..][..merged.len()].copy_from_slice(&merged);
        self.counts[row] = merged.len() as u8;
    }
}

/// For each row, the nearest rows with which it shares a leaf: at most `keep`.
pub(crate) fn candidates(
    codes: &Codes,
    leaves: &[Vec<u32>],
    keep: usize,
    workers: usize,
    mut done: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Candidates, Error> {
    let mut nearest = Candidates::new(codes.len(), keep);
    let batch = 8 * workers;
    for (i, some) in leaves.chunks(batch).enumerate() {
        let found = threads::map(workers, some.len(), |leaf| leaf_nearest(codes, &some[leaf], keep));
        for (leaf, found) in some.iter().zip(found) {
            for (row, keys) in leaf.iter().zip(found) {
                nearest.merge(*row as usize, &keys);
            }
        }
        done((i + 1) * batch)?;
    }
    Ok(nearest)
}

/// For each row of the leaf, its `keep` nearest other rows, sorted.
fn leaf_nearest(codes: &Codes, leaf: &[u32], keep: usize) -> Vec<Vec<u64>> {
    let gathered = codes.gather(leaf.iter().copied());
    let dim = codes.dim;
    let steps: Vec<f32> = (0..leaf.len()).map(|i| gathered.hi_step(i)).collect();
    let squares: Vec<f32> = (0..leaf.len()).map(|i| gathered.hi_square(i)).collect();
    let mut dots = vec![0i32; BLOCK_ROWS * leaf.len()];
    let mut keys = Vec::with_capacity(leaf.len());
    let mut nearest = Vec::with_capacity(leaf.len());
    for start in (0..leaf.len()).step_by(BLOCK_ROWS) {
        let end = leaf.len().min(start + BLOCK_ROWS);
        let dots = &mut dots[..(end - start) * leaf.len()];
        pagehop_kernels::dot_i8_block(&gathered.hi[start * dim..end * dim], &gathered.hi, dim, dots);
        for (i, dots) in (start..end).zip(dots.chunks_exact(leaf.len())) {
            let (norm, step) = (gathered.hi_square(i), steps[i]);
            keys.clear();
            keys.extend(
                dots.iter()
                    .zip(&squares)
                    .zip(&steps)
                    .zip(leaf)
                    .map(|(((dot, n), s), id)| key(norm + n - 2.0 * step * s * *dot as f32, *id)),
            );
            keys.swap_remove(i);
            if keys.len() > keep {
                keys.select_nth_unstable(keep - 1);
                keys.truncate(keep);
            }
            keys.sort_unstable();
            nearest.push(keys.clone());
        }
    }
    nearest
}
