//! One search's view of the pages.
//!
//! **Look-ahead.** [`Reader::start`] queues reads; the next [`Reader::finish`] gives them all to
//! the kernel with the same system call that waits for its own page. Reads that a search did not
//! need stay in the ring when it ends: the reader that needs such a page takes it in.
//!
//! **No reader waits for another.** A page that another reader has in flight is taken out of that
//! reader's ring when it arrives. This does not work while that reader waits in the kernel: after
//! [`PATIENCE`] the page is read again instead. If no frame is free (all are recently evicted and
//! some reader has not released since), the page is read into memory of the reader's own, returned
//! on release: at most [`SPILL_MAX`] pages, 4 MiB.
//!
//! **Commits of another process** make pages in this one's cache old. After the first such commit,
//! each page is compared with the shared table of newest changes when it is requested; an old one
//! is brought up to date from its own frame and the log. The writer's own process replaces pages
//! itself and compares nothing.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId, Reader};

use crate::cache::frames::Frame;
use crate::cache::pool::{Hold, Lookup};
use crate::cache::spill::{Page, Spill};
use crate::cache::uring::{Completed, Ring};
use crate::disk::base_file::PageBuffer;
use crate::header;
use crate::process::snapshots::{self, Claim};
use crate::read_side::ReadSide;
use pagehop_kernels::prefetch;

/// How long to wait for a page that another reader has in flight.
const PATIENCE: Duration = Duration::from_millis(2);

/// Searches that take turns with one reader. With 16 of them and two pages each, reads reach the
/// rate of a disk with a queue of 16.
const SEARCHES_AT_ONCE: usize = 16;
/// Frames of the cache for each of these searches.
const FRAMES_PER_SEARCH: usize = 8;

/// Most pages that a reader holds in its own memory at once.
const SPILL_MAX: usize = 512;

/// One search's view of the pages of a file; belongs to one thread.
pub struct FileReader<'p> {
    side: &'p ReadSide,
    hold: Hold<'p>,
    /// Whether reads wait in the ring to be submitted.
    queued: Cell<bool>,
    missed: Cell<u64>,
    spill: Spill,
    /// Whether pages in the cache may be old.
    compares: bool,
    snapshot: Option<Claim>,
}

impl<'p> FileReader<'p> {
    pub(crate) fn new(side: &'p ReadSide) -> Self {
        Self {
            side,
            hold: side.pool.hold(),
            queued: Cell::new(false),
            missed: Cell::new(0),
            spill: Spill::default(),
            compares: side.has_old_frames(),
            snapshot: None,
        }
    }

    /// The page with its header.
    #[inline]
    pub(crate) fn page(&self, page: PageId) -> Result<&Page, Error> {
        let Some(bytes) = self.hold.resident(page.0) else {
            return self.fetch(page, None);
        };
        if self.compares && self.is_old(page, bytes) {
            return self.fetch(page, Some(bytes));
        }
        if self.queued.get() {
            self.keep_going();
        }
        Ok(bytes)
    }

    #[inline]
    fn is_old(&self, page: PageId, bytes: &Page) -> bool {
        header::log_position(bytes) < self.side.versions.shared.newest(page.0)
    }

