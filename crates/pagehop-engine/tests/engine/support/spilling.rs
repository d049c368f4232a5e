//! Pages in memory with scratch files in memory, which are counted and whose space may be limited.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pagehop_engine::{EachWork, Error, PAGE_BYTES, PageId, PageSink, Scratch, ScratchFile};
use pagehop_sim::MemPages;

/// What the scratch files of a sink use.
#[derive(Default)]
pub struct Usage {
    /// Files that exist.
    pub files: Cell<usize>,
    /// Bytes that were written and read.
    pub written: Cell<u64>,
    pub read: Cell<u64>,
    /// The number of calls that wrote bytes.
    pub appends: Cell<u64>,
    /// Bytes of existing files, kept work and pages: now, and the most at one time.
    pub held: Cell<u64>,
    pub peak: Cell<u64>,
    /// Most bytes that can be written; `None` without a limit.
    pub most: Cell<Option<u64>>,
}

impl Usage {
    fn hold(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes as u64);
        self.peak.set(self.peak.get().max(self.held.get()));
    }
}

/// The destination of a build.
#[derive(Default)]
pub struct Spilling {
    pub pages: MemPages,
    pub usage: Rc<Usage>,
    /// The free space that the host reports.
    pub free: Option<u64>,
    /// The free space for pages, if they are elsewhere.
    pub free_of_pages: Option<u64>,
    /// The work that is kept and the key of its build, if the host keeps work.
    pub kept: Option<RefCell<(u64, Vec<Vec<u8>>)>>,
}

struct File {
    bytes: Vec<u8>,
    usage: Rc<Usage>,
    /// Where the next read must begin: files are read from their beginning to their end.
    next: u64,
}

impl PageSink for Spilling {
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        self.usage.hold(PAGE_BYTES);
        self.pages.write(page, body)
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        Some(self)
    }
}

impl Scratch for Spilling {
    fn file(&self) -> Result<Box<dyn ScratchFile>, Error> {
        self.usage.files.set(self.usage.files.get() + 1);
        Ok(Box::new(File { bytes: Vec::new(), usage: self.usage.clone(), next: 0 }))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.free
    }

    fn has_pages(&self) -> bool {
        self.free_of_pages.is_none()
    }

    fn free_page_bytes(&self) -> Option<u64> {
        self.free_of_pages
    }

    fn kept_bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.borrow().1.iter().map(Vec::len).sum::<usize>() as u64)
    }

    fn keeps_work(&self) -> bool {
        self.kept.is_some()
    }

    fn resume(&self, key: u64, each: EachWork<'_>) -> Result<(), Error> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let (of, work) = &mut *kept.borrow_mut();
        if *of != key {
            work.clear();
        }
        *of = key;
        let mut good = 0;
        while good < work.len() && each(&work[good])? {
            good += 1;
        }
        work.truncate(good);
        Ok(())
    }

    fn keep(&self, work: &[u8]) -> Result<(), Error> {
        if let Some(kept) = &self.kept {
            self.usage.hold(work.len());
            kept.borrow_mut().1.push(work.to_vec());
        }
        Ok(())
    }
}

impl ScratchFile for File {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.usage.written.get() + bytes.len() as u64;
        if self.usage.most.get().is_some_and(|most| written > most) {
            return Err(Error::io("write of a temporary file", std::io::ErrorKind::StorageFull.into()));
        }
        self.usage.written.set(written);
        self.usage.appends.set(self.usage.appends.get() + 1);
        self.usage.hold(bytes.len());
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        assert!(
            at == 0 || at == self.next,
            "a read at {at} does not follow the last, which ended at {}",
            self.next
        );
        bytes.copy_from_slice(&self.bytes[at as usize..][..bytes.len()]);
        self.next = at + bytes.len() as u64;
        self.usage.read.set(self.usage.read.get() + bytes.len() as u64);
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.usage.files.set(self.usage.files.get() - 1);
        self.usage.held.set(self.usage.held.get() - self.bytes.len() as u64);
    }
}
