//! Pages with faults, with which searches must return correct answers or errors.
//!
//! Prefetches go through a queue whose length the seed chooses. A prefetch completes at some later
//! call, in any order, or is dropped; `finish` waits for the page in either case. None of this may
//! change an answer. Pages are damaged once, when [`FaultyPages`] is made, so every search sees the
//! same damaged pages. The number of the failing read counts the reads of all searches together.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pagehop_engine::page::{Pages, Reader};
use pagehop_engine::{BODY_BYTES, Error, PageId};

use crate::{MemPages, MemReader, Rng};

/// The faults. The default has none, except that prefetches are dropped.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of the read that fails, counted from 1 over all readers. Later reads succeed.
    pub fail_read: Option<u64>,
    /// One page in this number is damaged; 0 for none.
    pub damage_one_in: usize,
    /// Largest number of prefetches in flight; further ones are dropped.
    pub in_flight_max: usize,
}

impl Faults {
    /// A mix of faults that `seed` determines. Failing reads and damage are each absent from about
    /// half of all mixes.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seed,
            fail_read: rng.one_in(2).then(|| 1 + rng.below(64) as u64),
            damage_one_in: if rng.one_in(2) { 1 + rng.below(200) } else { 0 },
            in_flight_max: rng.below(17),
        }
    }
}

/// The damage of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit is flipped.
    Bit,
    /// One byte is changed.
    Byte,
    /// A run of up to 64 bytes is random.
    Run,
    /// All bytes from some point on are zeros, as after a torn write.
    Tail,
    /// The body is that of another page.
    Swapped,
    /// All bytes are random.
    Noise,
}

/// Numbers of calls to [`FaultyPages`], over all readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Prefetches.
    pub starts: u64,
    /// Prefetches that were dropped because the queue was full.
    pub starts_dropped: u64,
    /// Reads.
    pub finishes: u64,
    /// Reads of a page whose prefetch had completed.
    pub finishes_ready: u64,
    /// Prefetches and reads of a page that does not exist.
    pub unknown: u64,
    /// Releases.
    pub releases: u64,
}

#[derive(Default)]
struct Counters {
    starts: AtomicU64,
    starts_dropped: AtomicU64,
    finishes: AtomicU64,
    finishes_ready: AtomicU64,
    unknown: AtomicU64,
    releases: AtomicU64,
}

/// [`MemPages`] with faults.
pub struct FaultyPages {
    pages: MemPages,
    faults: Faults,
    damaged: Vec<(PageId, Damage)>,
    counters: Counters,
    readers: AtomicU64,
}

impl FaultyPages {
    /// Takes `pages` and damages those that `faults` chooses.
    pub fn new(pages: MemPages, faults: Faults) -> Self {
        let mut faulty =
            Self { pages, faults, damaged: Vec::new(), counters: Counters::default(), readers: AtomicU64::new(0) };
        faulty.damage_pages();
        faulty
    }

    /// The faults; print them when a test fails.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The pages that differ from what was written. The damage of a page may be in bytes that have
    /// no meaning.
    pub fn damaged(&self) -> &[(PageId, Damage)] {
        &self.damaged
    }

    /// The numbers of calls so far.
    pub fn calls(&self) -> Calls {
        let counters = &self.counters;
        Calls {
            starts: counters.starts.load(Relaxed),
            starts_dropped: counters.starts_dropped.load(Relaxed),
            finishes: counters.finishes.load(Relaxed),
            finishes_ready: counters.finishes_ready.load(Relaxed),
            unknown: counters.unknown.load(Relaxed),
            releases: counters.releases.load(Relaxed),
        }
    }

    /// Fails the test if the engine accessed a page that does not exist although no page is
    /// damaged.
    ///
    /// # Panics
    ///
    /// If it did.
    pub fn assert_asked_well(&self) {
        let calls = self.calls();
        assert!(
            calls.unknown == 0 || !self.damaged.is_empty(),
            "pages that do not exist were accessed: {calls:?}, {:?}",
            self.faults,
        );
    }

    fn damage_pages(&mut self) {
        let mut rng = Rng::new(self.faults.seed ^ 0xda4a_6e00);
        let count = self.pages.page_count();
        for page in (0..count).map(PageId) {
            if !rng.one_in(self.faults.damage_one_in) || self.pages.get(page).is_none() {
                continue;
            }
            let kinds = [Damage::Bit, Damage::Byte, Damage::Run, Damage::Tail, Damage::Swapped, Damage::Noise];
            let kind = kinds[rng.below(kinds.len())];
            let other = PageId(rng.below(count as usize) as u32);
            let other = self.pages.get(other).map(<[u8]>::to_vec);
            let before = self.pages.body(page).to_vec();
            damage(self.pages.body_mut(page), kind, other.as_deref(), &mut rng);
            if self.pages.body(page) != before {
                self.damaged.push((page, kind));
            }
        }
    }
}