    /// Returns `page`, which was not in the cache, or whose frame is `old`.
    #[cold]
    fn fetch(&self, page: PageId, old: Option<&Page>) -> Result<&Page, Error> {
        if let Some(bytes) = self.spill.get(page) {
            return Ok(bytes);
        }
        let mut old = old;
        let mut waiting_since = None;
        loop {
            match self.hold.look_up(page.0) {
                Lookup::Resident(bytes) if self.compares && self.is_old(page, bytes) => {
                    self.side.pool.evict_page(page.0, bytes);
                    old = Some(bytes);
                }
                Lookup::Resident(bytes) => return Ok(bytes),
                Lookup::Unknown if self.side.notice_growth() => {}
                Lookup::Unknown => return Err(self.unknown(page)),
                Lookup::Pending => {
                    if let Some(outcome) = self.wait(page) {
                        return outcome;
                    }
                    if let Some(frame) = self.side.take_in_others(Some(page.0)) {
                        if let Some(outcome) = self.read(page, frame, old) {
                            return outcome;
                        }
                        continue;
                    }
                    let since = *waiting_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return self.read_aside(page);
                    }
                    std::thread::yield_now();
                }
                Lookup::Absent => {
                    let Some(frame) = self.take_frame() else { return self.read_aside(page) };
                    match self.side.pool.claim(page.0, frame) {
                        Ok(frame) => {
                            if let Some(outcome) = self.read(page, frame, old) {
                                return outcome;
                            }
                        }
                        Err(frame) => self.side.pool.give_back(frame),
                    }
                }
            }
        }
    }

    /// Reads `page`, which this reader claimed, into `frame`, or brings an `old` version up to date
    /// there. `None` if a newer version was committed in the meantime.
    fn read(&self, page: PageId, mut frame: Frame, old: Option<&Page>) -> Option<Result<&Page, Error>> {
        self.keep_going();
        let bytes = self.side.pool.frames().bytes_mut(&mut frame);
        let base = match old {
            Some(old) => {
                bytes.copy_from_slice(old);
                Ok(())
            }
            None => {
                self.count_reads(1);
                self.side.versions.read_base(page.0, bytes)
            }
        };
        match self.side.versions.complete(page.0, bytes, base) {
            Ok(()) => self.hold.publish(page.0, frame).map(Ok),
            Err(error) => {
                self.side.pool.abandon(page.0, frame);
                Some(Err(error))
            }
        }
    }

    /// Reads `page` into this reader's own memory.
    fn read_aside(&self, page: PageId) -> Result<&Page, Error> {
        if self.spill.pages().count() == SPILL_MAX {
            return Err(Error::full(format!(
                "a cache of {} bytes is too small for a search that holds {SPILL_MAX} more pages",
                self.side.cache_bytes(),
            )));
        }
        self.keep_going();
        let spare = self.hold.slot().lane().spare.pop();
        let mut buffer = spare.unwrap_or_else(PageBuffer::new);
        self.missed.set(self.missed.get() + 1);
        self.side.count_uncached_read();
        self.side.versions.read_newest(page.0, &mut buffer.0)?;
        Ok(self.spill.add(page, buffer))
    }

    /// A frame to read into, if one is available without waiting.
    fn take_frame(&self) -> Option<Frame> {
        let pool = &self.side.pool;
        pool.take().or_else(|| {
            self.keep_going();
            self.side.take_in_others(None);
            pool.take()
        })
    }

    /// Submits queued reads and waits for `page`, if it is in this reader's ring. `None` if it is
    /// not, or no longer: it must be looked up again.
    fn wait(&self, page: PageId) -> Option<Result<&Page, Error>> {
        let mut lane = self.hold.slot().lane();
        let ring = lane.ring()?;
        let mut outcome = None;
        while outcome.is_none() && ring.contains(page.0) {
            if let Some(read) = ring.completed() {
                outcome = self.arrive(read, page);
            } else if let Err(error) = self.submit(ring, 1) {
                let what = format!("wait for page {} in {}", page.0, self.side.path().display());
                return Some(Err(Error::io(what, error)));
            }
        }
        self.submit_queued(ring);
        self.hold.slot().set_reading(ring.len() > 0);
        outcome
    }

    /// Puts a page that arrived into the table. Returns the outcome if it is the `wanted` page.
    fn arrive(&self, read: Completed, wanted: PageId) -> Option<Result<&Page, Error>> {
        let is_wanted = read.page == wanted.0;
        match self.side.settle(read) {
            Ok((page, frame)) if is_wanted => self.hold.publish(page, frame).map(Ok),
            Ok((page, frame)) => {
                self.side.pool.publish(page, frame, 0);
                None
            }
            // The error of another page is reported when that page is read again.
            Err(error) => is_wanted.then_some(Err(error)),
        }
    }

    /// Submits queued reads and takes in pages that have arrived; does not wait for reads.
    fn keep_going(&self) {
        let mut lane = self.hold.slot().lane();
        let Some(ring) = lane.ring() else { return };
        self.submit_queued(ring);
        self.side.take_in(ring);
        self.hold.slot().set_reading(ring.len() > 0);
    }

    fn submit_queued(&self, ring: &mut Ring) {
        if ring.queued() > 0 {
            // If this fails, the wait for one of the pages reports the error.
            let _ = self.submit(ring, 0);
        }
        self.queued.set(false);
    }

    fn submit(&self, ring: &mut Ring, wanted: usize) -> std::io::Result<()> {
        self.count_reads(ring.queued() as u64);
        self.queued.set(false);
        ring.submit(self.side.versions.base.os().expect("only files of the system are read by rings"), wanted)
    }

    fn count_reads(&self, count: u64) {
        self.missed.set(self.missed.get() + count);
        self.side.count_reads(count);
    }

    /// `start` for a page that is absent.
    #[cold]
    fn look_ahead(&self, page: PageId) {
        if self.spill.get(page).is_some() {
            return;
        }
        if !self.side.versions.has_base(page.0) {
            return;
        }
        if !self.side.uring.load(Ordering::Relaxed) {
            self.side.versions.base.advise(page);
            return;
        }
        let slot = self.hold.slot();
        let Some(mut lane) = slot.try_lane() else { return };
        let Ok(ring) = lane.ring_or_new(self.side.pool.frames()) else {
            self.side.uring.store(false, Ordering::Relaxed);
            return;
        };
        if ring.is_full() {
            self.side.take_in(ring);
            if ring.is_full() {
                return;
            }
        }
        let Some(frame) = self.side.pool.take() else {
            return;
        };
        match self.side.pool.claim(page.0, frame) {
            Ok(frame) => {
                ring.queue(page.0, frame);
                slot.set_reading(true);
                self.queued.set(true);
            }
            Err(frame) => self.side.pool.give_back(frame),
        }
    }

    /// Takes in pages that have arrived. Returns whether `page` is then in memory.
    #[cold]
    fn has_arrived(&self, page: PageId) -> bool {
        if let Some(mut lane) = self.hold.slot().try_lane()
            && let Some(ring) = lane.ring()
        {
            self.side.take_in(ring);
        }
        matches!(self.hold.look_up(page.0), Lookup::Resident(_))
    }

    fn unknown(&self, page: PageId) -> Error {
        let count = self.side.pool.page_count();
        let path = self.side.path().display();
        Error::corrupt(page, format!("it does not exist: {path} has {count} pages"))
    }
}

