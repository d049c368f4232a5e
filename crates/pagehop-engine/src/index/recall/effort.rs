//! The cheapest settings that reach each recall.
//!
//! One search of a sample with a long list and much slack shows what every search with a shorter
//! list and less slack would have found, and in how many hops (`trace.rs`). Of the pairs of list
//! and slack that reach a recall in nearly the fewest hops, the one with the longest list is
//! stored.
//!
//! If the longest search misses neighbors, it is repeated with a longer list and more slack, only
//! for the samples that missed some, until nothing is missed. The hops of the other samples are
//! then unknown. So the shortest list that reaches the recall is stored, or the next longer one if
//! that reaches it with a finite slack.
//!
//! Recalls far below 1 vary much between queries: to know 0.9 within 0.005 takes thousands of
//! queries, whose exact answers would cost more than the build. So most samples are judged by
//! self-agreement: what their own longest search found counts as the truth, together with what a
//! search found that began at the neighbors of the row that the query was taken from. The first may
//! end in another region; the second begins where the answer is. Both together miss little. How
//! much, for each pair of settings, is measured on the samples with exact answers, and subtracted
//! (double sampling, Neyman 1938).

use std::ops::ControlFlow;

use crate::calibration::{CalibratedK, LISTS_MAX, MISSED_MIN, RECALLS, Setting, list_of};
use crate::index::recall::samples::{self, SAMPLES_MIN};
use crate::index::recall::trace::Trace;
use crate::index::search::exact::Sample;
use crate::index::search::walk::{Walk, list_capacity};
use crate::index::state::State;
use crate::page::{Pages, Reader};
use crate::{Error, SearchOptions, Stats, threads};

/// The stages: the length of the longest list as a multiple of the default list (or of 2k), and the
/// slacks that are tried.
const LADDER: [(usize, &[f32]); STAGES] = [
    (4, &[0.0, 0.02, 0.035, 0.05, 0.07, 0.1, 0.12, 0.14, 0.17, 0.2, 0.24, 0.28, 0.34, 0.4, 0.56]),
    (8, &[0.8, 1.2, f32::INFINITY]),
    (LISTS_MAX, &[f32::INFINITY]),
];
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
/// Safety margin on the target recall: this share of the allowed miss (1 - recall), at most
/// `MARGIN_MAX`. Without it, half of the calibrated settings would land slightly below the target.
const MARGIN: f32 = 0.1;
const MARGIN_MAX: f32 = 0.001;
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
    /// Whether a search found all of the exact answer.
    is_complete: bool,
    outcome: Outcome,
}

/// What searches with each list and each slack of a stage would find.
#[derive(Default)]
struct Outcome {
    /// Hops after which a search with each list, or with each slack, would end.
    of_list: Vec<usize>,
    with_slack: Vec<usize>,
    /// For each k, the hops after which each true neighbor was found, if these are known.
    true_ones: Vec<Vec<usize>>,
    /// For each k, the number of the nearest rows that this search and the one from the neighbors
    /// of the query's row found, and the hops after which this one found each.
    own: Vec<(usize, Vec<usize>)>,
}

/// The lists and slacks that one search compares.
struct Stage<'a> {
    /// Whether it searches for all samples and to the end.
    is_first: bool,
    ks: &'a [usize],
    lists: Vec<usize>,
    slacks: &'a [f32],
}

