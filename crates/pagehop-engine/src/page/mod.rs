//! The page contract: how the engine asks a host for pages, and hands it new ones.
//!
//! A page is 8 KiB. Its first [`HOST_HEADER_BYTES`] belong to the host (checksum and log position in
//! a file, `PageHeaderData` in PostgreSQL); the engine sees only the body behind them.
//!
//! Reading is two calls so that look-ahead needs no async: [`Reader::start`] brings a page near,
//! [`Reader::finish`] waits for it.

pub(crate) mod layout;

use std::ops::{Deref, Range};

use crate::Error;

/// Bytes of a page, host header included.
pub const PAGE_BYTES: usize = 8192;
/// Bytes at the front of each page that belong to the host.
pub const HOST_HEADER_BYTES: usize = 24;
/// Bytes of a page that the engine may use.
pub const BODY_BYTES: usize = PAGE_BYTES - HOST_HEADER_BYTES;

/// Bytes of a body before the zeros at its end, rounded up to whole words: all that a host must keep of it.
pub fn used_bytes(body: &[u8]) -> usize {
    // Runs are looked at whole, which is what processors are good at, and words in the last alone.
    const RUN_BYTES: usize = 256;
    const WORD_BYTES: usize = 8;
    let is_used = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte) != 0;
    let Some(run) = body.chunks(RUN_BYTES).rposition(is_used) else { return 0 };
    let start = run * RUN_BYTES;
    let last = &body[start..body.len().min(start + RUN_BYTES)];
    let words = last.chunks(WORD_BYTES).rposition(is_used).map_or(0, |word| word + 1);
    body.len().min(start + WORD_BYTES * words)
}

/// First bytes of the meta page's body: what makes a file an index.
pub const MAGIC: &[u8; 8] = b"PAGEHOP\0";

/// Number of a page; page 0 is the meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A host's pages, shared by any number of threads.
pub trait Pages: Sync {
    /// One search's view of the pages.
    type Reader<'p>: Reader
    where
        Self: 'p;

    /// Begins a search. Pages that the reader started and never finished are released with it.
    fn reader(&self) -> Self::Reader<'_>;

    /// Pages that exist; valid ids are below it.
    fn page_count(&self) -> u32;
}

impl<P: Pages> Pages for &P {
    type Reader<'p>
        = P::Reader<'p>
    where
        Self: 'p;

    fn reader(&self) -> Self::Reader<'_> {
        (**self).reader()
    }

    fn page_count(&self) -> u32 {
        (**self).page_count()
    }
}

/// One search's view of the pages; belongs to one thread.
pub trait Reader {
    /// A page held in place. Derefs to its body, exactly [`BODY_BYTES`] long.
    type Guard<'r>: Deref<Target = [u8]>
    where
        Self: 'r;

    /// Begins to bring `page` near; never blocks, may do nothing, ignores an unknown page.
    ///
    /// `bytes` is the part of the body wanted first: a page that is already in memory is prefetched
    /// into the CPU's cache there.
    fn start(&self, page: PageId, bytes: Range<usize>);

    /// The page, waiting for it if it must.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for a page that does not exist or fails its checksum, [`Error::Io`] if
    /// the system refused.
    fn finish(&self, page: PageId) -> Result<Self::Guard<'_>, Error>;

    /// The commit number up to which this reader may see rows: the newest, if `renew`, else the one it took
    /// last. A row is visible to it if it was added by then and not deleted. Pages may be newer than that.
    /// `u64::MAX` from hosts without commits.
    ///
    /// Until the next renewal, or the end of the reader, no row that it may see is forgotten.
    fn snapshot(&mut self, renew: bool) -> u64 {
        let _ = renew;
        u64::MAX
    }

    /// Tells the host that no guard is held: `&mut` proves it. Called between hops and before a search pauses,
    /// so that a host may reuse memory that this search could have been looking at.
    fn release(&mut self);

    /// Tells the host that this search goes on later, or never: pages that it started and has not finished may be given up.
    fn pause(&mut self) {}

    /// Pages finished so far that were not in memory when they were first asked for, and pages
    /// started for nothing: the storage reads this reader caused.
    fn pages_missed(&self) -> u64;
}

/// Most pages that one step changes: what PostgreSQL's generic WAL makes atomic.
pub const STEP_PAGES: usize = 4;

/// A host's pages while one writer changes them.
///
/// Every structural change is a sequence of *steps*, each of at most [`STEP_PAGES`] pages and each leaving an
/// index that `check` accepts. A file makes all steps of a transaction durable and visible at its commit;
/// PostgreSQL each by itself. The engine is correct under both.
pub trait PagesMut {
    /// The writer's own view: its steps are in it, committed or not. Its snapshot is `u64::MAX`.
    type Reader<'w>: Reader
    where
        Self: 'w;

    /// Begins to read what is, own steps included.
    fn reader(&self) -> Self::Reader<'_>;

    /// Pages that exist, allocated ones included; valid ids are below it.
    fn page_count(&self) -> u32;

    /// The number of this transaction's commit: what rows are stamped with as they are added or deleted.
    /// Larger than any before; below 2^48; 0 from hosts that decide visibility themselves.
    fn commit_number(&self) -> u64;

    /// No reader, now or later, has a snapshot below this: rows deleted at or before it are out of sight.
    fn oldest_snapshot(&self) -> u64;

    /// Makes `count` more pages, all zeros, at the end; returns the first of them.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] or [`Error::Argument`] if there is no room.
    fn allocate(&mut self, count: u32) -> Result<PageId, Error>;

    /// Changes up to [`STEP_PAGES`] distinct pages as one. `change` gets their bodies, each [`BODY_BYTES`]
    /// long, in the order of `pages`; it judges them as they are now. If it fails, nothing has changed.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::finish`]; those of `change`.
    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error>;
}

/// [`PagesMut::step`] over pages that other pages named: naming one twice is a contradiction, not a mistake.
pub(crate) fn step<W: PagesMut>(pages: &mut W, ids: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
    match ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id)) {
        Some((_, id)) => Err(Error::corrupt(*id, "it would have to be two pages at once: another page names it")),
        None => pages.step(ids, change),
    }
}

/// Changes the bodies of a step's pages in place.
pub type ChangeStep<'a> = &'a mut dyn FnMut(&mut [&mut [u8]]) -> Result<(), Error>;

/// Where a build puts its pages.
pub trait PageSink {
    /// Stores `body`, exactly [`BODY_BYTES`] long, as `page`. Pages come as 1, 2, 3, ... without gaps, then
    /// page 0: until then the index does not exist.
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_ends_at_the_last_byte_that_is_not_zero() {
        let mut body = vec![0; BODY_BYTES];
        assert_eq!(used_bytes(&body), 0);
        for at in [0, 7, 8, 255, 256, 300, 8159, 8160, 8167] {
            body[at] = 1;
            assert_eq!(used_bytes(&body), (at / 8 + 1) * 8, "{at}");
        }
        assert_eq!(used_bytes(&[0, 1, 0]), 3);
    }
}
