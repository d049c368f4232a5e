//! The space that the files of a build take in the system's page cache. It has a limit if rows are
//! put aside.
//!
//! The system keeps data that a program writes and reads until it needs the memory. A control group
//! counts this as memory of the program, and it evicts other files from the cache. So the write-out
//! of every piece begins at once. Before more than the limit is written and not yet on disk, the
//! build waits for all of it, and the system forgets it. The system forgets pages as soon as they
//! were read: files are read from the beginning to the end. The system's own read-ahead, which
//! takes many megabytes on some disks, is off: the build asks for the next piece itself.
//!
//! File systems in memory (tmpfs) have no other place for their pages. There this has no effect.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::{Advice, fadvise};

/// Most bytes that are written or read at once.
const PIECE_BYTES: usize = 1 << 20;
/// The same for limits that are smaller than a few pieces.
const PIECE_BYTES_MIN: usize = 32 << 10;

/// The share of one build.
pub(crate) struct PageCache {
    most_bytes: u64,
    written: Mutex<Written>,
}

/// Bytes that may not be on disk yet.
#[derive(Default)]
struct Written {
    bytes: u64,
    /// Files, and the end of each. If a file no longer exists, neither do its pages.
    files: Vec<(Weak<File>, u64)>,
}

impl PageCache {
    /// A limit of about `most_bytes` of written pages.
    pub(crate) fn new(most_bytes: u64) -> Self {
        Self { most_bytes, written: Mutex::default() }
    }

    fn piece_bytes(&self) -> usize {
        ((self.most_bytes / 4) as usize).clamp(PIECE_BYTES_MIN, PIECE_BYTES)
    }

    /// Writes all of `bytes` at `at`, the end of the file.
    pub(crate) fn append(&self, file: &Arc<File>, bytes: &[u8], at: u64) -> io::Result<()> {
        let (mut written, mut end) = (self.written.lock().unwrap_or_else(|other| other.into_inner()), at);
        for piece in bytes.chunks(self.piece_bytes()) {
            if written.bytes + piece.len() as u64 > self.most_bytes {
                written.settle()?;
            }
            file.write_all_at(piece, end)?;
            end += piece.len() as u64;
            forget(file, end);
            written.note(file, piece.len(), end);
        }
        Ok(())
    }

    /// Fills `bytes` with the bytes of the file from `at` on.
    pub(crate) fn read(&self, file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.read_some(file, &mut bytes[done..], at + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads some of the bytes from `at` on; returns how many, 0 only at the end of the file.
    pub(crate) fn read_some(&self, file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let most = bytes.len().min(self.piece_bytes());
        let count = file.read_at(&mut bytes[..most], at)?;
        let end = at + count as u64;
        let _ = fadvise(file, end, NonZeroU64::new(self.piece_bytes() as u64), Advice::WillNeed);
        forget(file, end);
        Ok(count)
    }
}

impl Written {
    fn note(&mut self, file: &Arc<File>, bytes: usize, end: u64) {
        self.bytes += bytes as u64;
        match self.files.iter_mut().find(|(other, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(file))) {
            Some((_, known)) => *known = end,
            None => self.files.push((Arc::downgrade(file), end)),
        }
    }

    /// Waits until all written pages are on disk.
    fn settle(&mut self) -> io::Result<()> {
        self.bytes = 0;
        for (file, end) in self.files.drain(..) {
            if let Some(file) = file.upgrade() {
                file.sync_data()?;
                forget(&file, end);
            }
        }
        Ok(())
    }
}

/// Turns the system's read-ahead off for a file that [`PageCache`] reads.
pub(crate) fn stop_read_ahead(file: &File) {
    let _ = fadvise(file, 0, None, Advice::Random);
}

/// Lets the system forget the pages before `end`, and begins to write those that are not on disk,
/// which stay.
pub(crate) fn forget(file: &File, end: u64) {
    let _ = fadvise(file, 0, NonZeroU64::new(end), Advice::DontNeed);
}
