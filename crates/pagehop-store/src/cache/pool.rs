//! The buffer pool: the page table, and the choice of frames to evict.
//!
//! **Frames** are in `frames.rs`. There are never more of them than pages that the file may soon
//! have.
//!
//! **The table** has one 32-bit entry per page: absent, being read, or resident in a frame, with a
//! count of uses (0 to 3). Finding a resident page is one load. A reader raises the count only
//! while it is below 3, so that a hot page's entry is not written at all. It is mapped for more
//! pages than there are, which costs nothing until the index grows.
//!
//! **Eviction** sweeps the frames like a clock hand, lowering counts and taking frames at 0. It
//! runs before frames are needed: a frame is unmapped at once, but stays in `retired` until every
//! reader has published a later epoch ([`crate::cache::epoch`]); `reserve` is the number of frames
//! that are kept free or resting.
//!
//! **Replacing** a page by a newer version is copy-on-write: another frame is filled, the entry
//! swapped, the old frame retired. If a read of the old version is under way, the entry is marked
//! instead, and the reader finds the mark when it publishes the page.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagehop_engine::PAGE_BYTES;

use crate::cache::budget::bytes_for_pages;
use crate::cache::epoch::{Epochs, Slot};
use crate::cache::frames::{Frame, Frames};
use crate::process::mapping::Words;

/// Frames that even the smallest budget gets.
pub(crate) const FRAMES_MIN: u32 = 64;
/// Retired frames from which on they are preferred to frames that were never used.
const RETIRED_FIRST: usize = 128;
/// Frames that the entry's bits can number.
const FRAMES_MAX: u32 = 1 << 28;
/// Least number of pages by which an index can grow until it is opened again, and the number of
/// these that get frames.
const GROWTH: u32 = 1 << 26;
const GROWTH_CACHED: u32 = 1 << 17;

// A page's entry in the table: state in the high bits, frame in the low ones; 0 is an absent page.
const RESIDENT: u32 = 1 << 31;
const PENDING: u32 = 1 << 30;
const USES: u32 = 3 << 28;
const USE_ONE: u32 = 1 << 28;
/// Bit of a pending page: the version that is being read is not the newest any more.
const STALE: u32 = 1 << 28;
const FRAME: u32 = FRAMES_MAX - 1;
const ABSENT: u32 = 0;

/// The entry of a page in the table.
pub(crate) enum Lookup<'r> {
    /// The page is in a frame: its bytes.
    Resident(&'r [u8; PAGE_BYTES]),
    /// A reader is reading the page.
    Pending,
    /// The page is in no frame.
    Absent,
    /// The file has no such page.
    Unknown,
}

/// Frames, page table and epochs.
pub(crate) struct Pool {
    base: NonNull<u8>,
    /// Entries of the pages that exist, then of pages that may be added.
    table: Words<AtomicU32>,
    pages: AtomicU32,
    frames: Arc<Frames>,
    /// The page in each frame; written by the thread that holds or evicts the frame.
    owners: Words<AtomicU32>,
    /// Whether frames may leave the table: there are fewer than pages, or pages get newer versions.
    changes: AtomicBool,
    epochs: Epochs,
    spare: Mutex<Spare>,
    evictions: AtomicU64,
}

// SAFETY: `base` is a copy of `frames.base`; the rest is `Send` and `Sync` by itself.
unsafe impl Send for Pool {}
// SAFETY: `base` is a copy of `frames.base`; the rest is `Send` and `Sync` by itself.
unsafe impl Sync for Pool {}

/// Frames that hold no page, and the numbers to find more.
struct Spare {
    /// Frames from this one on were never used.
    untouched: u32,
    free: Vec<Frame>,
    /// Frames that left the table in the epoch beside them; oldest first.
    retired: VecDeque<(u64, Frame)>,
    hand: u32,
    reserve: u32,
}

