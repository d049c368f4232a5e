//! Memory and locks that processes share: words of a mapped file, byte-range locks, and the mark of
//! a fork.
//!
//! The locks are those of *open file descriptions* (`F_OFD_SETLK`): two openings in one process
//! exclude each other like two processes, a child of a fork shares its parent's, and the last
//! holder's end frees them.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// An atomic for which zeros are valid.
///
/// # Safety
///
/// Any bytes are a valid value.
pub(crate) unsafe trait Word {}

// SAFETY: an integer.
unsafe impl Word for AtomicU32 {}
// SAFETY: an integer.
unsafe impl Word for AtomicU64 {}

/// Zeroed words in memory, of this process alone or of all processes that map the same file.
pub(crate) struct Words<T: Word = AtomicU64> {
    base: NonNull<T>,
    count: usize,
}

// SAFETY: the words are atomics, which any thread may use, and the mapping belongs to no thread.
unsafe impl<T: Word> Send for Words<T> {}
// SAFETY: the words are atomics, which any thread may use, and the mapping belongs to no thread.
unsafe impl<T: Word> Sync for Words<T> {}

impl<T: Word> Words<T> {
    /// `count` zeros, at least one, for this process alone; words that are not touched take no
    /// memory.
    pub(crate) fn private(count: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), count * size_of::<T>(), ProtFlags::READ | ProtFlags::WRITE, kind)?
        };
        Ok(Self::at(mapping.cast(), count))
    }

    /// The `count` words at byte `offset` of `file`. The file is at least that long, and is never
    /// cut while a process has it mapped.
    pub(crate) fn of_file(file: &File, offset: u64, count: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), count * size_of::<T>(), access, MapFlags::SHARED, file, offset)?
        };
        Ok(Self::at(mapping.cast(), count))
    }

    fn at(mapping: *mut T, count: usize) -> Self {
        Self { base: NonNull::new(mapping).expect("mmap never returns address 0"), count }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The word at `index`.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &T {
        assert!(index < self.count);
        // SAFETY: the mapping has `count` aligned, initialized words and lives as long as `self`.
        // Other processes touch a mapped file's words only as atomics, too.
        unsafe { self.base.add(index).as_ref() }
    }
}

impl<T: Word> Drop for Words<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and every borrow of its words has ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}

/// Bytes of a mapped file, to be read.
pub(crate) struct Bytes {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: no code writes to the bytes, and the mapping belongs to no thread.
unsafe impl Send for Bytes {}
// SAFETY: no code writes to the bytes, and the mapping belongs to no thread.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// The first `length` bytes of `file`, at least one. The file is at least as long, and is
    /// neither written nor cut while they are mapped.
    pub(crate) fn of_file(file: &File, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        Ok(Self { base: NonNull::new(base.cast()).expect("mmap never returns address 0"), length })
    }

