//! The cheapest settings that reach each recall.
//!
//! One search of a sample with a long list and much slack shows what every search with a shorter
//! list and less slack would have found, and in how many hops (`trace.rs`). Of the pairs of list
//! and slack that reach a recall in nearly the fewest hops, the one with the longest list is
//! stored.
//!
//! If the longest search misses neighbors, it is repeated with a longer list. That is only needed
//! for the samples that missed some: the others find no less. Some samples measure the hops: each
//! stage searches for them to the end. The last stage, for recalls that are nearly out of reach,
//! measures no hops. It stores the shortest list that reaches the recall.
//!
//! Recalls far below 1 vary much between queries: to know 0.9 within 0.005 takes thousands of
//! queries, whose exact answers would cost more than the build. So most samples are judged by
//! self-agreement. A search that begins at the neighbors of the query's row begins where the answer
//! is. The rows that it found count as the truth, together with those that the longest search found
//! until it had found as many: it then ends. Both together miss little. How much, for each pair of
//! settings, is measured on the samples with exact answers, and subtracted (double sampling, Neyman
//! 1938).

use std::ops::ControlFlow;

use crate::calibration::{CalibratedK, LISTS_MAX, RECALLS, Setting, list_of};
use crate::index::recall::points::{Point, first_to_reach};
use crate::index::recall::samples::{self, SAMPLES_MIN};
use crate::index::recall::trace::Trace;
use crate::index::search::exact::Sample;
use crate::index::search::plan::list_capacity;
use crate::index::search::walk::Walk;
use crate::index::state::State;
use crate::page::{Pages, Reader, with_reader};
use crate::{Error, SearchOptions, Stats, threads};

/// The stages: the length of the longest list as a multiple of the default list (or of 2k), and the
/// slacks that are tried. Where clusters differ much in width, no finite slack is the cheapest, so
/// the first stage has all slacks.
const LADDER: [(usize, &[f32]); STAGES] = [(4, &SLACKS), (16, &SLACKS), (LISTS_MAX, &[ANY])];
/// Small slacks matter under the inner product: its distances differ little if rows are much
/// shorter than the longest row.
const SLACKS: [f32; 24] = [
    0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.0275, 0.035, 0.0425, 0.05, 0.07, 0.1, 0.12, 0.14, 0.17, 0.2, 0.24,
    0.28, 0.34, 0.4, 0.56, 0.8, 1.2, ANY,
];
/// The slack of a search that expands its whole list.
const ANY: f32 = f32::INFINITY;
/// Most samples that measure the hops of the first and of the second stage.
const SAMPLES_FOR_HOPS: [usize; 2] = [512, 128];
/// Largest number of stages.
pub(crate) const STAGES: usize = 3;
/// Ratio between consecutive list lengths that are tried.
const LIST_RATIO: f32 = 1.19;
/// Shortest list length that is tried.
const LIST_MIN: usize = 2;
/// A setting may take this many hops more than the cheapest one if its list is longer: then the
/// slack decides when a search ends. Queries that are harder than the samples get more hops from a
/// slack, and none from a list.
const HOPS_FOR_SLACK: f32 = 1.0;
/// List and slack of the search that begins at the neighbors of the query's row.
const NEAR_LIST: usize = 100;
const NEAR_SLACK: f32 = 0.2;
/// Searches between two calls of the progress callback.
const LOOK_SEARCHES: usize = 16;

/// The measurement.
pub(crate) struct EffortMeasurement<'a, P> {
    pub(crate) state: &'a State,
    pub(crate) pages: &'a P,
    pub(crate) threads: usize,
}

/// A sample and the outcome of its latest search.
struct Sought<'s> {
    sample: &'s Sample,
    /// Whether the exact answer is known.
    is_known: bool,
    /// Whether a search found all of the answer, exact or confirmed.
    is_complete: bool,
    /// For each k, the farthest distance and the number of the rows that count as the truth.
    confirmed: Vec<(f32, usize)>,
    outcome: Outcome,
}

/// The result of searches with each list and each slack of a stage, derived from one search.
#[derive(Default)]
struct Outcome {
    /// Hops after which a search with each list, or with each slack, would end.
    of_list: Vec<usize>,
    with_slack: Vec<usize>,
    /// For each k, the hops after which each true neighbor was found, if these are known.
    true_ones: Vec<Vec<usize>>,
    /// The same for the confirmed neighbors.
    own: Vec<Vec<usize>>,
}

/// The lists and slacks that one search compares.
struct Stage<'a> {
    /// Whether the next stage also compares longer lists by their hops.
    is_first: bool,
    /// Number of samples, the first ones, that are searched for to the end and measure the hops.
    timed: usize,
    ks: &'a [usize],
    lists: Vec<usize>,
    slacks: &'a [f32],
}

