//! Measuring an index: which settings reach a recall, and what recall settings have.
//!
//! ```text
//! choose   some hundred vectors of the data as queries
//! scan     the distances of their nearest rows, by a look at every row
//! search   them with rising slack and longer lists, until hardly anything is missed
//! store    for each recall the settings between the last rung below it and the first above
//! ```
//!
//! It costs a distance for each row and sample, and some thousands of searches.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::calibration::{CalibratedK, Calibration, KS, RECALLS, Setting};
use super::samples::{self, Sample};
use super::search::{EVIDENCE_ROWS, Forgotten, Own, Walk, among_the_dead};
use super::state::State;
use super::{Change, Index, OnProgress, Progress, SEARCH_LIST_MAX, SearchOptions, Stats};
use crate::Error;
use crate::page::{Pages, PagesMut, Reader};

/// Fewest rows on which settings can be told apart.
pub const CALIBRATED_ROWS_MIN: u64 = 1000;
/// Most samples.
const SAMPLES_MAX: usize = 400;
/// Fewest, for many neighbors, each of which says something: as many fewer as there are more than so many of them.
const SAMPLES_MIN: usize = 12;
const NEIGHBORS_FEW: usize = 25;
/// An index of fewer rows than so many for each of `k` is not calibrated for it.
const ROWS_PER_NEIGHBOR: u64 = 100;
/// Rungs of the ladder: a slack, and how many times as long as at its foot the list is.
const RUNGS: [(f32, usize); 18] = [
    (0.0, 1),
    (0.01, 1),
    (0.02, 1),
    (0.035, 1),
    (0.05, 1),
    (0.07, 1),
    (0.1, 1),
    (0.14, 1),
    (0.2, 1),
    (0.28, 2),
    (0.4, 2),
    (0.56, 4),
    (0.8, 4),
    (1.2, 8),
    (2.0, 8),
    (f32::INFINITY, 8),
    (f32::INFINITY, 16),
    (f32::INFINITY, 32),
];
/// A ladder ends where so little is missed.
const ENOUGH: f32 = 0.9995;
/// What is added to each recall: half of the settings would turn out a little below it else.
const MARGIN: f32 = 0.001;

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
}

impl<P: Pages> Index<P> {
    /// Measures which settings reach which recall. Nothing is changed: [`Change::set_calibration`]
    /// stores it. `None` for an index of fewer than [`CALIBRATED_ROWS_MIN`] rows.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` says so; whatever the host reports.
    pub fn calibrate(&self, progress: OnProgress<'_>) -> Result<Option<Calibration>, Error> {
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader)?;
        let (rows, change) = (state.meta.rows, &state.meta.change);
        let count = SAMPLES_MAX.min((rows / 20) as usize);
        let mut samples = samples::choose(&state, &mut reader, count, change.commit)?;
        let ks: Vec<usize> = KS.into_iter().filter(|k| *k as u64 * ROWS_PER_NEIGHBOR <= rows).collect();
        let Some(most) = ks.last().filter(|_| rows >= CALIBRATED_ROWS_MIN && !samples.is_empty()) else {
            return Ok(None);
        };
        samples::scan(&state, &mut reader, &mut samples, *most, progress)?;
        // The nearest row is found by the same search as the nearest ten.
        let groups: Vec<&[usize]> = ks.chunk_by(|_, k| *k <= EVIDENCE_ROWS).collect();
        let (mut entries, mut walk) = (Vec::new(), Walk::default());
        for (at, ks) in groups.iter().enumerate() {
            let fewer = samples.len() * NEIGHBORS_FEW / ks[ks.len() - 1];
            let some = &samples[..fewer.clamp(samples.len().min(SAMPLES_MIN), samples.len())];
            entries.extend(climb(&state, &mut reader, &mut walk, some, ks, &mut |rung| {
                let (done, total) = (at * RUNGS.len() + rung, groups.len() * RUNGS.len());
                progress(Progress { phase: "search", done: done as u64, total: total as u64 })
            })?);
            reader.pause();
        }
        let changes = change.added_rows + change.deleted_rows;
        Ok(Some(Calibration { rows, changes, samples: samples.len() as u32, entries }))
    }

    /// Options with which searches for the `k` nearest have a mean recall of `recall`: those it was calibrated to. An index too
    /// small to be calibrated is searched to its end. `None` for another that was never calibrated.
    ///
    /// # Errors
    ///
    /// Those of [`Calibration::options`]; whatever the host reports.
    pub fn tuned(&self, k: usize, recall: f32) -> Result<Option<SearchOptions>, Error> {
        let state = self.newest.renew(&mut self.pages.reader())?;
        if let Some(calibration) = &state.meta.calibration {
            return calibration.options(k, recall).map(Some);
        }
        let everything = SearchOptions {
            search_list: CALIBRATED_ROWS_MIN as usize,
            slack: f32::INFINITY,
            ..SearchOptions::default()
        };
        Ok((state.meta.rows < CALIBRATED_ROWS_MIN).then_some(everything))
    }

    /// Measures the recall at `k` of searches with `options`, for `samples` vectors of the data or, if there are any, for
    /// `queries`, the user's, one after the other. Nobody is kept waiting; rows that move meanwhile may count as missed.
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
        progress: OnProgress<'_>,
    ) -> Result<RecallReport, Error> {
        options.validate(k)?;
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader)?;
        let mut samples = match queries {
            [] => samples::choose(&state, &mut reader, samples, state.meta.change.commit)?,
            _ if !queries.len().is_multiple_of(state.meta.dim) => {
                return Err(Error::Dimension { expected: state.meta.dim, got: queries.len() % state.meta.dim });
            }
            _ => {
                let query = |query: &[f32]| Sample { query: query.to_vec(), node: None, nearest: Vec::new() };
                queries.chunks_exact(state.meta.dim).map(query).collect()
            }
        };
        samples::scan(&state, &mut reader, &mut samples, k, progress)?;
        samples.retain(|sample| !sample.nearest.is_empty());
        if samples.is_empty() {
            return Err(Error::argument("there are no rows, or no queries, to measure recall with"));
        }
        let (found, hops) = measure(&state, &mut reader, &mut Walk::default(), &samples, &[k], options)?;
        reader.pause();
        let (recall, interval) = found[0];
        Ok(RecallReport { recall, interval, samples: samples.len(), hops })
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Stores what [`Index::calibrate`] measured, in place of what was measured before.
    ///
    /// # Errors
    ///
    /// Whatever the host reports. The change must then be dropped.
    pub fn set_calibration(&mut self, calibration: Calibration) -> Result<(), Error> {
        let calibration = Arc::new(calibration);
        self.step_meta(&[], &mut |meta, _| {
            meta.calibration = Some(calibration.clone());
            Ok(())
        })
    }
}

