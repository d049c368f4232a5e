//! The rows that a model is trained on: every row at first, then every second, every fourth and so
//! on, as memory has room.

use super::memory::survey_bytes;
use crate::Error;
use crate::quantize::centroids::SAMPLE_ROWS;
use crate::quantize::codes::Codes;
use crate::quantize::prepare::Space;

/// Fewest rows of a sample, if there are as many.
pub(super) const SAMPLE_ROWS_MIN: usize = 1024;
/// Rows of a block. A thread's buffers are more than this.
const BLOCK_ROWS: usize = 256;

/// Every `stride`-th row, as the user gave it. How many there are depends on the rows and on the
/// memory of the build, which has room for [`SAMPLE_ROWS`] if all rows fit in it.
pub(super) struct TrainingSample {
    /// Rows in blocks of equal size. One large array would grow beyond its rows, and the allocator
    /// would keep its memory.
    blocks: Vec<Vec<f32>>,
    count: usize,
    stride: usize,
}

impl Default for TrainingSample {
    fn default() -> Self {
        Self { blocks: Vec::new(), count: 0, stride: 1 }
    }
}

impl TrainingSample {
    /// Takes the row at `position`, which follows the row before, if it is one of the sample. If
    /// the sample has no room to grow then, or `memory` has none, every second row stays.
    pub(super) fn offer(&mut self, position: usize, row: &[f32], memory: u64) {
        if !position.is_multiple_of(self.stride) {
            return;
        }
        let dim = row.len();
        if self.count.is_multiple_of(BLOCK_ROWS) {
            self.blocks.push(Vec::with_capacity(BLOCK_ROWS * dim));
        }
        self.blocks.last_mut().expect("just added").extend_from_slice(row);
        self.count += 1;
        let known = position + 1 + BLOCK_ROWS * self.stride;
        let is_full = self.count.is_multiple_of(BLOCK_ROWS)
            && self.count >= 2 * SAMPLE_ROWS_MIN
            && survey_bytes(known, self.count + BLOCK_ROWS, dim) as u64 > memory;
        if is_full || self.count == 2 * SAMPLE_ROWS {
            self.thin(dim);
        }
    }

    /// Keeps every second row. The number of rows is even.
    fn thin(&mut self, dim: usize) {
        let at = |row: usize| (row / BLOCK_ROWS, row % BLOCK_ROWS * dim);
        for row in 1..self.count / 2 {
            let ((from, first), (to, place)) = (at(2 * row), at(row));
            let kept = self.blocks[from][first..first + dim].to_vec();
            self.blocks[to][place..place + dim].copy_from_slice(&kept);
        }
        self.count /= 2;
        self.stride *= 2;
        self.blocks.truncate(self.count.div_ceil(BLOCK_ROWS));
        let last = self.count - (self.blocks.len() - 1) * BLOCK_ROWS;
        self.blocks.last_mut().expect("there are rows").truncate(last * dim);
    }

    /// Encodes the rows, and drops them.
    pub(super) fn into_codes(self, space: &Space) -> Result<Codes, Error> {
        let mut x = vec![0.0; space.inner_dim()];
        let mut codes = Codes::with_capacity(space.inner_dim(), self.count);
        for block in self.blocks {
            for row in block.chunks_exact(space.dim) {
                space.row(row, &mut x)?;
                codes.push(&x);
            }
        }
        Ok(codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;
    use crate::quantize::prepare::inner_dim;
    use crate::quantize::rotation::Rotation;

    #[test]
    fn a_sample_is_spread_over_all_rows_and_within_memory() {
        let dim = 64;
        let mean = vec![0.0; inner_dim(dim)];
        let space = Space { metric: Metric::L2, dim, mean, rotation: Rotation::new(inner_dim(dim), 1) };
        let all = 40_000;
        for (rows, memory, expected) in [
            (700, 0, 700),
            (2_047, 0, 2_047),
            (2_048, 0, 1_024),
            (all, 0, all / 32),
            (16_383, u64::MAX, 16_383),
            (all, u64::MAX, all / 4),
            (all, survey_bytes(all, 5_000, dim) as u64, all / 16),
        ] {
            let mut sample = TrainingSample::default();
            for position in 0..rows {
                let row: Vec<f32> = (0..dim).map(|at| (position * (at + 1) % 1000) as f32).collect();
                sample.offer(position, &row, memory);
                let taken = survey_bytes(position + 1, sample.count, dim) as u64;
                assert!(taken <= memory || sample.count <= 2 * SAMPLE_ROWS_MIN, "{taken} bytes of {memory}");
            }
            assert_eq!(sample.count, expected, "{rows} rows in {memory} bytes");
            for (at, row) in sample.blocks.iter().flat_map(|block| block.chunks_exact(dim)).enumerate() {
                assert_eq!(row[0], (at * sample.stride % 1000) as f32);
            }
            assert_eq!(sample.into_codes(&space).unwrap().len(), expected);
        }
    }
}
