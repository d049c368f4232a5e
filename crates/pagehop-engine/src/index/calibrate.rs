//! Measuring an index: which settings reach a recall.
//!
//! ```text
//! choose   some hundred vectors of the data as queries
//! scan     their nearest rows, by a look at every row
//! search   them with rising slack and longer lists, until hardly anything is missed
//! store    for each recall the settings between the last rung below it and the first above
//! ```
//!
//! A search with more slack goes on where one with less ends, so one search tells of every slack up to its own; and a query that has
//! found all there is to find is not asked again.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::calibration::{CalibratedK, Calibration, KS, RECALLS, Setting, check_recall};
use super::samples::{self, Sample};
use super::scan::{Bounds, scan};
use super::search::{EVIDENCE_ROWS, Forgotten, Walk, among_the_dead};
use super::state::State;
use super::{Change, Index, OnProgress, Progress, SEARCH_LIST_MAX, SearchOptions, Stats};
use crate::page::{Pages, PagesMut, Reader};
use crate::{Error, threads};

/// Fewest rows on which settings can be told apart.
pub const CALIBRATED_ROWS_MIN: u64 = 1000;
/// Fewest queries of a user's by which settings can be told apart.
pub const CALIBRATION_QUERIES_MIN: usize = 50;
/// Most samples.
const SAMPLES_MAX: usize = 600;
/// One row of so many is a sample, of few rows.
const ROWS_PER_SAMPLE: u64 = 4;
/// Fewest, for many neighbors, each of which says something: as many fewer as there are more than so many of them.
const SAMPLES_MIN: usize = 24;
const NEIGHBORS_FEW: usize = 25;
/// An index of fewer rows than so many for each of `k` is not calibrated for it.
const ROWS_PER_NEIGHBOR: u64 = 10;
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
/// Searches between two looks at progress.
const LOOK_SEARCHES: usize = 16;
/// Share of the samples that are nearer to their neighbors than a query that is called far.
const NEAR_SHARE: f32 = 0.99;

impl<P: Pages> Index<P> {
    /// Measures which settings reach which recall: for vectors of the data or, if there are any, for `queries`, the user's, one
    /// after the other. Nothing is changed: [`Change::set_calibration`] stores it. `None` for an index of fewer than
    /// [`CALIBRATED_ROWS_MIN`] rows.
    ///
    /// It reads every page once for each of `threads` (0: one for each core) and takes about as long as a tenth of a build by one thread.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for fewer than [`CALIBRATION_QUERIES_MIN`] queries, but for none; those of [`Index::search`] for one that
    /// cannot be placed. [`Error::Interrupted`] if `progress` says so; whatever the host reports.
    pub fn calibrate(
        &self,
        queries: &[f32],
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<Option<Calibration>, Error> {
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader)?;
        let (rows, change) = (state.meta.rows, &state.meta.change);
        let mut samples = match queries {
            [] => samples::choose(
                &state,
                &mut reader,
                SAMPLES_MAX.min((rows / ROWS_PER_SAMPLE) as usize),
                0,
                change.commit,
            )?,
            _ => samples::given(state.meta.dim, queries, 0)?,
        };
        reader.pause();
        if !queries.is_empty() && samples.len() < CALIBRATION_QUERIES_MIN {
            let count = samples.len();
            let what = format!("there are {count} queries, a calibration takes {CALIBRATION_QUERIES_MIN} at least");
            return Err(Error::argument(what));
        }
        if rows < CALIBRATED_ROWS_MIN || samples.is_empty() {
            return Ok(None);
        }
        let ks: Vec<usize> = KS.into_iter().filter(|k| *k as u64 * ROWS_PER_NEIGHBOR <= rows).collect();
        // The nearest row is found by the same search as the nearest ten.
        let groups: Vec<&[usize]> = ks.chunk_by(|_, k| *k <= EVIDENCE_ROWS).collect();
        let some = |ks: &[usize]| some_of(samples.len(), ks[ks.len() - 1]);
        let shares: Vec<Range<usize>> = groups.iter().map(|ks| some(ks)).collect();
        for (share, ks) in shares.iter().zip(&groups) {
            samples[share.clone()].iter_mut().for_each(|sample| sample.k = ks[ks.len() - 1]);
        }
        scan(&state, &self.pages, &mut samples, Bounds::Likely, threads, progress)?;
        let climbing = Climbing { state: &state, pages: &self.pages, threads: threads::available(threads) };
        let mut entries = Vec::new();
        for (at, (share, ks)) in shares.into_iter().zip(&groups).enumerate() {
            let (done, total) = (at * RUNGS.len(), groups.len() * RUNGS.len());
            entries.extend(climbing.climb(&samples[share], ks, &mut |rung| {
                progress(Progress { phase: "search", done: (done + rung) as u64, total: total as u64 })
            })?);
        }
        let changes = change.added_rows.wrapping_add(change.deleted_rows);
        Ok(Some(Calibration { rows, changes, samples: samples.len() as u32, far: far(&samples), entries }))
    }

