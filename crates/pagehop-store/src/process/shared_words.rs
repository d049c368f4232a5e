//! The state that the processes with an open index share: the table of newest changes, the commit
//! number, and the snapshots of readers.
//!
//! It consists of words of `X-shared`, which every process maps. A process that opens the index
//! when no other has it open makes them again from the index and its log, so the words need not
//! survive a crash. If there is no `X-shared` (a directory without write permission, a network file
//! system) and in a simulation, the words belong to one process alone.
//!
//! **The table** has the position of each page's newest record, 0 for none since the file was made.
//! A cached page is the newest if it carries that position.
//!
//! `attach.rs` makes the words and ends their use. `snapshots.rs` has the words of readers.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::FallocateFlags;

use crate::disk::location::Location;
use crate::process::locks::IndexLocks;
use crate::process::mapping::{self, ForkMark, Words};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PHOPSHR\0");
pub(super) const VERSION: u64 = 3;

/// Bytes before the table; a multiple of the largest page that systems have.
pub(super) const HEAD_BYTES: u64 = 128 << 10;
/// Entries of the table that are mapped at once.
const CHUNK_PAGES: usize = 1 << 20;
const CHUNK_BYTES: u64 = CHUNK_PAGES as u64 * 8;
const CHUNKS: usize = 1 << 12;
/// Bytes of the table that get space on the disk at once: on a full disk, a write to a hole would
/// end the process.
const SPACE_BYTES: u64 = 64 << 10;

// Words of the head. Those that change often have 64 bytes of their own.
pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = 1;
pub(super) const AT_IDENTITY: usize = 2;
pub(super) const AT_INODE: usize = 3;
pub(super) const AT_DEVICE: usize = 4;
const AT_LOG_START: usize = 8;
const AT_BASE_PAGES: usize = 9;
const AT_PAGE_COUNT: usize = 16;
const AT_PUBLISHED: usize = 24;
const AT_BEGUN: usize = 25;

/// Byte that process 0 locks; the others follow.
pub(super) const LOCK_PROCESS: u64 = 16;
/// Processes that can share an index.
pub(crate) const PROCESSES: u32 = 1024;

/// The shared file and its locks. An index has them if its words are shared with other processes.
pub(super) struct Attachment {
    /// `X-shared`.
    pub(super) file: File,
    pub(super) location: Arc<Location>,
    pub(super) locks: IndexLocks,
}

/// The words, and this process's place among those that share them.
pub(crate) struct Shared {
    pub(super) head: Words,
    table: Box<[OnceLock<Words>]>,
    /// `None` if the words are of this process alone.
    pub(super) attachment: Option<Attachment>,
    /// Bytes of the table that this process knows to have space on the disk.
    space: AtomicU64,
    pub(super) process: u32,
    mark: ForkMark,
    /// The process that opened the index; not the child of a fork of it.
    home: u32,
    pub(crate) overflow: Overflow,
    /// Held by the thread that finishes the work of a writer that died.
    pub(super) finishing: Mutex<()>,
}

impl Shared {
    /// Words of this process alone, all zeros.
    pub(crate) fn private() -> io::Result<Self> {
        Self::new(Words::private(HEAD_BYTES as usize / 8)?, None)
    }

    pub(super) fn new(head: Words, attachment: Option<Attachment>) -> io::Result<Self> {
        let mark = ForkMark::new()?;
        let home = mark.process();
        let table = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        let (space, overflow) = (AtomicU64::new(0), Overflow::default());
        let finishing = Mutex::new(());
        Ok(Self { head, table, attachment, space, process: 0, mark, home, overflow, finishing })
    }