/// The result of a pair of list and slack.
#[derive(Clone, Copy)]
struct Point {
    slack: f32,
    recall: f32,
    hops: f32,
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
        let sought =
            |sample, is_known| Sought { sample, is_known, is_complete: false, outcome: Outcome::default() };
        let known = samples.iter().map(|sample| sought(sample, true));
        let mut all: Vec<Sought<'_>> = known.chain(more.iter().map(|sample| sought(sample, false))).collect();
        let mut before = None;
        for (at, (times, slacks)) in LADDER.iter().enumerate() {
            let longest_before = at.checked_sub(1).map(|before| longest(ks, LADDER[before].0));
            let lists = lists(longest_before.unwrap_or(ks[0].max(LIST_MIN)), longest(ks, *times));
            let stage = Stage { is_first: at == 0, ks, lists, slacks };
            self.search(&mut all, &stage, &mut |_| on_stage(at))?;
            for (at, entry) in entries.iter_mut().enumerate() {
                stage.record(entry, at, &all, before);
            }
            if entries.iter().all(|entry| entry.settings.iter().all(Option::is_some)) {
                break;
            }
            before = slacks.last().copied().filter(|slack| slack.is_finite());
            // Later stages only measure what is missed, which only samples with exact answers show.
            // Their searches cost more and their recalls are higher, so fewer samples are enough:
            // each further stage uses half as many.
            all.truncate((samples.len() >> at).max(samples.len().min(SAMPLES_MIN)));
        }
        Ok(entries)
    }

    /// Searches for all samples that are not complete.
    fn search(
        &self,
        all: &mut [Sought<'_>],
        stage: &Stage<'_>,
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let length = all.len().div_ceil(self.threads).max(1);
        threads::each(all.chunks_mut(length), go_on, |part, look| {
            let (mut reader, mut walk, mut trace) = (self.pages.reader(), Walk::default(), Trace::default());
            for (at, sought) in part.iter_mut().enumerate() {
                if at % LOOK_SEARCHES == 0 {
                    look(at as u64)?;
                }
                sought.search(self.state, &mut reader, &mut walk, &mut trace, stage)?;
            }
            reader.pause();
            Ok(())
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
    fn search<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        walk: &mut Walk,
        trace: &mut Trace,
        stage: &Stage<'_>,
    ) -> Result<(), Error> {
        if self.is_complete {
            self.outcome = Outcome::default();
            return Ok(());
        }
        let most = |slacks: &[f32]| slacks[slacks.len() - 1];
        let options = |list: usize| SearchOptions {
            search_list: list,
            slack: most(stage.slacks),
            ..SearchOptions::default()
        };
        let capacity = |list: &usize| list_capacity(stage.ks[0], &options(*list), state);
        let (k, longest) = (stage.ks[stage.ks.len() - 1], stage.lists[stage.lists.len() - 1]);
        walk.probe.prepare(&state.meta, &state.model, &self.sample.query)?;
        walk.begin(state, capacity(&longest).max(k), k, state.meta.change.dead_rows == 0);
        walk.leave_out(self.sample.node, state, reader)?;
        // Later stages do not measure hops, so their searches end once they have found all
        // neighbors.
        let goal = (!stage.is_first).then(|| (self.sample.threshold(k), self.sample.wanted(k)));
        trace.begin(goal);
        walk.run(state, reader, &options(longest), trace, &mut Stats::default())?;
        let mut near: Vec<(f32, u64)> = distances(walk);
        if stage.is_first && self.sample.node.is_some() {
            near.extend(self.near_sample(state, reader, walk, k)?);
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            near.dedup();
        }
        let own = |k: &usize| {
            let farthest = near.get(k - 1).or(near.last());
            (near.len().min(*k), farthest.map_or(Vec::new(), |(farthest, _)| trace.steps_to(*farthest, *k)))
        };
        let true_ones = |k: &usize| trace.steps_to(self.sample.threshold(*k), self.sample.wanted(*k));
        self.outcome = Outcome {
            of_list: stage.lists.iter().map(|list| trace.steps_of_list(capacity(list))).collect(),
            with_slack: stage.slacks.iter().map(|slack| trace.steps_with(*slack)).collect(),
            true_ones: if self.is_known { stage.ks.iter().map(true_ones).collect() } else { Vec::new() },
            own: stage.ks.iter().map(own).collect(),
        };
        // A sample is complete if the longest list with the largest finite slack found everything:
        // later stages have more of both.
        let within = stage.slacks.iter().rposition(|slack| slack.is_finite());
        let within = within.map_or(usize::MAX, |slack| self.outcome.hops(stage.lists.len() - 1, slack));
        let found_all = |(steps, k): (&Vec<usize>, &usize)| {
            steps.iter().filter(|step| **step <= within).count() == self.sample.wanted(*k)
        };
        self.is_complete = self.is_known && self.outcome.true_ones.iter().zip(stage.ks).all(found_all);
        Ok(())
    }
}

/// Distances and ids of the rows that a walk found, nearest first.
fn distances(walk: &Walk) -> Vec<(f32, u64)> {
    walk.nearest.found.iter().map(|near| (near.distance, near.row_id)).collect()
}

impl Sought<'_> {
    /// What a search finds that begins at the neighbors of the sample's row.
    fn near_sample<R: Reader>(
        &self,
        state: &State,
        reader: &mut R,
        walk: &mut Walk,
        k: usize,
    ) -> Result<Vec<(f32, u64)>, Error> {
        let options =
            SearchOptions { search_list: NEAR_LIST.max(2 * k), slack: NEAR_SLACK, ..SearchOptions::default() };
        walk.begin(state, list_capacity(k, &options, state), k, state.meta.change.dead_rows == 0);
        walk.run_from_absent(state, reader, &options, &mut Trace::default(), &mut Stats::default())?;
        Ok(distances(walk))
    }
}

impl Outcome {
    /// Hops of a search with a list and a slack of the stage, given by their positions.
    fn hops(&self, list: usize, slack: usize) -> usize {
        self.of_list[list].min(self.with_slack[slack])
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
        match self.outcome.true_ones.get(k.0) {
            Some(steps) => Outcome::share(steps, self.sample.wanted(k.1), self.outcome.hops(list, slack)),
            // An earlier stage found all of them.
            None => 1.0,
        }
    }

    /// Recall of a search with this list and slack, if the nearest rows of the longest search, and
    /// of the one from the neighbors of the sample's row, are taken as the truth.
    fn confirmed(&self, k: (usize, usize), list: usize, slack: usize) -> f32 {
        let (wanted, steps) = &self.outcome.own[k.0];
        if *wanted == 0 { 1.0 } else { Outcome::share(steps, *wanted, self.outcome.hops(list, slack)) }
    }
}

impl Stage<'_> {
    /// Records the settings for recalls that this stage is the first to reach: for each recall, the
    /// longest list with nearly the fewest hops, and its slack. `before` is the largest finite
    /// slack of the previous stage.
    fn record(&self, entry: &mut CalibratedK, at: usize, all: &[Sought<'_>], before: Option<f32>) {
        let k = (at, entry.k);
        let start = before.map(|slack| Point { slack, recall: entry.best, hops: 0.0 });
        let long = (0..self.lists.len()).filter(|list| self.lists[*list] >= entry.k);
        let curves: Vec<(usize, Vec<Point>)> =
            long.map(|list| (list, self.curve(k, list, all, entry.best))).collect();
        let best =
            curves.iter().flat_map(|(_, points)| points).map(|point| point.recall).fold(entry.best, f32::max);
        entry.best = best.min(1.0);
        for (setting, wanted) in entry.settings.iter_mut().zip(RECALLS) {
            let wanted = wanted + (MARGIN * (1.0 - wanted)).min(MARGIN_MAX);
            if setting.is_some() || entry.best < wanted {
                continue;
            }
            let reaching = |(list, points): &(usize, Vec<Point>)| {
                let at = points.iter().position(|point| point.recall >= wanted)?;
                let below = at.checked_sub(1).map(|below| points[below]).or(start);
                Some((*list, at, below.map_or(points[at], |below| between(below, points[at], wanted))))
            };
            let mut reaching = curves.iter().filter_map(reaching);
            let chosen = if self.is_first {
                let reaching: Vec<_> = reaching.collect();
                let fewest = reaching.iter().map(|(.., point)| point.hops).fold(f32::INFINITY, f32::min);
                reaching.into_iter().rfind(|(.., point)| point.hops <= fewest + HOPS_FOR_SLACK)
            } else {
                let (shortest, next) = (reaching.next(), reaching.next());
                next.filter(|next| next.2.slack.is_finite()).or(shortest)
            };
            *setting = chosen.map(|(list, at, point)| Setting {
                slack: point.slack,
                search_list: self.lists[list],
                interval: recall_of(all, k, list, at).1,
            });
        }
    }

    /// The results of a list with each slack. More slack finds no less; where it seems to find
    /// less, that is noise and is removed.
    fn curve(&self, k: (usize, usize), list: usize, all: &[Sought<'_>], least: f32) -> Vec<Point> {
        let mut recall = if self.is_first { 0.0 } else { least };
        let point = |(at, slack): (usize, &f32)| {
            recall = recall_of(all, k, list, at).0.max(recall);
            let of_list = all.iter().filter(|sought| !sought.outcome.of_list.is_empty());
            let hops: usize = of_list.map(|sought| sought.outcome.hops(list, at)).sum();
            Point { slack: *slack, recall, hops: hops as f32 / all.len() as f32 }
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

/// Interpolates between two slacks of one list.
fn between(below: Point, above: Point, wanted: f32) -> Point {
    // The miss (1 - recall) is roughly a power of the effort.
    let missed = |recall: f32| (1.0 - recall).max(MISSED_MIN).ln();
    let share = (missed(below.recall) - missed(wanted)) / (missed(below.recall) - missed(above.recall));
    let part = |below: f32, above: f32| if above.is_finite() { below + (above - below) * share } else { above };
    Point { slack: part(below.slack, above.slack), recall: wanted, hops: part(below.hops, above.hops) }
}
