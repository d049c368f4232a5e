//! Queries whose answers are known: vectors of the index itself, or a user's. `search/exact.rs`
//! finds their nearest rows.
//!
//! A vector of the data would find itself. So its own node and its duplicates are left out, both of
//! the truth and of the searches that are compared with it.

use std::collections::HashSet;
use std::ops::Range;

use crate::ids::NodeId;
use crate::index::recall::duplicates::DuplicateSearch;
use crate::index::search::exact::Sample;
use crate::index::state::State;
use crate::page::node::{FLAGS_LIVE, NodeRef};
use crate::page::{PageId, Reader};
use crate::random::Random;
use crate::{Error, OnProgress, Progress};

/// Fewest samples of a measurement, if the index has that many.
pub(crate) const SAMPLES_MIN: usize = 12;
/// The random stream that chooses samples.
const PURPOSE: u64 = 11;
/// Slots tried per sample. Most slots are empty in an index from which many rows were deleted.
const LOOKS: usize = 64;
/// Live rows tried per sample. Those with too many duplicates give none.
const ROWS_PER_SAMPLE: usize = 2;
/// Samples between two calls of the progress callback.
const LOOK_SAMPLES: usize = 16;

/// Chooses up to `count` live rows of `pages` at random, for searches of the `k` nearest other
/// rows. The result depends only on the pages and `seed`. Each costs about three reads of pages.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` breaks; any error of the reader.
pub(crate) fn choose<R: Reader>(
    state: &State,
    pages: Range<u32>,
    reader: &mut R,
    (count, k): (usize, usize),
    seed: u64,
    progress: OnProgress<'_>,
) -> Result<Vec<Sample>, Error> {
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let slots = u64::from(pages.end.saturating_sub(pages.start)) * layout.nodes_per_page as u64;
    // `count` may come from a user, and there are no more slots to choose from.
    let count = count.min(slots as usize);
    let mut random = Random::new(meta.seed ^ seed, PURPOSE);
    // Rows with too many duplicates are used only if there are no others.
    let (mut samples, mut crowded, mut rows) = (Vec::new(), Vec::new(), 0);
    let (mut looked, mut point, mut duplicates) = (HashSet::new(), Vec::new(), DuplicateSearch::default());
    // Near rows are near each other in the file. So the file is divided into `count` stretches, and
    // each gives one sample, or more if others have none: this spreads samples over the data.
    // Stretches are taken in bit-reversed order, so that the first samples are spread like all of
    // them.
    let mut stretches: Vec<u64> = (0..count as u64).collect();
    stretches.sort_unstable_by_key(|stretch| stretch.reverse_bits());
    let looks = count.saturating_mul(LOOKS).min(4 * slots as usize);
    for stretch in stretches.iter().cycle().take(looks) {
        if samples.len() == count || rows == count.saturating_mul(ROWS_PER_SAMPLE) {
            break;
        }
        if looked.len().is_multiple_of(LOOK_SAMPLES) {
            let total = u64::from(pages.end - pages.start);
            if progress(Progress { phase: "scan", done: 0, total }).is_break() {
                return Err(Error::Interrupted);
            }
        }
        let [start, end] = [*stretch, stretch + 1].map(|at| at * slots / count as u64);
        let slot = start + random.below((end - start).max(1));
        if !looked.insert(slot) {
            continue;
        }
        let page = PageId(pages.start + (slot / layout.nodes_per_page as u64) as u32);
        let slot = (slot % layout.nodes_per_page as u64) as usize;
        let Some(node) = live_node(state, (page, slot), reader, &mut point)? else { continue };
        rows += 1;
        let found = duplicates.of(node, &point, state, reader)?;
        let is_crowded = found.is_none();
        let query = state.model.space.restore(&mut point).to_vec();
        let of_kind = if is_crowded { &mut crowded } else { &mut samples };
        of_kind.push(Sample::new(query, found.unwrap_or_else(|| vec![node]), k));
        crowded.truncate(count - samples.len());
    }
    if samples.len() < SAMPLES_MIN {
        samples.append(&mut crowded);
    }
    Ok(samples)
}

/// The node in a place, if it has a live row that the snapshot sees. Writes its vector to `point`.
fn live_node<R: Reader>(
    state: &State,
    (page, slot): (PageId, usize),
    reader: &mut R,
    point: &mut Vec<f32>,
) -> Result<Option<NodeId>, Error> {
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let body = reader.finish(page)?;
    let mut found = None;
    if meta.has_nodes(&body) {
        let node = NodeRef::new(layout, &body, slot);
        let header = node.header();
        if header.flags == FLAGS_LIVE && header.rows(meta.id_kind, state.snapshot).next().is_some() {
            node.decode(&header, point);
            found = Some(layout.node_id(page, slot));
        }
    }
    drop(body);
    reader.release();
    Ok(found)
}

/// The mean of `shares`, and half the width of its 95% confidence interval. The interval is that of
/// a normal distribution, or by the rule of three if no sample missed anything.
pub(crate) fn mean(shares: &[f32]) -> (f32, f32) {
    let n = shares.len().max(1) as f32;
    let mean = shares.iter().sum::<f32>() / n;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f32>() / (n - 1.0).max(1.0);
    let half = 1.96 * (variance / n).sqrt();
    (mean, if half > 0.0 { half } else { (3.0 / n).min(1.0) })
}
