//! From candidates to a graph: prune the candidates of each row, then add the reverse of every edge
//! and prune again where a row has too many.

use super::prune::{Cover, prune};
use super::{Adjacency, keys_of};
use crate::quantize::codes::Codes;
use crate::{Error, threads};

/// Rows that are pruned as one unit of work.
const BLOCK_ROWS: usize = 128;

/// The parameters of pruning, shared by every step that chooses neighbors.
#[derive(Clone, Copy)]
pub(crate) struct Pruning<'a> {
    pub(crate) codes: &'a Codes,
    pub(crate) degree: usize,
    pub(crate) workers: usize,
}

impl Pruning<'_> {
    /// Prunes the candidates of every row. `candidates` returns [keys](super::key), sorted and
    /// without repeats. `scratch` makes the working memory of one unit of work. `done` is called
    /// with the number of finished rows.
    pub(crate) fn forward<S>(
        self,
        scratch: impl Fn() -> S + Sync,
        candidates: impl Fn(&mut S, usize) -> Vec<u64> + Sync,
        mut done: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<Adjacency, Error> {
        let rows = self.codes.len();
        let mut graph = Adjacency::with_capacity(rows, self.degree);
        let batch = BLOCK_ROWS * 8 * self.workers;
        for start in (0..rows).step_by(batch) {
            let end = rows.min(start + batch);
            let blocks = threads::map(self.workers, (end - start).div_ceil(BLOCK_ROWS), |block| {
                let first = start + block * BLOCK_ROWS;
                let range = first..end.min(first + BLOCK_ROWS);
                let mut scratch = scratch();
                let mut kept = Vec::new();
                let mut part = Adjacency::new(range.len(), self.degree);
                for (i, row) in range.enumerate() {
                    let cover = Cover { codes: self.codes, norm_sq: self.codes.hi_norm_sq[row] };
                    prune(&candidates(&mut scratch, row), self.degree, &cover, &mut kept);
                    part.set(i, &kept);
                }
                part
            });
            blocks.into_iter().for_each(|block| graph.append(block));
            done(end)?;
        }
        Ok(graph)
    }

    /// Adds the reverse of every edge, and prunes rows that then have too many.
    pub(crate) fn with_reverse(
        self,
        forward: &Adjacency,
        done: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<Adjacency, Error> {
        let (starts, sources) = reverse(forward);
        let both = |ids: &mut Vec<u32>, row: usize| {
            let incoming = &sources[starts[row] as usize..starts[row + 1] as usize];
            ids.clear();
            ids.extend(forward.neighbors(row).iter().chain(incoming));
            ids.sort_unstable();
            ids.dedup();
            keys_of(self.codes, row, ids)
        };
        self.forward(Vec::new, both, done)
    }
}

/// The in-neighbors of each row: the start of each row's part, and one list of all parts. There may
/// be more edges than 32 bits can count.
fn reverse(graph: &Adjacency) -> (Vec<u64>, Vec<u32>) {
    let mut starts = vec![0u64; graph.len() + 1];
    for row in 0..graph.len() {
        for neighbor in graph.neighbors(row) {
            starts[*neighbor as usize] += 1;
        }
    }
    // First the end of each row's part; filling it from the last row on leaves the start.
    let mut end = 0;
    for start in &mut starts {
        end += *start;
        *start = end;
    }
    let mut sources = vec![0u32; end as usize];
    for row in (0..graph.len()).rev() {
        for neighbor in graph.neighbors(row) {
            let at = &mut starts[*neighbor as usize];
            *at -= 1;
            sources[*at as usize] = row as u32;
        }
    }
    (starts, sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn every_edge_is_found_from_its_other_end() {
        let mut random = Random::new(4, 0);
        let mut graph = Adjacency::new(50, 6);
        for row in 0..50 {
            let mut to: Vec<u32> = (0..row as u64 % 7).map(|_| random.below(50) as u32).collect();
            to.sort_unstable();
            to.dedup();
            graph.set(row, &to);
        }
        let (starts, sources) = reverse(&graph);
        for row in 0..50u32 {
            let found = &sources[starts[row as usize] as usize..starts[row as usize + 1] as usize];
            let expected: Vec<u32> =
                (0..50).filter(|other| graph.neighbors(*other as usize).contains(&row)).collect();
            assert_eq!(found, expected);
        }
    }
}