    pub(crate) fn all(&self) -> &[u8] {
        // SAFETY: the mapping has `length` bytes, which no code changes, and lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and every borrow of its bytes has ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Distinguishes a process from the children of its forks, at the cost of one load.
///
/// The system wipes the word in a child. Where it cannot (gVisor refuses the advice), the word is
/// always 0, and the system is asked for the process each time. The system is also asked if it
/// accepts any advice: user-mode emulation by qemu ignores advice and reports success.
pub(crate) struct ForkMark {
    word: Words,
    is_wiped: bool,
}

impl ForkMark {
    pub(crate) fn new() -> io::Result<Self> {
        let mut mark = Self::asking()?;
        // SAFETY: the page belongs to `mark` alone; the advice acts on the copy in a child only.
        let advised = unsafe { madvise(mark.word.base.as_ptr().cast(), 8, Advice::LinuxWipeOnFork) };
        // SAFETY: the page belongs to `mark` alone, and no system knows this advice.
        let all_is_accepted = unsafe { libc::madvise(mark.word.base.as_ptr().cast(), 8, i32::MAX) } == 0;
        mark.is_wiped = advised.is_ok() && !all_is_accepted;
        Ok(mark)
    }

    /// A mark that reads the process number each time.
    fn asking() -> io::Result<Self> {
        Ok(Self { word: Words::private(1)?, is_wiped: false })
    }

    /// The process number of this process.
    #[inline]
    pub(crate) fn process(&self) -> u32 {
        let process = self.word.word(0).load(Ordering::Relaxed) as u32;
        if process == 0 { self.ask() } else { process }
    }

    #[cold]
    fn ask(&self) -> u32 {
        let process = std::process::id();
        if self.is_wiped {
            self.word.word(0).store(u64::from(process), Ordering::Relaxed);
        }
        process
    }
}

/// Locks byte `at` of `file` for this opening of it alone; `false` if another has it and `wait` is
/// not set.
pub(crate) fn lock(file: &File, at: u64, wait: bool) -> io::Result<bool> {
    let operation = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        match control(file, operation, libc::F_WRLCK, at, 1) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if !wait && is_taken(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Locks byte `at` of `file` for this opening of it, beside others that do the same. Does not wait
/// for another lock of it.
pub(crate) fn lock_shared(file: &File, at: u64) -> io::Result<()> {
    control(file, libc::F_OFD_SETLK, libc::F_RDLCK, at, 1).map(|_| ())
}

/// Releases a lock of [`lock`] or [`lock_shared`].
pub(crate) fn unlock(file: &File, at: u64) {
    // This cannot fail where locking worked, and closing the file unlocks in any case.
    let _ = control(file, libc::F_OFD_SETLK, libc::F_UNLCK, at, 1);
}

/// Whether any of the `count` bytes from `at` on is locked by another opening.
pub(crate) fn is_locked(file: &File, at: u64, count: u64) -> io::Result<bool> {
    Ok(control(file, libc::F_OFD_GETLK, libc::F_WRLCK, at, count)? != libc::F_UNLCK)
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

fn control(file: &File, operation: i32, kind: i32, at: u64, count: u64) -> io::Result<i32> {
    // SAFETY: `flock` is a plain struct of integers, for which zeros are valid.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = at as libc::off_t;
    range.l_len = count as libc::off_t;
    // SAFETY: the descriptor is open, and these operations read and write the struct they are
    // given.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), operation, &raw mut range) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(i32::from(range.l_type)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_openings_exclude_each_other_until_one_ends() {
        let path = std::env::temp_dir().join(format!("pagehop-locks-{}", std::process::id()));
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (a, b) = (open(), open());
        assert!(lock(&a, 3, false).unwrap() && lock(&a, 3, false).unwrap());
        assert!(!lock(&b, 3, false).unwrap() && lock(&b, 4, false).unwrap());
        assert!(is_locked(&b, 0, 10).unwrap() && !is_locked(&b, 4, 6).unwrap());
        let copy = a.try_clone().unwrap();
        drop(a);
        assert!(is_locked(&b, 3, 1).unwrap(), "a copy of the descriptor is the same opening");
        drop(copy);
        assert!(lock(&b, 3, true).unwrap());
        unlock(&b, 3);
        assert!(!is_locked(&open(), 3, 1).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn locks_that_are_shared_exclude_only_others() {
        let path = std::env::temp_dir().join(format!("pagehop-shared-locks-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let open = || File::open(&path).unwrap();
        let (a, b, c) = (open(), open(), open());
        assert!(!is_locked(&c, 1 << 62, 1).unwrap());
        lock_shared(&a, 1 << 62).unwrap();
        lock_shared(&b, 1 << 62).unwrap();
        drop(a);
        assert!(is_locked(&c, 1 << 62, 1).unwrap() && !is_locked(&b, 1 << 62, 1).unwrap());
        unlock(&b, 1 << 62);
        assert!(!is_locked(&c, 1 << 62, 1).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_child_is_told_from_its_parent_with_and_without_the_system_s_help() {
        for mark in [ForkMark::new().unwrap(), ForkMark::asking().unwrap()] {
            assert_eq!(mark.process(), std::process::id());
            assert_eq!(mark.process(), std::process::id());
            // SAFETY: the child makes two system calls and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_told = mark.process() == std::process::id() && mark.process() == std::process::id();
                // SAFETY: ends the child and runs no code of the parent.
                unsafe { libc::_exit(i32::from(!is_told)) };
            }
            let mut status = -1;
            // SAFETY: `child` is a child of this process, and nothing else waits for it.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
            assert_eq!(mark.process(), std::process::id());
        }
    }

    #[test]
    fn a_mapped_file_is_the_same_words_for_all() {
        let path = std::env::temp_dir().join(format!("pagehop-words-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(8192).unwrap();
        let map = || Words::<AtomicU64>::of_file(&file, 4096, 512).unwrap();
        let (a, b) = (map(), map());
        a.word(511).store(7, Ordering::Relaxed);
        assert_eq!(b.word(511).load(Ordering::Relaxed), 7);
        std::fs::remove_file(path).unwrap();
    }
}
