//! One search's view of the pages.
//!
//! **Look-ahead.** [`Reader::start`] queues reads; the next [`Reader::finish`] gives them all to the
//! kernel with the same system call that waits for its own page. What a search started for nothing
//! stays in the ring when it ends: whoever needs the page takes it in.
//!
//! **Nobody waits for a reader.** A page that another reader has in flight is taken out of that
//! reader's ring when it arrives. Only a reader that is just then waiting in the kernel cannot be
//! helped so; after [`PATIENCE`] the page is read once more instead. If no frame is free (all are
//! recently evicted and some reader has not released since), the page is read into memory of the
//! reader's own, returned on release: at most [`SPILL_MAX`] pages, 4 MiB.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PageId, Reader};

use crate::buffer::{Frame, Frames, Hold, Lookup};
use crate::file::FilePages;
use crate::pread::PageBuffer;
use crate::uring::{Completed, Ring};
use pagehop_kernels::prefetch;

/// How long to wait for a page that another reader has in flight.
const PATIENCE: Duration = Duration::from_millis(2);

/// Pages of its own that a reader holds at once.
const SPILL_MAX: usize = 512;

/// Pages of its own that a reader leaves to the next one.
const SPARE_MAX: usize = 16;

/// What is too costly to make for each reader, passed on from one to the next.
#[derive(Default)]
pub(crate) struct Lane {
    /// Made when first needed.
    ring: Option<Ring>,
    spare: Vec<Box<PageBuffer>>,
}

impl Lane {
    /// The ring, if this process has made one. A ring from before a fork is the parent's.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring> {
        if self.ring.as_ref().is_some_and(|ring| !ring.is_ours()) {
            self.ring = None;
        }
        self.ring.as_mut()
    }

    fn ring_or_new(&mut self, frames: &Arc<Frames>) -> std::io::Result<&mut Ring> {
        if self.ring().is_none() {
            self.ring = Some(Ring::new(frames)?);
        }
        Ok(self.ring.as_mut().expect("just made"))
    }
}

/// One search's view of the pages of a file; belongs to one thread.
pub struct FileReader<'p> {
    pages: &'p FilePages,
    hold: Hold<'p>,
    /// Whether reads wait in the ring to be submitted.
    queued: Cell<bool>,
    missed: Cell<u64>,
    spill: Spill,
}

impl<'p> FileReader<'p> {
    pub(crate) fn new(pages: &'p FilePages) -> Self {
        Self {
            pages,
            hold: pages.pool.hold(),
            queued: Cell::new(false),
            missed: Cell::new(0),
            spill: Spill::default(),
        }
    }