/// Damages `body` at a place that `rng` chooses. `other` is the body that [`Damage::Swapped`]
/// copies.
pub fn damage(body: &mut [u8], kind: Damage, other: Option<&[u8]>, rng: &mut Rng) {
    let at = rng.below(body.len());
    match kind {
        Damage::Bit => body[at] ^= 1 << rng.below(8),
        Damage::Byte => body[at] = body[at].wrapping_add(1 + rng.below(255) as u8),
        Damage::Run => {
            let end = (at + 1 + rng.below(64)).min(body.len());
            fill(&mut body[at..end], rng);
        }
        Damage::Tail => body[at..].fill(0),
        Damage::Swapped => {
            if let Some(other) = other.filter(|other| other.len() == body.len()) {
                body.copy_from_slice(other);
            }
        }
        Damage::Noise => fill(body, rng),
    }
}

fn fill(bytes: &mut [u8], rng: &mut Rng) {
    bytes.fill_with(|| rng.next_u64() as u8);
}

impl Pages for FaultyPages {
    type Reader<'p> = FaultyReader<'p>;

    fn reader(&self) -> FaultyReader<'_> {
        let number = self.readers.fetch_add(1, Relaxed);
        FaultyReader {
            host: self,
            inner: self.pages.reader(),
            queue: RefCell::new(Queue {
                rng: Rng::new(self.faults.seed ^ (number << 32)),
                in_flight: Vec::new(),
                landed: Vec::new(),
            }),
        }
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }
}

/// The reader of one search of [`FaultyPages`].
pub struct FaultyReader<'p> {
    host: &'p FaultyPages,
    inner: MemReader<'p>,
    queue: RefCell<Queue>,
}

struct Queue {
    rng: Rng,
    in_flight: Vec<PageId>,
    landed: Vec<PageId>,
}

impl Queue {
    /// Completes some of the prefetches in flight, in random order; sometimes none.
    fn pump(&mut self) {
        while !self.in_flight.is_empty() && self.rng.one_in(2) {
            let which = self.rng.below(self.in_flight.len());
            let page = self.in_flight.swap_remove(which);
            self.landed.push(page);
        }
    }
}

impl Reader for FaultyReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    /// # Panics
    ///
    /// If `bytes` is not a part of a body.
    fn start(&self, page: PageId, bytes: Range<usize>) {
        assert!(
            bytes.start <= bytes.end && bytes.end <= BODY_BYTES,
            "bytes {bytes:?} of page {} are not a part of its body",
            page.0,
        );
        let counters = &self.host.counters;
        counters.starts.fetch_add(1, Relaxed);
        if self.host.pages.get(page).is_none() {
            counters.unknown.fetch_add(1, Relaxed);
            return;
        }
        let mut queue = self.queue.borrow_mut();
        queue.pump();
        if queue.in_flight.len() >= self.host.faults.in_flight_max {
            counters.starts_dropped.fetch_add(1, Relaxed);
            return;
        }
        queue.in_flight.push(page);
        self.inner.start(page, bytes);
    }

    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        let counters = &self.host.counters;
        let number = 1 + counters.finishes.fetch_add(1, Relaxed);
        if self.host.pages.get(page).is_none() {
            counters.unknown.fetch_add(1, Relaxed);
        }
        let mut queue = self.queue.borrow_mut();
        queue.pump();
        if queue.landed.contains(&page) {
            counters.finishes_ready.fetch_add(1, Relaxed);
        }
        queue.landed.retain(|&landed| landed != page);
        queue.in_flight.retain(|&under_way| under_way != page);
        drop(queue);
        if self.host.faults.fail_read == Some(number) {
            let seed = self.host.faults.seed;
            return Err(Error::io(
                format!("read {number}, of page {}, with seed {seed}", page.0),
                std::io::Error::other("fails on purpose"),
            ));
        }
        self.inner.finish(page)
    }

    fn release(&mut self) {
        self.host.counters.releases.fetch_add(1, Relaxed);
        self.inner.release();
    }

    fn pages_missed(&self) -> u64 {
        self.inner.pages_missed()
    }
}

#[cfg(test)]
mod tests;