impl<P: Pages> EffortMeasurement<'_, P> {
    /// Measures for each of `ks` the settings that reach each recall. All of `ks` use the same
    /// search. `samples` have exact answers; `more` have none.
    pub(crate) fn measure(
        &self,
        samples: &[Sample],
        more: &[Sample],
        ks: &[usize],
        on_stage: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Vec<CalibratedK>, Error> {
        let fresh = |k: &usize| CalibratedK { k: *k, best: 0.0, settings: [None; RECALLS.len()] };
        let mut entries: Vec<CalibratedK> = ks.iter().map(fresh).collect();
        let sought = |sample, is_known| Sought {
            sample,
            is_known,
            is_complete: false,
            confirmed: Vec::new(),
            outcome: Outcome::default(),
        };
        let known = samples.iter().map(|sample| sought(sample, true));
        let mut all: Vec<Sought<'_>> = known.chain(more.iter().map(|sample| sought(sample, false))).collect();
        let some = |share: usize, most| (samples.len() / share).clamp(SAMPLES_MIN, most).min(all.len());
        let timed = [some(1, SAMPLES_FOR_HOPS[0]), some(4, SAMPLES_FOR_HOPS[1]), 0];
        for (at, (times, slacks)) in LADDER.iter().enumerate() {
            let longest_before = at.checked_sub(1).map(|before| longest(ks, LADDER[before].0));
            let lists = lists(longest_before.unwrap_or(ks[0].max(LIST_MIN)), longest(ks, *times));
            let stage = Stage { is_first: at == 0, timed: timed[at], ks, lists, slacks };
            self.search(&mut all, &stage, &mut |_| on_stage(at))?;
            for (at, entry) in entries.iter_mut().enumerate() {
                stage.record(entry, at, &all);
            }
            if entries.iter().all(|entry| entry.settings.iter().all(Option::is_some)) {
                break;
            }
            // Searches of the last stage cost the most, so it uses only some of the samples with
            // exact answers.
            if at > 0 {
                all.truncate((samples.len() / 2).max(samples.len().min(SAMPLES_MIN)));
            }
        }
        Ok(entries)
    }

    /// Searches for all samples that are not complete, and for those that tell the hops.
    fn search(
        &self,
        all: &mut [Sought<'_>],
        stage: &Stage<'_>,
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        // The first samples, which are searched for to the end, cost the most: threads share them.
        let threads = self.threads.min(all.len());
        let mut parts: Vec<Vec<(usize, &mut Sought<'_>)>> = (0..threads).map(|_| Vec::new()).collect();
        all.iter_mut().enumerate().for_each(|(at, sought)| parts[at % threads].push((at, sought)));
        threads::each(parts, go_on, |part, look| {
            let (mut walk, mut trace) = (Walk::default(), Trace::default());
            with_reader(self.pages, |reader| {
                for (done, (at, sought)) in part.into_iter().enumerate() {
                    if done % LOOK_SEARCHES == 0 {
                        look(done as u64)?;
                    }
                    let is_timed = at < stage.timed;
                    if is_timed || !sought.is_complete {
                        sought.search(self.state, reader, &mut walk, &mut trace, stage, is_timed)?;
                    } else {
                        sought.outcome.carry(stage);
                    }
                }
                Ok(())
            })
        })?;
        Ok(())
    }
}

/// The length of the longest list of a stage, `times` that of the first.
fn longest(ks: &[usize], times: usize) -> usize {
    list_of(ks[ks.len() - 1], times)
}

/// List lengths from the shortest to the longest, ascending.
fn lists(shortest: usize, longest: usize) -> Vec<usize> {
    let shorter = |list: &f32| Some(list / LIST_RATIO);
    let mut lists: Vec<usize> = std::iter::successors(Some(longest as f32), shorter)
        .map(|list| list.round() as usize)
        .take_while(|list| *list > shortest)
        .chain([shortest])
        .collect();
    lists.reverse();
    lists
}

impl Sought<'_> {
    /// Searches for the sample, to the end or until all of the answer is found.
    fn search<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        walk: &mut Walk,
        trace: &mut Trace,
        stage: &Stage<'_>,
        to_the_end: bool,
    ) -> Result<(), Error> {
        let most = |slacks: &[f32]| slacks[slacks.len() - 1];
        let options = |list: usize| SearchOptions {
            search_list: list,
            slack: most(stage.slacks),
            ..SearchOptions::default()
        };
        let capacity = |list: &usize| list_capacity(stage.ks[0], &options(*list), state);
        let (k, longest) = (stage.ks[stage.ks.len() - 1], stage.lists[stage.lists.len() - 1]);
        walk.probe.prepare(&state.meta, &state.model, &self.sample.query)?;
        walk.leave_out(&self.sample.left_out, state, reader)?;
        let is_first = self.confirmed.is_empty();
        let near = if is_first { self.near(k, state, reader, walk, trace)? } else { Vec::new() };
        // The k-th row, if there are as many.
        let kth = if is_first { near.get(k - 1).map(|row| (row.0, k)) } else { self.confirmed.last().copied() };
        let goal = if self.is_known { Some((self.sample.threshold(k), self.sample.wanted(k))) } else { kth };
        walk.begin(state, capacity(&longest).max(k), k, state.meta.change.dead_rows == 0);
        trace.begin(goal.filter(|_| !to_the_end));
        walk.run(state, reader, &options(longest), trace, &mut Stats::default())?;
        if is_first {
            self.confirm(near, trace.rows_until(kth), stage.ks);
        }
        let true_ones = |k: &usize| trace.steps_to(self.sample.threshold(*k), self.sample.wanted(*k));
        let own = |(k, (farthest, _)): (&usize, &(f32, usize))| trace.steps_to(*farthest, *k);
        self.outcome = Outcome {
            of_list: stage.lists.iter().map(|list| trace.steps_of_list(capacity(list))).collect(),
            with_slack: stage.slacks.iter().map(|slack| trace.steps_with(*slack)).collect(),
            true_ones: if self.is_known { stage.ks.iter().map(true_ones).collect() } else { Vec::new() },
            own: stage.ks.iter().zip(&self.confirmed).map(own).collect(),
        };
        let is_all = |(steps, wanted): (&Vec<usize>, usize)| steps.len() == wanted;
        self.is_complete = if self.is_known {
            self.outcome.true_ones.iter().zip(stage.ks.iter().map(|k| self.sample.wanted(*k))).all(is_all)
        } else {
            self.outcome.own.iter().zip(self.confirmed.iter().map(|(_, wanted)| *wanted)).all(is_all)
        };
        Ok(())
    }
}

