//! Measuring an index: which settings reach a recall, and what recall settings have.
//!
//! ```text
//! choose   some hundred vectors of the data as queries, each of which the search is kept from visiting
//! scan     the distances of their nearest rows, by a look at every row
//! search   them with rising slack and longer lists, until hardly anything is missed
//! store    for each recall the settings between the last rung below it and the first above
//! ```
//!
//! It costs a distance for each row and sample, and some thousand searches.

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
/// Most samples, for the nearest ten; a list of more neighbors says more of each.
const SAMPLES_MAX: usize = 400;
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
        let mut entries = Vec::new();
        let mut walk = Walk::default();
        for (done, k) in ks.iter().enumerate() {
            let step = Progress { phase: "search", done: done as u64, total: ks.len() as u64 };
            if progress(step).is_break() {
                return Err(Error::Interrupted);
            }
            // The nearest row is found by the same search as the nearest ten.
            let share = if *k <= EVIDENCE_ROWS { 1 } else { *k / 25 };
            let some = &samples[..(samples.len() / share).max(samples.len().min(12))];
            entries.push(climb(&state, &mut reader, &mut walk, some, *k)?);
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
        let (recall, interval, hops) = measure(&state, &mut reader, &mut Walk::default(), &samples, k, options)?;
        reader.pause();
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

/// Searches with ever more effort, and takes down what it takes to reach each recall.
fn climb<R: Reader>(
    state: &State,
    reader: &mut R,
    walk: &mut Walk,
    samples: &[Sample],
    k: usize,
) -> Result<CalibratedK, Error> {
    let list = SearchOptions::default().search_list.max(2 * k);
    let mut settings = [None; RECALLS.len()];
    let (mut best, mut before) = (0.0f32, None::<(f32, f32)>);
    for (slack, times) in RUNGS {
        let search_list = (times * list).min(SEARCH_LIST_MAX);
        let options = SearchOptions { search_list, slack, ..SearchOptions::default() };
        let (recall, interval, _) = measure(state, reader, walk, samples, k, &options)?;
        // Where the next rung is no better, the one before it was luck.
        let recall = recall.max(best);
        for (setting, wanted) in settings.iter_mut().zip(RECALLS) {
            let wanted = (wanted + MARGIN).min(ENOUGH);
            if setting.is_some() || recall < wanted {
                continue;
            }
            let slack = match before {
                Some((known, below)) if slack.is_finite() && recall > known => {
                    below + (slack - below) * (wanted - known) / (recall - known)
                }
                _ => slack,
            };
            *setting = Some(Setting { slack, search_list, interval });
        }
        (best, before) = (recall, slack.is_finite().then_some((recall, slack)));
        if best >= ENOUGH {
            break;
        }
    }
    Ok(CalibratedK { k, best, settings })
}

/// Recall, its interval, and mean hops.
fn measure<R: Reader>(
    state: &State,
    reader: &mut R,
    walk: &mut Walk,
    samples: &[Sample],
    k: usize,
    options: &SearchOptions,
) -> Result<(f32, f32, f32), Error> {
    let mut stats = Stats::default();
    let mut shares = Vec::with_capacity(samples.len());
    let mut searches = 0;
    for sample in samples {
        walk.probe.prepare(&state.meta, &state.model, &sample.query)?;
        // The ways that lead through a vector's own node are of use to no query that is not in the index; but where they run
        // there would be others, had it never been there. The truth lies between.
        let both = |node| [Some(Own::Avoided(node)), Some(Own::Visited(node))];
        let ways = sample.node.map_or([None; 2], both);
        let ways = &ways[..1 + usize::from(sample.node.is_some())];
        let mut found = 0;
        for own in ways {
            walk.begin(state, among_the_dead(k, options, state), k, state.meta.change.dead_rows == 0);
            walk.own = *own;
            walk.run(state, reader, options, &mut Forgotten, &mut stats)?;
            found += sample.found(walk.nearest.found.iter().map(|(distance, _)| *distance), k);
        }
        shares.push(found as f32 / (ways.len() * sample.wanted(k)) as f32);
        searches += ways.len();
    }
    walk.own = None;
    let (recall, interval) = samples::mean(&shares);
    Ok((recall, interval, stats.hops as f32 / searches as f32))
}
