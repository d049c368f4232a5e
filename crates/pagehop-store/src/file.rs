//! An index file as the engine's pages.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagehop_engine::{Error, PAGE_BYTES, PageId, Pages};

use crate::buffer::{Frame, Pool};
use crate::header::{self, Fault, HEADER_VERSION};
use crate::log::{Identity, Log};
use crate::open::{Io, OpenOptions};
use crate::pread::{PageBuffer, PageFile};
use crate::reader::FileReader;
use crate::recover::{Found, Recovered, recover};
use crate::shared::{Attached, Shared};
use crate::storage::{Name, OsStorage, Storage, StorageFile, beside};
use crate::uring::{Completed, Ring};
use crate::write::Writer;

/// The pages of one index file, behind a cache; shared by any number of threads.
///
/// Commits of the process that writes, this one or another, are seen as they come. The file may be replaced by
/// a new build meanwhile: these pages stay those of the file that was opened.
///
/// Dropping it leaves what was committed in the log, for whoever opens the index next; [`FilePages::close`] brings
/// it into the index.
pub struct FilePages {
    pub(crate) pool: Pool,
    pub(crate) file: PageFile,
    pub(crate) log: Log,
    pub(crate) identity: Identity,
    pub(crate) shared: Box<Shared>,
    pub(crate) writer: Option<Writer>,
    /// Whether nobody says when another process commits: the directory may not be written.
    solitary: bool,
    /// The newest commit when the file was opened.
    attached_at: u64,
    /// Whether reads may go through io_uring; falls when the system refuses.
    pub(crate) uring: AtomicBool,
    reads: AtomicU64,
    uncached_reads: AtomicU64,
}

// A panic elsewhere leaves pages whole: what a transaction changes is its own until it commits.
impl std::panic::UnwindSafe for FilePages {}
impl std::panic::RefUnwindSafe for FilePages {}

/// What happened since the file was opened, over all readers and the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read from storage.
    pub reads: u64,
    /// Bytes read from storage.
    pub bytes: u64,
    /// Pages that had to leave the cache.
    pub evictions: u64,
    /// Those of `reads` that the cache had no room for: it is too small for this many readers.
    pub uncached_reads: u64,
    /// Transactions that were committed.
    pub commits: u64,
    /// Bytes that commits wrote to the log.
    pub log_bytes_written: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes of pages that checkpoints wrote into the index.
    pub page_bytes_written: u64,
}

/// An index that was found and joined, on its way to being open.
struct Opening {
    file: PageFile,
    found: Found,
    storage: Arc<dyn Storage>,
    shared: Box<Shared>,
    /// Whether nobody else has it open.
    first: bool,
    solitary: bool,
}