    /// The body of the meta page with a calibration on it: for a host that is about to make an index of what was built.
    ///
    /// # Errors
    ///
    /// Whatever the host reports.
    pub fn calibrated_meta_page(&self, calibration: Calibration) -> Result<Vec<u8>, Error> {
        let mut meta = self.newest.renew(&mut self.pages.reader())?.meta.clone();
        meta.calibration = Some(Arc::new(calibration));
        Ok(meta.encode())
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
        check_recall(recall)?;
        let everything = SearchOptions {
            search_list: CALIBRATED_ROWS_MIN as usize,
            slack: f32::INFINITY,
            ..SearchOptions::default()
        };
        Ok((state.meta.rows < CALIBRATED_ROWS_MIN).then_some(everything))
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

/// Of `count` samples those by which an index is calibrated for `k` neighbors.
fn some_of(count: usize, k: usize) -> Range<usize> {
    0..(count * NEIGHBORS_FEW / k).clamp(count.min(SAMPLES_MIN), count)
}

/// Squared distance beyond which the tenth row is for hardly any sample.
fn far(samples: &[Sample]) -> f32 {
    let tenth = |sample: &Sample| sample.nearest.get(EVIDENCE_ROWS - 1).map(|(distance, _)| *distance);
    let mut distances: Vec<f32> = samples.iter().filter_map(tenth).collect();
    distances.sort_unstable_by(f32::total_cmp);
    let at = (distances.len() as f32 * NEAR_SHARE) as usize;
    distances.get(at).or(distances.last()).copied().unwrap_or(f32::INFINITY)
}

/// A sample, and what was found of it.
struct Sought<'s> {
    sample: &'s Sample,
    /// On each rung of a stage, for each number of neighbors.
    found: Vec<usize>,
    is_complete: bool,
}

/// Searching with ever more effort.
struct Climbing<'a, P> {
    state: &'a State,
    pages: &'a P,
    threads: usize,
}

impl<P: Pages> Climbing<'_, P> {
    /// Takes down for each of `ks`, all found by one search, what it takes to reach each recall.
    fn climb(
        &self,
        samples: &[Sample],
        ks: &[usize],
        on_rung: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Vec<CalibratedK>, Error> {
        let foot = SearchOptions::default().search_list.max(2 * ks[ks.len() - 1]);
        let fresh = |k: &usize| CalibratedK { k: *k, best: 0.0, settings: [None; RECALLS.len()] };
        let mut entries: Vec<CalibratedK> = ks.iter().map(fresh).collect();
        let sought = |sample| Sought { sample, found: Vec::new(), is_complete: false };
        let mut all: Vec<Sought<'_>> = samples.iter().map(sought).collect();
        let (mut below, mut rung) = (None, 0);
        for stage in RUNGS.chunk_by(|a, b| a.1 == b.1) {
            let search_list = (stage[0].1 * foot).min(SEARCH_LIST_MAX);
            self.search(&mut all, ks, search_list, stage, &mut |_| on_rung(rung))?;
            for (at, (slack, _)) in stage.iter().enumerate() {
                let options = SearchOptions { search_list, slack: *slack, ..SearchOptions::default() };
                for (place, entry) in entries.iter_mut().enumerate() {
                    let found = recall_of(&all, entry.k, at * ks.len() + place);
                    take_down(entry, found, &options, below);
                }
                below = slack.is_finite().then_some(*slack);
            }
            rung += stage.len();
            if entries.iter().all(|entry| entry.best >= ENOUGH) {
                break;
            }
        }
        Ok(entries)
    }

    /// Searches for all that have not found everything yet, with the slacks of a stage one after the other.
    fn search(
        &self,
        all: &mut [Sought<'_>],
        ks: &[usize],
        search_list: usize,
        stage: &[(f32, usize)],
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let length = all.len().div_ceil(self.threads).max(1);
        threads::each(all.chunks_mut(length), go_on, |part, look| {
            let (mut reader, mut walk) = (self.pages.reader(), Walk::default());
            for (at, sought) in part.iter_mut().enumerate() {
                if at % LOOK_SEARCHES == 0 {
                    look(at as u64)?;
                }
                sought.search(self.state, &mut reader, &mut walk, ks, search_list, stage)?;
            }
            reader.pause();
            Ok(())
        })?;
        Ok(())
    }
}

impl Sought<'_> {
    fn search<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        walk: &mut Walk,
        ks: &[usize],
        search_list: usize,
        stage: &[(f32, usize)],
    ) -> Result<(), Error> {
        self.found.clear();
        let k = ks[ks.len() - 1];
        let mut options = SearchOptions { search_list, ..SearchOptions::default() };
        if !self.is_complete {
            walk.probe.prepare(&state.meta, &state.model, &self.sample.query)?;
            walk.begin(state, among_the_dead(k, &options, state), k, state.meta.change.dead_rows == 0);
            walk.leave_out(self.sample.node, state, reader)?;
            walk.enter_for(stage[stage.len() - 1].0);
        }
        for (slack, _) in stage {
            if self.is_complete {
                self.found.extend(ks.iter().map(|k| self.sample.wanted(*k)));
                continue;
            }
            options.slack = *slack;
            walk.go_on(state, reader, &options, &mut Forgotten, &mut Stats::default())?;
            let distances = || walk.nearest.found.iter().map(|near| near.distance);
            self.found.extend(ks.iter().map(|k| self.sample.found(distances(), *k)));
            let found = &self.found[self.found.len() - ks.len()..];
            self.is_complete = found.iter().zip(ks).all(|(found, k)| *found == self.sample.wanted(*k));
        }
        Ok(())
    }
}

/// Mean recall at `k`, and its interval, by what was found in one `place`.
fn recall_of(all: &[Sought<'_>], k: usize, place: usize) -> (f32, f32) {
    let share = |sought: &Sought<'_>| sought.found[place] as f32 / sought.sample.wanted(k).max(1) as f32;
    samples::mean(&all.iter().map(share).collect::<Vec<_>>())
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
        // What is missed falls about as a power of the effort.
        let missed = |recall: f32| (1.0 - recall).max(1.0 - ENOUGH).ln();
        let share = (missed(known) - missed(wanted)) / (missed(known) - missed(entry.best));
        let slack = below.filter(|_| slack.is_finite()).map_or(slack, |below| below + (slack - below) * share);
        *setting = Some(Setting { slack, search_list, interval });
    }
}
