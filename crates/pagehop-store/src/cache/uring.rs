//! Reads through io_uring: many in flight, one system call to submit them all and wait.
//!
//! A [`Ring`] belongs to one reader at a time and outlives it, perhaps with reads in flight. It
//! owns the frame of every read until the kernel is done with it, and keeps the frames' mapping
//! alive, so that no forgotten reader can make the kernel write to memory of others.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};
use pagehop_engine::PAGE_BYTES;

use crate::cache::frames::{Frame, Frames};

/// Reads that one ring keeps in flight.
pub(crate) const IN_FLIGHT_MAX: usize = 32;

/// A ring and the reads it has under way.
pub(crate) struct Ring {
    ring: IoUring,
    frames: Arc<Frames>,
    reads: Vec<Read>,
    /// Reads at the end of `reads` that were not submitted yet.
    queued: usize,
    /// The process that made the ring.
    process: u32,
}

struct Read {
    page: u32,
    frame: Frame,
}

/// A read that the kernel is done with.
pub(crate) struct Completed {
    pub(crate) page: u32,
    pub(crate) frame: Frame,
    /// Bytes read.
    pub(crate) result: io::Result<usize>,
}

impl Ring {
    /// A ring for reads into `frames`; fails where io_uring is refused.
    pub(crate) fn new(frames: &Arc<Frames>) -> io::Result<Self> {
        let ring = IoUring::new(IN_FLIGHT_MAX as u32)?;
        Ok(Self { ring, frames: Arc::clone(frames), reads: Vec::new(), queued: 0, process: std::process::id() })
    }

    /// Whether the system allows a ring now. Docker's default profile does not.
    pub(crate) fn is_allowed() -> bool {
        IoUring::new(IN_FLIGHT_MAX as u32).is_ok()
    }

    /// Whether this process made the ring. The child of a fork shares the ring's memory with its
    /// parent: it must not touch it, nor wait for reads, which go to the parent's frames.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Reads queued or in flight.
    pub(crate) fn len(&self) -> usize {
        self.reads.len()
    }

    /// Reads that wait for [`Ring::submit`].
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Whether no more reads can be queued.
    pub(crate) fn is_full(&self) -> bool {
        self.reads.len() >= IN_FLIGHT_MAX
    }

    /// Whether `page` is queued or in flight.
    pub(crate) fn contains(&self, page: u32) -> bool {
        self.reads.iter().any(|read| read.page == page)
    }

    /// Queues a read of `page` into `frame`. A page is queued once, and never into a full ring.
    pub(crate) fn queue(&mut self, page: u32, frame: Frame) {
        assert!(!self.is_full() && !self.contains(page));
        self.reads.push(Read { page, frame });
        self.queued += 1;
    }

    /// Takes back the read of `page` if it was queued and not submitted.
    pub(crate) fn cancel(&mut self, page: u32) -> Option<Frame> {
        let first = self.reads.len() - self.queued;
        let at = first + self.reads[first..].iter().position(|read| read.page == page)?;
        self.queued -= 1;
        Some(self.reads.remove(at).frame)
    }

    /// Takes back a read that was queued and not submitted.
    pub(crate) fn cancel_queued(&mut self) -> Option<(u32, Frame)> {
        self.queued = self.queued.checked_sub(1)?;
        let read = self.reads.pop().expect("queued reads are at the end");
        Some((read.page, read.frame))
    }

    /// Gives the queued reads to the kernel and waits until `wanted` reads are completed and not
    /// yet taken with [`Ring::completed`]. It may return early; an error leaves all reads under
    /// way.
    pub(crate) fn submit(&mut self, file: &File, wanted: usize) -> io::Result<()> {
        let file = types::Fd(file.as_raw_fd());
        let first = self.reads.len() - self.queued;
        for read in &self.reads[first..] {
            let offset = u64::from(read.page) * PAGE_BYTES as u64;
            let entry = opcode::Read::new(file, self.frames.address(&read.frame), PAGE_BYTES as u32)
                .offset(offset)
                .build()
                .user_data(u64::from(read.page));
            // SAFETY: the frame is ours, in `reads`, until the completion with its page number
            // comes out of the ring, and `frames` keeps the memory mapped for as long.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.expect("the ring has an entry for each read");
        }
        self.queued = 0;
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => Ok(()),
            // The call was interrupted, or the kernel lacks a resource that completions will free.
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A completed read, if there is one; makes no system call.
    pub(crate) fn completed(&mut self) -> Option<Completed> {
        let entry = self.ring.completion().next()?;
        let at = self.reads.iter().position(|read| u64::from(read.page) == entry.user_data());
        let at = at.expect("the kernel completes only what was submitted");
        // Keeps the order: the queued reads are at the end.
        let Read { page, frame } = self.reads.remove(at);
        let result = match usize::try_from(entry.result()) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(io::Error::from_raw_os_error(-entry.result())),
        };
        Some(Completed { page, frame, result })
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.cancel_queued().is_some() {}
        while self.len() > 0 && self.is_ours() {
            match self.ring.submit_and_wait(1) {
                Err(error) if !is_passing(&error) => {
                    // The kernel may still write to the frames, so they stay mapped until the
                    // process ends.
                    std::mem::forget(Arc::clone(&self.frames));
                    return;
                }
                _ => while self.completed().is_some() {},
            }
        }
    }
}
