//! The candidate list of a search: the best candidates, up to a bound.
//!
//! All in-neighbors of a node store the same code, so its estimate is the same from all of them. A
//! node that is seen again therefore has the same position as its entry. A node that fell off the
//! end is worse than the last entry, and stays out. So the list is also the set of seen nodes, and
//! no other set is needed.

/// Candidates, sorted by estimate and then by id. The lowest bit of a key says that the candidate
/// was expanded.
#[derive(Debug, Default)]
pub(crate) struct CandidateList {
    keys: Vec<u64>,
    capacity: usize,
    /// Largest number of candidates with exactly the same estimate, as duplicates have.
    equals_max: usize,
    /// All entries before this one are expanded.
    first_open: usize,
    /// Keys that were inserted, each at a place that follows from the key, where a later one may
    /// replace it. Most candidates that are offered are here already, and looking there is faster
    /// than a binary search.
    recent: Vec<u64>,
}

/// Places of [`CandidateList::recent`]: 8 KiB, a quarter of a CPU's first cache.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 10;

const EXPANDED: u64 = 1;

/// The key of a candidate. Estimates are not negative, so 31 bits keep their order; then come 32
/// bits of id and the flag.
#[inline]
fn entry(estimate: f32, id: u32) -> u64 {
    u64::from(estimate.max(0.0).to_bits()) << 33 | u64::from(id) << 1
}

/// Where [`CandidateList::recent`] has a key: the upper bits of a product mix all bits of the key
/// (Fibonacci hashing, Knuth 1973).
#[inline]
fn recent_place(entry: u64) -> usize {
    (entry.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS)) as usize
}

impl CandidateList {
    /// Empties the list and sets its capacity.
    pub(crate) fn reset(&mut self, capacity: usize) {
        self.keys.clear();
        self.keys.reserve(capacity + 1);
        self.recent.clear();
        self.recent.resize(RECENT, u64::MAX);
        self.capacity = capacity;
        self.equals_max = usize::MAX;
        self.first_open = 0;
    }

    /// Raises the capacity.
    pub(crate) fn grow(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
        // A candidate that fell off the end may now come back.
        self.recent.fill(u64::MAX);
    }

    /// From now on takes at most `most` candidates with exactly the same estimate above 0. A search
    /// for `k` rows needs at most `k` of them, and hundreds would leave no room for others.
    pub(crate) fn limit_equals(&mut self, most: usize) {
        self.equals_max = most;
    }

