//! What the processes that have an index open share: the table of newest changes, the commit number, and who
//! is there.
//!
//! All of it is words of `X-shared`, mapped by everybody. It is made new by whoever comes when nobody else is
//! there, from the index and its log, so nothing in it needs to survive anything. Where it cannot be had (a
//! directory that may not be written) and in a simulation, the words belong to one process alone.
//!
//! **The table** has the position of each page's newest record, 0 for none since the file was made. A cached
//! page is the newest if it carries that position.
//!
//! **Locks** (byte ranges of the file) say who lives: byte 0 is held while somebody comes or goes, byte 1 by
//! the writer, byte 16 + i by process i. The system frees them when their process ends, however it does.
//!
//! Who may still see what is in `snapshots.rs`.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pagehop_engine::Error;
use rustix::fs::FallocateFlags;

use crate::log::Identity;
use crate::mapping::{self, ForkMark, Words};
use crate::snapshots::{self, Overflow};
use crate::storage::beside;

const MAGIC: u64 = u64::from_le_bytes(*b"PHOPSHR\0");
const VERSION: u64 = 1;

/// Bytes before the table; a multiple of the largest page that systems have.
const HEAD_BYTES: u64 = 128 << 10;
/// Entries of the table that are mapped at once.
const CHUNK_PAGES: usize = 1 << 20;
const CHUNK_BYTES: u64 = CHUNK_PAGES as u64 * 8;
const CHUNKS: usize = 1 << 12;
/// Bytes of the table that get space on the disk at once: a hole without space would end the process.
const SPACE_BYTES: u64 = 64 << 10;

// Words of the head. Those that change often have 64 bytes of their own.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_IDENTITY: usize = 2;
const AT_INODE: usize = 3;
const AT_DEVICE: usize = 4;
const AT_LOG_START: usize = 8;
const AT_BASE_PAGES: usize = 9;
const AT_PAGE_COUNT: usize = 16;
const AT_PUBLISHED: usize = 24;

const LOCK_COMING: u64 = 0;
const LOCK_WRITER: u64 = 1;
const LOCK_PROCESS: u64 = 16;
/// Processes that can share an index.
pub(crate) const PROCESSES: u32 = 1024;

/// The words, and this process's place among those that share them.
pub(crate) struct Shared {
    head: Words,
    table: Box<[OnceLock<Words>]>,
    /// `None` if the words are of this process alone.
    file: Option<File>,
    path: PathBuf,
    /// Bytes of the table that this process knows to have space on the disk.
    space: AtomicU64,
    process: u32,
    mark: ForkMark,
    /// The process that opened the index; not the child of its fork.
    home: u32,
    pub(crate) overflow: Overflow,
}

/// How an attempt to join ended.
pub(crate) enum Attached {
    /// Joined; `first` if nobody else is there, and the words are zeros. Nobody comes or goes until
    /// [`Shared::let_others_in`].
    Joined { shared: Box<Shared>, first: bool },
    /// The index was replaced meanwhile: it must be opened again.
    Replaced,
    /// The file cannot be had or locked.
    Refused(io::Error),
}

impl Shared {
    /// Words of this process alone, all zeros.
    pub(crate) fn private() -> io::Result<Self> {
        Self::new(Words::private(HEAD_BYTES as usize / 8)?, None, PathBuf::new())
    }

    fn new(head: Words, file: Option<File>, path: PathBuf) -> io::Result<Self> {
        let mark = ForkMark::new()?;
        let home = mark.process();
        let table = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        let (space, overflow) = (AtomicU64::new(0), Overflow::default());
        Ok(Self { head, table, file, path, space, process: 0, mark, home, overflow })
    }

