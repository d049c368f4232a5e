//! The page contract: how the engine reads pages from a host, changes them, and writes new ones.
//!
//! A page is 8 KiB. Its first [`HOST_HEADER_BYTES`] belong to the host (checksum and log position
//! in a file, `PageHeaderData` in PostgreSQL). The engine sees only the body after them.
//!
//! Reading has two calls, so that prefetching needs no async: [`Reader::start`] prefetches a page,
//! [`Reader::finish`] waits for it.
//!
//! | file | subject |
//! |---|---|
//! | `mod.rs`, `scratch.rs` | the contract: pages, steps, sinks; temporary files of a build |
//! | `fields.rs`, `kind.rs`, `stack.rs` | numbers on a page; the kind of a page; stacks of pages |
//! | `meta.rs`, `change_state.rs`, `calibration.rs` | the meta page, and its parts about changes and measurements |
//! | `layout.rs`, `node.rs` | the shape of nodes; one node |
//! | `model_pages.rs`, `landmark_pages.rs` | the model and the entry points; landmarks |
//! | `id_map.rs`, `dead_list.rs`, `pending_list.rs` | the map from row ids to nodes; dead nodes; row ids that wait for a node |
//! | `columns_page.rs`, `postings.rs` | columns; postings |
//! | `column_inner.rs`, `column_tree.rs`, `column_change.rs`, `leaf_ranges.rs` | the tree of a column: its inner pages; reading it; changes of its shape; the leaves of a run |
//! | `kept_vectors.rs`, `record_pages.rs`, `row_record.rs`, `text_record.rs` | kept vectors; pages of records; the record of a row; its text id |

pub(crate) mod calibration;
mod change_state;
pub(crate) mod column_change;
pub(crate) mod column_inner;
pub(crate) mod column_tree;
pub(crate) mod columns_page;
pub(crate) mod dead_list;
pub(crate) mod fields;
pub(crate) mod id_map;
pub(crate) mod kept_vectors;
pub(crate) mod kind;
pub(crate) mod landmark_pages;
pub(crate) mod layout;
pub(crate) mod leaf_ranges;
pub(crate) mod meta;
pub(crate) mod model_pages;
pub(crate) mod node;
pub(crate) mod pending_list;
pub(crate) mod postings;
pub(crate) mod record_pages;
pub(crate) mod row_record;
pub(crate) mod scratch;
pub(crate) mod stack;
pub(crate) mod text_record;

use std::ops::{Deref, Range};

use crate::Error;
pub use crate::ids::PageId;
pub use crate::page::scratch::{EachWork, Scratch, ScratchFile};

/// Bytes of a page, host header included.
pub const PAGE_BYTES: usize = 8192;
/// Bytes at the front of each page that belong to the host.
pub const HOST_HEADER_BYTES: usize = 24;
/// Bytes of a page that the engine may use.
pub const BODY_BYTES: usize = PAGE_BYTES - HOST_HEADER_BYTES;

/// Length of a body without the zeros at its end, rounded up to whole words: a host need not store
/// more.
pub fn used_bytes(body: &[u8]) -> usize {
    // Tests runs of bytes, which vectorizes, and single words only in the last run that is not
    // zero.
    const RUN_BYTES: usize = 256;
    const WORD_BYTES: usize = 8;
    let is_used = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte) != 0;
    let Some(run) = body.chunks(RUN_BYTES).rposition(is_used) else { return 0 };
    let start = run * RUN_BYTES;
    let last = &body[start..body.len().min(start + RUN_BYTES)];
    let words = last.chunks(WORD_BYTES).rposition(is_used).map_or(0, |word| word + 1);
    body.len().min(start + WORD_BYTES * words)
}

/// First bytes of the meta page's body. They identify an index.
pub const MAGIC: &[u8; 8] = b"PAGEHOP\0";

/// A host's pages, shared by any number of threads.
pub trait Pages: Sync {
    /// The view that one search has of the pages.
    type Reader<'p>: Reader
    where
        Self: 'p;

    /// Starts a search. When the reader is dropped, pages that it started and did not finish are
    /// released.
    fn reader(&self) -> Self::Reader<'_>;

    /// The number of pages; valid ids are below it.
    fn page_count(&self) -> u32;

    /// Whether no page that a reader of `snapshot` was given so far can be of a later commit.
    /// `true` from hosts without commits.
    fn is_newest(&self, snapshot: u64) -> bool {
        let _ = snapshot;
        true
    }
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

    fn is_newest(&self, snapshot: u64) -> bool {
        (**self).is_newest(snapshot)
    }
}

