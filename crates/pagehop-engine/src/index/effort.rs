//! The least effort that reaches a recall.
//!
//! One search of a sample, with a long list and much slack, tells what each search with less of both would have found, and in how many
//! hops (`trace.rs`). Of the pairs of list and slack that reach a recall the cheapest is taken, which is nearly that of fewest hops.
//!
//! Where the longest search misses some, it is repeated with more, for those samples alone that miss something, and until they miss
//! nothing. How many hops the others would take stays unknown, so then the shortest list that reaches a recall is taken, or the next one
//! if that does with less slack.
//!
//! Recalls far below 1 scatter: to know 0.9 within half a percent takes thousands of queries, whose exact answers would cost more than
//! the build. So most samples are judged by what they find themselves in the longest search, which misses little; how little, and
//! with which settings, those say whose exact answers are known (double sampling, Neyman 1938).

use std::ops::ControlFlow;

use super::calibration::{CalibratedK, RECALLS, Setting};
use super::samples::{self, SAMPLES_MIN, Sample};
use super::search::{Walk, among_the_dead};
use super::state::State;
use super::trace::Trace;
use super::{SEARCH_LIST_MAX, SearchOptions, Stats};
use crate::page::{Pages, Reader};
use crate::{Error, threads};

/// How many times as long as the first stage's a stage's longest list is, and its slacks.
const LADDER: [(usize, &[f32]); STAGES] = [
    (1, &[0.0, 0.02, 0.035, 0.05, 0.07, 0.1, 0.14, 0.2]),
    (2, &[0.28, 0.4, f32::INFINITY]),
    (8, &[0.56, 1.2, f32::INFINITY]),
    (32, &[f32::INFINITY]),
];
/// Most stages that a measurement has.
pub(super) const STAGES: usize = 4;
/// A list is so many times as long as the next shorter one.
const LIST_RATIO: f32 = 1.19;
/// The shortest, where fewer neighbors than that are wanted.
const LIST_MIN: usize = 2;
/// What twice the list costs beside its hops, as more candidates are kept in order: 13 hops take 2 to 3% longer with a list of 18 or 100
/// than with one of 12.
const HOPS_PER_DOUBLED_LIST: f32 = 0.2;
/// Less than this is missed by nobody, as far as a few hundred samples can tell.
const MISSED_MIN: f32 = 1e-4;
/// What is added to each recall, of what may be missed but no more than the second: half of the settings would turn out a little below it else.
const MARGIN: f32 = 0.1;
const MARGIN_MAX: f32 = 0.004;
/// Searches between two looks at progress.
const LOOK_SEARCHES: usize = 16;

/// Measures it.
pub(super) struct Effort<'a, P> {
    pub(super) state: &'a State,
    pub(super) pages: &'a P,
    pub(super) threads: usize,
}

/// A sample, and what was found of it.
struct Sought<'s> {
    sample: &'s Sample,
    /// Whether its exact answer is known.
    is_known: bool,
    /// Whether all of that was found.
    is_complete: bool,
    outcome: Outcome,
}

/// What searches with each list and each slack of a stage find.
#[derive(Default)]
struct Outcome {
    /// Hops after which each would end.
    of_list: Vec<usize>,
    with_slack: Vec<usize>,
    /// For each number of neighbors the hops after which the true ones were met, if they are known; and those after which the nearest were
    /// that were met at all.
    true_ones: Vec<Vec<usize>>,
    own: Vec<Vec<usize>>,
}

/// Lists and slacks that are told apart in one search.
struct Stage<'a> {
    /// Whether all samples are searched for, and to the end.
    is_first: bool,
    ks: &'a [usize],
    lists: Vec<usize>,
    slacks: &'a [f32],
}

/// What a pair of list and slack comes to.
#[derive(Clone, Copy)]
struct Point {
    slack: f32,
    recall: f32,
    hops: f32,
}

impl<P: Pages> Effort<'_, P> {
    /// Takes down for each of `ks`, all found by one search, what it takes to reach each recall: by `samples` whose exact answers are
    /// known, and `more` of which they are not.
    pub(super) fn measure(
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
                stage.take_down(entry, at, &all, before);
            }
            if entries.iter().all(|entry| entry.settings.iter().all(Option::is_some)) {
                break;
            }
            before = slacks.last().copied().filter(|slack| slack.is_finite());
            // From here on all that counts is what the others do not know of: what they missed. The longer a search and the higher the
            // recall, the more a sample costs and the fewer are enough.
            all.truncate((samples.len() >> at).max(samples.len().min(SAMPLES_MIN)));
        }
        Ok(entries)
    }

    /// Searches for all that have not found everything yet.
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

/// The longest list of a stage.
fn longest(ks: &[usize], times: usize) -> usize {
    (times * SearchOptions::default().search_list.max(2 * ks[ks.len() - 1])).min(SEARCH_LIST_MAX)
}

