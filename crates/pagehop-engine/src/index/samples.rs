//! Queries whose answers are known: vectors of the index itself, or a user's. `scan.rs` finds their nearest rows.
//!
//! A vector of the data finds itself, so its own node is left out, of the truth as of the searches that are judged by it.

use std::collections::HashSet;

use super::encode;
use super::state::State;
use crate::Error;
use crate::page::layout::{FLAGS_LIVE, NodeId, NodeRef, PageKind};
use crate::page::{PageId, Reader};
use crate::random::Random;

/// Fewest by which anything is measured, of those that there are.
pub(super) const SAMPLES_MIN: usize = 12;
/// Stream of random numbers that chooses samples.
const PURPOSE: u64 = 11;
/// Slots looked at for each sample that is wanted, most of them empty in an index from which much was deleted.
const LOOKS: usize = 64;

/// A query and what there is to find.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The user's vector.
    pub(crate) query: Vec<f32>,
    /// The node that the query was taken from.
    pub(crate) node: Option<NodeId>,
    /// How many of the nearest rows there are to find.
    pub(crate) k: usize,
    /// The nearest rows in order: squared distances in the inner space, and ids.
    pub(crate) nearest: Vec<(f32, u64)>,
}

impl Sample {
    /// How many of `found`, ascending squared distances, belong to the nearest `k`. Rows equally far as the k-th are as good.
    pub(crate) fn found(&self, found: impl Iterator<Item = f32>, k: usize) -> usize {
        let farthest = self.threshold(k);
        found.take(k).filter(|distance| *distance <= farthest).count()
    }

    /// Rows no farther than this are among the nearest `k`.
    pub(crate) fn threshold(&self, k: usize) -> f32 {
        self.nearest.get(k - 1).or(self.nearest.last()).map_or(f32::NEG_INFINITY, |(distance, _)| *distance)
    }

    /// How many there are to be found among the nearest `k`.
    pub(crate) fn wanted(&self, k: usize) -> usize {
        self.nearest.len().min(k)
    }

    /// Farther rows than this are none of the nearest.
    #[inline]
    pub(crate) fn farthest(&self) -> f32 {
        self.nearest.get(self.k - 1).map_or(f32::INFINITY, |(distance, _)| *distance)
    }

    /// Takes a row if it is among the nearest so far.
    #[inline]
    pub(crate) fn keep(&mut self, row: (f32, u64)) {
        let nearer = |other: &(f32, u64)| other.0 < row.0 || other.0 == row.0 && other.1 < row.1;
        let at = self.nearest.partition_point(nearer);
        if at < self.k {
            self.nearest.truncate(self.k - 1);
            self.nearest.insert(at, row);
        }
    }
}

/// Chooses up to `count` living rows at random, of which the nearest `k` others are to be found: the same of the same pages,
/// `seed` being the caller's.
pub(crate) fn choose<R: Reader>(
    state: &State,
    reader: &mut R,
    count: usize,
    k: usize,
    seed: u64,
) -> Result<Vec<Sample>, Error> {
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let pages = state.node_pages();
    let slots = u64::from(pages.end.saturating_sub(pages.start)) * layout.nodes_per_page as u64;
    let mut random = Random::new(meta.seed ^ seed, PURPOSE);
    let (mut samples, mut looked, mut point) = (Vec::new(), HashSet::new(), Vec::new());
    // Rows that are near each other lie near each other: one look in each stretch of the file, and again where no row was, spreads samples
    // over the data. Stretches come in such an order that those of the first samples are spread as all are.
    let mut stretches: Vec<u64> = (0..count as u64).collect();
    stretches.sort_unstable_by_key(|stretch| stretch.reverse_bits());
    let looks = count.saturating_mul(LOOKS).min(4 * slots as usize);
    for stretch in stretches.iter().cycle().take(looks) {
        if samples.len() == count {
            break;
        }
        let [start, end] = [*stretch, stretch + 1].map(|at| at * slots / count as u64);
        let slot = start + random.below((end - start).max(1));
        if !looked.insert(slot) {
            continue;
        }
        let page = PageId(pages.start + (slot / layout.nodes_per_page as u64) as u32);
        let slot = (slot % layout.nodes_per_page as u64) as usize;
        let body = reader.finish(page)?;
        if body[0] == PageKind::Node as u8 {
            let node = NodeRef::new(layout, &body, slot);
            let header = node.header();
            if header.flags == FLAGS_LIVE && header.rows(meta.row_ids, state.snapshot).next().is_some() {
                encode::decode(&node, &header, &mut point);
                let query = state.model.space.restore(&mut point).to_vec();
                samples.push(Sample { query, node: Some(layout.node_id(page, slot)), k, nearest: Vec::new() });
            }
        }
        drop(body);
        reader.release();
    }
    Ok(samples)
}

/// A user's queries, one after the other, of which the nearest `k` rows are to be found.
///
/// # Errors
///
/// [`Error::Dimension`] if they are no vectors of `dim` components.
pub(crate) fn given(dim: usize, queries: &[f32], k: usize) -> Result<Vec<Sample>, Error> {
    if !queries.len().is_multiple_of(dim) {
        return Err(Error::Dimension { expected: dim, got: queries.len() % dim });
    }
    let query = |query: &[f32]| Sample { query: query.to_vec(), node: None, k, nearest: Vec::new() };
    Ok(queries.chunks_exact(dim).map(query).collect())
}

/// The mean of shares, and half the width of the interval in which the true mean lies with 95% probability: that of a normal
/// distribution, but no less than the rule of three allows where no sample missed anything.
pub(crate) fn mean(shares: &[f32]) -> (f32, f32) {
    let n = shares.len().max(1) as f32;
    let mean = shares.iter().sum::<f32>() / n;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f32>() / (n - 1.0).max(1.0);
    let half = 1.96 * (variance / n).sqrt();
    (mean, if half > 0.0 { half } else { (3.0 / n).min(1.0) })
}
