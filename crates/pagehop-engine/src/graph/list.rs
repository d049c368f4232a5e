//! The bounded list of best candidates of a search.
//!
//! A node has one code, copied into all its in-neighbors, so its estimate is the same from wherever the
//! search sees it. A node met again therefore lands on its own entry, and one met after it fell off the end
//! is worse than the worst that stayed: the list itself is the set of seen nodes, and no other is kept.

/// Candidates in order of estimate, then id. The lowest bit says "expanded".
#[derive(Debug, Default)]
pub(crate) struct CandidateList {
    keys: Vec<u64>,
    capacity: usize,
    /// Candidates of one estimate, to the last bit, that it takes: equal rows have it.
    equals_max: usize,
    /// No entry before this one is unexpanded.
    first_open: usize,
}

const EXPANDED: u64 = 1;

/// Estimates are not negative, so 31 bits order them; then 32 bits of id and the flag.
#[inline]
fn entry(estimate: f32, id: u32) -> u64 {
    u64::from(estimate.max(0.0).to_bits()) << 33 | u64::from(id) << 1
}

impl CandidateList {
    /// Empties the list and bounds it.
    pub(crate) fn reset(&mut self, capacity: usize) {
        self.keys.clear();
        self.keys.reserve(capacity + 1);
        self.capacity = capacity;
        self.equals_max = usize::MAX;
        self.first_open = 0;
    }

    /// Makes room for more candidates.
    pub(crate) fn grow(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// Takes no more than `most` candidates of one estimate above 0 from now on. A search for `k` rows needs no more than `k` of
    /// those that are equal, and hundreds of them would leave no room for others.
    pub(crate) fn limit_equals(&mut self, most: usize) {
        self.equals_max = most;
    }

    /// Whether candidates may have been turned away.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() == self.capacity
    }

    /// Estimates at or above this are not taken.
    #[inline]
    pub(crate) fn bound(&self) -> f32 {
        if self.keys.len() < self.capacity {
            f32::INFINITY
        } else {
            f32::from_bits((self.keys[self.capacity - 1] >> 33) as u32)
        }
    }

    /// The estimate of a candidate by its rank.
    #[inline]
    pub(crate) fn estimate_at(&self, rank: usize) -> Option<f32> {
        self.keys.get(rank).map(|key| decode(*key).0)
    }

    /// The candidates whose estimate is a certain one, to the last bit.
    pub(crate) fn of_estimate(&self, estimate: f32) -> impl Iterator<Item = u32> {
        let first = self.keys.partition_point(|key| *key < entry(estimate, 0));
        let from_there = self.keys[first..].iter().map(|key| decode(*key));
        from_there.take_while(move |candidate| candidate.0 == estimate).map(|candidate| candidate.1)
    }

    /// Adds a candidate unless it is there, or worse than a full list.
    pub(crate) fn insert(&mut self, estimate: f32, id: u32) -> bool {
        self.insert_or(estimate, id, |_, _| ())
    }

    /// As [`CandidateList::insert`]; `turned_away` gets the unexpanded candidate, this one or another, that a full
    /// list has no room for.
    #[inline]
    pub(crate) fn insert_or(&mut self, estimate: f32, id: u32, turned_away: impl FnOnce(f32, u32)) -> bool {
        let entry = entry(estimate, id);
        let at = self.keys.partition_point(|key| *key < entry);
        if at == self.capacity {
            turned_away(estimate, id);
            return false;
        }
        if self.keys.get(at).is_some_and(|key| key & !EXPANDED == entry) {
            return false;
        }
        if self.are_many(at, estimate) {
            turned_away(estimate, id);
            return false;
        }
        if self.keys.len() == self.capacity
            && let Some(last) = self.keys.pop().filter(|key| key & EXPANDED == 0)
        {
            let (estimate, id) = decode(last);
            turned_away(estimate, id);
        }
        self.keys.insert(at, entry);
        self.first_open = self.first_open.min(at);
        true
    }