impl Sought<'_> {
    /// Distances and ids of the rows that a search from the neighbors of the sample's row visits,
    /// nearest first. A query that is no row has none.
    fn near<R: Reader>(
        &self,
        k: usize,
        state: &State,
        reader: &mut R,
        walk: &mut Walk,
        trace: &mut Trace,
    ) -> Result<Vec<(f32, u64)>, Error> {
        if self.sample.left_out.is_empty() {
            return Ok(Vec::new());
        }
        let options =
            SearchOptions { search_list: NEAR_LIST.max(2 * k), slack: NEAR_SLACK, ..SearchOptions::default() };
        walk.begin(state, list_capacity(k, &options, state), k, state.meta.change.dead_rows == 0);
        trace.begin(None);
        walk.run_from_absent(state, reader, &options, trace, &mut Stats::default())?;
        Ok(nearest_first(trace.rows_until(None).collect()))
    }

    /// Takes the nearest of the rows of both searches as the truth.
    fn confirm(&mut self, mut near: Vec<(f32, u64)>, others: impl Iterator<Item = (f32, u64)>, ks: &[usize]) {
        near.extend(others);
        let near = nearest_first(near);
        let farthest =
            |k: usize| near.get(k - 1).or(near.last()).map_or(f32::NEG_INFINITY, |(farthest, _)| *farthest);
        self.confirmed = ks.iter().map(|k| (farthest(*k), near.len().min(*k))).collect();
    }
}

/// Rows by distance and id, each once.
fn nearest_first(mut rows: Vec<(f32, u64)>) -> Vec<(f32, u64)> {
    rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    rows.dedup();
    rows
}

impl Outcome {
    /// Hops of a search with a list and a slack of the stage, given by their positions.
    fn hops(&self, list: usize, slack: usize) -> usize {
        self.of_list[list].min(self.with_slack[slack])
    }

    /// The outcome of the next stage, for a sample whose answer was found: its searches end no
    /// earlier with longer lists and more slack.
    fn carry(&mut self, stage: &Stage<'_>) {
        let longest = self.of_list.last().copied().unwrap_or(usize::MAX);
        self.of_list = vec![usize::MAX; stage.lists.len()];
        self.of_list[0] = longest;
        self.with_slack.resize(stage.slacks.len(), usize::MAX);
        if stage.timed == 0 {
            self.with_slack.fill(usize::MAX);
        }
    }

