//! An allocator that counts the bytes that are allocated, and remembers the largest number. The
//! memory that the kernel reports for a process includes that of an emulator; this is only the
//! memory of the program.

#![allow(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The allocator of the system, with counters.
pub(crate) struct Counted {
    bytes: AtomicUsize,
    most: AtomicUsize,
}

impl Counted {
    pub(crate) const fn new() -> Self {
        Self { bytes: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// The bytes that are allocated now. [`Counted::most`] starts again from this number.
    pub(crate) fn begin(&self) -> usize {
        let bytes = self.bytes.load(Relaxed);
        self.most.store(bytes, Relaxed);
        bytes
    }

    /// The most bytes that were allocated at once since [`Counted::begin`].
    pub(crate) fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    fn add(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(now, Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

// SAFETY: every call passes its arguments to the system's allocator and returns its result.
// Counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc::alloc` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc::alloc_zeroed` needs.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.remove(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc::dealloc` needs, and `block` is from the
        // system's allocator.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.add(bytes);
        self.remove(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc::realloc` needs, and `block` is from the
        // system's allocator.
        unsafe { System.realloc(block, layout, bytes) }
    }
}
