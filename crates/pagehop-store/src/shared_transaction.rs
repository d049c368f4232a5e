//! One transaction that several threads change at the same time.
//!
//! Each thread has a [`Member`]. A step of a member locks its pages, changes copies of their
//! bodies, and puts these in place of the old ones; a reader keeps the body that it was given.
//! Members see the steps of one another, and the earlier changes of the transaction. When all are
//! done, [`Overlay::into_bodies`] gives their bodies to the transaction.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use pagehop_engine::page::ChangeStep;
use pagehop_engine::{BODY_BYTES, Error, PAGE_BYTES, PageId, PagesMut, Reader, STEP_PAGES};
use pagehop_kernels::prefetch;

use crate::changed_pages::{Body, Changes, TransactionReader, new_body, too_many_pages, transaction_is_full};
use crate::log::dirty::PageHasher;
use crate::read_side::ReadSide;
use crate::reader::FileReader;

/// Parts of the table of changed pages, each with a lock.
const PARTS: usize = 64;
/// Number of locks of pages. Two pages may have the same lock.
const LATCHES: usize = 256;
/// Number of bits by which a look-up sees at once that a page has not been changed.
const BITS: usize = 1 << 17;

type Part = RwLock<HashMap<u32, Arc<Body>, BuildHasherDefault<PageHasher>>>;

/// The changes of the members of a transaction.
pub(crate) struct Overlay {
    parts: Vec<Part>,
    latches: Vec<Mutex<()>>,
    bits: Vec<AtomicU64>,
    page_count: AtomicU32,
    /// Pages that the transaction has changed, before and by members.
    changed: AtomicU64,
    /// Whether a member is in its section.
    section: Mutex<bool>,
    section_ends: Condvar,
}

fn hash(page: u32) -> u64 {
    let mut hasher = PageHasher::default();
    page.hash(&mut hasher);
    hasher.finish()
}