/// Lists from the shortest to the longest, ascending.
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
        let capacity = |list: &usize| among_the_dead(stage.ks[0], &options(*list), state);
        let (k, longest) = (stage.ks[stage.ks.len() - 1], stage.lists[stage.lists.len() - 1]);
        walk.probe.prepare(&state.meta, &state.model, &self.sample.query)?;
        walk.begin(state, capacity(&longest).max(k), k, state.meta.change.dead_rows == 0);
        walk.leave_out(self.sample.node, state, reader)?;
        // What it costs is not asked of the later stages.
        let goal = (!stage.is_first).then(|| (self.sample.threshold(k), self.sample.wanted(k)));
        trace.begin(goal);
        walk.run(state, reader, &options(longest), trace, &mut Stats::default())?;
        let near = &walk.nearest.found;
        let own = |k: &usize| {
            near.get(k - 1).or(near.last()).map_or(Vec::new(), |near| trace.steps_to(near.distance, *k))
        };
        let true_ones = |k: &usize| trace.steps_to(self.sample.threshold(*k), self.sample.wanted(*k));
        self.outcome = Outcome {
            of_list: stage.lists.iter().map(|list| trace.steps_of_list(capacity(list))).collect(),
            with_slack: stage.slacks.iter().map(|slack| trace.steps_with(*slack)).collect(),
            true_ones: if self.is_known { stage.ks.iter().map(true_ones).collect() } else { Vec::new() },
            own: stage.ks.iter().map(own).collect(),
        };
        // Later stages have more of both than the longest list and the most slack that is not infinite.
        let within = stage.slacks.iter().rposition(|slack| slack.is_finite());
        let within = within.map_or(usize::MAX, |slack| self.outcome.hops(stage.lists.len() - 1, slack));
        let found_all = |(steps, k): (&Vec<usize>, &usize)| {
            steps.iter().filter(|step| **step <= within).count() == self.sample.wanted(*k)
        };
        self.is_complete = self.is_known && self.outcome.true_ones.iter().zip(stage.ks).all(found_all);
        Ok(())
    }
}

impl Outcome {
    /// Hops of a search with a list and a slack of the stage.
    fn hops(&self, list: usize, slack: usize) -> usize {
        self.of_list[list].min(self.with_slack[slack])
    }

    /// Share of rows that so many hops find, where the hops are known that each of `wanted` takes.
    fn share(steps: &[usize], wanted: usize, hops: usize) -> f32 {
        steps.iter().filter(|step| **step <= hops).count() as f32 / wanted.max(1) as f32
    }
}

impl Sought<'_> {
    /// Share of the true nearest that is found.
    fn found(&self, k: (usize, usize), list: usize, slack: usize) -> f32 {
        match self.outcome.true_ones.get(k.0) {
            Some(steps) => Outcome::share(steps, self.sample.wanted(k.1), self.outcome.hops(list, slack)),
            // An earlier stage found all of them.
            None => 1.0,
        }
    }

    /// Share found of the nearest of the longest search: what a search finds that takes these for the true ones.
    fn confirmed(&self, k: (usize, usize), list: usize, slack: usize) -> f32 {
        let steps = &self.outcome.own[k.0];
        if steps.is_empty() { 1.0 } else { Outcome::share(steps, steps.len(), self.outcome.hops(list, slack)) }
    }
}

impl Stage<'_> {
    /// Takes down the settings for recalls that this stage is the first to reach: of each the list and slack that take the fewest hops.
    /// `before` is the most slack of the stage before.
    fn take_down(&self, entry: &mut CalibratedK, at: usize, all: &[Sought<'_>], before: Option<f32>) {
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
                let cost = |(list, _, point): &(usize, usize, Point)| {
                    point.hops + HOPS_PER_DOUBLED_LIST * (self.lists[*list] as f32).log2()
                };
                reaching.min_by(|a, b| cost(a).total_cmp(&cost(b)))
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

    /// What a list comes to with each slack. More slack finds no less; where it seems to, that is luck.
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

/// Mean recall with a list and a slack, and its interval.
fn recall_of(all: &[Sought<'_>], k: (usize, usize), list: usize, slack: usize) -> (f32, f32) {
    let known = all.iter().filter(|sought| sought.is_known);
    if all.iter().all(|sought| sought.is_known) {
        return samples::mean(&known.map(|sought| sought.found(k, list, slack)).collect::<Vec<_>>());
    }
    // What all confirm, less what those whose answers are known confirm in error.
    let error = |sought: &Sought<'_>| sought.confirmed(k, list, slack) - sought.found(k, list, slack);
    let errors: Vec<f32> = known.map(error).collect();
    let confirmed: Vec<f32> = all.iter().map(|sought| sought.confirmed(k, list, slack)).collect();
    let ((confirmed, scatter), (error, other)) = (samples::mean(&confirmed), samples::mean(&errors));
    (confirmed - error, scatter.hypot(other))
}

/// Where a recall lies between two slacks of one list.
fn between(below: Point, above: Point, wanted: f32) -> Point {
    // What is missed falls about as a power of the effort.
    let missed = |recall: f32| (1.0 - recall).max(MISSED_MIN).ln();
    let share = (missed(below.recall) - missed(wanted)) / (missed(below.recall) - missed(above.recall));
    let part = |below: f32, above: f32| if above.is_finite() { below + (above - below) * share } else { above };
    Point { slack: part(below.slack, above.slack), recall: wanted, hops: part(below.hops, above.hops) }
}