    /// Whether this is the child of a fork.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.mark.process() != self.home
    }

    /// The process number of this process.
    #[inline]
    pub(crate) fn system_process(&self) -> u32 {
        self.mark.process()
    }

    /// This process's place among those that share the words.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Whether process `process` still has the index open.
    pub(crate) fn is_alive(&self, process: u32) -> bool {
        let Some(Attachment { file, .. }) = &self.attachment else { return process == self.process };
        // If the system cannot tell, assuming so is safe.
        process == self.process || mapping::is_locked(file, LOCK_PROCESS + u64::from(process), 1).unwrap_or(true)
    }

    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        self.head.word(at)
    }

    /// Position of the newest record of `page`, which is below a count given to [`Shared::cover`];
    /// 0 for none.
    #[inline]
    pub(crate) fn newest(&self, page: u32) -> u64 {
        self.entry(page).load(Ordering::SeqCst)
    }

    pub(crate) fn set_newest(&self, page: u32, lsn: u64) {
        self.entry(page).store(lsn, Ordering::SeqCst);
    }

    /// [`Shared::set_newest`], unless a newer one is known.
    pub(crate) fn raise_newest(&self, page: u32, lsn: u64) {
        self.entry(page).fetch_max(lsn, Ordering::SeqCst);
    }

    #[inline]
    fn entry(&self, page: u32) -> &AtomicU64 {
        let chunk = self.table[page as usize / CHUNK_PAGES].get();
        chunk.expect("the table covers every page that is known").word(page as usize % CHUNK_PAGES)
    }

    /// Maps the table of the first `pages` pages; `grow` first extends the file to that length.
    pub(crate) fn cover(&self, pages: u32, grow: bool) -> io::Result<()> {
        let chunks = (pages as usize).div_ceil(CHUNK_PAGES);
        let needed = (u64::from(pages) * 8).next_multiple_of(SPACE_BYTES);
        if grow
            && needed > self.space.load(Ordering::Relaxed)
            && let Some(Attachment { file, .. }) = &self.attachment
        {
            let length = HEAD_BYTES + chunks as u64 * CHUNK_BYTES;
            if file.metadata()?.len() < length {
                file.set_len(length)?;
            }
            give_space(file, HEAD_BYTES, needed)?;
            self.space.store(needed, Ordering::Relaxed);
        }
        for chunk in 0..chunks {
            if self.table[chunk].get().is_none() {
                let words = match &self.attachment {
                    Some(Attachment { file, .. }) => {
                        Words::of_file(file, HEAD_BYTES + chunk as u64 * CHUNK_BYTES, CHUNK_PAGES)?
                    }
                    None => Words::private(CHUNK_PAGES)?,
                };
                // Another thread may have stored the same words first.
                let _ = self.table[chunk].set(words);
            }
        }
        Ok(())
    }

    /// Position where the log begins: older changes are in the index.
    pub(crate) fn log_start(&self) -> u64 {
        self.word(AT_LOG_START).load(Ordering::SeqCst)
    }

    /// Pages that the index file had when the log began.
    pub(crate) fn base_pages(&self) -> u32 {
        self.word(AT_BASE_PAGES).load(Ordering::SeqCst) as u32
    }

    /// Publishes that all changes below `log_start` are in the index, which has `base_pages` pages.
    pub(crate) fn set_base(&self, log_start: u64, base_pages: u32) {
        self.word(AT_BASE_PAGES).store(u64::from(base_pages), Ordering::SeqCst);
        self.word(AT_LOG_START).store(log_start, Ordering::SeqCst);
    }

    /// Pages that are committed.
    pub(crate) fn page_count(&self) -> u32 {
        self.word(AT_PAGE_COUNT).load(Ordering::Acquire) as u32
    }

    /// [`Shared::set_page_count`], unless there are more.
    pub(crate) fn raise_page_count(&self, pages: u32) {
        self.word(AT_PAGE_COUNT).fetch_max(u64::from(pages), Ordering::AcqRel);
    }

    pub(crate) fn set_page_count(&self, pages: u32) {
        self.word(AT_PAGE_COUNT).store(u64::from(pages), Ordering::Release);
    }

    /// Number of the newest commit.
    #[inline]
    pub(crate) fn published(&self) -> u64 {
        self.word(AT_PUBLISHED).load(Ordering::Acquire)
    }

    /// Number of the newest commit of which a page may be visible: that of [`Shared::published`],
    /// or a commit that a writer is showing, or was showing when it died.
    pub(crate) fn begun(&self) -> u64 {
        self.word(AT_BEGUN).load(Ordering::SeqCst)
    }

    /// Whether some pages of a commit may be visible and others not.
    #[inline]
    pub(crate) fn is_between_commits(&self) -> bool {
        self.begun() != self.published()
    }

    /// Announces that pages of `commit` become visible; `u64::MAX` if its number is not known yet.
    pub(crate) fn begin(&self, commit: u64) {
        self.word(AT_BEGUN).store(commit, Ordering::SeqCst);
    }

    /// Announces that `commit` is visible, and nothing newer.
    pub(crate) fn publish(&self, commit: u64) {
        self.begin(commit);
        self.word(AT_PUBLISHED).store(commit, Ordering::SeqCst);
    }
}

/// Reserves space on the disk for the `length` bytes of `file` from `at` on; new bytes are zeros.
pub(super) fn give_space(file: &File, at: u64, length: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), at, length) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    // Without reservations, holes are filled with zeros; other bytes stay.
    let mut bytes = vec![0; SPACE_BYTES as usize];
    for offset in (at..at + length).step_by(SPACE_BYTES as usize) {
        let have = file.read_at(&mut bytes, offset)?;
        bytes[have..].fill(0);
        if bytes.iter().all(|&byte| byte == 0) {
            file.write_all_at(&bytes, offset)?;
        }
    }
    Ok(())
}

/// Readers of this process that found no slot.
#[derive(Default)]
pub(crate) struct Overflow {
    pub(super) readers: Mutex<u32>,
    /// Number of the slot at which the search for a free one begins.
    pub(super) hint: AtomicU32,
}
