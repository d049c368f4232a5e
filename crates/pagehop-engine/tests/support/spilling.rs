//! Pages in memory with scratch files in memory, which are counted and may be too small.

use std::cell::Cell;
use std::rc::Rc;

use pagehop_engine::{Error, PageId, PageSink, Scratch, ScratchFile};
use pagehop_sim::MemPages;

/// What the scratch files of a sink take.
#[derive(Default)]
pub struct Usage {
    /// Files that exist.
    pub files: Cell<usize>,
    /// Bytes that were written and read.
    pub written: Cell<u64>,
    pub read: Cell<u64>,
    /// Bytes that can be written.
    pub most: Cell<Option<u64>>,
}

/// The destination of a build.
#[derive(Default)]
pub struct Spilling {
    pub pages: MemPages,
    pub usage: Rc<Usage>,
    /// What the host says is free.
    pub free: Option<u64>,
}

struct File {
    bytes: Vec<u8>,
    usage: Rc<Usage>,
    /// Where the next read must begin: files are read from their beginning to their end.
    next: u64,
}

impl PageSink for Spilling {
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
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
}

impl ScratchFile for File {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.usage.written.get() + bytes.len() as u64;
        if self.usage.most.get().is_some_and(|most| written > most) {
            return Err(Error::io("write of a temporary file", std::io::ErrorKind::StorageFull.into()));
        }
        self.usage.written.set(written);
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
    }
}