    /// `finish` for a page that was not resident.
    #[cold]
    fn fetch(&self, page: PageId) -> Result<&[u8], Error> {
        if let Some(body) = self.spill.get(page) {
            return Ok(body);
        }
        let mut waiting_since = None;
        loop {
            match self.hold.look_up(page.0) {
                Lookup::Resident(body) => return Ok(body),
                Lookup::Unknown => return Err(self.unknown(page)),
                Lookup::Pending => {
                    if let Some(outcome) = self.wait(page) {
                        return outcome;
                    }
                    if let Some(frame) = self.pages.take_in_others(Some(page.0)) {
                        return self.read(page, frame);
                    }
                    let since = *waiting_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return self.read_aside(page);
                    }
                    std::thread::yield_now();
                }
                Lookup::Absent => {
                    let Some(frame) = self.take_frame() else { return self.read_aside(page) };
                    match self.pages.pool.claim(page.0, frame) {
                        Ok(frame) => return self.read(page, frame),
                        Err(frame) => self.pages.pool.give_back(frame),
                    }
                }
            }
        }
    }

    /// Reads `page`, which this reader claimed, into `frame`.
    fn read(&self, page: PageId, mut frame: Frame) -> Result<&[u8], Error> {
        self.keep_going();
        self.count_reads(1);
        match self.pages.file.read(page, self.pages.pool.frames().bytes_mut(&mut frame)) {
            Ok(()) => Ok(self.hold.publish(page.0, frame)),
            Err(error) => {
                self.pages.pool.abandon(page.0, frame);
                Err(error)
            }
        }
    }

    /// Reads `page` into memory of this reader's own.
    fn read_aside(&self, page: PageId) -> Result<&[u8], Error> {
        if self.spill.pages().count() == SPILL_MAX {
            return Err(Error::argument(format!(
                "a cache of {} bytes is too small for a search that holds {SPILL_MAX} more pages",
                self.pages.cache_bytes(),
            )));
        }
        self.keep_going();
        let spare = self.hold.slot().lane().spare.pop();
        let mut buffer = spare.unwrap_or_else(PageBuffer::new);
        self.missed.set(self.missed.get() + 1);
        self.pages.count_uncached_read();
        self.pages.file.read(page, &mut buffer.0)?;
        Ok(self.spill.add(page, buffer))
    }

    /// A frame to read into, if there is one without waiting.
    fn take_frame(&self) -> Option<Frame> {
        let pool = &self.pages.pool;
        pool.take().or_else(|| {
            self.keep_going();
            self.pages.take_in_others(None);
            pool.take()
        })
    }

    /// Submits what is queued and waits for `page`, if it is in this reader's ring. `None` if it is
    /// not, or not any more: it must be looked up again.
    fn wait(&self, page: PageId) -> Option<Result<&[u8], Error>> {
        let mut lane = self.hold.slot().lane();
        let ring = lane.ring()?;
        let mut outcome = None;
        while outcome.is_none() && ring.contains(page.0) {
            if let Some(read) = ring.completed() {
                outcome = self.arrive(read, page);
            } else if let Err(error) = self.submit(ring, 1) {
                let what = format!("wait for page {} in {}", page.0, self.pages.path().display());
                return Some(Err(Error::io(what, error)));
            }
        }
        self.submit_queued(ring);
        self.hold.slot().set_reading(ring.len() > 0);
        outcome
    }

    /// Puts a page that came into the table; the outcome if it is the `wanted` one.
    fn arrive(&self, read: Completed, wanted: PageId) -> Option<Result<&[u8], Error>> {
        let is_wanted = read.page == wanted.0;
        match self.pages.settle(read) {
            Ok((page, frame)) if is_wanted => Some(Ok(self.hold.publish(page, frame))),
            Ok((page, frame)) => {
                self.pages.pool.publish(page, frame, 0);
                None
            }
            // The error of another page is told when that page is asked for.
            Err(error) => is_wanted.then_some(Err(error)),
        }
    }

    /// Submits what is queued and takes in what has arrived; does not wait for reads.
    fn keep_going(&self) {
        let mut lane = self.hold.slot().lane();
        let Some(ring) = lane.ring() else { return };
        self.submit_queued(ring);
        self.pages.take_in(ring);
        self.hold.slot().set_reading(ring.len() > 0);
    }

    fn submit_queued(&self, ring: &mut Ring) {
        if ring.queued() > 0 {
            // If it fails, whoever waits for one of the pages hears of it.
            let _ = self.submit(ring, 0);
        }
        self.queued.set(false);
    }

    fn submit(&self, ring: &mut Ring, wanted: usize) -> std::io::Result<()> {
        self.count_reads(ring.queued() as u64);
        self.queued.set(false);
        ring.submit(&self.pages.file.file, wanted)
    }

    fn count_reads(&self, count: u64) {
        self.missed.set(self.missed.get() + count);
        self.pages.count_reads(count);
    }

    /// `start` for a page that is absent.
    #[cold]
    fn look_ahead(&self, page: PageId) {
        if self.spill.get(page).is_some() {
            return;
        }
        if !self.pages.uring.load(Ordering::Relaxed) {
            self.pages.file.advise(page);
            return;
        }
        let slot = self.hold.slot();
        let Some(mut lane) = slot.try_lane() else { return };
        let Ok(ring) = lane.ring_or_new(self.pages.pool.frames()) else {
            self.pages.uring.store(false, Ordering::Relaxed);
            return;
        };
        if ring.is_full() {
            self.pages.take_in(ring);
            if ring.is_full() {
                return;
            }
        }
        let Some(frame) = self.pages.pool.take() else {
            return;
        };
        match self.pages.pool.claim(page.0, frame) {
            Ok(frame) => {
                ring.queue(page.0, frame);
                slot.set_reading(true);
                self.queued.set(true);
            }
            Err(frame) => self.pages.pool.give_back(frame),
        }
    }

    fn unknown(&self, page: PageId) -> Error {
        let count = self.pages.pool.page_count();
        let path = self.pages.path().display();
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
            Lookup::Resident(body) => {
                let end = bytes.end.min(BODY_BYTES);
                prefetch(&body[bytes.start.min(end)..end]);
            }
            Lookup::Absent => self.look_ahead(page),
            Lookup::Pending | Lookup::Unknown => {}
        }
    }

    #[inline]
    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        let Some(body) = self.hold.resident(page.0) else {
            return self.fetch(page);
        };
        if self.queued.get() {
            self.keep_going();
        }
        Ok(body)
    }

    #[inline]
    fn release(&mut self) {
        self.hold.release();
        if !self.spill.is_empty() {
            self.spill.empty_into(&mut self.hold.slot().lane().spare);
        }
    }

    fn pages_missed(&self) -> u64 {
        self.missed.get()
    }
}

