//! Which commits readers still use, over all processes.
//!
//! A reader's snapshot is in a slot of the shared words while the reader lives. A slot has two
//! words: its owner, and the snapshot plus one. It belongs to a reader's lane for as long as the
//! process has the index open, so that taking a snapshot is a store and a fence. If all slots are
//! taken, the remaining readers share one word of their process, which has the oldest of their
//! snapshots.
//!
//! Taking a snapshot works like a hazard pointer: store the commit number, fence, test whether it
//! is still the newest. The writer publishes, fences, then looks at the slots: it sees the
//! snapshot, or the reader sees its commit.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::process::shared_words::{PROCESSES, Shared};

/// Word of the head with the number of slots that were ever used.
const AT_SLOTS_USED: usize = 40;
/// A word for each process.
const AT_PROCESSES: usize = 512;
/// Two words for each slot.
const AT_SLOTS: usize = 2048;
const SLOTS: u32 = 4096;

/// Owner of a slot while it is taken from a process that ended.
const CLEARING: u64 = u64::MAX;

/// The slot that a lane keeps from one reader to the next: the system's process number and the slot
/// plus one.
#[derive(Default)]
pub(crate) struct LaneSlot(AtomicU64);

/// The place of a reader's snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// A slot, or the process's word.
    slot: Option<u32>,
    /// The process that took the slot; the child of a fork must not give it back.
    process: u32,
    /// The snapshot.
    pub(crate) commit: u64,
}

fn owner_of(shared: &Shared, slot: u32) -> &AtomicU64 {
    shared.word(AT_SLOTS + 2 * slot as usize)
}

fn snapshot_in(shared: &Shared, slot: u32) -> &AtomicU64 {
    shared.word(AT_SLOTS + 2 * slot as usize + 1)
}

fn word_of(shared: &Shared, process: u32) -> &AtomicU64 {
    shared.word(AT_PROCESSES + process as usize)
}

/// Makes the newest commit the snapshot of the reader with `lane`, instead of `before`.
pub(crate) fn take(shared: &Shared, lane: &LaneSlot, before: Option<Claim>) -> Claim {
    let process = shared.system_process();
    if let Some(before) = before
        && before.process == process
    {
        let Some(slot) = before.slot else { return before.renewed_together(shared) };
        return Claim { commit: store(shared, snapshot_in(shared, slot)), ..before };
    }
    let kept = lane.0.load(Ordering::Relaxed);
    let slot = if kept as u32 != 0 && (kept >> 32) as u32 == process {
        Some(kept as u32 - 1)
    } else {
        claim(shared).inspect(|&slot| {
            lane.0.store(u64::from(process) << 32 | u64::from(slot + 1), Ordering::Relaxed);
        })
    };
    let Some(slot) = slot else {
        let mut readers = shared.overflow.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let word = word_of(shared, shared.process());
        // The snapshot of an earlier reader is older, and protects this one, too.
        let commit = if *readers == 0 { store(shared, word) } else { shared.published() };
        *readers += 1;
        return Claim { slot: None, process, commit };
    };
    Claim { slot: Some(slot), process, commit: store(shared, snapshot_in(shared, slot)) }
}

impl Claim {
    fn renewed_together(self, shared: &Shared) -> Self {
        Self { commit: shared.published(), ..self }
    }
}

/// Ends the reader's hold on its snapshot.
pub(crate) fn give_back(shared: &Shared, claim: Claim) {
    if claim.process != shared.system_process() {
        return;
    }
    if let Some(slot) = claim.slot {
        snapshot_in(shared, slot).store(0, Ordering::Release);
        return;
    }
    let mut readers = shared.overflow.readers.lock().unwrap_or_else(PoisonError::into_inner);
    *readers -= 1;
    if *readers == 0 {
        word_of(shared, shared.process()).store(0, Ordering::Release);
    }
}

