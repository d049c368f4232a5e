//! The buffer pool: frames in one mapping, the page table, and the choice of what to evict.
//!
//! **Frames** lie in one anonymous mapping, aligned to 2 MiB and advised to use huge pages; they are
//! touched in order, so a small file costs little. There are never more than the file has pages.
//!
//! **The table** has one 32-bit entry per page: absent, being read, or resident in a frame, with a
//! count of uses (0 to 3). Finding a resident page is one load. A reader raises the count only while
//! it is below 3, so that a hot page's entry is not written at all.
//!
//! **Eviction** sweeps the frames like a clock hand, lowering counts and taking frames at 0. It runs
//! ahead of need: a frame is unmapped at once, but rests in `retired` until every reader has moved
//! on ([`crate::epoch`]); `reserve` says how many frames are kept free or resting.
//!
//! A [`Frame`] is the right to write one frame. It is held by exactly one of: the free list, the
//! retired list, a read in flight, or the table (as the entry). Replacing a page by copy-on-write
//! needs nothing more: fill another frame, swap the entry, retire the old one.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagehop_engine::{BODY_BYTES, HOST_HEADER_BYTES, PAGE_BYTES};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::epoch::{Epochs, Slot};

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Frames that even the smallest budget gets.
pub(crate) const FRAMES_MIN: u32 = 64;
/// Frames that the entry's bits can number.
const FRAMES_MAX: u32 = 1 << 28;

// A page's entry in the table: state in the high bits, frame in the low ones; 0 is an absent page.
const RESIDENT: u32 = 1 << 31;
const PENDING: u32 = 1 << 30;
const USES: u32 = 3 << 28;
const USE_ONE: u32 = 1 << 28;
const FRAME: u32 = FRAMES_MAX - 1;
const ABSENT: u32 = 0;

/// Owner of a frame that is not in the table.
const NO_PAGE: u32 = u32::MAX;

/// The right to write one frame. Dropping it loses the frame, so it is always passed on.
#[derive(Debug)]
#[must_use]
pub(crate) struct Frame(u32);

/// The memory of the frames.
pub(crate) struct Frames {
    base: NonNull<u8>,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    count: u32,
}