impl Drop for FileReader<'_> {
    fn drop(&mut self) {
        let slot = self.hold.slot();
        if self.spill.is_empty() && !slot.is_reading() {
            return;
        }
        let mut lane = slot.lane();
        self.spill.empty_into(&mut lane.spare);
        let Some(ring) = lane.ring() else { return };
        while let Some((page, frame)) = ring.cancel_queued() {
            self.pages.pool.abandon(page, frame);
        }
        self.pages.take_in(ring);
        slot.set_reading(ring.len() > 0);
    }
}

/// Pages of a reader's own: a list that grows while its pages are borrowed.
#[derive(Default)]
struct Spill {
    first: OnceCell<Box<Spilled>>,
}

struct Spilled {
    page: PageId,
    buffer: Box<PageBuffer>,
    next: OnceCell<Box<Spilled>>,
}

impl Spill {
    fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    fn pages(&self) -> impl Iterator<Item = &Spilled> {
        let first = self.first.get().map(Box::as_ref);
        std::iter::successors(first, |spilled| spilled.next.get().map(Box::as_ref))
    }

    fn get(&self, page: PageId) -> Option<&[u8]> {
        let spilled = self.pages().find(|spilled| spilled.page == page)?;
        Some(&spilled.buffer.0[HOST_HEADER_BYTES..])
    }

    /// The body of `page`, which `buffer` holds.
    fn add(&self, page: PageId, buffer: Box<PageBuffer>) -> &[u8] {
        let mut end = &self.first;
        while let Some(spilled) = end.get() {
            end = &spilled.next;
        }
        let spilled = end.get_or_init(|| Box::new(Spilled { page, buffer, next: OnceCell::new() }));
        &spilled.buffer.0[HOST_HEADER_BYTES..]
    }

    fn empty_into(&mut self, spare: &mut Vec<Box<PageBuffer>>) {
        let mut next = self.first.take();
        while let Some(mut spilled) = next {
            next = spilled.next.take();
            if spare.len() < SPARE_MAX {
                spare.push(spilled.buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pagehop_engine::{PageSink, Pages};

    use super::*;
    use crate::{FileSink, Io, OpenOptions};

    /// 100 pages, and a file on which every read is refused.
    fn pages(name: &str, io: Io) -> (FilePages, std::fs::File) {
        let path = std::env::temp_dir().join(format!("pagehop-{name}-{io:?}-{}", std::process::id()));
        let mut sink = FileSink::create(&path, true).unwrap();
        for page in (1..100).chain([0]) {
            let mut body = [page as u8; BODY_BYTES];
            body[..8].copy_from_slice(b"PAGEHOP\0");
            sink.write(PageId(page), &body).unwrap();
        }
        sink.finish().unwrap();
        let options = OpenOptions { cache_bytes: 0, direct: false, io };
        let pages = FilePages::open(&path, &options).unwrap();
        let refusing = std::fs::File::options().write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        (pages, refusing)
    }

    #[test]
    fn a_refused_read_is_told_and_can_be_tried_again() {
        for io in [Io::Uring, Io::Pread] {
            let (mut pages, refusing) = pages("refused", io);
            let readable = std::mem::replace(&mut pages.file.file, refusing);
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
            pages.file.file = readable;
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
        pages.uring.store(false, Ordering::Relaxed);
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
