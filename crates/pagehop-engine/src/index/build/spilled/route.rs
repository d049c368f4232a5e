//! Which partition a row belongs to, and which other partition knows it as a guest.
//!
//! A thousand cells are trained on the sample. While rows are encoded, the nearest cells of each
//! are noted. When all are known, neighboring cells are grouped into partitions that fit in memory,
//! counted exactly. A row whose next cell is in another partition is a guest there, so that the
//! rows on both sides of a border meet.

use crate::Error;
use crate::index::build::job::Job;
use crate::quantize::centroids::{self, Centroids};
use crate::quantize::codes::Codes;
use crate::threads;

/// Cells that are trained at most.
const CELLS_MAX: usize = 1024;
/// Rows of the sample per cell.
const SAMPLE_PER_CELL: usize = 12;
const ROUNDS: usize = 4;
/// Nearest cells that are stored for each row.
const NEAR: usize = 3;
/// A cell farther than this times the nearest one, in squared distances, makes no guest.
const BORDER_SQ: f32 = 4.0;
/// Rounds of power iteration for the direction in which a group of cells is cut.
const DIRECTION_ROUNDS: usize = 8;
/// Rows that a thread routes at once.
const BLOCK_ROWS: usize = 256;

/// The cells, and the nearest ones of each row.
pub(super) struct Routing {
    cells: Codes,
    /// Rows are routed by direction: under the inner product near rows are those in similar
    /// directions, whatever their lengths.
    by_angle: bool,
    /// The nearest cells of each row. If no other is near enough, the nearest one repeats.
    near: Vec<[u16; NEAR]>,
}

impl Routing {
    /// Trains cells on a sample.
    pub(super) fn train(job: &Job<'_>, sample: &Codes, rows: usize, by_angle: bool) -> Self {
        let sample = if by_angle { directions(sample) } else { sample.clone() };
        let count = (sample.len() / SAMPLE_PER_CELL).clamp(1, CELLS_MAX);
        let cells = centroids::train(&sample, count, ROUNDS, job.options.seed, job.threads);
        Self { cells, by_angle, near: Vec::with_capacity(rows) }
    }

    /// Notes the cells of rows that follow those before.
    pub(super) fn add(&mut self, codes: &Codes, workers: usize) {
        let turned = self.by_angle.then(|| directions(codes));
        let (codes, cells) = (turned.as_ref().unwrap_or(codes), &self.cells);
        let each = NEAR.min(cells.len());
        let blocks = threads::map(workers, codes.len().div_ceil(BLOCK_ROWS), |block| {
            let range = block * BLOCK_ROWS..codes.len().min((block + 1) * BLOCK_ROWS);
            let found = centroids::nearest(codes, range.clone(), cells, each);
            let near = range.zip(found.chunks_exact(each)).map(|(row, found)| {
                let norm_sq = codes.hi_norm_sq[row];
                let most = BORDER_SQ * (found[0].0 + norm_sq).max(0.0);
                let mut near = [found[0].1 as u16; NEAR];
                for (near, (distance, cell)) in near.iter_mut().zip(found) {
                    if distance + norm_sq <= most {
                        *near = *cell as u16;
                    }
                }
                near
            });
            near.collect::<Vec<_>>()
        });
        self.near.extend(blocks.into_iter().flatten());
    }

    /// Groups the cells into partitions of at most `capacity` rows that are the first of equal
    /// ones, guests included. If a single cell has more, the inner error is its number of rows.
    /// `look` is called before all rows are counted again, and may end the work.
    pub(super) fn partitions(
        mut self,
        firsts: &[u32],
        capacity: usize,
        mut look: impl FnMut() -> Result<(), Error>,
    ) -> Result<Result<Partitions, usize>, Error> {
        // Equal rows stay together, also zero vectors, whose codes may differ.
        for (row, first) in firsts.iter().enumerate() {
            self.near[row] = self.near[*first as usize];
        }
        let mut weights = vec![0u32; self.cells.len()];
        let is_first = |row: usize| firsts[row] as usize == row;
        for (_, near) in self.near.iter().enumerate().filter(|(row, _)| is_first(*row)) {
            weights[usize::from(near[0])] += 1;
        }
        let points = Centroids::from_codes(&self.cells).decode();
        let points: Vec<&[f32]> = points.chunks_exact(self.cells.dim).collect();
        let mut groups: Vec<Vec<u16>> = vec![(0..self.cells.len() as u16).collect()];
        loop {
            look()?;
            let partitions = Partitions::of(&groups, &self.near);
            let sizes = partitions.sizes(&is_first);
            if sizes.iter().all(|size| *size <= capacity) {
                return Ok(Ok(partitions));
            }
            let mut next = Vec::with_capacity(2 * groups.len());
            for (group, size) in groups.into_iter().zip(sizes) {
                match (size <= capacity, group.len()) {
                    (true, _) => next.push(group),
                    (false, 1) => return Ok(Err(size)),
                    (false, _) => next.extend(halves(group, &points, &weights)),
                }
            }
            groups = next;
        }
    }
}