// SAFETY: the mapping belongs to no thread; `Frame` and the epochs decide who touches which part.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    fn new(count: u32) -> std::io::Result<Self> {
        let bytes = count as usize * PAGE_BYTES;
        let mapping_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), mapping_bytes, access, kind)?
        };
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("mmap never returns address 0");
        let skip = mapping.align_offset(HUGE_PAGE_BYTES);
        assert!(skip < HUGE_PAGE_BYTES);
        // SAFETY: one huge page more than the frames need was mapped.
        let base = unsafe { mapping.add(skip) };
        // The last, partly used huge page stays of small ones: it may not be touched to its end.
        let huge_bytes = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if huge_bytes > 0 {
            // SAFETY: the range lies in the mapping; advice changes no content. A kernel without
            // huge pages refuses, and nothing is lost.
            let _ = unsafe { madvise(base.as_ptr().cast(), huge_bytes, Advice::LinuxHugepage) };
        }
        Ok(Self { base, mapping, mapping_bytes, count })
    }

    /// Where `frame` lies: [`PAGE_BYTES`] writable bytes for as long as `self` and `frame` live.
    pub(crate) fn address(&self, frame: &Frame) -> *mut u8 {
        assert!(frame.0 < self.count);
        // SAFETY: a frame below `count` lies within the mapping.
        unsafe { self.base.as_ptr().add(frame.0 as usize * PAGE_BYTES) }
    }

    /// The bytes of `frame`.
    pub(crate) fn bytes_mut<'f>(&'f self, frame: &'f mut Frame) -> &'f mut [u8; PAGE_BYTES] {
        // SAFETY: in bounds (`address`), initialized (an anonymous mapping is zeroed), and nobody
        // else looks at it: `Frame` is exclusive and borrowed mutably for as long as the result.
        unsafe { &mut *self.address(frame).cast::<[u8; PAGE_BYTES]>() }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and whoever could touch it holds an `Arc` of `self`.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

/// What the table says about a page.
pub(crate) enum Lookup<'r> {
    /// Its body.
    Resident(&'r [u8]),
    /// Somebody is reading it.
    Pending,
    /// It is in no frame.
    Absent,
    /// The file has no such page.
    Unknown,
}

/// Frames, page table and epochs.
pub(crate) struct Pool {
    base: NonNull<u8>,
    table: Box<[AtomicU32]>,
    frames: Arc<Frames>,
    /// The page in each frame; written by who holds the frame, or evicts it.
    owners: Box<[AtomicU32]>,
    epochs: Epochs,
    spare: Mutex<Spare>,
    evictions: AtomicU64,
}

// SAFETY: `base` is a copy of `frames.base`; the rest is `Send` and `Sync` by itself.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Frames that hold no page, and where to find more.
struct Spare {
    /// Frames from here on were never used.
    untouched: u32,
    free: Vec<Frame>,
    /// Frames that left the table in the epoch beside them; oldest first.
    retired: VecDeque<(u64, Frame)>,
    hand: u32,
    reserve: u32,
}

impl Pool {
    /// A pool for a file of `page_count` pages that stays within `cache_bytes`, tables included,
    /// but has at least [`FRAMES_MIN`] frames (or one per page).
    pub(crate) fn new(page_count: u32, cache_bytes: u64) -> std::io::Result<Self> {
        let table_bytes = u64::from(page_count) * 4;
        let frame_bytes = (PAGE_BYTES + size_of::<AtomicU32>()) as u64;
        let affordable = cache_bytes.saturating_sub(table_bytes) / frame_bytes;
        let wanted = affordable.clamp(u64::from(FRAMES_MIN), u64::from(FRAMES_MAX));
        let count = u32::try_from(wanted).expect("clamped").min(page_count.max(1));
        let frames = Arc::new(Frames::new(count)?);
        Ok(Self {
            base: frames.base,
            table: (0..page_count).map(|_| AtomicU32::new(ABSENT)).collect(),
            frames,
            owners: (0..count).map(|_| AtomicU32::new(NO_PAGE)).collect(),
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
        self.frames.count
    }

    pub(crate) fn page_count(&self) -> u32 {
        u32::try_from(self.table.len()).expect("made from a u32")
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Every slot a reader has or had.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.epochs.slots()
    }

    /// Begins a reader.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold { pool: self, slot: self.epochs.take(), looking: Cell::new(false) }
    }

    /// Whether pages may have to leave.
    fn evicts(&self) -> bool {
        self.page_count() > self.frames.count
    }

    /// Makes the caller the one who reads `page`, into `frame`. The frame comes back if the page is
    /// not absent any more.
    pub(crate) fn claim(&self, page: u32, frame: Frame) -> Result<Frame, Frame> {
        let pending = PENDING | frame.0;
        let entry = &self.table[page as usize];
        match entry.compare_exchange(ABSENT, pending, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(frame),
            Err(_) => Err(frame),
        }
    }

    /// Shows `page`, which the caller claimed and whose bytes in `frame` it verified, to everyone.
    pub(crate) fn publish(&self, page: u32, frame: Frame, uses: u32) {
        self.owners[frame.0 as usize].store(page, Ordering::Relaxed);
        let entry = RESIDENT | (uses.min(3) * USE_ONE) | frame.0;
        let before = self.table[page as usize].swap(entry, Ordering::AcqRel);
        debug_assert_eq!(before, PENDING | frame.0);
    }

    /// Gives up reading `page`, which the caller claimed.
    pub(crate) fn abandon(&self, page: u32, frame: Frame) {
        let before = self.table[page as usize].swap(ABSENT, Ordering::Relaxed);
        debug_assert_eq!(before, PENDING | frame.0);
        self.give_back(frame);
    }

    /// Returns a frame that was not used.
    pub(crate) fn give_back(&self, frame: Frame) {
        self.spare().free.push(frame);
    }

    /// A frame to read into, if one is out of every reader's sight. Never waits for a reader.
    pub(crate) fn take(&self) -> Option<Frame> {
        let mut spare = self.spare();
        if spare.free.is_empty() && spare.untouched == self.frames.count {
            self.reclaim(&mut spare);
        }
        let frame = if let Some(frame) = spare.free.pop() {
            Some(frame)
        } else if spare.untouched < self.frames.count {
            spare.untouched += 1;
            Some(Frame(spare.untouched - 1))
        } else {
            // Everybody needs more than was thought.
            spare.reserve = (spare.reserve * 2).min(self.frames.count / 4);
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

    /// Evicts ahead of need.
    fn keep_reserve(&self, spare: &mut Spare) {
        if !self.evicts() {
            return;
        }
        let untouched = (self.frames.count - spare.untouched) as usize;
        let at_hand = untouched + spare.free.len() + spare.retired.len();
        let reserve = spare.reserve as usize;
        if at_hand <= reserve - reserve / 4 {
            self.evict(spare, reserve - at_hand);
        }
    }

    /// Moves `wanted` frames, or as many as can be found, from the table to `retired`.
    fn evict(&self, spare: &mut Spare, wanted: usize) {
        // Within `patience` only pages without a use go. A sweep is bounded, so that nobody waits for a
        // walk over a large pool: beyond `patience` a single use saves no page, and near the end none.
        let patience = 64 * wanted as u64;
        let steps_max = 4 * patience + u64::from(self.frames.count).min(1 << 14);
        let mut found = Vec::with_capacity(wanted);
        for step in 0..steps_max {
            if found.len() == wanted {
                break;
            }
            let frame = spare.hand;
            spare.hand = (spare.hand + 1) % self.frames.count;
            let page = self.owners[frame as usize].load(Ordering::Relaxed);
            let Some(entry) = self.table.get(page as usize) else {
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
                self.owners[frame as usize].store(NO_PAGE, Ordering::Relaxed);
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
        // A lost race loses one use.
        let _ = self.table[page].compare_exchange(entry, entry + USE_ONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A reader's protection: no page that it reached goes away while it is borrowed.
pub(crate) struct Hold<'p> {
    pool: &'p Pool,
    slot: &'p Slot,
    /// Whether the slot has published an epoch.
    looking: Cell<bool>,
}

impl<'p> Hold<'p> {
    /// The body of `page` if it is resident, counted as a use.
    #[inline]
    pub(crate) fn resident(&self, page: u32) -> Option<&[u8]> {
        self.look();
        let entry = self.pool.table.get(page as usize)?.load(Ordering::Acquire);
        if entry & RESIDENT == 0 {
            return None;
        }
        if entry & USES != USES {
            self.pool.count_use(page as usize, entry);
        }
        Some(self.body(entry & FRAME))
    }

    /// What the table says about `page`; counts no use.
    #[inline]
    pub(crate) fn look_up(&self, page: u32) -> Lookup<'_> {
        self.look();
        match self.pool.table.get(page as usize).map(|entry| entry.load(Ordering::Acquire)) {
            Some(entry) if entry & RESIDENT != 0 => Lookup::Resident(self.body(entry & FRAME)),
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

    /// [`Pool::publish`] with one use, and the body.
    pub(crate) fn publish(&self, page: u32, frame: Frame) -> &[u8] {
        self.look();
        let number = frame.0;
        self.pool.publish(page, frame, 1);
        self.body(number)
    }

    /// Promises that nothing is held: `&mut` proves it.
    #[inline]
    pub(crate) fn release(&mut self) {
        // Where every page has its frame, there is nothing to release and the fence can be saved.
        if self.pool.evicts() && self.looking.replace(false) {
            self.pool.epochs.leave(self.slot);
        }
    }

    pub(crate) fn slot(&self) -> &'p Slot {
        self.slot
    }

    /// The body in `frame`, which was in the table at some time since [`Hold::look`].
    #[inline]
    fn body(&self, frame: u32) -> &[u8] {
        debug_assert!(self.looking.get() && frame < self.pool.frames.count);
        // SAFETY: only frames of this pool get into the table, so the bytes are in the mapping, and
        // they were written before the entry was stored (release, acquire). Nobody writes them again
        // while the result lives: the frame was in the table after this slot published its epoch,
        // so it is or will be retired with that epoch or a later one, and it stays retired until
        // this slot takes its epoch back, which takes `&mut self`.
        unsafe {
            let page = self.pool.base.as_ptr().add(frame as usize * PAGE_BYTES);
            std::slice::from_raw_parts(page.add(HOST_HEADER_BYTES), BODY_BYTES)
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.pool.epochs.give_back(self.slot);
    }
}
