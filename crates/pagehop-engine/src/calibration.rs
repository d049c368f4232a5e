//! The calibration of an index: the settings that reach each recall.

use std::sync::Arc;

use crate::options::{Reach, SEARCH_LIST_MAX, SearchOptions, SearchPlan};

/// The recalls for which settings are stored.
pub const RECALLS: [f32; 7] = [0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];
/// The recall of searches for which none is given; one of [`RECALLS`].
pub const RECALL_DEFAULT: f32 = 0.98;
/// Fewest rows of an index that can be calibrated: with fewer, settings cannot be compared.
pub const CALIBRATED_ROWS_MIN: u64 = 1000;
/// The k for which settings are stored.
pub(crate) const KS: [usize; 4] = [1, 10, 100, 1000];

/// Smallest miss (1 - recall) that a few hundred samples can resolve.
pub(crate) const MISSED_MIN: f32 = 1e-4;

/// The cheapest settings for each recall, and their uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Rows of the index at that time; nodes, where rows with equal vectors share one.
    pub rows: u64,
    /// The sum of `added_rows` and `deleted_rows` of [`Info`](crate::Info) at that time. The number
    /// of changes since is the increase of that sum, modulo 2^64. The counts restart at 0 when the
    /// model is trained.
    pub changes: u64,
    /// Queries with exact answers.
    pub samples: u32,
    /// Whether the queries were a user's, not vectors of the data.
    pub by_queries: bool,
    /// Squared distance to the tenth nearest row, in the inner space, that only one sample in a
    /// hundred exceeds; infinite if unknown.
    pub far: f32,
    /// The settings for each k, ascending.
    pub entries: Vec<CalibratedK>,
}

/// The settings for one k.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedK {
    /// The k of the searches.
    pub k: usize,
    /// The highest recall that was measured.
    pub best: f32,
    /// For each of [`RECALLS`]; `None` if no setting reached it with its margin.
    pub settings: [Option<Setting>; RECALLS.len()],
}

/// Settings that reach a recall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// See [`SearchOptions::search_list`].
    pub search_list: usize,
    /// See [`SearchOptions::slack`].
    pub slack: f32,
    /// Half the width of the 95% confidence interval of the recall.
    pub half_interval: f32,
}

/// Longest list that a calibration tries for `k` neighbors: as a multiple of the default list, or
/// of `2 * k` if that is more.
pub(crate) const LISTS_MAX: usize = 32;

/// List length of a calibration for `k` neighbors, as the multiple `times` of the shortest.
pub(crate) fn list_of(k: usize, times: usize) -> usize {
    (times * SearchOptions::default().search_list.max(2 * k)).min(SEARCH_LIST_MAX)
}

impl Calibration {
    /// How to search for the `k` nearest with a mean recall of `recall`, above 0 and below 1.
    ///
    /// Between measured recalls and k, settings are interpolated. Below the lowest measured recall,
    /// its settings are used. Above the highest, the settings of the longest search that was tried,
    /// and the plan says so ([`Reach::Beyond`]). Above the largest `k`, the list grows in
    /// proportion to `k`.
    pub fn plan(&self, k: usize, recall: f32) -> SearchPlan {
        let (below, above) = self.around(k);
        let best = below.best.min(above.best);
        let (search_list, slack) = self.settings_for(k, recall);
        let options = SearchOptions { search_list, slack, ..SearchOptions::default() };
        let reach = if recall > best { Reach::Beyond { best } } else { Reach::Within };
        SearchPlan { reach, calibration: self.number(), ..options.into() }
    }

    /// The list and the slack of such searches.
    fn settings_for(&self, k: usize, recall: f32) -> (usize, f32) {
        let (below, above, share) = self.between_ks(k);
        let low = below.setting(recall);
        let high = if std::ptr::eq(below, above) { low } else { above.setting(recall) };
        let search_list = list_between(low.search_list, high.search_list, share);
        let search_list = search_list.saturating_mul(k).div_ceil(k.clamp(1, above.k)).max(k).min(SEARCH_LIST_MAX);
        (search_list, between(low.slack, high.slack, share))
    }

    /// The entries below and above `k`, and where `k` is between them.
    fn between_ks(&self, k: usize) -> (&CalibratedK, &CalibratedK, f32) {
        let (below, above) = self.around(k);
        let share = match (below.k as f32, above.k as f32, k as f32) {
            (a, b, k) if a < b => ((k / a).ln() / (b / a).ln()).clamp(0.0, 1.0),
            _ => 1.0,
        };
        (below, above, share)
    }

    /// The slack of searches for the `wanted` nearest that find the recall which those for the `k`
    /// nearest find with `slack`. Below the lowest measured recall and above the highest it is that
    /// of this recall, and at least `slack`.
    pub(crate) fn slack_for(&self, wanted: usize, (k, slack): (usize, f32)) -> f32 {
        let mut before: Option<(f32, f32)> = None;
        for recall in RECALLS {
            let [known, other] = [k, wanted].map(|k| self.settings_for(k, recall).1);
            if known >= slack {
                return match before {
                    _ if known.is_infinite() => before.map_or(slack, |(_, other_low)| other_low.max(slack)),
                    None => other.max(slack),
                    Some((low, other_low)) => between(other_low, other, (slack - low) / (known - low)),
                };
            }
            before = Some((known, other));
        }
        before.map_or(slack, |(_, other)| other.max(slack))
    }

