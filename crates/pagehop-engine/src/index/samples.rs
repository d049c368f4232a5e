//! Queries whose answers are known: vectors of the index itself, or a user's, and the distances of their nearest rows by
//! a look at every row.
//!
//! A vector of the data finds itself, so its own node is left out, of the truth as of the searches that are judged by it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::state::State;
use super::visit::Probe;
use super::{OnProgress, Progress, encode};
use crate::Error;
use crate::page::layout::{FLAGS_LIVE, NodeId, NodeRef, PageKind};
use crate::page::{PageId, Reader};
use crate::random::Random;

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
    /// Squared distances of the nearest rows in the inner space, ascending.
    pub(crate) nearest: Vec<f32>,
}

impl Sample {
    /// How many of `found`, ascending squared distances, belong to the nearest `k`. Rows equally far as the k-th are as good.
    pub(crate) fn found(&self, found: impl Iterator<Item = f32>, k: usize) -> usize {
        let Some(farthest) = self.nearest.get(k - 1).or(self.nearest.last()) else { return 0 };
        found.take(k).filter(|distance| distance <= farthest).count()
    }

    /// How many there are to be found among the nearest `k`.
    pub(crate) fn wanted(&self, k: usize) -> usize {
        self.nearest.len().min(k)
    }
}

/// Chooses up to `count` living rows at random: the same of the same pages, `seed` being the caller's.
pub(crate) fn choose<R: Reader>(
    state: &State,
    reader: &mut R,
    count: usize,
    seed: u64,
) -> Result<Vec<Sample>, Error> {
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let pages = node_pages(state);
    let slots = u64::from(pages.end.saturating_sub(pages.start)) * layout.nodes_per_page as u64;
    let mut random = Random::new(meta.seed ^ seed, PURPOSE);
    let (mut samples, mut looked, mut point) = (Vec::new(), HashSet::new(), Vec::new());
    for _ in 0..count.saturating_mul(LOOKS).min(4 * slots as usize) {
        if samples.len() == count {
            break;
        }
        let slot = random.below(slots);
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
                samples.push(Sample { query, node: Some(layout.node_id(page, slot)), nearest: Vec::new() });
            }
        }
        drop(body);
        reader.release();
    }
    Ok(samples)
}

/// Finds the nearest `k` rows of every sample by looking at every row: `rows * samples.len()` distances, over pages in order.
/// Beside a writer rows may be missed that are moved meanwhile.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` says so; those of a query that cannot be placed; whatever the reader reports.
pub(crate) fn scan<R: Reader>(
    state: &State,
    reader: &mut R,
    samples: &mut [Sample],
    k: usize,
    progress: OnProgress<'_>,
) -> Result<(), Error> {
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let mut probes = Vec::with_capacity(samples.len());
    for sample in samples.iter_mut() {
        let mut probe = Probe::default();
        probe.prepare(meta, &state.model, &sample.query)?;
        probes.push(probe);
        sample.nearest.clear();
    }
    let pages = node_pages(state);
    for page in pages.clone() {
        let (done, total) = (u64::from(page - pages.start), u64::from(pages.end - pages.start));
        if page % 64 == 0 && progress(Progress { phase: "scan", done, total }) == ControlFlow::Break(()) {
            return Err(Error::Interrupted);
        }
        let body = reader.finish(PageId(page))?;
        for slot in 0..layout.nodes_per_page * usize::from(body[0] == PageKind::Node as u8) {
            let node = NodeRef::new(layout, &body, slot);
            let header = node.header();
            let rows = header.rows(meta.row_ids, state.snapshot).count();
            if rows == 0 {
                continue;
            }
            let id = layout.node_id(PageId(page), slot);
            for (sample, probe) in samples.iter_mut().zip(&probes).filter(|(sample, _)| sample.node != Some(id)) {
                let distance = probe.distance(&node, &header);
                (0..rows).for_each(|_| keep(&mut sample.nearest, k, distance));
            }
        }
        drop(body);
        reader.release();
    }
    Ok(())
}

/// Pages that may hold nodes of the index as it is.
fn node_pages(state: &State) -> std::ops::Range<u32> {
    let change = &state.meta.change;
    let end = if change.unfinished > 0 { change.unfinished } else { state.meta.page_count };
    change.retired_end.max(1)..end
}

#[inline]
fn keep(nearest: &mut Vec<f32>, k: usize, distance: f32) {
    if nearest.len() == k && nearest[k - 1] <= distance {
        return;
    }
    nearest.truncate(k - 1);
    let at = nearest.partition_point(|other| *other <= distance);
    nearest.insert(at, distance);
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