    /// Joins those that have the index at `path` open, which is the file of `index`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if `write` and another process is writing, or if too many have it open.
    pub(crate) fn attach(
        path: &Path,
        index: &Metadata,
        identity: Identity,
        write: bool,
    ) -> Result<Attached, Error> {
        let shared_path = beside(path, "-shared");
        loop {
            let file = match open_coming(&shared_path, Some(index)) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(error) => return Ok(Attached::Refused(error)),
            };
            if std::fs::metadata(path).map_or(true, |now| !is_same(&now, index)) {
                remove_unused(&shared_path, &file);
                return Ok(Attached::Replaced);
            }
            match Self::join(path, &shared_path, file, index, identity, write)? {
                Ok(Some((shared, first))) => return Ok(Attached::Joined { shared: Box::new(shared), first }),
                Ok(None) => {}
                Err(error) => return Ok(Attached::Refused(error)),
            }
        }
    }

    /// `None` if the words were those of an index that is no longer at `path`, and are gone now.
    fn join(
        path: &Path,
        shared_path: &Path,
        file: File,
        index: &Metadata,
        identity: Identity,
        write: bool,
    ) -> Result<io::Result<Option<(Self, bool)>>, Error> {
        let tried = (move || {
            let first = !mapping::is_locked(&file, LOCK_PROCESS, u64::from(PROCESSES))?;
            if first {
                // Some file systems write out, on closing, a file that was once cut to nothing.
                if file.metadata()?.len() > 0 {
                    file.set_len(0)?;
                }
                give_space(&file, 0, HEAD_BYTES)?;
            } else if file.metadata()?.len() < HEAD_BYTES {
                return Err(io::Error::other(format!("{} is too short", shared_path.display())));
            }
            let head = Words::of_file(&file, 0, HEAD_BYTES as usize / 8)?;
            Ok((Self::new(head, Some(file), shared_path.to_path_buf())?, first))
        })();
        let (mut shared, first) = match tried {
            Ok(made) => made,
            Err(error) => return Ok(Err(error)),
        };
        let about = [MAGIC, VERSION, pack(identity), index.ino(), index.dev()];
        let words = [AT_MAGIC, AT_VERSION, AT_IDENTITY, AT_INODE, AT_DEVICE];
        for (word, about) in words.into_iter().zip(about) {
            if first {
                shared.head.word(word).store(about, Ordering::Relaxed);
            } else if shared.head.word(word).load(Ordering::Relaxed) != about {
                if word < AT_IDENTITY {
                    let what = format!("{} is in use by another version of this program", shared_path.display());
                    return Err(Error::Format { what });
                }
                // Of the file that was here before; those who still read it keep what they have mapped.
                return Ok(std::fs::remove_file(shared_path).map(|()| None));
            }
        }
        if write && !shared.lock(LOCK_WRITER).map_err(|error| no_lock(path, error))? {
            return Err(Error::argument(format!(
                "another process is writing {}, or this one opened it for writing twice; there can be one writer \
                 at a time: wait until it has closed the index, or open it for reading",
                path.display(),
            )));
        }
        match shared.register() {
            Ok(true) => Ok(Ok(Some((shared, first)))),
            Ok(false) => {
                let path = path.display();
                Err(Error::argument(format!("{path} is open {PROCESSES} times already; close some of them")))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn lock(&self, at: u64) -> io::Result<bool> {
        self.file.as_ref().map_or(Ok(true), |file| mapping::lock(file, at, false))
    }

    /// Takes a place among the processes.
    fn register(&mut self) -> io::Result<bool> {
        for process in 0..PROCESSES {
            if self.lock(LOCK_PROCESS + u64::from(process))? {
                self.process = process;
                // Whoever had the place before ended without a word.
                snapshots::forget_process(self, process);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends what began with [`Attached::Joined`]: the words are complete.
    pub(crate) fn let_others_in(&self) {
        if let Some(file) = &self.file {
            mapping::unlock(file, LOCK_COMING);
        }
    }

    /// Leaves. If nobody else is there, the words are removed, and the log if `remove_log` finds that it is not
    /// needed.
    pub(crate) fn detach(&mut self, remove_log: impl FnOnce()) {
        if self.is_forked() {
            return;
        }
        snapshots::forget_process(self, self.process);
        let Some(file) = self.file.take() else {
            remove_log();
            return;
        };
        let gone = mapping::lock(&file, LOCK_COMING, true).and_then(|_| {
            let mine = file.metadata()?;
            let is_named = std::fs::metadata(&self.path).is_ok_and(|named| is_same(&named, &mine));
            let alone = !mapping::is_locked(&file, LOCK_PROCESS, u64::from(PROCESSES))?;
            if is_named && alone {
                remove_log();
                std::fs::remove_file(&self.path)?;
            }
            Ok(())
        });
        // What could not be removed is made new by who comes next.
        let _ = gone;
    }

    /// Whether this is the child of a fork.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.mark.process() != self.home
    }

    /// The system's number of this process.
    #[inline]
    pub(crate) fn system_process(&self) -> u32 {
        self.mark.process()
    }

    /// This process's place.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Whether process `process` still has the index open.
    pub(crate) fn is_alive(&self, process: u32) -> bool {
        let Some(file) = &self.file else { return process == self.process };
        // If the system cannot say, it is safe to think so.
        process == self.process || mapping::is_locked(file, LOCK_PROCESS + u64::from(process), 1).unwrap_or(true)
    }

    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        self.head.word(at)
    }

    /// Position of the newest record of `page`, which is below a count given to [`Shared::cover`]; 0 for none.
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

    /// Maps the table of the first `pages` pages; `grow` makes it so long first.
    pub(crate) fn cover(&self, pages: u32, grow: bool) -> io::Result<()> {
        let chunks = (pages as usize).div_ceil(CHUNK_PAGES);
        let needed = (u64::from(pages) * 8).next_multiple_of(SPACE_BYTES);
        if grow
            && needed > self.space.load(Ordering::Relaxed)
            && let Some(file) = &self.file
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
                let words = match &self.file {
                    Some(file) => Words::of_file(file, HEAD_BYTES + chunk as u64 * CHUNK_BYTES, CHUNK_PAGES)?,
                    None => Words::private(CHUNK_PAGES)?,
                };
                // Another thread may have been faster, with the same.
                let _ = self.table[chunk].set(words);
            }
        }
        Ok(())
    }

    /// Position where the log begins: what is older is in the index.
    pub(crate) fn log_start(&self) -> u64 {
        self.word(AT_LOG_START).load(Ordering::SeqCst)
    }

    /// Pages that the index file had when the log began.
    pub(crate) fn base_pages(&self) -> u32 {
        self.word(AT_BASE_PAGES).load(Ordering::SeqCst) as u32
    }

    /// Says that all below `log_start` is in the index, which has `base_pages` pages.
    pub(crate) fn set_base(&self, log_start: u64, base_pages: u32) {
        self.word(AT_BASE_PAGES).store(u64::from(base_pages), Ordering::SeqCst);
        self.word(AT_LOG_START).store(log_start, Ordering::SeqCst);
    }

    /// Pages that are committed.
    pub(crate) fn page_count(&self) -> u32 {
        self.word(AT_PAGE_COUNT).load(Ordering::Acquire) as u32
    }

    pub(crate) fn set_page_count(&self, pages: u32) {
        self.word(AT_PAGE_COUNT).store(u64::from(pages), Ordering::Release);
    }

    /// Number of the newest commit.
    #[inline]
    pub(crate) fn published(&self) -> u64 {
        self.word(AT_PUBLISHED).load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, commit: u64) {
        self.word(AT_PUBLISHED).store(commit, Ordering::SeqCst);
    }
}

/// Opens and locks the file of the words at `path`, made with the permissions of `index` if it is absent. `None`
/// if it was removed while we waited for the lock.
fn open_coming(path: &Path, index: Option<&Metadata>) -> io::Result<Option<File>> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    if let Some(index) = index
        && file.metadata()?.permissions() != index.permissions()
    {
        // Whoever may use the index may share it. Refused to all but the owner, who has done it.
        let _ = file.set_permissions(index.permissions());
    }
    mapping::lock(&file, LOCK_COMING, true)?;
    let is_named =
        std::fs::metadata(path).is_ok_and(|named| file.metadata().is_ok_and(|mine| is_same(&named, &mine)));
    Ok(is_named.then_some(file))
}