    /// The slack of searches for the `k` nearest that miss this `share` of what those with `slack`
    /// miss; `slack` where that was not measured.
    pub(crate) fn slack_missing(&self, share: f32, (k, slack): (usize, f32)) -> f32 {
        // Of several recalls with one slack, lists tell which is meant. The highest misses least.
        let (below, above, share_of_k) = self.between_ks(k);
        let known = |at: usize| {
            let [low, high] = [below, above].map(|k| k.settings[at].map_or(f32::INFINITY, |known| known.slack));
            between(low, high, share_of_k)
        };
        let at = (0..RECALLS.len()).rev().find(|at| known(*at) <= slack);
        let (low, high) = (at.unwrap_or(0), at.map_or(0, |at| (at + 1).min(RECALLS.len() - 1)));
        let part = match (known(low), known(high)) {
            (low, high) if low < high && high.is_finite() => (slack - low) / (high - low),
            _ => 0.0,
        };
        let [low, high] = [low, high].map(|at| missed(RECALLS[at]));
        let miss = (-low - part * (high - low)).exp() * share;
        let more = self.settings_for(k, 1.0 - miss).1;
        if more.is_finite() { more.max(slack) } else { slack }
    }

    /// The recall of searches for the `k` nearest for which none is given: [`RECALL_DEFAULT`], or
    /// the highest below it that settings reach. `None` if no settings reach any.
    pub fn default_recall(&self, k: usize) -> Option<f32> {
        let (below, above) = self.around(k);
        let reached = below.reached().min(above.reached());
        RECALLS[..reached].iter().rev().copied().find(|recall| *recall <= RECALL_DEFAULT)
    }

    /// The entries below and above `k`. Both are the same if `k` was measured or is out of range.
    fn around(&self, k: usize) -> (&CalibratedK, &CalibratedK) {
        let last = self.entries.len() - 1;
        let at = self.entries.partition_point(|entry| entry.k < k).min(last);
        let below = if self.entries[at].k <= k { at } else { at.saturating_sub(1) };
        (&self.entries[below], &self.entries[at])
    }

    /// See [`SearchPlan::calibration`].
    fn number(&self) -> u64 {
        let measured = self.entries.iter().map(|entry| u64::from(entry.best.to_bits()));
        let known = [self.rows, self.changes, self.samples.into(), self.far.to_bits().into()];
        // An odd constant from the golden ratio, whose products spread over all bits.
        let mix = |number: u64, bits: u64| (number ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        known.into_iter().chain(measured).fold(1, mix)
    }

    /// This calibration after the counts of changes, which were `counted`, restart at 0.
    pub(crate) fn restart_counts(&self, counted: u64) -> Arc<Self> {
        Arc::new(Self { changes: self.changes.wrapping_sub(counted), ..self.clone() })
    }
}

impl CalibratedK {
    /// The number of [`RECALLS`] with settings, which are the first ones.
    fn reached(&self) -> usize {
        self.settings.iter().take_while(|setting| setting.is_some()).count()
    }

