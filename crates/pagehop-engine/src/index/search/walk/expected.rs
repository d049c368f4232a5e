//! The reach that a walk expects as long as it has found too few rows.
//!
//! A walk for `k` rows knows how far it must go once it has found `k`. Until then, the estimate of
//! the `k`-th best candidate and a margin take the place of that distance, so that the list need
//! not take every candidate. With a filter, the `k`-th row that passes is expected to be the
//! candidate of rank `k / share`. That is wrong where the rows that pass are farther from the query
//! than others. So with a filter the candidates that are left out are kept, and those that may
//! matter are offered at the end.

use crate::Error;
use crate::graph::list::CandidateList;
use crate::graph::{key, key_distance};
use crate::index::search::visit::Scored;
use crate::memory::MakeRoom;
use crate::quantize::estimate::DEGREE_MAX;
use pagehop_kernels as kernels;

/// How far the final k-th distance may be above the current k-th estimate, as a factor. A smaller
/// factor admits fewer candidates: 1.12 is 3 to 5% faster than 1.3. Recall was the same in 64 to
/// 784 dimensions, and 0.0002 less in 16 dimensions, where 1.06 cost 0.0009.
const ESTIMATE_MARGIN: f32 = 1.12;

/// Most keys whose memory is kept for the next walk.
const KEPT_KEYS: usize = 4096;

/// What a walk expects. Reusable.
#[derive(Default)]
pub(super) struct ExpectedReach {
    /// Expected number of candidates for each row that is found; `None`: nothing is expected.
    candidates: Option<f32>,
    /// Whether candidates that are left out are kept.
    keeps: bool,
    /// The least reach that was expected.
    least: f32,
    /// Keys of candidates that were left out. Some occur twice.
    left_out: Vec<u64>,
}

impl ExpectedReach {
    /// Begins a walk that finds all rows, or one that expects nothing.
    pub(super) fn begin(&mut self, expects: bool) {
        self.left_out.clear();
        self.left_out.shrink_to(KEPT_KEYS);
        (self.candidates, self.keeps, self.least) = (expects.then_some(1.0), false, f32::INFINITY);
    }

    /// From now on the walk finds about one row among `candidates`.
    pub(super) fn set_candidates(&mut self, candidates: f32) {
        (self.candidates, self.keeps) = (Some(candidates), true);
    }

    /// Approximate memory of the candidates that were left out, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.left_out.len() * size_of::<u64>()
    }

    /// Makes room for the neighbors of some nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    #[inline]
    pub(super) fn make_room(&mut self, nodes: usize) -> Result<(), Error> {
        if self.keeps { self.left_out.make_room(nodes * DEGREE_MAX) } else { Ok(()) }
    }

    /// The reach to use as long as that of the rows found is `within`. `k` rows are searched for.
    #[inline]
    pub(super) fn reach(&mut self, list: &CandidateList, k: usize, slack: f32, within: f32) -> f32 {
        let Some(candidates) = self.candidates else { return within };
        let rank = (k as f32 * candidates) as usize;
        let Some(estimate) = list.estimate_at(rank.max(1) - 1) else { return within };
        let expected = estimate * ESTIMATE_MARGIN * (1.0 + slack);
        if expected < within {
            self.least = self.least.min(expected);
        }
        // An infinite slack times an estimate of 0 is NaN, which is no bound.
        within.min(expected)
    }

    /// Keeps the neighbors that are within the reach of the rows found, and beyond the one that is
    /// expected. `bound` is that of the list.
    #[inline]
    pub(super) fn leave_out(&mut self, scored: &Scored<'_>, expected: f32, within: f32, bound: f32) {
        if self.keeps && expected < within {
            self.keep(scored, expected, within, bound);
        }
    }

    // Apart, so that the hop of a walk without a filter stays short.
    #[inline(never)]
    fn keep(&mut self, scored: &Scored<'_>, expected: f32, within: f32, bound: f32) {
        let nearer = kernels::at_most(scored.estimates, expected, bound);
        let mut left_out = kernels::at_most(scored.estimates, within, bound) & !nearer;
        while left_out != 0 {
            let at = left_out.trailing_zeros() as usize;
            left_out &= left_out - 1;
            self.left_out.push(key(scored.estimates[at], scored.node.neighbor(at)));
        }
    }

    /// Keys of the candidates that were left out and are within the `reach` of a walk that is at
    /// its end. If there are any, the expectation was wrong, and ends.
    pub(super) fn within(&mut self, reach: f32) -> impl Iterator<Item = u64> {
        if reach > self.least {
            self.candidates = None;
        } else {
            self.left_out.clear();
        }
        self.left_out.drain(..).filter(move |key| key_distance(*key) <= reach)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(estimates: impl Iterator<Item = u8>) -> CandidateList {
        let mut list = CandidateList::default();
        list.reset(100);
        estimates.enumerate().for_each(|(id, estimate)| _ = list.insert(estimate.into(), id as u32));
        list
    }

    #[test]
    fn the_row_that_is_expected_last_bounds_candidates_until_rows_do() {
        let (mut expected, list) = (ExpectedReach::default(), list(1..=30));
        expected.begin(false);
        assert_eq!(expected.reach(&list, 10, 0.0, f32::INFINITY), f32::INFINITY);
        expected.begin(true);
        assert_eq!(expected.reach(&list, 10, 0.5, f32::INFINITY), 10.0 * ESTIMATE_MARGIN * 1.5);
        assert_eq!(expected.reach(&list, 31, 0.5, f32::INFINITY), f32::INFINITY, "too few candidates");
        assert_eq!(expected.reach(&list, 10, f32::INFINITY, f32::INFINITY), f32::INFINITY);
        assert_eq!(expected.reach(&list, 10, 0.5, 3.0), 3.0);
        expected.set_candidates(2.0);
        assert_eq!(expected.reach(&list, 10, 0.0, f32::INFINITY), 20.0 * ESTIMATE_MARGIN);
    }

    #[test]
    fn candidates_come_back_if_the_reach_was_larger_than_expected() {
        let list = list(1..=30);
        let begun = || {
            let mut expected = ExpectedReach::default();
            expected.begin(true);
            expected.set_candidates(1.0);
            let reach = expected.reach(&list, 10, 0.0, f32::INFINITY);
            expected.left_out.extend([key(reach + 1.0, 7), key(reach + 9.0, 8)]);
            (expected, reach)
        };
        let (mut expected, reach) = begun();
        assert_eq!(expected.within(reach).count(), 0);
        assert!(expected.candidates.is_some() && expected.left_out.is_empty());
        let (mut expected, reach) = begun();
        let back: Vec<u32> = expected.within(reach + 2.0).map(crate::graph::key_id).collect();
        assert_eq!(back, [7]);
        assert!(expected.candidates.is_none(), "the expectation was wrong");
        let (mut expected, _) = begun();
        assert_eq!(expected.within(f32::INFINITY).count(), 2);
    }
}