    /// Whether the list is full, so that candidates may have been rejected.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() == self.capacity
    }

    /// Candidates with an estimate at or above this are rejected.
    #[inline]
    pub(crate) fn bound(&self) -> f32 {
        if self.keys.len() < self.capacity {
            f32::INFINITY
        } else {
            f32::from_bits((self.keys[self.capacity - 1] >> 33) as u32)
        }
    }

    /// The estimate of the candidate at `rank`.
    #[inline]
    pub(crate) fn estimate_at(&self, rank: usize) -> Option<f32> {
        self.keys.get(rank).map(|key| decode(*key).0)
    }

    /// The candidates with exactly this estimate.
    pub(crate) fn of_estimate(&self, estimate: f32) -> impl Iterator<Item = u32> {
        let first = self.keys.partition_point(|key| *key < entry(estimate, 0));
        let from_there = self.keys[first..].iter().map(|key| decode(*key));
        from_there.take_while(move |candidate| candidate.0 == estimate).map(|candidate| candidate.1)
    }

    /// Whether the candidate was inserted before, as far as is known without a search of the list.
    #[inline]
    pub(crate) fn took_lately(&self, estimate: f32, id: u32) -> bool {
        let entry = entry(estimate, id);
        self.recent.get(recent_place(entry)) == Some(&entry)
    }

    /// Adds a candidate, unless the list has it or is full of better ones. Returns whether it was
    /// added.
    pub(crate) fn insert(&mut self, estimate: f32, id: u32) -> bool {
        self.insert_or(estimate, id, |_, _| ())
    }

    /// Like [`CandidateList::insert`]. `rejected` is called with the unexpanded candidate, this one
    /// or another, for which there is no room.
    #[inline]
    pub(crate) fn insert_or(&mut self, estimate: f32, id: u32, rejected: impl FnOnce(f32, u32)) -> bool {
        let entry = entry(estimate, id);
        let recent = recent_place(entry);
        if self.recent.get(recent) == Some(&entry) {
            return false;
        }
        let at = self.keys.partition_point(|key| *key < entry);
        if at == self.capacity {
            rejected(estimate, id);
            return false;
        }
        if self.keys.get(at).is_some_and(|key| key & !EXPANDED == entry) {
            return false;
        }
        if self.has_most_equals(at, estimate) {
            rejected(estimate, id);
            return false;
        }
        if self.keys.len() == self.capacity
            && let Some(last) = self.keys.pop().filter(|key| key & EXPANDED == 0)
        {
            let (estimate, id) = decode(last);
            rejected(estimate, id);
        }
        self.keys.insert(at, entry);
        if let Some(recent) = self.recent.get_mut(recent) {
            *recent = entry;
        }
        self.first_open = self.first_open.min(at);
        true
    }

    /// Whether the list has the largest number of candidates with this estimate. `at` is the
    /// position where one more would be inserted.
    #[inline]
    fn has_most_equals(&self, at: usize, estimate: f32) -> bool {
        let is_same = |key: &&u64| **key >> 33 == u64::from(estimate.to_bits());
        let before = self.keys[..at].last().filter(|key| is_same(key));
        if estimate <= 0.0 || before.or(self.keys.get(at)).filter(|key| is_same(key)).is_none() {
            return false;
        }
        let before = self.keys[..at].iter().rev().take_while(is_same).count();
        before + self.keys[at..].iter().take_while(is_same).count() >= self.equals_max
    }

    /// Takes the nearest unexpanded candidate and marks it as expanded.
    pub(crate) fn expand(&mut self) -> Option<(f32, u32)> {
        self.expand_within(f32::INFINITY)
    }

    /// Like [`CandidateList::expand`], but only if its estimate is at most `reach`.
    #[inline]
    pub(crate) fn expand_within(&mut self, reach: f32) -> Option<(f32, u32)> {
        let at = self.next_open(self.first_open)?;
        self.first_open = at;
        let nearest = decode(self.keys[at]);
        // The comparison lets infinite and NaN estimates pass if `reach` is infinite.
        if nearest.0 > reach {
            return None;
        }
        self.first_open = at + 1;
        self.keys[at] |= EXPANDED;
        Some(nearest)
    }

    /// The rank of the candidate that was expanded last.
    #[inline]
    pub(crate) fn expanded_rank(&self) -> usize {
        self.first_open.saturating_sub(1)
    }

    /// The unexpanded candidates, nearest first.
    pub(crate) fn open(&self) -> impl Iterator<Item = (f32, u32)> {
        self.keys[self.first_open.min(self.keys.len())..]
            .iter()
            .filter(|key| **key & EXPANDED == 0)
            .map(|key| decode(*key))
    }

    fn next_open(&self, from: usize) -> Option<usize> {
        (from..self.keys.len()).find(|at| self.keys[*at] & EXPANDED == 0)
    }

    /// All candidates in order, whether expanded or not.
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
    fn the_list_keeps_the_best_and_expands_each_once() {
        let mut random = Random::new(11, 0);
        for capacity in [1, 2, 7, 40] {
            let mut list = CandidateList::default();
            list.reset(capacity);
            let mut seen = BTreeSet::new();
            let mut expanded = BTreeSet::new();
            for _ in 0..500 {
                let id = random.below(200) as u32;
                // The estimate is a function of the id, as the file head requires.
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
    fn every_candidate_is_kept_expanded_or_rejected() {
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
