//! The log record of a step: generic WAL, written by hand.
//!
//! A generic record names up to four pages, and for each the bytes that changed, as *fragments*: a
//! position, a length (two bytes each) and the new bytes. Every server replays it, without our
//! library. PostgreSQL's own writer of such records (`GenericXLogFinish`) compares pages byte by
//! byte and copies each of them three times, which was a sixth of an insertion.
//!
//! Here a step changes copies of its pages. The fragments are the runs of bytes by which a copy
//! differs from its page, found 64 bytes at a time; they go to the page and to the log alike. So
//! replay cannot differ from the change. A page that a step did not change is neither logged nor
//! written.

use std::cell::RefCell;
use std::ops::Range;

use pagehop_engine::page::ChangeStep;
use pagehop_engine::{Error, HOST_HEADER_BYTES, PAGE_BYTES, STEP_PAGES, used_bytes};
use pgrx::pg_sys;

use super::header;

/// Bytes of a fragment before its data.
const FRAGMENT_HEADER_BYTES: usize = 4;
/// Bytes that are compared at once.
const CHUNK_BYTES: usize = 64;
const WORD_BYTES: usize = 8;
const CHUNK_WORDS: usize = CHUNK_BYTES / WORD_BYTES;

const _: () = assert!(STEP_PAGES <= pg_sys::MAX_GENERIC_XLOG_PAGES as usize);
const _: () = assert!(PAGE_BYTES.is_multiple_of(CHUNK_BYTES) && PAGE_BYTES <= u16::MAX as usize);
// Fragments are in the server's byte order.
const _: () = assert!(cfg!(target_endian = "little"));

/// A copy of a page, aligned as buffers are.
#[repr(C, align(64))]
struct PageCopy([u8; PAGE_BYTES]);

/// Memory in which a step is computed.
struct Scratch {
    copies: [PageCopy; STEP_PAGES],
    fragments: [Fragments; STEP_PAGES],
}

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch {
        copies: [const { PageCopy([0; PAGE_BYTES]) }; STEP_PAGES],
        fragments: Default::default(),
    }));
}

/// Changes the pages in `buffers` as one: if `change` fails, no page changes. If `is_logged`, the
/// change is also logged.
///
/// # Errors
///
/// Those of `change`.
///
/// # Safety
///
/// The buffers are at most [`STEP_PAGES`] different ones of one relation, pinned and locked
/// exclusively; their pages have headers. `is_logged` is `RelationNeedsWAL` of the relation.
pub(super) unsafe fn step(
    buffers: &[pg_sys::Buffer],
    is_logged: bool,
    change: ChangeStep<'_>,
) -> Result<(), Error> {
    SCRATCH.with_borrow_mut(|scratch| {
        let Scratch { copies, fragments } = &mut **scratch;
        let copies = &mut copies[..buffers.len()];
        for (copy, buffer) in copies.iter_mut().zip(buffers) {
            // SAFETY: the caller has the buffer pinned and locked.
            copy.0.copy_from_slice(unsafe { page_bytes(*buffer) });
        }
        let mut bodies: [&mut [u8]; STEP_PAGES] = Default::default();
        for (body, copy) in bodies.iter_mut().zip(&mut *copies) {
            *body = &mut copy.0[HOST_HEADER_BYTES..];
        }
        change(&mut bodies[..buffers.len()])?;
        for ((copy, buffer), fragments) in copies.iter_mut().zip(buffers).zip(&mut *fragments) {
            // SAFETY: the copy is a whole page with a header, and only used here.
            unsafe { header::fit_hole(copy.0.as_mut_ptr().cast()) };
            // SAFETY: the caller has the buffer pinned and locked.
            fragments.find(unsafe { page_bytes(*buffer) }, &copy.0);
        }
        // SAFETY: the caller has the buffers pinned and locked, and says whether they are logged.
        unsafe { apply(buffers, &fragments[..buffers.len()], is_logged) };
        Ok(())
    })
}