fn store(shared: &Shared, word: &AtomicU64) -> u64 {
    loop {
        let commit = shared.published();
        word.store(commit + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if shared.published() == commit {
            return commit;
        }
    }
}

/// A slot for this process.
fn claim(shared: &Shared) -> Option<u32> {
    let first = shared.overflow.hint.load(Ordering::Relaxed);
    let mine = u64::from(shared.process()) + 1;
    for at in 0..SLOTS {
        let slot = (first + at) % SLOTS;
        let owner = owner_of(shared, slot);
        if owner.load(Ordering::Relaxed) == 0
            && owner.compare_exchange(0, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            shared.overflow.hint.store((slot + 1) % SLOTS, Ordering::Relaxed);
            shared.word(AT_SLOTS_USED).fetch_max(u64::from(slot) + 1, Ordering::SeqCst);
            return Some(slot);
        }
    }
    None
}

/// No reader has or will have a snapshot below this. Only for the writer.
pub(crate) fn oldest(shared: &Shared) -> u64 {
    let mut oldest = shared.published();
    fence(Ordering::SeqCst);
    let mut is_alive = AliveOnce { shared, known: Vec::new() };
    let used = shared.word(AT_SLOTS_USED).load(Ordering::SeqCst).min(u64::from(SLOTS)) as u32;
    for slot in 0..used {
        let stands = snapshot_in(shared, slot).load(Ordering::SeqCst);
        let owner = owner_of(shared, slot).load(Ordering::SeqCst);
        if stands == 0 || stands > oldest || owner == 0 || owner == CLEARING {
            continue;
        }
        if is_alive.ask(owner as u32 - 1) {
            oldest = stands - 1;
        } else {
            clear(shared, slot, owner);
        }
    }
    for process in 0..PROCESSES {
        let stands = word_of(shared, process).load(Ordering::SeqCst);
        if stands != 0 && stands <= oldest && is_alive.ask(process) {
            oldest = stands - 1;
        }
    }
    oldest
}

/// Asks the system once about each process.
struct AliveOnce<'s> {
    shared: &'s Shared,
    known: Vec<(u32, bool)>,
}

impl AliveOnce<'_> {
    fn ask(&mut self, process: u32) -> bool {
        if let Some(&(_, alive)) = self.known.iter().find(|&&(known, _)| known == process) {
            return alive;
        }
        let alive = self.shared.is_alive(process);
        self.known.push((process, alive));
        alive
    }
}

/// Frees a slot of `owner`, which is gone, unless another process frees it.
fn clear(shared: &Shared, slot: u32, owner: u64) {
    let word = owner_of(shared, slot);
    if word.compare_exchange(owner, CLEARING, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        snapshot_in(shared, slot).store(0, Ordering::SeqCst);
        word.store(0, Ordering::SeqCst);
    }
}

/// Frees every slot of `process`.
pub(crate) fn forget_process(shared: &Shared, process: u32) {
    word_of(shared, process).store(0, Ordering::SeqCst);
    let used = shared.word(AT_SLOTS_USED).load(Ordering::SeqCst).min(u64::from(SLOTS)) as u32;
    for slot in 0..used {
        if owner_of(shared, slot).load(Ordering::Relaxed) == u64::from(process) + 1 {
            clear(shared, slot, u64::from(process) + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_snapshot_is_that_of_the_oldest_reader() {
        let shared = Shared::private().unwrap();
        shared.publish(10);
        assert_eq!(oldest(&shared), 10);
        let lane = LaneSlot::default();
        let first = take(&shared, &lane, None);
        assert_eq!(first.commit, 10);
        shared.publish(20);
        let second = take(&shared, &LaneSlot::default(), None);
        assert_eq!((second.commit, oldest(&shared)), (20, 10));
        shared.publish(30);
        let first = take(&shared, &lane, Some(first));
        assert_eq!((first.commit, oldest(&shared)), (30, 20));
        give_back(&shared, second);
        assert_eq!(oldest(&shared), 30);
        shared.publish(40);
        assert_eq!(oldest(&shared), 30);
        give_back(&shared, first);
        assert_eq!(oldest(&shared), 40);
    }

    #[test]
    fn more_readers_than_slots_hold_the_oldest_of_their_snapshots() {
        let shared = Shared::private().unwrap();
        shared.publish(1);
        let claims: Vec<_> = (0..SLOTS).map(|_| take(&shared, &LaneSlot::default(), None)).collect();
        shared.publish(2);
        let more: Vec<_> = (0..3).map(|_| take(&shared, &LaneSlot::default(), None)).collect();
        assert!(more.iter().all(|claim| claim.slot.is_none() && claim.commit == 2));
        claims.into_iter().for_each(|claim| give_back(&shared, claim));
        shared.publish(3);
        assert_eq!(oldest(&shared), 2);
        more.into_iter().for_each(|claim| give_back(&shared, claim));
        assert_eq!(oldest(&shared), 3);
    }

    #[test]
    fn slots_of_a_process_that_is_gone_hold_nothing() {
        let shared = Shared::private().unwrap();
        shared.publish(5);
        owner_of(&shared, 0).store(8, Ordering::Relaxed);
        snapshot_in(&shared, 0).store(2, Ordering::Relaxed);
        shared.word(AT_SLOTS_USED).store(1, Ordering::Relaxed);
        assert_eq!(oldest(&shared), 5);
        assert_eq!(owner_of(&shared, 0).load(Ordering::Relaxed), 0);
    }
}