/// The view that one search has of the pages. It belongs to one thread.
pub trait Reader {
    /// A page held in place. Derefs to its body, exactly [`BODY_BYTES`] long.
    type Guard<'r>: Deref<Target = [u8]>
    where
        Self: 'r;

    /// Prefetches `page`. Never blocks, may do nothing, ignores an unknown page.
    ///
    /// `bytes` is the part of the body that is needed first. If the page is in memory, this part is
    /// prefetched into the CPU's cache.
    fn start(&self, page: PageId, bytes: Range<usize>);

    /// Returns the page; waits for it if necessary.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for a page that does not exist or fails its checksum, [`Error::Io`] if
    /// the system refused.
    fn finish(&self, page: PageId) -> Result<Self::Guard<'_>, Error>;

    /// Whether [`Reader::finish`] would return `page` at once. `false` only for a page that is
    /// being read, or is yet to be read; a host that does not know says `true`.
    fn is_ready(&self, page: PageId) -> bool {
        let _ = page;
        true
    }

    /// Searches that may take turns with this reader, so that their reads are under way together.
    /// 1 from a host whose reads do not overlap.
    fn searches_at_once(&self) -> usize {
        1
    }

    /// The commit number up to which this reader sees rows: the newest if `renew`, otherwise the
    /// one it took last. It sees a row that was added by then and not deleted by then. Pages may be
    /// newer. `u64::MAX` from hosts without commits.
    ///
    /// Until the next renewal, or the end of the reader, no row that it may see is removed.
    fn snapshot(&mut self, renew: bool) -> u64 {
        let _ = renew;
        u64::MAX
    }

    /// Says that no guard is held, which `&mut` proves. Called between hops and before a search
    /// pauses, so that the host may reuse memory that this search was reading.
    fn release(&mut self);

    /// Says that this search continues later or never, so the host may drop pages that were started
    /// and not finished.
    fn pause(&mut self) {}

    /// The number of storage reads that this reader caused: pages that were not in memory when they
    /// were first started or finished.
    fn pages_missed(&self) -> u64;
}

/// Pages that are prefetched while pages are read in order.
const PAGES_AHEAD: u32 = 32;

/// Prefetches the pages that follow `page` where all of `pages` are read in order. Called before
/// each of them is finished.
pub(crate) fn read_ahead(reader: &impl Reader, page: u32, pages: &Range<u32>) {
    let end = page.saturating_add(PAGES_AHEAD);
    let start = if page == pages.start { page } else { end - 1 };
    (start..end.min(pages.end)).for_each(|page| reader.start(PageId(page), 0..0));
}