impl Pool {
    /// A pool for a file of `page_count` pages that stays within `cache_bytes`, tables included,
    /// but has frames of half of them ([`bytes_for_pages`]), and at least [`FRAMES_MIN`].
    pub(crate) fn new(page_count: u32, cache_bytes: u64) -> std::io::Result<Self> {
        let frame_bytes = (PAGE_BYTES + size_of::<AtomicU32>()) as u64;
        let affordable = bytes_for_pages(cache_bytes, page_count) / frame_bytes;
        let wanted = affordable.clamp(u64::from(FRAMES_MIN), u64::from(FRAMES_MAX));
        let useful = page_count.saturating_add(page_count.max(GROWTH_CACHED));
        let count = u32::try_from(wanted).expect("clamped").min(useful);
        let frames = Arc::new(Frames::new(count)?);
        frames.advise(page_count);
        Ok(Self {
            base: frames.base(),
            table: table_for(page_count)?,
            pages: AtomicU32::new(page_count),
            frames,
            owners: Words::private(count as usize)?,
            changes: AtomicBool::new(page_count > count),
            epochs: Epochs::default(),
            spare: Mutex::new(Spare {
                untouched: 0,
                free: Vec::new(),
                retired: VecDeque::new(),
                hand: 0,
                reserve: (count / 16).clamp(16, 256).min(count / 4),
            }),
            evictions: AtomicU64::new(0),
        })
    }

    pub(crate) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    pub(crate) fn frame_count(&self) -> u32 {
        self.frames.count()
    }

    #[inline]
    pub(crate) fn page_count(&self) -> u32 {
        self.pages.load(Ordering::Acquire)
    }

    /// Pages that the table has room for.
    pub(crate) fn capacity(&self) -> u32 {
        u32::try_from(self.table.len()).unwrap_or(u32::MAX)
    }

    /// Makes pages below `pages` known, which is at most [`Pool::capacity`].
    pub(crate) fn grow(&self, pages: u32) {
        assert!(pages <= self.capacity());
        if self.pages.fetch_max(pages, Ordering::AcqRel) < pages {
            self.frames.advise(pages);
            if pages > self.frames.count() {
                self.expect_changes();
            }
        }
    }

    /// From now on pages may get newer versions. A reader that is reading frames delays their reuse
    /// until its next release.
    pub(crate) fn expect_changes(&self) {
        self.changes.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn entry(&self, page: u32) -> Option<&AtomicU32> {
        (page < self.page_count()).then(|| self.table.word(page as usize))
    }

    fn known(&self, page: u32) -> &AtomicU32 {
        self.entry(page).expect("only pages that exist are read")
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// All slots that readers have or had.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.epochs.slots()
    }

    /// Begins a reader.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold { pool: self, slot: self.epochs.take(), looking: Cell::new(false) }
    }

    /// Makes the caller the reader of `page`, into `frame`. Returns the frame if the page is not
    /// absent any more.
    pub(crate) fn claim(&self, page: u32, frame: Frame) -> Result<Frame, Frame> {
        let pending = PENDING | frame.0;
        // Sequentially consistent, with `replace`: the writer sees the claim, or its new version is
        // read.
        match self.known(page).compare_exchange(ABSENT, pending, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Ok(frame),
            Err(_) => Err(frame),
        }
    }

    /// Shows `page`, which the caller claimed and whose bytes in `frame` it verified, to all
    /// readers. `false` if a newer version came in between: the page is absent then.
    pub(crate) fn publish(&self, page: u32, frame: Frame, uses: u32) -> bool {
        self.owners.word(frame.0 as usize).store(page, Ordering::Relaxed);
        let shown = RESIDENT | (uses.min(3) * USE_ONE) | frame.0;
        let pending = PENDING | frame.0;
        let swapped = self.known(page).compare_exchange(pending, shown, Ordering::AcqRel, Ordering::Relaxed);
        match swapped {
            Ok(_) => true,
            Err(before) => {
                debug_assert_eq!(before, pending | STALE);
                self.abandon(page, frame);
                false
            }
        }
    }

    /// Gives up reading `page`, which the caller claimed.
    pub(crate) fn abandon(&self, page: u32, frame: Frame) {
        let before = self.known(page).swap(ABSENT, Ordering::Relaxed);
        debug_assert_eq!(before & !STALE, PENDING | frame.0);
        self.give_back(frame);
    }

    /// Shows `frame`, a newer version of `page`, to all readers; without a frame, forgets the older
    /// version. The frame that leaves the table is added to `left`, to be retired.
    pub(crate) fn replace(&self, page: u32, frame: Option<Frame>, left: &mut Vec<Frame>) {
        if let Some(frame) = &frame {
            self.owners.word(frame.0 as usize).store(page, Ordering::Relaxed);
        }
        let entry = self.known(page);
        let mut now = entry.load(Ordering::SeqCst);
        loop {
            let next = match &frame {
                _ if now & PENDING != 0 => now | STALE,
                Some(frame) if now & RESIDENT != 0 => RESIDENT | (now & USES) | frame.0,
                Some(frame) => RESIDENT | USE_ONE | frame.0,
                None => ABSENT,
            };
            match entry.compare_exchange(now, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(other) => now = other,
            }
        }
        if now & PENDING != 0 {
            frame.into_iter().for_each(|frame| self.give_back(frame));
        } else if now & RESIDENT != 0 {
            left.push(Frame(now & FRAME));
        }
    }

