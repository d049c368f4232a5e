//! The state that all searches of one open index share: its cache, and the source of pages.
//!
//! All of it may be used by any number of threads. A [`FileReader`](crate::FileReader) is one
//! search's view of it; the writer puts new versions into the cache.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagehop_engine::{Error, PageId};

use crate::cache::budget::Budget;
use crate::cache::frames::Frame;
use crate::cache::pool::Pool;
use crate::cache::uring::{Completed, Ring};
use crate::log::versions::{News, Versions};

/// The cache of an open index, and its source of pages.
pub(crate) struct ReadSide {
    pub(crate) pool: Pool,
    /// The budget of the pool, which other indexes may use when this is dropped.
    _budget: Budget,
    pub(crate) versions: Versions,
    /// The newest commit when the index was opened.
    attached_at: u64,
    /// Whether reads may use io_uring; cleared when the system refuses.
    pub(crate) uring: AtomicBool,
    reads: AtomicU64,
    uncached_reads: AtomicU64,
}

impl ReadSide {
    pub(crate) fn new(pool: Pool, budget: Budget, versions: Versions, uring: bool) -> Self {
        Self {
            attached_at: versions.shared.published(),
            pool,
            _budget: budget,
            versions,
            uring: AtomicBool::new(uring),
            reads: AtomicU64::new(0),
            uncached_reads: AtomicU64::new(0),
        }
    }

    /// The index file.
    pub(crate) fn path(&self) -> &Path {
        self.versions.base.path()
    }

    /// Whether pages in the cache may be older than the committed ones.
    #[inline]
    pub(crate) fn has_old_frames(&self) -> bool {
        let shared = &self.versions.shared;
        if shared.published() == self.attached_at {
            return false;
        }
        // A writer puts new versions into its cache itself.
        if self.versions.news == News::Own && !shared.is_forked() {
            return false;
        }
        self.pool.expect_changes();
        true
    }

    /// Adds pages that another process has added. Returns whether there were any.
    pub(crate) fn notice_growth(&self) -> bool {
        if self.versions.news == News::None {
            let _ = self.versions.catch_up();
        }
        let shared = &self.versions.shared;
        let (known, pages) = (self.pool.page_count(), shared.page_count());
        if pages <= known || pages > self.pool.capacity() || shared.cover(pages, false).is_err() {
            return false;
        }
        self.pool.grow(pages);
        true
    }

    /// Pages that are committed.
    pub(crate) fn page_count(&self) -> u32 {
        let shared = &self.versions.shared;
        if shared.page_count() > self.pool.page_count() {
            self.notice_growth();
        }
        // The cache has pages a moment before they are committed.
        self.pool.page_count().min(shared.page_count())
    }

    /// Bytes of pages that the cache can hold.
    pub(crate) fn cache_bytes(&self) -> u64 {
        u64::from(self.pool.frame_count().min(self.pool.page_count())) * pagehop_engine::PAGE_BYTES as u64
    }

    /// Pages read from storage so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Pages among [`ReadSide::reads`] that the cache had no room for.
    pub(crate) fn uncached_reads(&self) -> u64 {
        self.uncached_reads.load(Ordering::Relaxed)
    }

    pub(crate) fn count_reads(&self, count: u64) {
        self.reads.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_uncached_read(&self) {
        self.count_reads(1);
        self.uncached_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Verifies a completed read. A page that cannot be used becomes absent again.
    pub(crate) fn settle(&self, read: Completed) -> Result<(u32, Frame), Error> {
        let Completed { page, mut frame, result } = read;
        let bytes = self.pool.frames().bytes_mut(&mut frame);
        let base = self.versions.base.settle(PageId(page), bytes, result);
        match self.versions.complete(page, bytes, base) {
            Ok(()) => Ok((page, frame)),
            Err(error) => {
                self.pool.abandon(page, frame);
                Err(error)
            }
        }
    }

    /// Puts all pages that arrived through `ring` into the table.
    pub(crate) fn take_in(&self, ring: &mut Ring) {
        while let Some(read) = ring.completed() {
            // The error of a page is reported when that page is read again.
            if let Ok((page, frame)) = self.settle(read) {
                self.pool.publish(page, frame, 0);
            }
        }
    }

    /// Does [`ReadSide::take_in`] for other readers, which may be busy or no longer exist. If the
    /// read of `wanted` is queued in a ring and not submitted, it is removed from the queue, so
    /// that the caller may read the page itself.
    pub(crate) fn take_in_others(&self, wanted: Option<u32>) -> Option<Frame> {
        let reading = self.pool.slots().filter(|slot| slot.is_reading());
        for slot in reading {
            let Some(mut lane) = slot.try_lane() else { continue };
            let Some(ring) = lane.ring() else { continue };
            self.take_in(ring);
            let frame = wanted.and_then(|page| ring.cancel(page));
            slot.set_reading(ring.len() > 0);
            if frame.is_some() {
                return frame;
            }
        }
        None
    }
}