impl Overlay {
    pub(crate) fn new(page_count: u32, changed: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            latches: (0..LATCHES).map(|_| Mutex::default()).collect(),
            bits: (0..BITS / 64).map(|_| AtomicU64::default()).collect(),
            page_count: AtomicU32::new(page_count),
            changed: AtomicU64::new(changed as u64),
            section: Mutex::new(false),
            section_ends: Condvar::new(),
        }
    }

    pub(crate) fn page_count(&self) -> u32 {
        self.page_count.load(Ordering::Acquire)
    }

    /// The changed pages and their bodies.
    pub(crate) fn into_bodies(self) -> impl Iterator<Item = (u32, Body)> {
        let parts = self.parts.into_iter().map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner));
        parts.flatten().map(|(page, body)| (page, Arc::try_unwrap(body).unwrap_or_else(|body| (*body).clone())))
    }

    fn part(&self, page: u32) -> &Part {
        &self.parts[(hash(page) >> 32) as usize % PARTS]
    }

    fn bit(&self, page: u32) -> (&AtomicU64, u64) {
        let bit = hash(page) as usize % BITS;
        (&self.bits[bit / 64], 1 << (bit % 64))
    }

    fn get(&self, page: u32) -> Option<Arc<Body>> {
        let (word, bit) = self.bit(page);
        // If a member follows a link from a changed body to another changed body, it sees the bit
        // of the second, because the lock of the part orders the two writes.
        if word.load(Ordering::Relaxed) & bit == 0 {
            return None;
        }
        self.part(page).read().unwrap_or_else(PoisonError::into_inner).get(&page).cloned()
    }

    /// Puts a body in place. Returns the old one if no reader has it.
    fn put(&self, page: u32, body: Body) -> Option<Body> {
        let (word, bit) = self.bit(page);
        word.fetch_or(bit, Ordering::Relaxed);
        let old = self.part(page).write().unwrap_or_else(PoisonError::into_inner).insert(page, Arc::new(body));
        old.and_then(Arc::into_inner)
    }

    /// Locks pages against the steps of others, always in the same order.
    fn lock(&self, pages: &[PageId]) -> [Option<MutexGuard<'_, ()>>; STEP_PAGES] {
        let mut places = [usize::MAX; STEP_PAGES];
        for (place, page) in places.iter_mut().zip(pages) {
            *place = (hash(page.0) >> 40) as usize % LATCHES;
        }
        places.sort_unstable();
        let mut last = usize::MAX;
        places.map(|place| {
            let is_needed = place < LATCHES && place != last;
            last = place;
            is_needed.then(|| self.latches[place].lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}

/// The pages of a transaction as one thread changes them.
pub struct Member<'w> {
    pub(crate) read: &'w ReadSide,
    pub(crate) before: &'w Changes,
    pub(crate) overlay: &'w Overlay,
    pub(crate) commit: u64,
    pub(crate) oldest: u64,
    pub(crate) transaction_bytes: u64,
    /// Bodies for the next step.
    pub(crate) spare: Vec<Body>,
    pub(crate) is_in_section: bool,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // A member panicked in its section. The other members continue until they end.
        self.end_section();
    }
}

impl<'w> Member<'w> {
    /// A copy of a page as it is now.
    fn copy(&mut self, page: PageId, reader: &mut Option<FileReader<'w>>) -> Result<Body, Error> {
        let mut copy = self.spare.pop().unwrap_or_else(new_body);
        if let Some(body) = self.overlay.get(page.0) {
            copy.copy_from_slice(&body[..]);
        } else if let Some(body) = self.before.get(page.0) {
            copy.copy_from_slice(body);
        } else if self.allocated().contains(&page.0) {
            copy.fill(0);
        } else {
            let reader = reader.get_or_insert_with(|| FileReader::new(self.read));
            copy.copy_from_slice(reader.finish(page)?);
        }
        Ok(copy)
    }

    /// Pages that only this transaction has.
    fn allocated(&self) -> Range<u32> {
        self.read.pool.page_count()..self.overlay.page_count()
    }

    fn make_room(&self, pages: &[PageId]) -> Result<(), Error> {
        let is_new = |page: &&PageId| self.overlay.get(page.0).is_none() && self.before.get(page.0).is_none();
        let more = pages.iter().filter(is_new).count() as u64;
        let changed = self.overlay.changed.fetch_add(more, Ordering::Relaxed) + more;
        match changed * PAGE_BYTES as u64 > self.transaction_bytes {
            true => Err(transaction_is_full(self.transaction_bytes)),
            false => Ok(()),
        }
    }
}

impl PagesMut for Member<'_> {
    type Reader<'r>
        = MemberReader<'r>
    where
        Self: 'r;

    fn reader(&self) -> MemberReader<'_> {
        let reader = FileReader::new(self.read);
        MemberReader {
            overlay: self.overlay,
            before: TransactionReader::new(self.before, self.allocated(), reader),
        }
    }

    fn page_count(&self) -> u32 {
        self.overlay.page_count()
    }

    fn commit_number(&self) -> u64 {
        self.commit
    }

    fn oldest_snapshot(&self) -> u64 {
        self.oldest
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        let most = self.read.pool.capacity().min(u32::MAX - 1);
        let grow = |pages: u32| pages.checked_add(count).filter(|pages| *pages <= most);
        let page_count = &self.overlay.page_count;
        let first = page_count.fetch_update(Ordering::AcqRel, Ordering::Acquire, grow);
        first.map(PageId).map_err(|first| too_many_pages(self.read, first, count))
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        assert!(pages.len() <= STEP_PAGES, "a step has at most {STEP_PAGES} pages");
        let _locked = self.overlay.lock(pages);
        self.make_room(pages)?;
        let mut copies: [Option<Body>; STEP_PAGES] = Default::default();
        let mut reader = None;
        for (copy, page) in copies.iter_mut().zip(pages) {
            *copy = Some(self.copy(*page, &mut reader)?);
        }
        let mut bodies: [&mut [u8]; STEP_PAGES] = Default::default();
        for (body, copy) in bodies.iter_mut().zip(copies.iter_mut().flatten()) {
            *body = &mut copy[..];
        }
        change(&mut bodies[..pages.len()])?;
        for (page, copy) in pages.iter().zip(copies.into_iter().flatten()) {
            self.spare.extend(self.overlay.put(page.0, copy));
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn begin_section(&mut self) -> Result<(), Error> {
        let section = self.overlay.section.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.overlay.section_ends.wait_while(section, |is_taken| *is_taken);
        *ended.unwrap_or_else(PoisonError::into_inner) = true;
        self.is_in_section = true;
        Ok(())
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.is_in_section) {
            *self.overlay.section.lock().unwrap_or_else(PoisonError::into_inner) = false;
            self.overlay.section_ends.notify_one();
        }
    }
}

/// The view of a member: steps of all members, earlier changes of the transaction, and committed
/// pages.
pub struct MemberReader<'w> {
    overlay: &'w Overlay,
    before: TransactionReader<'w>,
}

/// A page that a member reads.
pub enum MemberGuard<'r> {
    /// A body that a member put in place.
    Changed(Arc<Body>),
    /// A page that no member had changed when it was asked for.
    Before(&'r [u8]),
}

impl Deref for MemberGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Changed(body) => &body[..],
            Self::Before(body) => body,
        }
    }
}

impl Reader for MemberReader<'_> {
    type Guard<'r>
        = MemberGuard<'r>
    where
        Self: 'r;

    #[inline]
    fn start(&self, page: PageId, bytes: Range<usize>) {
        match self.overlay.get(page.0) {
            Some(body) => {
                let end = bytes.end.min(BODY_BYTES);
                prefetch(&body[bytes.start.min(end)..end]);
            }
            None => self.before.start(page, bytes),
        }
    }

    #[inline]
    fn finish(&self, page: PageId) -> Result<MemberGuard<'_>, Error> {
        match self.overlay.get(page.0) {
            Some(body) => Ok(MemberGuard::Changed(body)),
            None => self.before.finish(page).map(MemberGuard::Before),
        }
    }

    fn snapshot(&mut self, _renew: bool) -> u64 {
        u64::MAX
    }

    #[inline]
    fn release(&mut self) {
        self.before.release();
    }

    fn pages_missed(&self) -> u64 {
        self.before.pages_missed()
    }
}