    /// Forgets `page` if it is still in the frame that holds `bytes`.
    pub(crate) fn evict_page(&self, page: u32, bytes: &[u8; PAGE_BYTES]) {
        let frame = ((bytes.as_ptr() as usize - self.base.as_ptr() as usize) / PAGE_BYTES) as u32;
        let entry = self.known(page);
        let mut now = entry.load(Ordering::Relaxed);
        while now & !USES == RESIDENT | frame {
            match entry.compare_exchange(now, ABSENT, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return self.retire([Frame(frame)]),
                Err(other) => now = other,
            }
        }
    }

    /// Keeps frames that left the table until no reader can see them.
    pub(crate) fn retire(&self, left: impl IntoIterator<Item = Frame>) {
        let mut spare = self.spare();
        let stamp = self.epochs.advance();
        spare.retired.extend(left.into_iter().map(|frame| (stamp, frame)));
    }

    /// Returns a frame that was not used.
    pub(crate) fn give_back(&self, frame: Frame) {
        self.spare().free.push(frame);
    }

    /// A frame to read into, if there is one that no reader uses. Never waits for a reader.
    pub(crate) fn take(&self) -> Option<Frame> {
        let mut spare = self.spare();
        // Memory that was used before costs less than new memory.
        let is_new_dear = spare.untouched == self.frames.count() || spare.retired.len() >= RETIRED_FIRST;
        if spare.free.is_empty() && is_new_dear {
            self.reclaim(&mut spare);
        }
        let frame = if let Some(frame) = spare.free.pop() {
            Some(frame)
        } else if spare.untouched < self.frames.count() {
            spare.untouched += 1;
            Some(Frame(spare.untouched - 1))
        } else {
            // Readers need more free frames than the reserve.
            spare.reserve = (spare.reserve * 2).min(self.frames.count() / 4);
            None
        };
        self.keep_reserve(&mut spare);
        frame
    }

    /// Frees the retired frames that no reader can see.
    fn reclaim(&self, spare: &mut Spare) {
        if spare.retired.is_empty() {
            return;
        }
        let oldest = self.epochs.oldest();
        while spare.retired.front().is_some_and(|(stamp, _)| *stamp < oldest) {
            let (_, frame) = spare.retired.pop_front().expect("looked at");
            spare.free.push(frame);
        }
    }

    /// Evicts frames ahead of need.
    fn keep_reserve(&self, spare: &mut Spare) {
        if !self.changes.load(Ordering::Relaxed) {
            return;
        }
        let untouched = (self.frames.count() - spare.untouched) as usize;
        let at_hand = untouched + spare.free.len() + spare.retired.len();
        let reserve = spare.reserve as usize;
        if at_hand <= reserve - reserve / 4 {
            self.evict(spare, reserve - at_hand);
        }
    }

