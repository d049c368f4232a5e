//! Measures whether reads of a relation wait for storage, and decides whether they are begun before
//! they are needed.
//!
//! Beginning a read early is worth while if the storage takes longer than the reader needs until it
//! uses the page. If the operating system has the page in memory, an early read costs more than it
//! saves: with PostgreSQL's I/O workers, a copy of 8 KiB costs two switches of processes. So the
//! first reads are made when they are needed, and timed. Once they are slow on average, reads are
//! begun early, except one now and then, which is timed.

use std::cell::Cell;
use std::time::Instant;

use pgrx::{GucSetting, pg_sys};

/// `pagehop.read_ahead`.
pub(crate) static READ_AHEAD: GucSetting<ReadAhead> = GucSetting::<ReadAhead>::new(ReadAhead::auto);

/// Values of `pagehop.read_ahead`.
#[allow(non_camel_case_types, reason = "they are what users write")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, pgrx::PostgresGucEnum)]
pub(crate) enum ReadAhead {
    /// If reads wait for storage.
    auto,
    /// Always.
    on,
    /// Never.
    off,
}

/// Reads slower than this on average are begun early, in microseconds. A page that the operating
/// system has takes 2 to 6, one from an SSD 50 and more, and a read by an I/O worker costs its
/// process about 30.
const SLOW_US: f32 = 30.0;
/// Reads faster than this on average are made when they are needed, in microseconds.
const FAST_US: f32 = 20.0;
/// A read counts as at most this, in microseconds: a process that loses its CPU for some
/// milliseconds seems to read slowly.
const COUNTED_US_MAX: f32 = 200.0;
/// Weight of a read in the average.
const WEIGHT: f32 = 1.0 / 16.0;
/// While reads are begun early, one is timed after this many; twice as many after each slow one.
const READS_PER_PROBE_MIN: u32 = 8;
const READS_PER_PROBE_MAX: u32 = 64;
/// No block.
const NONE: u32 = u32::MAX;

/// Statistics of a relation's reads in this session.
pub(crate) struct Waits {
    /// Average of the reads that were timed, in microseconds; later reads weigh more.
    mean_us: Cell<f32>,
    is_slow: Cell<bool>,
    /// Reads to begin between two that are timed.
    per_probe: Cell<u32>,
    /// Reads to begin until the next one is timed.
    until_probe: Cell<u32>,
    /// The block that is left to be timed.
    probe: Cell<u32>,
}

impl Default for Waits {
    /// Reads are fast until they are seen to be slow.
    fn default() -> Self {
        Self {
            mean_us: Cell::new(0.0),
            is_slow: Cell::new(false),
            per_probe: Cell::new(READS_PER_PROBE_MIN),
            until_probe: Cell::new(READS_PER_PROBE_MIN),
            probe: Cell::new(NONE),
        }
    }
}

impl Waits {
    /// Whether reads are to be begun early.
    #[inline]
    pub(super) fn reads_ahead(&self) -> bool {
        match READ_AHEAD.get() {
            ReadAhead::auto => self.is_slow.get(),
            ReadAhead::on => true,
            ReadAhead::off => false,
        }
    }

    /// Counts a read that was begun early.
    pub(super) fn count(&self) {
        self.until_probe.set(self.until_probe.get().saturating_sub(1));
    }

    /// Whether `block` is to be read when it is needed, to be timed, although reads are begun
    /// early. It must not have been begun.
    pub(super) fn leaves(&self, block: u32, has_begun: impl FnOnce() -> bool) -> bool {
        let is_due = self.until_probe.get() == 0 && READ_AHEAD.get() == ReadAhead::auto;
        if is_due && self.probe.get() == NONE && !has_begun() {
            self.probe.set(block);
        }
        is_due && self.probe.get() == block
    }

    /// Forgets the block that is left to be timed: the search may not reach it.
    pub(super) fn pause(&self) {
        self.probe.set(NONE);
    }

    /// Reads a block that was not begun early, with `read`. If it was in no buffer, learns how long
    /// that took.
    pub(super) fn time<T>(&self, block: u32, read: impl FnOnce() -> T) -> T {
        let (before, begun) = (blocks_read(), Instant::now());
        let result = read();
        if blocks_read() != before {
            self.learn(begun.elapsed().as_secs_f32() * 1e6);
        } else if block == self.probe.get() {
            self.probe.set(NONE);
        }
        result
    }

    fn learn(&self, read_us: f32) {
        let mean_us = self.mean_us.get() + WEIGHT * (read_us.min(COUNTED_US_MAX) - self.mean_us.get());
        self.mean_us.set(mean_us);
        let was_slow = self.is_slow.replace(mean_us > if self.is_slow.get() { FAST_US } else { SLOW_US });
        let is_slow = was_slow && read_us > FAST_US;
        let per_probe =
            if is_slow { READS_PER_PROBE_MAX.min(2 * self.per_probe.get()) } else { READS_PER_PROBE_MIN };
        self.per_probe.set(per_probe);
        self.until_probe.set(per_probe);
        self.probe.set(NONE);
    }
}

/// Blocks that this backend had to read so far.
pub(super) fn blocks_read() -> i64 {
    // SAFETY: a counter of this backend, which has one thread that calls PostgreSQL; read by value.
    unsafe { pg_sys::pgBufferUsage.shared_blks_read + pg_sys::pgBufferUsage.local_blks_read }
}
