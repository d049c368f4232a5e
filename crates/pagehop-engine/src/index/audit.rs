//! Measuring what searches find: against a look at every row, for vectors of the data or for a user's queries.

use super::calibration::Audit;
use super::samples::{self, Sample};
use super::scan::{Bounds, scan};
use super::search::{EVIDENCE_ROWS, Forgotten, Walk, among_the_dead};
use super::state::State;
use super::visit::Probe;
use super::{Change, Hit, Index, Info, OnProgress, Progress, SearchOptions, SearchResult, Stats};
use crate::page::{Pages, PagesMut, Reader};
use crate::{Error, Metric, threads};

/// Queries that are answered exactly in one go: each takes some ten bytes a dimension meanwhile.
const EXACT_QUERIES: usize = 4096;
/// A recall that is so little below what was asked for is not missed: calibrations are no more exact than that.
const TOLERANCE: f32 = 0.005;
/// Searches between two looks at progress.
const LOOK_SEARCHES: usize = 16;

/// What an audit found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallReport {
    /// Mean share of the `k` nearest that searches found.
    pub recall: f32,
    /// Half the width of the interval in which the recall lies with 95% probability.
    pub interval: f32,
    /// Queries that were answered exactly.
    pub samples: usize,
    /// Mean hops of a search.
    pub hops: f32,
    /// Share of the queries that are farther from their nearest rows than 99 of 100 of those that the index was calibrated by: if
    /// it is much more than a hundredth, they come from elsewhere. `None` for an index that was not calibrated, and under
    /// the inner product, where distances do not say it.
    pub far: Option<f32>,
}

impl<P: Pages> Index<P> {
    /// Measures the recall at `k` of searches with `options`, for `samples` vectors of the data or, if there are any, for
    /// `queries`, the user's, one after the other. Nobody is kept waiting; rows that move meanwhile may count as missed.
    ///
    /// It reads every page once for each of `threads` (0: one for each core).
    ///
    /// # Errors
    ///
    /// Those of [`Index::search`] and [`Index::calibrate`]; [`Error::Argument`] if there is nothing to ask or to find.
    pub fn recall(
        &self,
        k: usize,
        samples: usize,
        queries: &[f32],
        options: &SearchOptions,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<RecallReport, Error> {
        options.validate(k)?;
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader)?;
        let most = k.max(EVIDENCE_ROWS);
        let mut samples = match queries {
            [] => samples::choose(&state, &mut reader, samples, most, state.meta.change.commit)?,
            _ => samples::given(state.meta.dim, queries, most)?,
        };
        reader.pause();
        scan(&state, &self.pages, &mut samples, Bounds::Likely, threads, progress)?;
        samples.retain(|sample| !sample.nearest.is_empty());
        if samples.is_empty() {
            return Err(Error::argument("there are no rows, or no queries, to measure recall with"));
        }
        let length = samples.len().div_ceil(threads::available(threads)).max(1);
        let total = length as u64;
        let mut go_on = |done| progress(Progress { phase: "search", done, total });
        let parts = threads::each(samples.chunks(length), &mut go_on, |part, look| {
            let (mut reader, mut walk) = (self.pages.reader(), Walk::default());
            let mut shares = Vec::with_capacity(part.len());
            for (at, sample) in part.iter().enumerate() {
                if at % LOOK_SEARCHES == 0 {
                    look(at as u64)?;
                }
                shares.push(found(&state, &mut reader, &mut walk, sample, k, options)?);
            }
            reader.pause();
            Ok(shares)
        })?;
        let (shares, hops): (Vec<f32>, Vec<f32>) = parts.into_iter().flatten().unzip();
        let (recall, interval) = samples::mean(&shares);
        let hops = hops.iter().sum::<f32>() / hops.len() as f32;
        Ok(RecallReport { recall, interval, samples: samples.len(), hops, far: far_share(&state, &samples) })
    }