    /// Moves `wanted` frames, or as many as can be found, from the table to `retired`.
    fn evict(&self, spare: &mut Spare, wanted: usize) {
        // Within `patience` only pages without a use are evicted. A sweep is bounded, so that no
        // thread waits for a walk over a large pool: beyond `patience` a single use protects no
        // page, and near the end no use does.
        let patience = 64 * wanted as u64;
        let steps_max = 4 * patience + u64::from(self.frames.count()).min(1 << 14);
        let mut found = Vec::with_capacity(wanted);
        for step in 0..steps_max {
            if found.len() == wanted {
                break;
            }
            let frame = spare.hand;
            spare.hand = (spare.hand + 1) % self.frames.count();
            let page = self.owners.word(frame as usize).load(Ordering::Relaxed);
            // If a frame holds no page, its owner is an earlier page, or page 0.
            let Some(entry) = self.entry(page) else {
                continue;
            };
            let now = entry.load(Ordering::Relaxed);
            if now & !USES != RESIDENT | frame {
                continue;
            }
            let uses_spared = match step {
                _ if step < patience => 1,
                _ if step < steps_max - patience => 2,
                _ => 4,
            };
            let spared = (now & USES) / USE_ONE >= uses_spared;
            let next = if spared { now - USE_ONE } else { ABSENT };
            // Acquire: the frame's next user must come after its last.
            let swapped = entry.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed);
            if !spared && swapped.is_ok() {
                found.push(Frame(frame));
            }
        }
        if found.is_empty() {
            return;
        }
        self.evictions.fetch_add(found.len() as u64, Ordering::Relaxed);
        let stamp = self.epochs.advance();
        spare.retired.extend(found.into_iter().map(|frame| (stamp, frame)));
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn count_use(&self, page: usize, entry: u32) {
        // If another thread changes the entry at the same time, one use is not counted.
        let _ =
            self.table.word(page).compare_exchange(entry, entry + USE_ONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Protects a reader's pages: no page that it found is evicted while it is borrowed.
pub(crate) struct Hold<'p> {
    pool: &'p Pool,
    slot: &'p Slot,
    /// Whether the slot has published an epoch.
    looking: Cell<bool>,
}

impl<'p> Hold<'p> {
    /// The bytes of `page` if it is resident, counted as a use.
    #[inline]
    pub(crate) fn resident(&self, page: u32) -> Option<&[u8; PAGE_BYTES]> {
        self.look();
        let entry = self.pool.entry(page)?.load(Ordering::Acquire);
        if entry & RESIDENT == 0 {
            return None;
        }
        if entry & USES != USES {
            self.pool.count_use(page as usize, entry);
        }
        Some(self.bytes(entry & FRAME))
    }

    /// The entry of `page` in the table; counts no use.
    #[inline]
    pub(crate) fn look_up(&self, page: u32) -> Lookup<'_> {
        self.look();
        match self.pool.entry(page).map(|entry| entry.load(Ordering::Acquire)) {
            Some(entry) if entry & RESIDENT != 0 => Lookup::Resident(self.bytes(entry & FRAME)),
            Some(ABSENT) => Lookup::Absent,
            Some(_) => Lookup::Pending,
            None => Lookup::Unknown,
        }
    }

    #[inline]
    fn look(&self) {
        if !self.looking.get() {
            self.pool.epochs.enter(self.slot);
            self.looking.set(true);
        }
    }

    /// [`Pool::publish`] with one use, and the bytes; `None` if a newer version came in between.
    pub(crate) fn publish(&self, page: u32, frame: Frame) -> Option<&[u8; PAGE_BYTES]> {
        self.look();
        let number = frame.0;
        self.pool.publish(page, frame, 1).then(|| self.bytes(number))
    }

    /// Says that this reader holds no page: `&mut` proves it.
    #[inline]
    pub(crate) fn release(&mut self) {
        // If every page has its frame, there is nothing to release and the fence can be saved.
        if self.pool.changes.load(Ordering::Relaxed) && self.looking.replace(false) {
            self.pool.epochs.leave(self.slot);
        }
    }

    pub(crate) fn slot(&self) -> &'p Slot {
        self.slot
    }

    /// The bytes in `frame`, which was in the table at some time since [`Hold::look`].
    #[inline]
    fn bytes(&self, frame: u32) -> &[u8; PAGE_BYTES] {
        debug_assert!(self.looking.get() && frame < self.pool.frames.count());
        // SAFETY: only frames of this pool get into the table, so the bytes are in the mapping, and
        // they were written before the entry was stored (release, acquire). They are not written
        // again while the result lives: the frame was in the table after this slot published its
        // epoch, so it is or will be retired with that epoch or a later one, and it stays retired
        // until this slot takes its epoch back, which takes `&mut self`.
        unsafe { &*self.pool.base.as_ptr().add(frame as usize * PAGE_BYTES).cast::<[u8; PAGE_BYTES]>() }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.pool.epochs.give_back(self.slot);
    }
}

/// A table for `pages` pages and as much growth as the system can map.
fn table_for(pages: u32) -> std::io::Result<Words<AtomicU32>> {
    let pages = u64::from(pages.max(1));
    let mut growth = u64::from(GROWTH).max(4 * pages);
    loop {
        let entries = (pages + growth).min(1 << 32);
        match Words::private(entries as usize) {
            Err(_) if growth > 0 => growth /= 2,
            result => return result,
        }
    }
}
