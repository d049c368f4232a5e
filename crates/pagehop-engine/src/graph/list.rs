//! The candidate list of a search: the best candidates, up to a bound.
//!
//! All in-neighbors of a node store the same code, so its estimate is the same from all of them. A
//! node that is seen again therefore has the same position as its entry. A node that fell off the
//! end is worse than the last entry, and stays out. So the list is also the set of seen nodes, and
//! no other set is needed.

use crate::Error;
use crate::memory::MakeRoom;
use crate::quantize::estimate::DEGREE_MAX;

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
    /// Direct-mapped cache of inserted keys; a later key may overwrite an earlier one. It has most
    /// candidates that are offered, and a look-up is faster than a binary search.
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
        self.keys.reserve(capacity + DEGREE_MAX);
        self.recent.clear();
        self.recent.resize(RECENT, u64::MAX);
        self.capacity = capacity;
        self.equals_max = usize::MAX;
        self.first_open = 0;
    }

    /// Makes room for a list of this capacity, which [`CandidateList::reset`] and
    /// [`CandidateList::grow`] may set then.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    pub(crate) fn make_room(&mut self, capacity: usize) -> Result<(), Error> {
        self.keys.make_room((capacity + DEGREE_MAX).saturating_sub(self.keys.len()))
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

    /// Whether the cache knows that the candidate was inserted before. `false` says nothing.
    #[inline]
    pub(crate) fn took_lately(&self, estimate: f32, id: u32) -> bool {
        self.took(entry(estimate, id))
    }

    #[inline]
    fn took(&self, entry: u64) -> bool {
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
        if self.took(entry) {
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
        if let Some(recent) = self.recent.get_mut(recent_place(entry)) {
            *recent = entry;
        }
        self.first_open = self.first_open.min(at);
        true
    }

    /// [`CandidateList::insert_or`] for up to [`DEGREE_MAX`] candidates at once: those that have a
    /// bit in `which`, the lowest for the first, and that `candidate` does not leave out.
    #[inline]
    pub(crate) fn insert_all(
        &mut self,
        mut which: u64,
        candidate: impl Fn(usize) -> Option<(f32, u32)>,
        mut rejected: impl FnMut(f32, u32),
    ) {
        // Skips candidates that were inserted before without a branch for each, which no CPU could
        // predict.
        let mut new = [0; DEGREE_MAX];
        let mut count = 0;
        while which != 0 {
            let candidate = candidate(which.trailing_zeros() as usize);
            which &= which - 1;
            let Some((estimate, id)) = candidate else { continue };
            let entry = entry(estimate, id);
            new[count % DEGREE_MAX] = entry;
            count += usize::from(!self.took(entry));
        }
        self.merge(&mut new[..count], &mut rejected);
    }

    /// Merges entries into the list: each of its keys moves once. Entries that the list has are
    /// left out.
    #[inline]
    fn merge(&mut self, entries: &mut [u64], rejected: &mut impl FnMut(f32, u32)) {
        if entries.is_empty() {
            return;
        }
        entries.sort_unstable();
        let (mut places, mut count, mut has_equals) = ([0; DEGREE_MAX], 0, false);
        for at in 0..entries.len() {
            let entry = entries[at];
            let place = self.keys.partition_point(|key| *key < entry);
            let is_known = |key: Option<&u64>| key.is_some_and(|key| key & !EXPANDED == entry);
            // The cache forgets many keys of a long list.
            if is_known(self.keys.get(place)) || is_known(entries[..count].last()) {
                continue;
            }
            let is_equal = |key: Option<&u64>| key.is_some_and(|key| key >> 33 == entry >> 33);
            has_equals |= is_equal(self.keys.get(place)) | is_equal(self.keys.get(place.wrapping_sub(1)));
            has_equals |= is_equal(entries[..count].last());
            (entries[count], places[count]) = (entry, place);
            count += 1;
        }
        if has_equals {
            // [`CandidateList::limit_equals`] may keep some of them out.
            for entry in &entries[..count] {
                let (estimate, id) = decode(*entry);
                self.insert_or(estimate, id, &mut *rejected);
            }
        } else if count > 0 {
            self.merge_at(&entries[..count], &places[..count], rejected);
        }
    }

    /// Merges new entries, which are sorted, into the list at these places.
    #[inline]
    fn merge_at(&mut self, new: &[u64], places: &[usize], rejected: &mut impl FnMut(f32, u32)) {
        let mut end = self.keys.len();
        self.keys.resize(end + new.len(), 0);
        for (before, (entry, place)) in new.iter().zip(places).enumerate().rev() {
            self.keys.copy_within(*place..end, *place + before + 1);
            self.keys[*place + before] = *entry;
            self.recent[recent_place(*entry)] = *entry;
            end = *place;
        }
        self.first_open = self.first_open.min(places[0]);
        if self.keys.len() > self.capacity {
            let beyond = self.keys[self.capacity..].iter().filter(|key| **key & EXPANDED == 0);
            beyond.map(|key| decode(*key)).for_each(|(estimate, id)| rejected(estimate, id));
            self.keys.truncate(self.capacity);
        }
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

    #[test]
    fn candidates_inserted_together_end_where_those_inserted_one_by_one_do() {
        let mut random = Random::new(13, 0);
        // With few different estimates, many candidates have the same one.
        // The cache forgets some of 3,000 candidates.
        for (capacity, nodes, estimates, equals_max) in [
            (1, 300, 1000, 9),
            (5, 300, 7, 2),
            (20, 300, 1000, 9),
            (60, 300, 50, 3),
            (400, 300, 9, 400),
            (2000, 3000, 1 << 20, 9),
        ] {
            let (mut together, mut one_by_one) = (CandidateList::default(), CandidateList::default());
            for list in [&mut together, &mut one_by_one] {
                list.reset(capacity);
                list.limit_equals(equals_max);
            }
            let (mut rejected, mut rejected_one_by_one) = (BTreeSet::new(), BTreeSet::new());
            let mut expanded = BTreeSet::new();
            for _ in 0..60 {
                let ids: Vec<u32> = (0..random.below(65)).map(|_| random.below(nodes) as u32).collect();
                let which = ids.iter().enumerate().fold(0, |which, (at, _)| which | random.below(2) << at);
                let candidate = |at: usize| ((ids[at] * 7919 % estimates) as f32, ids[at]);
                // The order of equal estimates decides which of them stay.
                let mut chosen: Vec<usize> = (0..ids.len()).filter(|at| which >> at & 1 == 1).collect();
                let skipped = |at: usize| ids[at].is_multiple_of(50);
                together.insert_all(
                    which,
                    |at| (!skipped(at)).then(|| candidate(at)),
                    |_, id| _ = rejected.insert(id),
                );
                chosen.sort_by_key(|at| entry(candidate(*at).0, ids[*at]));
                for at in chosen.into_iter().filter(|at| !skipped(*at)) {
                    let (estimate, id) = candidate(at);
                    one_by_one.insert_or(estimate, id, |_, id| _ = rejected_one_by_one.insert(id));
                }
                assert_eq!(together.keys, one_by_one.keys, "capacity {capacity}, {estimates} estimates");
                assert_eq!(together.first_open, one_by_one.first_open);
                let nearest = together.expand();
                assert_eq!(nearest, one_by_one.expand());
                expanded.extend(nearest.map(|(_, id)| id));
                // A candidate that was expanded and dropped may be rejected when it comes again, if
                // the list does not remember it. That depends on the order.
                let open = |ids: &BTreeSet<u32>| ids.difference(&expanded).copied().collect::<Vec<_>>();
                assert_eq!(open(&rejected), open(&rejected_one_by_one), "capacity {capacity}");
            }
        }
    }
}
