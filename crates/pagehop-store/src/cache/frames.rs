//! The memory of the cache: frames of one page each, in one mapping.
//!
//! The mapping is anonymous, aligned to 2 MiB and advised to use huge pages. Frames are touched in
//! order, so a small file costs little.
//!
//! A [`Frame`] is the right to write one frame. Exactly one of these holds it: the free list, the
//! retired list, a read in flight, or the page table (as an entry).
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagehop_engine::PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The right to write one frame. Dropping it loses the frame, so it is always passed on.
#[derive(Debug)]
#[must_use]
pub(crate) struct Frame(pub(super) u32);

/// The memory of the frames.
pub(crate) struct Frames {
    base: NonNull<u8>,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    count: u32,
    /// Bytes from `base` on that are advised to use huge pages.
    huge_bytes: AtomicUsize,
}

// SAFETY: the mapping belongs to no thread; `Frame` and the epochs decide who touches which part.
unsafe impl Send for Frames {}
// SAFETY: the mapping belongs to no thread; `Frame` and the epochs decide who touches which part.
unsafe impl Sync for Frames {}

impl Frames {
    pub(super) fn new(count: u32) -> std::io::Result<Self> {
        let bytes = count as usize * PAGE_BYTES;
        let mapping_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), mapping_bytes, access, kind)?
        };
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("mmap never returns address 0");
        let skip = mapping.align_offset(HUGE_PAGE_BYTES);
        assert!(skip < HUGE_PAGE_BYTES);
        // SAFETY: one huge page more than the frames need was mapped.
        let base = unsafe { mapping.add(skip) };
        Ok(Self { base, mapping, mapping_bytes, count, huge_bytes: AtomicUsize::new(0) })
    }

    /// Lets the first `used` frames have huge pages. The last huge page is partly used and stays
    /// divided into small pages, because its end may never be touched.
    pub(super) fn advise(&self, used: u32) {
        let bytes = used.min(self.count) as usize * PAGE_BYTES / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let before = self.huge_bytes.fetch_max(bytes, Ordering::Relaxed);
        if bytes > before {
            // SAFETY: the range lies in the mapping; advice changes no content. A kernel without
            // huge pages refuses, and nothing is lost.
            let _ =
                unsafe { madvise(self.base.as_ptr().add(before).cast(), bytes - before, Advice::LinuxHugepage) };
        }
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The address of the first frame.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The address of `frame`: [`PAGE_BYTES`] writable bytes for as long as `self` and `frame`
    /// live.
    pub(crate) fn address(&self, frame: &Frame) -> *mut u8 {
        assert!(frame.0 < self.count);
        // SAFETY: a frame below `count` lies within the mapping.
        unsafe { self.base.as_ptr().add(frame.0 as usize * PAGE_BYTES) }
    }

    /// The bytes of `frame`.
    pub(crate) fn bytes_mut<'f>(&'f self, frame: &'f mut Frame) -> &'f mut [u8; PAGE_BYTES] {
        // SAFETY: in bounds (`address`), initialized (an anonymous mapping is zeroed), and no other
        // reference to it exists: `Frame` is exclusive and borrowed mutably for as long as the
        // result.
        unsafe { &mut *self.address(frame).cast::<[u8; PAGE_BYTES]>() }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and all that could touch it holds an `Arc` of `self`.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}