impl Reader for FileReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    #[inline]
    fn start(&self, page: PageId, bytes: Range<usize>) {
        match self.hold.look_up(page.0) {
            Lookup::Resident(bytes_of_page) => {
                let body = &bytes_of_page[HOST_HEADER_BYTES..];
                let end = bytes.end.min(BODY_BYTES);
                prefetch(&body[bytes.start.min(end)..end]);
            }
            Lookup::Absent => self.look_ahead(page),
            Lookup::Pending | Lookup::Unknown => {}
        }
    }

    #[inline]
    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        Ok(&self.page(page)?[HOST_HEADER_BYTES..])
    }

    #[inline]
    fn is_ready(&self, page: PageId) -> bool {
        match self.hold.look_up(page.0) {
            Lookup::Resident(_) => true,
            Lookup::Pending => self.has_arrived(page),
            Lookup::Absent => self.spill.get(page).is_some(),
            Lookup::Unknown => true,
        }
    }

    fn searches_at_once(&self) -> usize {
        (self.side.cache_bytes() as usize / PAGE_BYTES / FRAMES_PER_SEARCH).clamp(1, SEARCHES_AT_ONCE)
    }

    fn snapshot(&mut self, renew: bool) -> u64 {
        if !renew && let Some(claim) = self.snapshot {
            return claim.commit;
        }
        if self.side.versions.shared.is_between_commits() {
            self.side.versions.finish_commit();
        }
        let claim = snapshots::take(&self.side.versions.shared, &self.hold.slot().snapshot, self.snapshot);
        self.snapshot = Some(claim);
        // Pages that were read aside, or not compared, may be older than the snapshot.
        self.release();
        claim.commit
    }

    #[inline]
    fn release(&mut self) {
        self.hold.release();
        if !self.spill.is_empty() {
            self.spill.empty_into(&mut self.hold.slot().lane().spare);
        }
        self.compares = self.side.has_old_frames();
    }

    fn pages_missed(&self) -> u64 {
        self.missed.get()
    }
}