/// The same vectors at length 1.
fn directions(codes: &Codes) -> Codes {
    let mut turned = codes.clone();
    for (own, norm_sq) in turned.own.iter_mut().zip(&mut turned.hi_norm_sq) {
        if *norm_sq >= f32::MIN_POSITIVE {
            own.step /= norm_sq.sqrt();
            *norm_sq = 1.0;
        }
    }
    turned
}

/// Two halves of a group of cells with about as many rows, on two sides of a plane across the
/// direction in which the cells spread most.
fn halves(mut group: Vec<u16>, points: &[&[f32]], weights: &[u32]) -> [Vec<u16>; 2] {
    let dim = points[0].len();
    let weight = |cell: u16| weights[usize::from(cell)] as f32 + 1.0;
    let total: f32 = group.iter().map(|cell| weight(*cell)).sum();
    let mut mean = vec![0.0f32; dim];
    for cell in &group {
        let share = weight(*cell) / total;
        mean.iter_mut().zip(points[usize::from(*cell)]).for_each(|(mean, x)| *mean += share * x);
    }
    let along = |direction: &[f32], cell: u16| -> f32 {
        let parts = points[usize::from(cell)].iter().zip(&mean).zip(direction);
        parts.map(|((x, mean), direction)| (x - mean) * direction).sum()
    };
    // The iteration may begin with any direction that is not orthogonal to the one it finds.
    let last = points[usize::from(group[group.len() - 1])];
    let mut direction: Vec<f32> = last.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
    for _ in 0..DIRECTION_ROUNDS {
        let mut next = vec![0.0f32; dim];
        for cell in &group {
            let share = weight(*cell) / total * along(&direction, *cell);
            let parts = points[usize::from(*cell)].iter().zip(&mean);
            next.iter_mut().zip(parts).for_each(|(next, (x, mean))| *next += share * (x - mean));
        }
        let length = next.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !(length.is_normal()) {
            break;
        }
        direction = next.iter().map(|x| x / length).collect();
    }
    group.sort_by(|a, b| along(&direction, *a).total_cmp(&along(&direction, *b)).then(a.cmp(b)));
    let (mut cut, mut before) = (0, 0.0);
    while cut < group.len() - 1 && before < total / 2.0 {
        before += weight(group[cut]);
        cut += 1;
    }
    let back = group.split_off(cut.max(1));
    [group, back]
}

/// The partitions of all rows.
pub(super) struct Partitions {
    pub(super) count: usize,
    /// The partition that each row belongs to.
    pub(super) home: Vec<u16>,
    /// The partition where each row is a guest; its home if there is none.
    pub(super) visited: Vec<u16>,
}

impl Partitions {
    fn of(groups: &[Vec<u16>], near: &[[u16; NEAR]]) -> Self {
        let cells = groups.iter().map(Vec::len).sum();
        let mut of_cell = vec![0u16; cells];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|cell| of_cell[usize::from(*cell)] = number as u16);
        }
        let home = near.iter().map(|near| of_cell[usize::from(near[0])]).collect();
        let visited = near.iter().map(|near| {
            let [home, others @ ..] = near.map(|cell| of_cell[usize::from(cell)]);
            others.into_iter().find(|other| *other != home).unwrap_or(home)
        });
        Self { count: groups.len(), home, visited: visited.collect() }
    }

    /// For each partition, the number of rows that are the first of equal ones, guests included.
    fn sizes(&self, is_first: &impl Fn(usize) -> bool) -> Vec<usize> {
        let mut sizes = vec![0; self.count];
        for (row, (home, visited)) in self.home.iter().zip(&self.visited).enumerate() {
            if is_first(row) {
                sizes[usize::from(*home)] += 1;
                sizes[usize::from(*visited)] += usize::from(visited != home);
            }
        }
        sizes
    }
}