    /// Whether there are as many candidates of that estimate as there may be, around the place where one more belongs.
    #[inline]
    fn are_many(&self, at: usize, estimate: f32) -> bool {
        let is_same = |key: &&u64| **key >> 33 == u64::from(estimate.to_bits());
        let before = self.keys[..at].last().filter(|key| is_same(key));
        if estimate <= 0.0 || before.or(self.keys.get(at)).filter(|key| is_same(key)).is_none() {
            return false;
        }
        let before = self.keys[..at].iter().rev().take_while(is_same).count();
        before + self.keys[at..].iter().take_while(is_same).count() >= self.equals_max
    }

    /// The nearest unexpanded candidate, which then counts as expanded.
    pub(crate) fn expand(&mut self) -> Option<(f32, u32)> {
        self.expand_within(f32::INFINITY)
    }

    /// The nearest unexpanded candidate, if its estimate is at most `reach`; it then counts as expanded.
    #[inline]
    pub(crate) fn expand_within(&mut self, reach: f32) -> Option<(f32, u32)> {
        let at = self.next_open(self.first_open)?;
        self.first_open = at;
        let nearest = decode(self.keys[at]);
        // Infinite estimates, and those that are no numbers, are within an infinite reach.
        if nearest.0 > reach {
            return None;
        }
        self.first_open = at + 1;
        self.keys[at] |= EXPANDED;
        Some(nearest)
    }

    /// How many candidates are better than the one that was expanded last.
    #[inline]
    pub(crate) fn expanded_rank(&self) -> usize {
        self.first_open.saturating_sub(1)
    }

    /// Unexpanded candidates from the nearest on.
    pub(crate) fn open(&self) -> impl Iterator<Item = (f32, u32)> {
        self.keys[self.first_open.min(self.keys.len())..]
            .iter()
            .filter(|key| **key & EXPANDED == 0)
            .map(|key| decode(*key))
    }

    fn next_open(&self, from: usize) -> Option<usize> {
        (from..self.keys.len()).find(|at| self.keys[*at] & EXPANDED == 0)
    }

    /// All candidates in order, expanded or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = (f32, u32)> {
        self.keys.iter().map(|key| decode(*key))
    }
}

#[inline]
fn decode(key: u64) -> (f32, u32) {
    (f32::from_bits((key >> 33) as u32), (key >> 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn list_keeps_the_best_and_expands_each_once() {
        let mut random = Random::new(11, 0);
        for capacity in [1, 2, 7, 40] {
            let mut list = CandidateList::default();
            list.reset(capacity);
            let mut seen = BTreeSet::new();
            let mut expanded = BTreeSet::new();
            for _ in 0..500 {
                let id = random.below(200) as u32;
                // The estimate is a function of the id, as the module promises.
                let estimate = (id * 7919 % 50) as f32;
                list.insert(estimate, id);
                seen.insert((estimate as u32, id));
                let expand = random.below(3) == 0;
                if let Some((estimate, id)) = expand.then(|| list.expand()).flatten() {
                    assert!(expanded.insert((estimate as u32, id)), "expanded twice");
                }
            }
            let best: Vec<_> = seen.into_iter().take(capacity).collect();
            let kept: Vec<_> = list.all().map(|(e, id)| (e as u32, id)).collect();
            assert_eq!(kept, best);
        }
    }

    #[test]
    fn every_candidate_is_kept_expanded_or_turned_away() {
        let mut random = Random::new(12, 0);
        for capacity in [1, 3, 20] {
            let mut list = CandidateList::default();
            list.reset(capacity);
            let (mut offered, mut accounted) = (BTreeSet::new(), BTreeSet::new());
            for _ in 0..400 {
                let id = random.below(300) as u32;
                list.insert_or((id * 7919 % 50) as f32, id, |_, id| {
                    assert!(accounted.insert(id) || offered.contains(&id))
                });
                offered.insert(id);
                let expand = random.below(4) == 0;
                accounted.extend(expand.then(|| list.expand()).flatten().map(|(_, id)| id));
            }
            accounted.extend(list.open().map(|(_, id)| id));
            assert_eq!(accounted, offered, "capacity {capacity}");
        }
    }
}