impl Drop for FileReader<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.snapshot.take() {
            snapshots::give_back(&self.side.versions.shared, claim);
        }
        let slot = self.hold.slot();
        if self.spill.is_empty() && !slot.is_reading() {
            return;
        }
        let mut lane = slot.lane();
        self.spill.empty_into(&mut lane.spare);
        let Some(ring) = lane.ring() else { return };
        while let Some((page, frame)) = ring.cancel_queued() {
            self.side.pool.abandon(page, frame);
        }
        self.side.take_in(ring);
        slot.set_reading(ring.len() > 0);
    }
}

#[cfg(test)]
mod tests {
    use pagehop_engine::{PageSink, Pages};

    use super::*;
    use crate::disk::base_file::Source;
    use crate::{IndexFile, Io, NewIndexFile, OpenOptions};

    /// An index of 100 pages, whose file refuses every read.
    fn pages(name: &str, io: Io) -> (IndexFile, std::fs::File) {
        let path = std::env::temp_dir().join(format!("pagehop-{name}-{io:?}-{}", std::process::id()));
        let mut sink = NewIndexFile::create(&path, true).unwrap();
        for page in (1..100).chain([0]) {
            let mut body = [page as u8; BODY_BYTES];
            body[..8].copy_from_slice(b"PAGEHOP\0");
            sink.write(PageId(page), &body).unwrap();
        }
        sink.finish().unwrap();
        let options = OpenOptions { cache_bytes: 0, direct: Some(false), io, ..OpenOptions::default() };
        let pages = IndexFile::open(&path, &options).unwrap();
        let refusing = std::fs::File::options().write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        (pages, refusing)
    }

    #[test]
    fn a_refused_read_is_told_and_can_be_tried_again() {
        // An emulator has no io_uring.
        let emulated = std::env::var_os("PAGEHOP_TEST_EMULATOR").is_some();
        for io in [if emulated { Io::Pread } else { Io::Uring }, Io::Pread] {
            let (mut pages, refusing) = pages("refused", io);
            let readable = std::mem::replace(&mut pages.read.versions.base.source, Source::Os(refusing));
            for _ in 0..200 {
                let reader = pages.reader();
                for page in 40..60 {
                    reader.start(PageId(page), 0..64);
                }
                for page in [50, 70, 50] {
                    let error = reader.finish(PageId(page)).unwrap_err();
                    assert!(error.to_string().contains(&format!("read of page {page} in")), "{error}");
                    assert!(matches!(error, Error::Io { .. }), "{error}");
                }
            }
            pages.read.versions.base.source = readable;
            let mut reader = pages.reader();
            for page in 0..100 {
                assert_eq!(reader.finish(PageId(page)).unwrap()[100], page as u8);
                reader.release();
            }
            assert_eq!(pages.counters().uncached_reads, 0, "no frame was lost");
        }
    }

    #[test]
    fn without_rings_pages_are_read_one_by_one() {
        let (pages, _) = pages("fallen", Io::Auto);
        pages.read.uring.store(false, Ordering::Relaxed);
        assert_eq!(pages.io(), Io::Pread);
        let mut reader = pages.reader();
        for page in 0..100 {
            reader.start(PageId((page + 3) % 100), 0..64);
            assert_eq!(reader.finish(PageId(page)).unwrap()[100], page as u8);
            reader.release();
        }
        assert_eq!(reader.pages_missed(), 100);
    }
}