    /// The settings for a recall; those of the longest search that was tried if none reaches it.
    fn setting(&self, recall: f32) -> Setting {
        let mut reached = RECALLS.into_iter().zip(self.settings.iter().map_while(|setting| *setting)).peekable();
        let longest = Setting { slack: f32::INFINITY, search_list: list_of(self.k, LISTS_MAX), half_interval: 0.0 };
        let mut before = None;
        while let Some(known) = reached.next_if(|(known, _)| *known < recall) {
            before = Some(known);
        }
        let (above, high) = reached.next().unwrap_or((self.best, longest));
        let Some((below, low)) = before else { return high };
        if recall >= above {
            return high;
        }
        let share = (missed(recall) - missed(below)) / (missed(above) - missed(below));
        Setting {
            slack: between(low.slack, high.slack, share),
            search_list: list_between(low.search_list, high.search_list, share),
            half_interval: low.half_interval.max(high.half_interval),
        }
    }
}

/// A scale for interpolation: the miss (1 - recall) is roughly a power of the effort.
fn missed(recall: f32) -> f32 {
    -(1.0 - recall).max(MISSED_MIN).ln()
}

/// Interpolates between two slacks, of which either may be infinite.
fn between(low: f32, high: f32, share: f32) -> f32 {
    match low.is_finite() && high.is_finite() {
        true => low + (high - low) * share,
        false if share <= 0.0 => low,
        false if share >= 1.0 => high,
        false => f32::INFINITY,
    }
}

/// Interpolates between two list lengths.
fn list_between(low: usize, high: usize, share: f32) -> usize {
    let (low, high) = (low as f32, high as f32);
    // The subtraction keeps rounding errors from adding one to the result.
    ((low * (high / low).powf(share) - 1e-3).ceil() as usize).clamp(1, SEARCH_LIST_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn calibration() -> Calibration {
        let setting = |slack, search_list| Some(Setting { slack, search_list, half_interval: 0.01 });
        let entry = |k, more: f32| CalibratedK {
            k,
            best: 0.997,
            settings: [
                setting(more, 100),
                setting(more + 0.1, 100),
                setting(more + 0.2, 100),
                setting(more + 0.3, 100),
                setting(more + 0.4, 200),
                setting(f32::INFINITY, 400),
                None,
            ],
        };
        Calibration {
            rows: 7,
            changes: 8,
            samples: 9,
            by_queries: true,
            far: 10.0,
            entries: vec![entry(1, 0.0), entry(10, 0.1), entry(1000, 0.3)],
        }
    }

    fn options(k: usize, recall: f32) -> SearchOptions {
        calibration().plan(k, recall).options.expect("no exact search")
    }

    #[test]
    fn settings_lie_between_those_that_were_measured() {
        let slack = |k, recall| options(k, recall).slack;
        assert_eq!(slack(10, 0.9), 0.2);
        assert_eq!(slack(10, 0.5), 0.1);
        assert_eq!(slack(1, 0.95), 0.2);
        assert!((0.2..0.3).contains(&slack(10, 0.93)));
        assert!((0.3..0.5).contains(&slack(100, 0.95)));
        assert_eq!(slack(10, 0.995), f32::INFINITY);
        let list = |k, recall| options(k, recall).search_list;
        assert_eq!((list(10, 0.99), list(300, 0.9)), (200, 300));
        assert_eq!(list(10, 0.986), 143, "between 100 and 200");
    }

    #[test]
    fn a_slack_of_many_rows_has_one_for_few_with_the_same_recall() {
        let slack = |slack| calibration().slack_for(10, (1000, slack));
        for (known, other) in [(0.55, 0.35), (0.65, 0.45), (0.3, 0.3), (0.2, 0.2), (0.9, 0.9)] {
            assert!((slack(known) - other).abs() < 1e-6, "{known}: {}", slack(known));
        }
        assert!((calibration().slack_for(10, (10, 0.25)) - 0.25).abs() < 1e-6);
        let mut nothing = calibration();
        nothing.entries.iter_mut().for_each(|entry| (entry.settings, entry.best) = ([None; 7], 0.7));
        assert_eq!(nothing.slack_for(10, (1000, 0.2)), 0.2);
    }

    #[test]
    fn a_slack_that_misses_less_is_that_of_a_higher_recall() {
        let (known, slack) = (calibration(), |recall| options(10, recall).slack);
        for (recall, less) in [(0.9, 0.92), (0.92, 0.936), (0.94, 0.952)] {
            let found = known.slack_missing(0.8, (10, slack(recall)));
            assert!((found - slack(less)).abs() < 1e-4, "{recall}: {found}, {}", slack(less));
        }
        assert_eq!(known.slack_missing(1.0, (10, 0.25)), 0.25);
        for beyond in [slack(0.99), 7.0, f32::INFINITY] {
            assert_eq!(known.slack_missing(0.8, (10, beyond)), beyond, "no other slack was measured");
        }
    }

    #[test]
    fn a_recall_out_of_reach_is_searched_for_as_hard_as_was_tried() {
        for recall in [0.9971, 0.999, 0.9999] {
            let plan = calibration().plan(10, recall);
            let options = plan.options.expect("no exact search");
            assert_eq!((options.search_list, options.slack), (3200, f32::INFINITY), "{recall}");
            assert_eq!(plan.reach, Reach::Beyond { best: 0.997 }, "{recall}");
        }
        let plan = calibration().plan(10, 0.996);
        assert_eq!(plan.reach, Reach::Within, "it was measured, if not stored");
        assert!(
            (401..3200).contains(&plan.options.expect("no exact search").search_list),
            "{:?}",
            options(10, 0.996)
        );
        let mut nothing = calibration();
        nothing.entries.iter_mut().for_each(|entry| (entry.settings, entry.best) = ([None; 7], 0.7));
        assert_eq!((nothing.plan(10, 0.9).reach, nothing.default_recall(10)), (Reach::Beyond { best: 0.7 }, None));
    }

    #[test]
    fn lists_grow_with_more_neighbors_than_were_calibrated() {
        let list = |k, recall| options(k, recall).search_list;
        assert_eq!(list(2000, 0.98), 2 * list(1000, 0.98));
        assert_eq!(list(1001, 0.8), 1001, "never shorter than k");
        assert_eq!(list(SEARCH_LIST_MAX, 0.999), SEARCH_LIST_MAX);
    }

    #[test]
    fn the_default_recall_is_the_highest_that_is_reached() {
        let mut known = calibration();
        assert_eq!(known.default_recall(10), Some(RECALL_DEFAULT));
        known.entries[1].settings[3] = None;
        assert_eq!((known.default_recall(10), known.default_recall(300)), (Some(0.95), Some(0.95)));
        assert_eq!((known.default_recall(1), known.default_recall(2000)), (Some(0.98), Some(0.98)));
    }
}