/// Searches with ever more effort, and takes down for each of `ks`, all found by one search, what it takes to reach each recall.
fn climb<R: Reader>(
    state: &State,
    reader: &mut R,
    walk: &mut Walk,
    samples: &[Sample],
    ks: &[usize],
    on_rung: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<CalibratedK>, Error> {
    let list = SearchOptions::default().search_list.max(2 * ks[ks.len() - 1]);
    let fresh = |k: &usize| CalibratedK { k: *k, best: 0.0, settings: [None; RECALLS.len()] };
    let mut entries: Vec<CalibratedK> = ks.iter().map(fresh).collect();
    let mut below = None;
    for (rung, (slack, times)) in RUNGS.into_iter().enumerate() {
        if on_rung(rung).is_break() {
            return Err(Error::Interrupted);
        }
        let options =
            SearchOptions { search_list: (times * list).min(SEARCH_LIST_MAX), slack, ..SearchOptions::default() };
        let (found, _) = measure(state, reader, walk, samples, ks, &options)?;
        entries.iter_mut().zip(found).for_each(|(entry, found)| take_down(entry, found, &options, below));
        below = slack.is_finite().then_some(slack);
        if entries.iter().all(|entry| entry.best >= ENOUGH) {
            break;
        }
    }
    Ok(entries)
}

/// Takes down the settings for recalls that this rung is the first to reach: between it and the slack of the rung `below`.
fn take_down(entry: &mut CalibratedK, found: (f32, f32), options: &SearchOptions, below: Option<f32>) {
    let SearchOptions { slack, search_list, .. } = *options;
    let (known, interval) = (entry.best, found.1);
    // Where a rung is no better than the one before it, that was luck.
    entry.best = found.0.max(known);
    for (setting, wanted) in entry.settings.iter_mut().zip(RECALLS) {
        let wanted = (wanted + MARGIN).min(ENOUGH);
        if setting.is_some() || entry.best < wanted {
            continue;
        }
        let share = (wanted - known) / (entry.best - known);
        let slack = below.filter(|_| slack.is_finite()).map_or(slack, |below| below + (slack - below) * share);
        *setting = Some(Setting { slack, search_list, interval });
    }
}

/// Recall and its interval for each of `ks`, the last the most, and mean hops.
fn measure<R: Reader>(
    state: &State,
    reader: &mut R,
    walk: &mut Walk,
    samples: &[Sample],
    ks: &[usize],
    options: &SearchOptions,
) -> Result<(Vec<(f32, f32)>, f32), Error> {
    let k = ks[ks.len() - 1];
    let capacity = among_the_dead(k, options, state);
    let (mut stats, mut searches) = (Stats::default(), 0);
    let mut shares = vec![Vec::with_capacity(samples.len()); ks.len()];
    for sample in samples {
        walk.probe.prepare(&state.meta, &state.model, &sample.query)?;
        let ways = ways_of(sample);
        let mut found = vec![0; ks.len()];
        for own in &ways {
            walk.begin(state, capacity, k, state.meta.change.dead_rows == 0);
            walk.own = *own;
            walk.run(state, reader, options, &mut Forgotten, &mut stats)?;
            let distances = || walk.nearest.found.iter().map(|(distance, _)| *distance);
            found.iter_mut().zip(ks).for_each(|(found, k)| *found += sample.found(distances(), *k));
        }
        for ((shares, found), k) in shares.iter_mut().zip(found).zip(ks) {
            shares.push(found as f32 / (ways.len() * sample.wanted(*k)) as f32);
        }
        searches += ways.len();
    }
    walk.own = None;
    Ok((shares.iter().map(|shares| samples::mean(shares)).collect(), stats.hops as f32 / searches as f32))
}

/// How a sample is searched for. The ways that lead through a vector's own node are of use to no query that is not in the index; but
/// where they run there would be others, had it never been there. The truth lies between.
fn ways_of(sample: &Sample) -> Vec<Option<Own>> {
    match sample.node {
        Some(node) => vec![Some(Own::Avoided(node)), Some(Own::Visited(node))],
        None => vec![None],
    }
}
