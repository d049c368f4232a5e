//! How many bytes of open files are in the system's page cache, as the kernel reports (`mincore`).

#![allow(unsafe_code, reason = "a map is unsafe, and nothing else says which pages are cached")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Bytes in the page cache of all files in `directory` that this process has open, also of files
/// without names.
pub(crate) fn cached_bytes(directory: &Path) -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let in_directory =
        |path: &std::path::PathBuf| std::fs::read_link(path).is_ok_and(|target| target.parent() == Some(directory));
    // A file may be open twice, but counts once.
    let mut files: Vec<(u64, File)> = Vec::new();
    for file in open.filter(in_directory).map(|path| File::open(path).unwrap()) {
        use std::os::unix::fs::MetadataExt;
        let number = file.metadata().unwrap().ino();
        if files.iter().all(|(other, _)| *other != number) {
            files.push((number, file));
        }
    }
    files.iter().map(|(_, file)| cached_bytes_of(file)).sum()
}

/// Whether a directory is on a file system in memory, whose pages are always in the page cache.
pub(crate) fn is_memory(directory: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let found = rustix::fs::statfs(directory).unwrap();
    found.f_type as i64 == TMPFS
}

fn cached_bytes_of(file: &File) -> u64 {
    let length = file.metadata().unwrap().len() as usize;
    if length == 0 {
        return 0;
    }
    // SAFETY: the call only returns a number.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page has a size");
    let mut pages = vec![0u8; length.div_ceil(page_bytes)];
    // SAFETY: a new map at an address that the system chooses. Nothing reads through it, and
    // `pages` has a byte for each of its pages.
    let failed = unsafe {
        let map = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let failed = libc::mincore(map, length, pages.as_mut_ptr());
        assert_eq!(libc::munmap(map, length), 0);
        failed
    };
    assert_eq!(failed, 0, "mincore is refused");
    pages.iter().filter(|page| **page & 1 == 1).count() as u64 * page_bytes as u64
}
