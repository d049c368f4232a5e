//! Pages that a transaction has changed, and the view of its reader.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use pagehop_engine::{BODY_BYTES, Error, PageId, Reader};
use pagehop_kernels::prefetch;

use crate::log::dirty::PageHasher;
use crate::read_side::ReadSide;
use crate::reader::FileReader;

pub(crate) static ZEROS: [u8; BODY_BYTES] = [0; BODY_BYTES];

/// The body of a page, changed by a transaction.
pub(crate) type Body = Box<[u8; BODY_BYTES]>;

/// Pages changed by a transaction.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) places: HashMap<u32, u32, BuildHasherDefault<PageHasher>>,
    pub(crate) bodies: Vec<Body>,
}

impl Changes {
    #[inline]
    pub(crate) fn get(&self, page: u32) -> Option<&[u8]> {
        if self.bodies.is_empty() {
            return None;
        }
        self.places.get(&page).map(|&place| &self.bodies[place as usize][..])
    }

    /// The position of the body of a page, or the free position for a page that has not been
    /// changed.
    pub(crate) fn place(&mut self, page: u32) -> usize {
        let next = self.bodies.len() as u32;
        let place = *self.places.entry(page).or_insert(next);
        if place == next {
            self.bodies.push(new_body());
        }
        place as usize
    }
}

pub(crate) fn new_body() -> Body {
    Box::new([0; BODY_BYTES])
}

pub(crate) fn transaction_is_full(bytes: u64) -> Error {
    Error::full(format!(
        "this call changes more than {} MiB of pages, the most that one transaction holds in memory; nothing has \
         changed; change fewer rows per call",
        bytes >> 20,
    ))
}

/// The error for an index of `first` pages that cannot have `count` more.
pub(crate) fn too_many_pages(read: &ReadSide, first: u32, count: u32) -> Error {
    Error::full(format!(
        "{} has {first} pages and cannot have {count} more while it is open; close it and open it again, up to {} \
         pages",
        read.path().display(),
        u32::MAX - 1,
    ))
}

/// The view of a transaction: its own changes, and committed pages.
pub struct TransactionReader<'w> {
    changes: &'w Changes,
    /// Pages that only this transaction has.
    allocated: Range<u32>,
    reader: FileReader<'w>,
}

impl<'w> TransactionReader<'w> {
    pub(crate) fn new(changes: &'w Changes, allocated: Range<u32>, reader: FileReader<'w>) -> Self {
        Self { changes, allocated, reader }
    }
}

impl Reader for TransactionReader<'_> {
    type Guard<'r>
        = &'r [u8]
    where
        Self: 'r;

    #[inline]
    fn start(&self, page: PageId, bytes: Range<usize>) {
        if let Some(body) = self.changes.get(page.0) {
            let end = bytes.end.min(BODY_BYTES);
            prefetch(&body[bytes.start.min(end)..end]);
        } else if !self.allocated.contains(&page.0) {
            self.reader.start(page, bytes);
        }
    }

    #[inline]
    fn finish(&self, page: PageId) -> Result<&[u8], Error> {
        if let Some(body) = self.changes.get(page.0) {
            return Ok(body);
        }
        if self.allocated.contains(&page.0) {
            return Ok(&ZEROS);
        }
        self.reader.finish(page)
    }

    fn snapshot(&mut self, _renew: bool) -> u64 {
        u64::MAX
    }

    #[inline]
    fn release(&mut self) {
        self.reader.release();
    }

    fn pages_missed(&self) -> u64 {
        self.reader.pages_missed()
    }
}