/// Runs `work` with a reader. The reader is paused also after an error, because the caller may
/// continue with the host.
pub(crate) fn with_reader<P: Pages, T>(
    pages: &P,
    work: impl FnOnce(&mut P::Reader<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut reader = pages.reader();
    let done = work(&mut reader);
    reader.pause();
    done
}

/// Largest number of pages that one step changes: what PostgreSQL's generic WAL makes atomic.
pub const STEP_PAGES: usize = 4;

/// A host's pages while a writer changes them.
///
/// Every structural change is a sequence of *steps*. A step changes at most [`STEP_PAGES`] pages
/// and leaves an index that `check` accepts. A file makes all steps of a transaction durable and
/// visible at its commit; PostgreSQL does so after each step. The engine is correct with both.
///
/// A host may let several writers insert rows at the same time ([`PagesMut::is_shared`]). Each of
/// their steps is atomic, and steps of others come in between. A step that depends on an earlier
/// read first compares the page with that read.
pub trait PagesMut {
    /// The writer's view, which includes its own steps. Its snapshot is `u64::MAX`.
    type Reader<'w>: Reader
    where
        Self: 'w;

    /// Starts reading the current pages, own steps included.
    fn reader(&self) -> Self::Reader<'_>;

    /// The number of pages, allocated ones included; valid ids are below it.
    fn page_count(&self) -> u32;

    /// The number of this transaction's commit, with which it stamps rows that it adds or deletes.
    /// Larger than all before, and below 2^48; 0 from hosts that decide visibility themselves.
    fn commit_number(&self) -> u64;

    /// No reader has or will get a snapshot below this, so rows that were deleted at or before it
    /// are invisible to all.
    fn oldest_snapshot(&self) -> u64;

    /// Appends `count` consecutive pages of zeros and returns the first of them. A writer that is
    /// not alone asks for one page at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if there is no space; [`Error::Io`] if the host cannot grow.
    fn allocate(&mut self, count: u32) -> Result<PageId, Error>;

    /// As [`PagesMut::allocate`], also while other writers allocate pages; the pages are for
    /// [`PagesMut::put`].
    ///
    /// # Errors
    ///
    /// As [`PagesMut::allocate`].
    fn reserve(&mut self, count: u32) -> Result<PageId, Error> {
        self.allocate(count)
    }

    /// Bytes of further pages that this transaction can change, in a host that holds them in memory
    /// until its commit. A training whose graph has more is refused or left out.
    fn bytes_left(&self) -> u64 {
        u64::MAX
    }

    /// Whether a page of zeros is one that [`PagesMut::allocate`] made and no step changed, and
    /// certainly not one whose content was lost. A host that does not know returns `false`.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::finish`].
    fn is_allocated(&self, page: PageId) -> Result<bool, Error> {
        let _ = page;
        Ok(false)
    }

    /// Writes the body of a page that no other writer changes and no reader knows yet.
    ///
    /// # Errors
    ///
    /// As [`PagesMut::step`].
    fn put(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        self.step(&[page], &mut |bodies| {
            bodies[0].copy_from_slice(body);
            Ok(())
        })
    }

    /// Changes up to [`STEP_PAGES`] distinct pages atomically. `change` gets their current bodies,
    /// each [`BODY_BYTES`] long, in the order of `pages`. If it fails, nothing is changed.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::finish`]; those of `change`.
    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error>;

    /// As [`PagesMut::step`]; `change` also gets the commit number of the moment at which no reader
    /// sees the pages as they were before. A host whose number grows while a writer works reads it
    /// within the step: a reader that has seen the old pages has a snapshot below it.
    ///
    /// # Errors
    ///
    /// As [`PagesMut::step`].
    fn step_numbered(&mut self, pages: &[PageId], change: NumberedStep<'_>) -> Result<(), Error> {
        let commit = self.commit_number();
        self.step(pages, &mut |bodies| change(bodies, commit))
    }

    /// Called before pages are used again that readers with a snapshot of `commit` or before may
    /// read, once this host has no such reader, and before a graph is shown that lacks rows which
    /// only those see. A host with readers elsewhere informs them.
    ///
    /// # Errors
    ///
    /// Those of the host; the pages are then not used again.
    fn reuse(&mut self, commit: u64) -> Result<(), Error> {
        let _ = commit;
        Ok(())
    }

    /// Whether other writers may insert rows between two steps of this one. Training, vacuum and
    /// repairs are refused then: see [`Change::must_be_alone`](crate::Change::must_be_alone).
    fn is_shared(&self) -> bool {
        false
    }

    /// Waits until no other writer is in its section, and begins one: for changes of several steps
    /// that others must not come between.
    ///
    /// # Errors
    ///
    /// Those of the host, which then has not begun it.
    fn begin_section(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the section.
    fn end_section(&mut self) {}
}

/// A host whose transaction several threads can change at the same time.
pub trait SharedPages: PagesMut {
    /// The pages of the transaction as one thread changes them. [`PagesMut::is_shared`] is true for
    /// it, and it sees the steps of the others.
    type Member<'w>: PagesMut + Send
    where
        Self: 'w;

    /// Pages for each of `count` threads. Their steps belong to the transaction after
    /// [`SharedPages::join`].
    fn members(&mut self, count: usize) -> Vec<Self::Member<'_>>;

    /// Takes over the steps of all members, which are gone.
    fn join(&mut self);
}

/// [`PagesMut::step`] for page ids that were read from pages: naming a page twice is then
/// corruption, not a bug of the caller.
pub(crate) fn step<W: PagesMut>(pages: &mut W, ids: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
    match ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id)) {
        Some((_, id)) => Err(Error::corrupt(*id, "another page names it twice where two pages are needed")),
        None => pages.step(ids, change),
    }
}

/// Changes the bodies of a step's pages in place.
pub type ChangeStep<'a> = &'a mut dyn FnMut(&mut [&mut [u8]]) -> Result<(), Error>;

/// The same with the commit number of the step.
pub type NumberedStep<'a> = &'a mut dyn FnMut(&mut [&mut [u8]], u64) -> Result<(), Error>;

/// The destination of a build's pages.
pub trait PageSink {
    /// Stores `body`, exactly [`BODY_BYTES`] long, as `page`. Pages come as 1, 2, 3, ... without
    /// gaps, then page 0. The index exists once page 0 is written.
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error>;

    /// The first of `pages` pages that are to be written. Called once, when all is computed and
    /// nothing is written.
    ///
    /// # Errors
    ///
    /// Those of the host.
    fn first(&mut self, pages: u32) -> Result<PageId, Error> {
        let _ = pages;
        Ok(PageId(1))
    }

    /// Where the build may put rows aside that its memory has no room for. If `None`, such a build
    /// is refused.
    fn scratch(&self) -> Option<&dyn Scratch> {
        None
    }
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
