//! The best of many candidates that come in random order.

use std::collections::BinaryHeap;

use crate::Error;
use crate::graph::key_distance;
use crate::memory::MakeRoom;
use pagehop_kernels as kernels;

/// Keys that an empty list has room for, at most, so that it need not grow each time.
const KEPT_KEYS: usize = 4096;

/// Keeps the `keep` smallest of all keys that are offered, and some more, in linear time: at twice
/// that number, the larger half is dropped. A key that is offered twice counts twice.
#[derive(Debug, Default)]
pub(crate) struct Shortlist {
    keys: Vec<u64>,
    keep: usize,
    /// Keys from this one on are not among the smallest.
    bound: u64,
    /// Whether some keys were dropped.
    is_cut: bool,
    /// The `k` smallest, each once.
    nearest: BinaryHeap<u64>,
    k: usize,
}

impl Shortlist {
    /// Empties the list. From now on [`Shortlist::kth`] is about the smallest `k`, if `k` is not 0.
    pub(crate) fn reset(&mut self, keep: usize, k: usize) {
        self.keys.clear();
        self.nearest.clear();
        self.k = k;
        (self.keep, self.bound, self.is_cut) = (keep.max(1), u64::MAX, false);
    }

    /// Empties the list, and gives a large buffer back.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.keys.shrink_to(KEPT_KEYS);
        self.nearest.clear();
        self.nearest.shrink_to(KEPT_KEYS);
    }

    /// Approximate memory of the keys, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.keys.len() + self.nearest.len()) * size_of::<u64>()
    }

    /// Whether a key would be refused, which then counts as offered.
    #[inline]
    pub(crate) fn refuses(&mut self, key: u64) -> bool {
        let is_refused = key >= self.bound;
        self.is_cut |= is_refused;
        is_refused
    }

    /// Makes room for this number of keys that are offered next.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    pub(crate) fn make_room(&mut self, keys: usize) -> Result<(), Error> {
        self.nearest.make_room(keys.min(self.k.saturating_sub(self.nearest.len())))?;
        self.keys.make_room(keys)
    }

    /// Which of these estimates may give one of the smallest keys: a bit for each, the lowest for
    /// the first. The others count as offered and refused, and so does NaN once there are enough
    /// keys.
    #[inline]
    pub(crate) fn near(&mut self, estimates: &[f32]) -> u64 {
        let all = u64::MAX.checked_shr(u64::BITS - estimates.len() as u32).unwrap_or(0);
        if self.bound == u64::MAX {
            return all;
        }
        let near = kernels::at_most(estimates, key_distance(self.bound), f32::INFINITY);
        self.is_cut |= near != all;
        near
    }

    #[inline]
    pub(crate) fn offer(&mut self, key: u64) {
        if self.refuses(key) {
            return;
        }
        if self.k > 0 && self.kth().is_none_or(|kth| key < kth) && !self.nearest.iter().any(|near| *near == key) {
            if self.nearest.len() == self.k {
                self.nearest.pop();
            }
            self.nearest.push(key);
        }
        self.keys.push(key);
        if self.keys.len() >= self.keep.saturating_mul(2) {
            self.shrink();
        }
    }

    /// The `k`-th smallest key, if there are at least `k` keys.
    pub(crate) fn kth(&self) -> Option<u64> {
        self.nearest.peek().copied().filter(|_| self.nearest.len() >= self.k)
    }

    fn shrink(&mut self) {
        let (_, first, _) = self.keys.select_nth_unstable(self.keep);
        self.bound = *first;
        self.keys.truncate(self.keep);
        self.is_cut = true;
    }

    /// The smallest keys in order, each once.
    pub(crate) fn sorted(&mut self) -> &[u64] {
        self.keys.sort_unstable();
        self.keys.dedup();
        &self.keys
    }

    /// Whether some offered keys are not in the list.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn estimates_beyond_the_smallest_keys_are_refused_together() {
        let mut list = Shortlist::default();
        list.reset(2, 0);
        assert_eq!(list.near(&[]), 0);
        let estimates = [3.0, 9.0, f32::INFINITY, 1.0, f32::NAN];
        assert_eq!(list.near(&estimates), 0b11111);
        (1..=4).for_each(|id| list.offer(crate::graph::key(id as f32, id)));
        // 1 and 2 are left, and keys from that of 3 on are refused.
        list.is_cut = false;
        assert_eq!(list.near(&[1.0, 2.0, 3.0]), 0b111);
        assert!(!list.is_cut());
        assert_eq!(list.near(&estimates), 0b01001);
        assert!(list.is_cut());
        assert_eq!(list.near(&[0.0; 64]), u64::MAX);
    }

    #[test]
    fn the_smallest_keys_stay() {
        let mut random = Random::new(4, 0);
        let mut list = Shortlist::default();
        for keep in [1, 3, 50, 1000] {
            list.reset(keep, keep.min(7));
            let mut all: Vec<u64> = (0..200).map(|_| random.below(1 << 40)).collect();
            all.extend_from_within(..100);
            all.iter().for_each(|key| list.offer(*key));
            all.sort_unstable();
            all.dedup();
            let kept = list.sorted().to_vec();
            // Each key was offered at most twice.
            assert!(kept.len() >= keep.div_ceil(2).min(all.len()));
            assert_eq!(kept, all[..kept.len()]);
            assert_eq!(list.is_cut(), kept.len() < all.len());
            assert_eq!(list.kth(), Some(all[keep.min(7) - 1]));
        }
    }
}
