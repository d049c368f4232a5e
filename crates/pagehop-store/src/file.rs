//! An index file as the engine's pages.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagehop_engine::{Error, PAGE_BYTES, PageId, Pages};

use crate::buffer::{Frame, Pool};
use crate::header::{self, Fault, HEADER_VERSION};
use crate::open::{Io, OpenOptions};
use crate::pread::{PageBuffer, PageFile};
use crate::reader::FileReader;
use crate::uring::{Completed, Ring};

/// The pages of one index file, behind a cache; shared by any number of threads.
///
/// The file may be replaced by a new build meanwhile: these pages stay those of the file that was
/// opened.
pub struct FilePages {
    pub(crate) pool: Pool,
    pub(crate) file: PageFile,
    /// Whether reads may go through io_uring; falls when the system refuses.
    pub(crate) uring: AtomicBool,
    reads: AtomicU64,
    uncached_reads: AtomicU64,
}

/// What happened since the file was opened, over all readers.
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
}

impl FilePages {
    /// Opens the file at `path`. Only page 0 is read, to see that this is an index.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read; [`Error::Format`] if it is not an index, or of
    /// another version; [`Error::Corrupt`] if it is truncated or page 0 is damaged.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let refused = |error| Error::io(format!("open of {}", path.display()), error);
        let metadata = std::fs::metadata(path).map_err(refused)?;
        if !metadata.is_file() {
            let what = format!("{} is not a file", path.display());
            return Err(Error::Format { what });
        }
        let file = PageFile::open(path, options.direct).map_err(refused)?;
        let length = file.file.metadata().map_err(refused)?.len();
        let page_count = check_page_0(&file, length)?;

        let pool = Pool::new(page_count, options.cache_bytes)
            .map_err(|error| Error::io(format!("memory for the cache of {}", path.display()), error))?;
        let wants_uring = match options.io {
            Io::Auto => std::env::var_os("PAGEHOP_IO").is_none_or(|io| io != "pread"),
            Io::Uring => true,
            Io::Pread => false,
        };
        if options.io == Io::Uring {
            Ring::new(pool.frames())
                .map_err(|error| Error::io(format!("io_uring for {}", path.display()), error))?;
        }
        Ok(Self {
            pool,
            file,
            uring: AtomicBool::new(wants_uring),
            reads: AtomicU64::new(0),
            uncached_reads: AtomicU64::new(0),
        })
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let reads = self.reads.load(Ordering::Relaxed);
        Counters {
            reads,
            bytes: reads * PAGE_BYTES as u64,
            evictions: self.pool.evictions(),
            uncached_reads: self.uncached_reads.load(Ordering::Relaxed),
        }
    }

    /// Bytes of pages that the cache can hold.
    pub fn cache_bytes(&self) -> u64 {
        u64::from(self.pool.frame_count()) * PAGE_BYTES as u64
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
        match self.file.settle(PageId(page), bytes, result) {
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
        self.pool.page_count()
    }
}

/// Number of pages in a file of `length` bytes, once page 0 shows that it is an index.
fn check_page_0(file: &PageFile, length: u64) -> Result<u32, Error> {
    let path = file.path().display();
    let format = |what: String| Err(Error::Format { what });
    if length < PAGE_BYTES as u64 {
        // Through the page cache, because a direct read of an odd length may be refused.
        let front = std::fs::read(file.path()).map_err(|error| Error::io(format!("read of {path}"), error))?;
        if !header::claims_to_be_an_index(&front) {
            return format(format!("{path} is not a Pagehop index: it has {length} bytes"));
        }
    } else {
        let mut buffer = PageBuffer::new();
        file.read_unverified(PageId(0), &mut buffer.0)?;
        let is_index = header::claims_to_be_an_index(&buffer.0);
        match header::verify(PageId(0), &buffer.0) {
            Err(Fault::Version { found }) if is_index => {
                let what = format!("{path} has page headers of version {found}");
                return format(format!("{what}; this build reads version {HEADER_VERSION}"));
            }
            Err(fault) if is_index => return Err(file.corrupt(PageId(0), &fault)),
            Err(_) => return format(format!("{path} is not a Pagehop index")),
            // What the body says is for the engine to judge.
            Ok(()) => {}
        }
    }
    let whole_pages = length / PAGE_BYTES as u64;
    let Ok(page_count) = u32::try_from(whole_pages) else {
        return format(format!("{path} has {length} bytes, more than an index can have"));
    };
    if !length.is_multiple_of(PAGE_BYTES as u64) {
        let what = format!("{path} is truncated: {length} bytes are not whole pages");
        return Err(Error::corrupt(PageId(page_count), what));
    }
    Ok(page_count)
}