    /// The `k` nearest rows of each of `queries`, the user's, one after the other, by a look at every row: the answer that a search
    /// may miss. Distances are those that a search gives, to the codes of the rows.
    ///
    /// It reads every page once for each of `threads` (0: one for each core) and for every 4,096 queries.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search`]; [`Error::Interrupted`] if `progress` says so.
    pub fn search_exactly(
        &self,
        queries: &[f32],
        k: usize,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<Vec<SearchResult>, Error> {
        SearchOptions::default().validate(k)?;
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader)?;
        let mut results = Vec::new();
        for some in queries.chunks(EXACT_QUERIES * state.meta.dim) {
            results.extend(self.search_some_exactly(&state, some, k, threads, progress)?);
        }
        reader.pause();
        Ok(results)
    }

    fn search_some_exactly(
        &self,
        state: &State,
        queries: &[f32],
        k: usize,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<Vec<SearchResult>, Error> {
        let mut samples = samples::given(state.meta.dim, queries, k)?;
        let (nodes, missed) = scan(state, &self.pages, &mut samples, Bounds::Certain, threads, progress)?;
        let pages_read = state.node_pages().len() as u64;
        let pages_missed = missed / (samples.len() as u64).max(1);
        let stats = Stats { pages_read, pages_missed, distances: nodes, ..Stats::default() };
        let mut probe = Probe::default();
        let answer = |sample: Sample| {
            let to_distance = probe.prepare(&state.meta, &state.model, &sample.query)?;
            let hit = |(distance, row_id)| Hit { row_id, distance: to_distance.apply(distance) };
            Ok(SearchResult { hits: sample.nearest.into_iter().map(hit).collect(), stats })
        };
        samples.into_iter().map(answer).collect()
    }
}

impl RecallReport {
    /// Whether a recall of `target` is missed by more than chance explains and calibrations promise.
    pub fn misses(&self, target: f32) -> bool {
        self.recall + self.interval < target - TOLERANCE
    }
}

impl Audit {
    /// What `report` found of an index that says `info` of itself.
    pub fn of(info: &Info, k: usize, target: Option<f32>, report: &RecallReport) -> Self {
        let RecallReport { recall, interval, samples, .. } = *report;
        let changes = info.added_rows.wrapping_add(info.deleted_rows);
        Self { k, recall, interval, target, samples: samples as u32, rows: info.rows, changes }
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Stores what [`Index::recall`] measured, for [`Info`](super::Info) to show.
    ///
    /// # Errors
    ///
    /// Whatever the host reports. The change must then be dropped.
    pub fn set_audit(&mut self, audit: Audit) -> Result<(), Error> {
        self.step_meta(&[], &mut |meta, _| {
            meta.audit = Some(audit);
            Ok(())
        })
    }
}

/// Share of a sample's `k` nearest that are found, and hops of a search.
fn found<R: Reader>(
    state: &State,
    reader: &mut R,
    walk: &mut Walk,
    sample: &Sample,
    k: usize,
    options: &SearchOptions,
) -> Result<(f32, f32), Error> {
    walk.probe.prepare(&state.meta, &state.model, &sample.query)?;
    let mut stats = Stats::default();
    walk.begin(state, among_the_dead(k, options, state), k, state.meta.change.dead_rows == 0);
    walk.leave_out(sample.node, state, reader)?;
    walk.run(state, reader, options, &mut Forgotten, &mut stats)?;
    let found = sample.found(walk.nearest.found.iter().map(|near| near.distance), k);
    Ok((found as f32 / sample.wanted(k) as f32, stats.hops as f32))
}

/// Share of the samples that are far from their nearest rows.
fn far_share(state: &State, samples: &[Sample]) -> Option<f32> {
    let far = state.meta.calibration.as_ref()?.far;
    if state.meta.metric == Metric::InnerProduct || !far.is_finite() {
        return None;
    }
    let is_far =
        |sample: &&Sample| sample.nearest.get(EVIDENCE_ROWS - 1).is_some_and(|(distance, _)| *distance > far);
    Some(samples.iter().filter(is_far).count() as f32 / samples.len() as f32)
}
