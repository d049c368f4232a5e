//! Measuring an index: which settings reach a recall.
//!
//! ```text
//! choose   some thousand vectors of the data as queries
//! scan     the nearest rows of some hundred of them, by a look at every row
//! search   them with rising slack and longer lists, until hardly anything is missed
//! store    for each recall the settings between the last rung below it and the first above
//! ```
//!
//! A search with more slack goes on where one with less ends, so one search tells of every slack up to its own; and a query that has
//! found all there is to find is not asked again.
//!
//! Recalls far below 1 scatter: to know 0.9 within half a percent takes thousands of queries, whose exact answers would cost more than
//! the build. So most are judged by what they find themselves with the most slack of the first stage, which misses little; how little, and
//! on which rung, those say whose exact answers are known (double sampling, Neyman 1938).

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::calibration::{CalibratedK, Calibration, KS, RECALL_DEFAULT, RECALLS, Setting, check_recall};
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
/// Most samples that are answered exactly.
const SAMPLES_MAX: usize = 400;
/// Most that are judged by what they find themselves.
const MORE_SAMPLES_MAX: usize = 1600;
/// One row of so many is one of these.
const ROWS_PER_MORE: u64 = 16;
/// One row of so many is answered exactly, of few rows.
const ROWS_PER_SAMPLE: u64 = 4;
/// Fewest, for many neighbors, each of which says something: as many fewer as there are more than so many of them.
const SAMPLES_MIN: usize = 16;
const NEIGHBORS_FEW: usize = 25;
/// An index of fewer rows than so many for each of `k` is not calibrated for it.
const ROWS_PER_NEIGHBOR: u64 = 10;
/// Rungs of the ladder: a slack, and how many times as long as at its foot the list is.
const RUNGS: [(f32, usize); 15] = [
    (0.0, 1),
    (0.02, 1),
    (0.035, 1),
    (0.05, 1),
    (0.07, 1),
    (0.1, 1),
    (0.14, 1),
    (0.2, 1),
    (0.28, 2),
    (0.4, 2),
    (0.56, 8),
    (0.8, 8),
    (1.2, 8),
    (2.0, 32),
    (f32::INFINITY, 32),
];
/// Less than this is missed by nobody, as far as a few hundred samples can tell.
const MISSED_MIN: f32 = 1e-4;
/// What is added to each recall, of what may be missed but no more than the second: half of the settings would turn out a little below it else.
const MARGIN: f32 = 0.1;
const MARGIN_MAX: f32 = 0.0025;
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
        let some = SAMPLES_MAX.min((rows / ROWS_PER_SAMPLE) as usize);
        let more = MORE_SAMPLES_MAX.min((rows / ROWS_PER_MORE) as usize);
        let mut samples = match queries {
            [] => samples::choose(&state, &mut reader, some + more, EVIDENCE_ROWS, change.commit)?,
            _ => samples::given(state.meta.dim, queries, EVIDENCE_ROWS)?,
        };
        // The first are spread over the data as all are.
        let more = samples.split_off(if queries.is_empty() { some.min(samples.len()) } else { samples.len() });
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
            let more = if at == 0 { &more[..] } else { &[] };
            entries.extend(climbing.climb(&samples[share], more, ks, &mut |rung| {
                progress(Progress { phase: "search", done: (done + rung) as u64, total: total as u64 })
            })?);
        }
        let changes = change.added_rows.wrapping_add(change.deleted_rows);
        let (samples, far) = (samples.len() as u32, far(&samples));
        Ok(Some(Calibration { rows, changes, samples, by_queries: !queries.is_empty(), far, entries }))
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

    /// Options of searches for the `k` nearest where nothing is asked for: those with a mean recall of [`RECALL_DEFAULT`], or of the highest
    /// below it that was measured. The fixed ones of [`SearchOptions::default`] where none was.
    ///
    /// # Errors
    ///
    /// Whatever the host reports.
    pub fn tuned_or_default(&self, k: usize) -> Result<SearchOptions, Error> {
        let state = self.newest.renew(&mut self.pages.reader())?;
        let Some(calibration) = &state.meta.calibration else { return Ok(SearchOptions::default()) };
        let lower = RECALLS.iter().rev().copied().filter(|recall| *recall <= RECALL_DEFAULT);
        Ok(lower.filter_map(|recall| calibration.options(k, recall).ok()).next().unwrap_or_default())
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Whether the index is to be calibrated once this change has taken place: the change makes it large enough, or has trained its model
    /// anew. Not if it was calibrated by a user's queries, for which vectors of the data are no substitute.
    pub fn wants_calibration(&self) -> bool {
        let known = self.meta.calibration.as_deref();
        let is_grown = known.is_none() && self.rows_before < CALIBRATED_ROWS_MIN;
        let is_trained = self.meta.change.model_start != self.model_before;
        self.rows() >= CALIBRATED_ROWS_MIN && (is_grown || is_trained && known.is_none_or(|known| !known.by_queries))
    }

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
    /// Whether its exact answer is known.
    is_known: bool,
    /// Whether all of that was found.
    is_complete: bool,
    /// The distances found on each rung of a stage; on those beyond the last the same as there.
    answers: Vec<Vec<f32>>,
}

