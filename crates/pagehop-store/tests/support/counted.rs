//! An allocator that counts the bytes that are allocated, and remembers the most. What the kernel
//! says of a process holds also what an emulator allocates for itself; this is the program's alone.

#![allow(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, counted.
pub(crate) struct Counted {
    bytes: AtomicUsize,
    most: AtomicUsize,
}

impl Counted {
    pub(crate) const fn new() -> Self {
        Self { bytes: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Bytes that are allocated; the most begins with them again.
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

// SAFETY: every call goes to the system's allocator with the arguments that came, and gives its
// result. Counting allocates nothing.
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
        // SAFETY: the caller keeps what `GlobalAlloc::dealloc` needs; `block` is the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.add(bytes);
        self.remove(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc::realloc` needs; `block` is the system's.
        unsafe { System.realloc(block, layout, bytes) }
    }
}