/// Initializes the page of a new block as an empty page. It is logged as a hole, in some forty
/// bytes.
///
/// # Safety
///
/// The buffer is pinned and locked exclusively. `is_logged` is `RelationNeedsWAL` of its relation.
pub(super) unsafe fn init(buffer: pg_sys::Buffer, is_logged: bool) {
    // SAFETY: the caller has the buffer pinned and locked. An error in a critical section stops the
    // server, as it must where the log may lack what the page has.
    unsafe {
        pg_sys::CritSectionCount += 1;
        header::init(pg_sys::BufferGetPage(buffer));
        pg_sys::MarkBufferDirty(buffer);
        if is_logged {
            pg_sys::log_newpage_buffer(buffer, true);
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// Whether the page of a block was never written.
///
/// # Safety
///
/// The buffer is pinned and locked.
pub(super) unsafe fn is_new(buffer: pg_sys::Buffer) -> bool {
    // SAFETY: the caller has the buffer pinned and locked; a page begins with this header.
    unsafe { (*pg_sys::BufferGetPage(buffer).cast::<pg_sys::PageHeaderData>()).pd_upper == 0 }
}

/// Replaces the page in a buffer by `body`; the whole page is logged.
///
/// # Safety
///
/// As [`init`]; `body` is as long as that of a page.
pub(super) unsafe fn put(buffer: pg_sys::Buffer, body: &[u8], is_logged: bool) {
    // SAFETY: the caller has the buffer pinned and locked. An error in a critical section stops the
    // server, as it must where the log may lack what the page has.
    unsafe {
        pg_sys::CritSectionCount += 1;
        let page = pg_sys::BufferGetPage(buffer);
        header::init(page);
        page_bytes_mut(buffer)[HOST_HEADER_BYTES..].copy_from_slice(body);
        header::fit_hole(page);
        pg_sys::MarkBufferDirty(buffer);
        if is_logged {
            pg_sys::log_newpage_buffer(buffer, true);
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// `XLOG_BTREE_REUSE_PAGE` of `access/nbtxlog.h`.
const REUSE_PAGE: u8 = 0xD0;
/// Bytes of `xl_btree_reuse_page`: where the file is, a block, a full transaction id, a flag.
const REUSE_PAGE_BYTES: usize = 25;

/// Logs that pages of the index in the file `locator` are used again. Snapshots of `commit` or
/// before may still read them: a standby that replays this record resolves the conflict with its
/// queries.
///
/// PostgreSQL has this as a record of B-trees. The record changes no page, so any index may write
/// it.
pub(super) fn log_conflict(locator: &pg_sys::RelFileLocator, commit: u64) {
    let mut bytes = [0u8; REUSE_PAGE_BYTES];
    let numbers = [locator.spcOid.to_u32(), locator.dbOid.to_u32(), locator.relNumber.to_u32(), 0];
    let places = bytes.as_chunks_mut::<4>().0;
    places.iter_mut().zip(numbers).for_each(|(place, number)| *place = number.to_le_bytes());
    bytes[16..24].copy_from_slice(&commit.to_le_bytes());
    // SAFETY: what is registered lives until the record is inserted. Replay reads these bytes as
    // the struct, which has no pointers.
    unsafe {
        pg_sys::XLogBeginInsert();
        pg_sys::XLogRegisterData(bytes.as_ptr().cast_mut().cast(), REUSE_PAGE_BYTES as u32);
        pg_sys::XLogInsert(pg_sys::RmgrIds::RM_BTREE_ID as u8, REUSE_PAGE);
    }
}

/// Writes fragments to the pages in `buffers` and to the log.
///
/// # Safety
///
/// As [`step`]; `fragments` has those of each buffer's page.
unsafe fn apply(buffers: &[pg_sys::Buffer], fragments: &[Fragments], is_logged: bool) {
    let changed = || buffers.iter().zip(fragments).filter(|(_, fragments)| !fragments.bytes.is_empty());
    if changed().next().is_none() {
        return;
    }
    // SAFETY: the caller has the buffers pinned and locked. As in `GenericXLogFinish`: between the
    // first change of a page and the last stamp, any error stops the server. What is registered
    // lives until the record is inserted.
    unsafe {
        if is_logged {
            pg_sys::XLogBeginInsert();
        }
        pg_sys::CritSectionCount += 1;
        for (at, (buffer, fragments)) in changed().enumerate() {
            fragments.write_to(page_bytes_mut(*buffer));
            pg_sys::MarkBufferDirty(*buffer);
            if is_logged {
                pg_sys::XLogRegisterBuffer(at as u8, *buffer, pg_sys::REGBUF_STANDARD as u8);
                let bytes = fragments.bytes.as_ptr().cast_mut().cast();
                pg_sys::XLogRegisterBufData(at as u8, bytes, fragments.bytes.len() as u32);
            }
        }
        if is_logged {
            let position = pg_sys::XLogInsert(pg_sys::RmgrIds::RM_GENERIC_ID as u8, 0);
            changed().for_each(|(buffer, _)| pg_sys::PageSetLSN(pg_sys::BufferGetPage(*buffer), position));
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// The page in a buffer.
///
/// # Safety
///
/// The buffer is pinned and locked while the bytes are used.
unsafe fn page_bytes<'b>(buffer: pg_sys::Buffer) -> &'b [u8; PAGE_BYTES] {
    // SAFETY: a page has BLCKSZ bytes, and the caller keeps others from changing it.
    unsafe { &*pg_sys::BufferGetPage(buffer).cast() }
}

/// # Safety
///
/// The buffer is pinned and locked exclusively while the bytes are used, and there is no other
/// reference to them.
unsafe fn page_bytes_mut<'b>(buffer: pg_sys::Buffer) -> &'b mut [u8; PAGE_BYTES] {
    // SAFETY: a page has BLCKSZ bytes, and the caller has it to itself.
    unsafe { &mut *pg_sys::BufferGetPage(buffer).cast() }
}

/// The bytes by which a page changes, as a generic record has them.
#[derive(Default)]
struct Fragments {
    bytes: Vec<u8>,
    /// First byte of the hole of the page after the change.
    hole: usize,
}

impl Fragments {
    /// Finds how `after` differs from `before`, up to its hole. Runs that are no farther apart than
    /// a fragment's header is long are one fragment.
    fn find(&mut self, before: &[u8; PAGE_BYTES], after: &[u8; PAGE_BYTES]) {
        self.bytes.clear();
        self.hole = HOST_HEADER_BYTES + used_bytes(&after[HOST_HEADER_BYTES..]);
        let mut run = 0..0;
        let chunks = before.as_chunks::<CHUNK_BYTES>().0.iter().zip(after.as_chunks::<CHUNK_BYTES>().0);
        for (chunk, (old, new)) in chunks.enumerate().take(self.hole.div_ceil(CHUNK_BYTES)) {
            let differing = differing(old, new);
            if differing.iter().fold(0, |all, word| all | word) == 0 {
                continue;
            }
            for (word, mut bytes) in differing.into_iter().enumerate() {
                let mut at = chunk * CHUNK_BYTES + word * WORD_BYTES;
                while bytes != 0 {
                    let same = bytes.trailing_zeros() as usize / 8;
                    at += same;
                    bytes >>= 8 * same;
                    if run.is_empty() || at > run.end + FRAGMENT_HEADER_BYTES {
                        self.push(run, after);
                        run = at..at;
                    }
                    at += 1;
                    run.end = at;
                    bytes >>= 8;
                }
            }
        }
        self.push(run, after);
    }

    fn push(&mut self, run: Range<usize>, after: &[u8; PAGE_BYTES]) {
        if run.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(&(run.start as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(run.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&after[run]);
    }

    /// Changes a page as replay does: writes the fragments, and zeros to the hole.
    fn write_to(&self, page: &mut [u8; PAGE_BYTES]) {
        let mut rest = &self.bytes[..];
        while let Some((header, more)) = rest.split_first_chunk::<FRAGMENT_HEADER_BYTES>() {
            let [a, b, c, d] = *header;
            let (start, count) = (u16::from_le_bytes([a, b]).into(), usize::from(u16::from_le_bytes([c, d])));
            let (data, others) = more.split_at(count);
            page[start..start + count].copy_from_slice(data);
            rest = others;
        }
        page[self.hole..].fill(0);
    }
}

/// For each word of a chunk the bits by which `new` differs from `old`.
fn differing(old: &[u8; CHUNK_BYTES], new: &[u8; CHUNK_BYTES]) -> [u64; CHUNK_WORDS] {
    let (old, new) = (old.as_chunks::<WORD_BYTES>().0, new.as_chunks::<WORD_BYTES>().0);
    std::array::from_fn(|word| u64::from_le_bytes(old[word]) ^ u64::from_le_bytes(new[word]))
}