/// Rungs of the same list.
struct Stage<'a> {
    ks: &'a [usize],
    search_list: usize,
    rungs: &'a [(f32, usize)],
}

/// Searching with ever more effort.
struct Climbing<'a, P> {
    state: &'a State,
    pages: &'a P,
    threads: usize,
}

impl<P: Pages> Climbing<'_, P> {
    /// Takes down for each of `ks`, all found by one search, what it takes to reach each recall: by `samples` whose exact answers are
    /// known, and `more` of which they are not.
    fn climb(
        &self,
        samples: &[Sample],
        more: &[Sample],
        ks: &[usize],
        on_rung: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Vec<CalibratedK>, Error> {
        let foot = SearchOptions::default().search_list.max(2 * ks[ks.len() - 1]);
        let fresh = |k: &usize| CalibratedK { k: *k, best: 0.0, settings: [None; RECALLS.len()] };
        let mut entries: Vec<CalibratedK> = ks.iter().map(fresh).collect();
        let sought = |sample, is_known| Sought { sample, is_known, is_complete: false, answers: Vec::new() };
        let known = samples.iter().map(|sample| sought(sample, true));
        let mut all: Vec<Sought<'_>> = known.chain(more.iter().map(|sample| sought(sample, false))).collect();
        let (mut below, mut rung) = (None, 0);
        for rungs in RUNGS.chunk_by(|a, b| a.1 == b.1) {
            let stage = Stage { ks, search_list: (rungs[0].1 * foot).min(SEARCH_LIST_MAX), rungs };
            self.search(&mut all, &stage, &mut |_| on_rung(rung))?;
            for (at, (slack, _)) in rungs.iter().enumerate() {
                let options =
                    SearchOptions { search_list: stage.search_list, slack: *slack, ..SearchOptions::default() };
                for entry in &mut entries {
                    take_down(entry, recall_of(&all, entry.k, at), &options, below);
                }
                below = slack.is_finite().then_some(*slack);
            }
            rung += rungs.len();
            if entries.iter().all(|entry| entry.settings.iter().all(Option::is_some)) {
                break;
            }
            // From here on all that counts is what the others do not know of: what they missed.
            all.truncate(samples.len());
        }
        Ok(entries)
    }

    /// Searches for all that have not found everything yet, with the slacks of a stage one after the other.
    fn search(
        &self,
        all: &mut [Sought<'_>],
        stage: &Stage<'_>,
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let length = all.len().div_ceil(self.threads).max(1);
        threads::each(all.chunks_mut(length), go_on, |part, look| {
            let (mut reader, mut walk) = (self.pages.reader(), Walk::default());
            for (at, sought) in part.iter_mut().enumerate() {
                if at % LOOK_SEARCHES == 0 {
                    look(at as u64)?;
                }
                sought.search(self.state, &mut reader, &mut walk, stage)?;
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
        stage: &Stage<'_>,
    ) -> Result<(), Error> {
        if self.is_complete {
            self.answers.drain(..self.answers.len() - 1);
            return Ok(());
        }
        self.answers.clear();
        let k = stage.ks[stage.ks.len() - 1];
        let mut options = SearchOptions { search_list: stage.search_list, ..SearchOptions::default() };
        walk.probe.prepare(&state.meta, &state.model, &self.sample.query)?;
        walk.begin(state, among_the_dead(k, &options, state), k, state.meta.change.dead_rows == 0);
        walk.leave_out(self.sample.node, state, reader)?;
        walk.enter_for(stage.rungs[stage.rungs.len() - 1].0);
        for (at, (slack, _)) in stage.rungs.iter().enumerate() {
            options.slack = *slack;
            walk.go_on(state, reader, &options, &mut Forgotten, &mut Stats::default())?;
            self.answers.push(walk.nearest.found.iter().take(k).map(|near| near.distance).collect());
            self.is_complete = self.is_known && stage.ks.iter().all(|k| self.found(*k, at) == 1.0);
            if self.is_complete {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, rung: usize) -> &[f32] {
        &self.answers[rung.min(self.answers.len() - 1)]
    }

    /// Share of the true `k` nearest that was found on a rung.
    fn found(&self, k: usize, rung: usize) -> f32 {
        self.sample.found(self.answer(rung).iter().copied(), k) as f32 / self.sample.wanted(k).max(1) as f32
    }

    /// Share of the `k` nearest found on the last rung that was found on another: what a search finds that takes these for the true ones.
    fn confirmed(&self, k: usize, rung: usize) -> f32 {
        let last = self.answer(usize::MAX);
        let Some(farthest) = last.get(k - 1).or(last.last()) else { return 1.0 };
        let found = self.answer(rung).iter().take(k).filter(|distance| *distance <= farthest).count();
        found as f32 / last.len().min(k) as f32
    }
}

/// Mean recall at `k` on a rung, and its interval.
fn recall_of(all: &[Sought<'_>], k: usize, rung: usize) -> (f32, f32) {
    let known = all.iter().filter(|sought| sought.is_known);
    if all.iter().all(|sought| sought.is_known) {
        return samples::mean(&known.map(|sought| sought.found(k, rung)).collect::<Vec<_>>());
    }
    // What all confirm, less what those whose answers are known confirm in error.
    let errors: Vec<f32> = known.map(|sought| sought.confirmed(k, rung) - sought.found(k, rung)).collect();
    let confirmed: Vec<f32> = all.iter().map(|sought| sought.confirmed(k, rung)).collect();
    let ((confirmed, scatter), (error, other)) = (samples::mean(&confirmed), samples::mean(&errors));
    (confirmed - error, scatter.hypot(other))
}

/// Takes down the settings for recalls that this rung is the first to reach: between it and the slack of the rung `below`.
fn take_down(entry: &mut CalibratedK, found: (f32, f32), options: &SearchOptions, below: Option<f32>) {
    let SearchOptions { slack, search_list, .. } = *options;
    let (known, interval) = (entry.best, found.1);
    // Where a rung is no better than the one before it, that was luck.
    entry.best = found.0.clamp(known, 1.0);
    for (setting, wanted) in entry.settings.iter_mut().zip(RECALLS) {
        let wanted = wanted + (MARGIN * (1.0 - wanted)).min(MARGIN_MAX);
        if setting.is_some() || entry.best < wanted {
            continue;
        }
        // What is missed falls about as a power of the effort.
        let missed = |recall: f32| (1.0 - recall).max(MISSED_MIN).ln();
        let share = (missed(known) - missed(wanted)) / (missed(known) - missed(entry.best));
        let slack = below.filter(|_| slack.is_finite()).map_or(slack, |below| below + (slack - below) * share);
        *setting = Some(Setting { slack, search_list, interval });
    }
}