/// Removes the file of the words if nobody uses it.
fn remove_unused(path: &Path, file: &File) {
    if matches!(mapping::is_locked(file, LOCK_WRITER, LOCK_PROCESS + u64::from(PROCESSES)), Ok(false)) {
        let _ = std::fs::remove_file(path);
    }
}

/// Keeps everybody from opening the index at a path, while a new one takes its place.
pub(crate) struct Replacing {
    file: File,
    path: PathBuf,
}

impl Replacing {
    /// Waits until nobody is opening the index at `path`. `None` where there are no locks or side files.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index at `path` is being written.
    pub(crate) fn begin(path: &Path) -> Result<Option<Self>, Error> {
        let shared_path = beside(path, "-shared");
        let file = loop {
            match open_coming(&shared_path, std::fs::metadata(path).ok().as_ref()) {
                Ok(Some(file)) => break file,
                Ok(None) => {}
                Err(_) => return Ok(None),
            }
        };
        match mapping::lock(&file, LOCK_WRITER, false) {
            Ok(true) => Ok(Some(Self { file, path: shared_path })),
            Ok(false) => Err(Error::argument(format!(
                "another process is writing {}; it can be overwritten when that process has closed it",
                path.display(),
            ))),
            Err(_) => Ok(None),
        }
    }

    /// The old index is gone: removes its words, after `log_removal` its log.
    pub(crate) fn finish(self, log_removal: impl FnOnce()) {
        log_removal();
        let _ = std::fs::remove_file(&self.path);
    }

    /// The old index stays.
    pub(crate) fn cancel(self) {
        mapping::unlock(&self.file, LOCK_WRITER);
        remove_unused(&self.path, &self.file);
    }
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    a.ino() == b.ino() && a.dev() == b.dev()
}

fn pack(identity: Identity) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&identity);
    u64::from_le_bytes(bytes)
}

fn no_lock(path: &Path, error: io::Error) -> Error {
    Error::io(format!("lock of {} for writing", path.display()), error)
}

/// Gives the `length` bytes of `file` from `at` on space on the disk, as zeros if they were not there.
fn give_space(file: &File, at: u64, length: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), at, length) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    // Without reservations, what is a hole becomes zeros; what has been written stays.
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