    /// Share of `wanted` rows found within `hops`; `steps` has the hops after which each row was
    /// found.
    fn share(steps: &[usize], wanted: usize, hops: usize) -> f32 {
        steps.iter().filter(|step| **step <= hops).count() as f32 / wanted.max(1) as f32
    }
}

impl Sought<'_> {
    /// Recall of a search with this list and slack, by the exact answer.
    fn found(&self, k: (usize, usize), list: usize, slack: usize) -> f32 {
        Outcome::share(&self.outcome.true_ones[k.0], self.sample.wanted(k.1), self.outcome.hops(list, slack))
    }

    /// Recall of a search with this list and slack, if the nearest rows of the longest search, and
    /// of the one from the neighbors of the sample's row, are taken as the truth.
    fn confirmed(&self, k: (usize, usize), list: usize, slack: usize) -> f32 {
        let wanted = self.confirmed[k.0].1;
        if wanted == 0 {
            1.0
        } else {
            Outcome::share(&self.outcome.own[k.0], wanted, self.outcome.hops(list, slack))
        }
    }
}

impl Stage<'_> {
    /// Records the settings for recalls that this stage is the first to reach: for each recall, the
    /// longest list with nearly the fewest hops, and its slack; or the shortest list, if hops are
    /// unknown.
    fn record(&self, entry: &mut CalibratedK, at: usize, all: &[Sought<'_>]) {
        let k = (at, entry.k);
        let long = (0..self.lists.len()).filter(|list| self.lists[*list] >= entry.k);
        let curves: Vec<(usize, Vec<Point>)> =
            long.map(|list| (list, self.curve(k, list, all, entry.best))).collect();
        let best =
            curves.iter().flat_map(|(_, points)| points).map(|point| point.recall).fold(entry.best, f32::max);
        entry.best = best.min(1.0);
        for (setting, recall) in entry.settings.iter_mut().zip(RECALLS) {
            if setting.is_some() {
                continue;
            }
            let mut reaching =
                curves.iter().filter_map(|(list, points)| Some((*list, first_to_reach(points, recall)?)));
            let chosen = if self.timed > 0 {
                let reaching: Vec<_> = reaching.collect();
                let cheapest = reaching.iter().min_by(|a, b| a.1.hops.total_cmp(&b.1.hops)).copied();
                // If it is the longest list, a longer one may be cheaper: the next stage decides.
                let is_open = |list: usize| self.is_first && list == self.lists.len() - 1;
                cheapest.filter(|(list, _)| !is_open(*list)).and_then(|(_, cheapest)| {
                    reaching.into_iter().rfind(|(_, point)| point.hops <= cheapest.hops + HOPS_FOR_SLACK)
                })
            } else {
                reaching.next()
            };
            *setting = chosen.map(|(list, point)| Setting {
                slack: point.slack,
                search_list: self.lists[list],
                half_interval: point.half_interval,
            });
        }
    }

    /// The results of a list with each slack. More slack cannot find less: if it seems to, that is
    /// noise and is removed. For the same reason the last stage finds at least `least`, the result
    /// of the stage before.
    fn curve(&self, k: (usize, usize), list: usize, all: &[Sought<'_>], least: f32) -> Vec<Point> {
        let mut recall = if self.timed > 0 { 0.0 } else { least };
        let timed = &all[..self.timed];
        let point = |(at, slack): (usize, &f32)| {
            let (found, half_interval) = recall_of(all, k, list, at);
            recall = found.max(recall);
            let hops: usize = timed.iter().map(|sought| sought.outcome.hops(list, at)).sum();
            Point { slack: *slack, recall, half_interval, hops: hops as f32 / timed.len().max(1) as f32 }
        };
        self.slacks.iter().enumerate().map(point).collect()
    }
}

/// Mean recall with a list and a slack, and half the width of its 95% confidence interval.
fn recall_of(all: &[Sought<'_>], k: (usize, usize), list: usize, slack: usize) -> (f32, f32) {
    let known = all.iter().filter(|sought| sought.is_known);
    if all.iter().all(|sought| sought.is_known) {
        return samples::mean(&known.map(|sought| sought.found(k, list, slack)).collect::<Vec<_>>());
    }
    // Mean self-agreement of all samples, minus its error on the samples with exact answers.
    let error = |sought: &Sought<'_>| sought.confirmed(k, list, slack) - sought.found(k, list, slack);
    let errors: Vec<f32> = known.map(error).collect();
    let confirmed: Vec<f32> = all.iter().map(|sought| sought.confirmed(k, list, slack)).collect();
    let ((confirmed, scatter), (error, other)) = (samples::mean(&confirmed), samples::mean(&errors));
    (confirmed - error, scatter.hypot(other))
}
