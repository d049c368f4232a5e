//! Which readers may still read a frame that no longer holds its page.
//!
//! Instead of pinning every page, a reader publishes the *epoch* in which it began to look at
//! pages. A frame that leaves the page table is stamped with the current epoch, and the epoch is
//! increased. The frame is reused once every reader that is looking has published a later epoch:
//! such a reader looked at the table after the page had left it.
//!
//! A reader that released everything publishes nothing, so a search that pauses does not delay the
//! reuse of a frame.
//!
//! Slots are made as readers need them and live as long as the pool. Each also has its reader's
//! [`Lane`]: resources that are too costly to make for every search.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use crate::cache::lane::Lane;
use crate::process::snapshots::LaneSlot;

/// Published by a slot whose reader reads no frame.
const IDLE: u64 = u64::MAX;

/// The epoch and every reader's slot.
#[derive(Default)]
pub(crate) struct Epochs {
    now: Apart<AtomicU64>,
    first: Slot,
}

/// Separates data that many threads read from data that some thread writes.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// The slot in which one reader at a time publishes its epoch.
#[repr(align(128))]
pub(crate) struct Slot {
    seen: AtomicU64,
    taken: AtomicBool,
    /// Whether the lane has reads under way; a hint.
    reading: AtomicBool,
    lane: Mutex<Lane>,
    /// The slot of the reader's snapshot.
    pub(crate) snapshot: LaneSlot,
    next: OnceLock<Box<Slot>>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            seen: AtomicU64::new(IDLE),
            taken: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            lane: Mutex::default(),
            snapshot: LaneSlot::default(),
            next: OnceLock::new(),
        }
    }
}

impl Slot {
    /// The lane, for its reader. Other threads hold it only briefly.
    pub(crate) fn lane(&self) -> MutexGuard<'_, Lane> {
        // The lock is poisoned by a panic elsewhere in a search. A lane is consistent between any
        // two of its calls.
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane, unless another thread is using it.
    pub(crate) fn try_lane(&self) -> Option<MutexGuard<'_, Lane>> {
        match self.lane.try_lock() {
            Ok(lane) => Some(lane),
            Err(TryLockError::Poisoned(lane)) => Some(lane.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.reading.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reading(&self, reading: bool) {
        self.reading.store(reading, Ordering::Relaxed);
    }
}

impl Epochs {
    /// A slot for a new reader, which [`Epochs::give_back`] ends.
    pub(crate) fn take(&self) -> &Slot {
        let mut slot = &self.first;
        loop {
            if !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::Acquire) {
                return slot;
            }
            slot = slot.next.get_or_init(Box::default);
        }
    }

    /// Frees `slot` for another reader.
    pub(crate) fn give_back(&self, slot: &Slot) {
        self.leave(slot);
        slot.taken.store(false, Ordering::Release);
    }

    /// All slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        std::iter::successors(Some(&self.first), |slot| slot.next.get().map(Box::as_ref))
    }

    /// Frames that leave the table from here on are kept for the reader of `slot`.
    #[inline]
    pub(crate) fn enter(&self, slot: &Slot) {
        slot.seen.store(self.now.0.load(Ordering::Acquire), Ordering::Relaxed);
        // Pairs with the fence of `advance`: either the evictor sees this slot, or this reader sees
        // the table without the page.
        fence(Ordering::SeqCst);
    }

    /// The reader of `slot` reads no frame any more.
    #[inline]
    pub(crate) fn leave(&self, slot: &Slot) {
        slot.seen.store(IDLE, Ordering::Release);
    }

    /// Ends the current epoch after some frames left the table; they are stamped with the result.
    pub(crate) fn advance(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now.0.fetch_add(1, Ordering::SeqCst)
    }

    /// Frames with a stamp below this are read by no reader.
    pub(crate) fn oldest(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.slots().map(|slot| slot.seen.load(Ordering::Acquire)).min().unwrap_or(IDLE)
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        // One by one: the derived drop would nest as deep as the list is long.
        let mut next = self.first.next.take();
        while let Some(mut slot) = next {
            next = slot.next.take();
        }
    }
}