impl FilePages {
    /// Opens the file at `path`. Only page 0 is read, to see that this is an index, and its log if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, or not be written if that is asked for; [`Error::Format`] if it
    /// is not an index, or of another version; [`Error::Corrupt`] if it is truncated or page 0 is damaged;
    /// [`Error::Argument`] if another process is writing it and this one wants to.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let refused = |error| Error::io(format!("open of {}", path.display()), error);
        loop {
            let metadata = std::fs::metadata(path).map_err(refused)?;
            if !metadata.is_file() {
                let what = format!("{} is not a file", path.display());
                return Err(Error::Format { what });
            }
            let file = PageFile::open(path, options.direct).map_err(refused)?;
            let index = file.os().expect("it was opened so").metadata().map_err(refused)?;
            let found = find(&file)?;
            if found.position.is_none() && !beside(path, "-log").exists() {
                // Nobody can be writing it, and nothing can make it whole.
                file.read(PageId(0), &mut PageBuffer::new().0)?;
            }
            if options.write {
                let opened = File::options().read(true).write(true).open(path);
                opened.map_err(|error| Error::io(format!("open of {} for writing", path.display()), error))?;
            }
            let (shared, first, solitary) = match Shared::attach(path, &index, found.identity, options.write)? {
                Attached::Joined { shared, first } => (shared, first, false),
                Attached::Replaced => continue,
                Attached::Refused(error) if options.write => {
                    let what = format!("making or locking {}-shared, which a writer needs,", path.display());
                    return Err(Error::io(what, error));
                }
                Attached::Refused(_) => (private(path)?, true, true),
            };
            let storage = Arc::new(OsStorage::new(path));
            let opening = Opening { file, found, storage, shared, first, solitary };
            return opening.finish(options);
        }
    }

    /// Opens the index in `storage`, which nobody else has open.
    ///
    /// # Errors
    ///
    /// Those of [`FilePages::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: &OpenOptions) -> Result<Self, Error> {
        let name = "the index";
        let opened = storage.open(Name::Index, false).and_then(|file| file.ok_or(io::ErrorKind::NotFound.into()));
        let file = opened.map_err(|error| Error::io(format!("open of {name}"), error))?;
        let file = PageFile::of_storage(file, name);
        let found = find(&file)?;
        let shared = private(Path::new(name))?;
        Opening { file, found, storage, shared, first: true, solitary: false }.finish(options)
    }

    /// Whether rows can be added and deleted.
    pub fn is_writable(&self) -> bool {
        self.writer.is_some()
    }

    /// Bytes of commits in the log, which a checkpoint would bring into the index; 0 if it is not this process
    /// that writes.
    pub fn log_used_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, |writer| {
            let state = writer.state();
            state.end - state.start
        })
    }

    /// Ends the use of the index: a writer's commits are brought into it, and if nobody else has it open, the
    /// files beside it are removed.
    ///
    /// # Errors
    ///
    /// Those of [`FilePages::checkpoint`]. The index is closed in any case, and what was committed is safe in
    /// its log.
    pub fn close(self) -> Result<(), Error> {
        match &self.writer {
            Some(_) if !self.shared.is_forked() => self.checkpoint(),
            _ => Ok(()),
        }
    }

    /// The writer's side, if this process may write.
    pub(crate) fn writer(&self) -> Result<&Writer, Error> {
        let path = self.path().display();
        match &self.writer {
            Some(_) if self.shared.is_forked() => Err(Error::argument(format!(
                "{path} was opened for writing before this process was forked, and its parent may be writing; open it anew"
            ))),
            Some(writer) => Ok(writer),
            None => {
                Err(Error::argument(format!("{path} was opened for reading; open it for writing to change it")))
            }
        }
    }

    /// Whether pages in the cache may be older than what is committed.
    #[inline]
    pub(crate) fn has_old_frames(&self) -> bool {
        if self.shared.published() == self.attached_at {
            return false;
        }
        if self.writer.is_some() && !self.shared.is_forked() {
            return false;
        }
        self.pool.expect_changes();
        true
    }

    /// Makes pages known that another process has added; whether there were any.
    pub(crate) fn notice_growth(&self) -> bool {
        if self.solitary {
            let _ = self.catch_up();
        }
        let (known, pages) = (self.pool.page_count(), self.shared.page_count());
        if pages <= known || pages > self.pool.capacity() || self.shared.cover(pages, false).is_err() {
            return false;
        }
        self.pool.grow(pages);
        true
    }

    /// Whether commits of other processes are noticed without looking for them.
    pub(crate) fn follows_by_itself(&self) -> bool {
        !self.solitary
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let reads = self.reads.load(Ordering::Relaxed);
        let of_writer = |counter: fn(&Writer) -> &AtomicU64| {
            self.writer.as_ref().map_or(0, |writer| counter(writer).load(Ordering::Relaxed))
        };
        Counters {
            reads,
            bytes: reads * PAGE_BYTES as u64,
            evictions: self.pool.evictions(),
            uncached_reads: self.uncached_reads.load(Ordering::Relaxed),
            commits: of_writer(|writer| &writer.commits),
            log_bytes_written: of_writer(|writer| &writer.log_bytes_written),
            checkpoints: of_writer(|writer| &writer.checkpoints),
            page_bytes_written: of_writer(|writer| &writer.page_bytes_written),
        }
    }

    /// Bytes of pages that the cache can hold.
    pub fn cache_bytes(&self) -> u64 {
        u64::from(self.pool.frame_count().min(self.pool.page_count())) * PAGE_BYTES as u64
    }

    /// Whether reads go past the system's page cache.
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// How reads are made: [`Io::Uring`] until the system refuses it, or [`Io::Pread`].
    pub fn io(&self) -> Io {
        if self.uring.load(Ordering::Relaxed) { Io::Uring } else { Io::Pread }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn count_reads(&self, count: u64) {
        self.reads.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_uncached_read(&self) {
        self.count_reads(1);
        self.uncached_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Verifies a completed read; a page that cannot be used is absent again.
    pub(crate) fn settle(&self, read: Completed) -> Result<(u32, Frame), Error> {
        let Completed { page, mut frame, result } = read;
        let bytes = self.pool.frames().bytes_mut(&mut frame);
        let base = self.file.settle(PageId(page), bytes, result);
        match self.complete(page, bytes, base) {
            Ok(()) => Ok((page, frame)),
            Err(error) => {
                self.pool.abandon(page, frame);
                Err(error)
            }
        }
    }

    /// Puts everything that arrived through `ring` into the table.
    pub(crate) fn take_in(&self, ring: &mut Ring) {
        while let Some(read) = ring.completed() {
            // The error of a page is told when that page is asked for.
            if let Ok((page, frame)) = self.settle(read) {
                self.pool.publish(page, frame, 0);
            }
        }
    }

    /// Does for other readers, which may be busy or gone, what [`FilePages::take_in`] does. If
    /// `wanted` only waits in a ring to be submitted, it is taken out: the caller may read it now.
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

impl Pages for FilePages {
    type Reader<'p> = FileReader<'p>;

    fn reader(&self) -> FileReader<'_> {
        FileReader::new(self)
    }

    fn page_count(&self) -> u32 {
        if self.shared.page_count() > self.pool.page_count() {
            self.notice_growth();
        }
        // The cache knows pages a moment before they are committed.
        self.pool.page_count().min(self.shared.page_count())
    }
}

impl Drop for FilePages {
    fn drop(&mut self) {
        let (log, identity, solitary) = (&self.log, self.identity, self.solitary);
        self.shared.detach(|| {
            // A log with commits stays; so does one of another index, which is not ours to judge.
            let is_ours = matches!(log.read_header(), Ok(Some(header)) if header.identity == identity);
            if is_ours && !solitary && matches!(log.is_empty(), Ok(true)) {
                // If it cannot be removed, it does no harm.
                let _ = log.remove();
            }
        });
    }
}

impl Opening {
    /// Reads the log, if that is for this process to do, and lets others in.
    fn finish(self, options: &OpenOptions) -> Result<FilePages, Error> {
        let Self { file, found, storage, shared, first, solitary } = self;
        let path = file.path().to_path_buf();
        let log = Log::new(Arc::clone(&storage), format!("{}-log", path.display()));
        let mut writer = None;
        if first || options.write {
            let recovered = recover(&found, &log, &shared)?;
            shared.set_base(recovered.end_start(), recovered.base_pages);
            shared.set_page_count(recovered.page_count);
            shared.publish(recovered.commit);
            if options.write {
                writer = Some(open_writer(&*storage, &log, &found, recovered, options)?);
            }
        }
        let page_count = shared.page_count();
        shared
            .cover(page_count, false)
            .map_err(|error| Error::io(format!("memory for the table of changes of {}", path.display()), error))?;
        let pool = Pool::new(page_count, options.cache_bytes)
            .map_err(|error| Error::io(format!("memory for the cache of {}", path.display()), error))?;
        if writer.is_some() {
            pool.expect_changes();
        }
        let wants_uring = match options.io {
            Io::Auto => std::env::var_os("PAGEHOP_IO").is_none_or(|io| io != "pread"),
            Io::Uring => true,
            Io::Pread => false,
        };
        if options.io == Io::Uring {
            Ring::new(pool.frames())
                .map_err(|error| Error::io(format!("io_uring for {}", path.display()), error))?;
        }
        shared.let_others_in();
        let uring = AtomicBool::new(wants_uring && file.os().is_some());
        let pages = FilePages {
            pool,
            identity: found.identity,
            attached_at: shared.published(),
            file,
            log,
            shared,
            writer,
            solitary,
            uring,
            reads: AtomicU64::new(0),
            uncached_reads: AtomicU64::new(0),
        };
        if found.position.is_none() {
            // A checkpoint may have torn page 0, or be writing it. If it cannot be had, it is damaged.
            pages.read_newest(0, &mut PageBuffer::new().0)?;
        }
        Ok(pages)
    }
}

/// Opens what a writer needs, and cuts off what one before left unfinished.
fn open_writer(
    storage: &dyn Storage,
    log: &Log,
    found: &Found,
    recovered: Recovered,
    options: &OpenOptions,
) -> Result<Writer, Error> {
    let name = &found.name;
    let refused = |error| Error::io(format!("open of {name} for writing"), error);
    let index = storage.open(Name::Index, false).map_err(refused)?;
    let index = index.ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
    if let Some(header) = &recovered.header {
        // What is behind the last whole block came to nothing, and must not follow the next one.
        let (file, end) = (log.existing()?, header.offset(recovered.end.lsn));
        let cut = file.length().and_then(|length| if length > end { file.set_length(end) } else { Ok(()) });
        // A sync that failed may have left what is there in the system's memory alone, and clean: it is written
        // once more. The name may be as new.
        cut.and_then(|()| rewrite(&*file, end)).map_err(|error| log.refused("repair", error))?;
        storage.sync_directory().map_err(|error| log.refused("repair", error))?;
    }
    let base_position = found.position.unwrap_or(0);
    let base_position = recovered.header.as_ref().map_or(base_position, |header| header.base_position);
    Ok(Writer::new(index, recovered, base_position, options))
}

/// Writes the first `end` bytes of a file over themselves, durably.
fn rewrite(file: &dyn StorageFile, end: u64) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    while at < end {
        let wanted = piece.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let have = file.read_at(&mut piece[..wanted], at)?;
        if have == 0 {
            break;
        }
        file.write_all_at(&piece[..have], at)?;
        at += have as u64;
    }
    file.sync()
}

fn private(path: &Path) -> Result<Box<Shared>, Error> {
    let shared = Shared::private()
        .map_err(|error| Error::io(format!("memory for the table of changes of {}", path.display()), error))?;
    Ok(Box::new(shared))
}

/// What is in `file`, once page 0 shows that it is an index.
fn find(file: &PageFile) -> Result<Found, Error> {
    let path = file.path().display();
    let length = file.length().map_err(|error| Error::io(format!("open of {path}"), error))?;
    let name = path.to_string();
    let format = |what: String| Err(Error::Format { what });
    if length < PAGE_BYTES as u64 {
        // Through the page cache, because a direct read of an odd length may be refused.
        let front = std::fs::read(file.path()).map_err(|error| Error::io(format!("read of {path}"), error))?;
        if !header::claims_to_be_an_index(&front) {
            return format(format!("{path} is not a Pagehop index: it has {length} bytes"));
        }
        let what = format!("{path} is truncated: {length} bytes are not whole pages");
        return Err(Error::corrupt(PageId(0), what));
    }
    let mut buffer = PageBuffer::new();
    file.read_unverified(PageId(0), &mut buffer.0)?;
    let is_index = header::claims_to_be_an_index(&buffer.0);
    let position = match header::verify(PageId(0), &buffer.0) {
        Err(Fault::Version { found }) if is_index => {
            let what = format!("{path} has page headers of version {found}");
            return format(format!("{what}; this build reads version {HEADER_VERSION}"));
        }
        Err(_) if is_index => None,
        Err(_) => return format(format!("{path} is not a Pagehop index")),
        // What the body says is for the engine to judge.
        Ok(()) => Some(header::log_position(&buffer.0)),
    };
    Ok(Found { identity: header::identity(&buffer.0), position, length, name })
}
