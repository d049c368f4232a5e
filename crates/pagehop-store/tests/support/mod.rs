//! Files of synthetic pages. Every word of a page tells which page it belongs to.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod cached;
pub(crate) mod counted;
pub(crate) mod storage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use pagehop_engine::{BODY_BYTES, HOST_HEADER_BYTES, PAGE_BYTES, PageId, PageSink, Pages, Reader};
use pagehop_store::{IndexFile, Io, NewIndexFile, OpenOptions};

/// A directory that is removed when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A directory on the file system of the build, which is a real one: `/tmp` may be in memory.
    pub(crate) fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of all its entries, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The body of `page`.
pub(crate) fn body_of(page: u32) -> Vec<u8> {
    let words = (0..BODY_BYTES as u64 / 8).flat_map(|at| word_of(page, at).to_le_bytes());
    let mut body: Vec<u8> = words.collect();
    if page == 0 {
        body[..8].copy_from_slice(b"PAGEHOP\0");
    }
    body
}

fn word_of(page: u32, at: u64) -> u64 {
    (u64::from(page) << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fails unless `body` is that of `page`. Some of its words are checked.
#[track_caller]
pub(crate) fn expect_body(page: u32, body: &[u8]) {
    assert_eq!(body.len(), BODY_BYTES);
    for at in [1, 2, 63, 511, 512, 777, BODY_BYTES / 8 - 1] {
        let word = u64::from_le_bytes(body[at * 8..][..8].try_into().unwrap());
        assert_eq!(word, word_of(page, at as u64), "page {page}, word {at}");
    }
}

/// Writes a file of `pages` pages.
pub(crate) fn write_pages(path: &Path, pages: u32) {
    let mut sink = NewIndexFile::create(path, true).unwrap();
    for page in (1..pages).chain([0]) {
        sink.write(PageId(page), &body_of(page)).unwrap();
    }
    sink.finish().unwrap();
}

/// Fails if a page stays in flight or a frame is lost: in the second of two scans, every page must
/// find a frame.
#[track_caller]
pub(crate) fn expect_whole(pages: &IndexFile) {
    for round in 0..2 {
        let before = pages.counters().uncached_reads;
        let mut reader = pages.reader();
        for page in 0..pages.page_count() {
            expect_body(page, reader.finish(PageId(page)).unwrap());
            reader.release();
        }
        if round == 1 {
            assert_eq!(pages.counters().uncached_reads, before);
        }
    }
}

/// Changes one byte of a page in the file.
pub(crate) fn flip(path: &Path, page: u32, byte: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let at = u64::from(page) * PAGE_BYTES as u64 + byte as u64;
    let mut bytes = [0];
    file.read_exact_at(&mut bytes, at).unwrap();
    file.write_all_at(&[bytes[0] ^ 0x40], at).unwrap();
}

/// Copies the bytes of one page over those of another.
pub(crate) fn misdirect(path: &Path, from: u32, to: u32) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; PAGE_BYTES];
    file.read_exact_at(&mut bytes, u64::from(from) * PAGE_BYTES as u64).unwrap();
    file.write_all_at(&bytes, u64::from(to) * PAGE_BYTES as u64).unwrap();
}

/// The words that start this program again, with the emulator that runs it, if there is one.
pub(crate) fn this_program() -> Vec<PathBuf> {
    let emulator = std::env::var_os("PAGEHOP_TEST_EMULATOR").map(PathBuf::from);
    emulator.into_iter().chain([std::env::current_exe().unwrap()]).collect()
}

/// A command that starts this program again.
pub(crate) fn this_command() -> Command {
    let words = this_program();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// io_uring, or `pread` under an emulator, which has no io_uring.
pub(crate) fn uring() -> Io {
    if is_emulated() { Io::Pread } else { Io::Uring }
}

/// Whether an emulator runs this program.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("PAGEHOP_TEST_EMULATOR").is_some()
}

/// Bytes in memory that belong to the emulator, with the code that it translated.
pub(crate) fn emulator_bytes_max() -> u64 {
    if is_emulated() { 8 << 20 } else { 0 }
}

/// Options for every way to read, with a cache of `cache_bytes`.
pub(crate) fn ways(cache_bytes: u64) -> [OpenOptions; 4] {
    [(uring(), true), (uring(), false), (Io::Pread, true), (Io::Pread, false)].map(|(io, direct)| OpenOptions {
        cache_bytes,
        direct: Some(direct),
        io,
        ..OpenOptions::default()
    })
}

pub(crate) fn open(path: &Path, options: &OpenOptions) -> IndexFile {
    IndexFile::open(path, options).unwrap()
}

/// A generator of numbers that look random and depend only on the seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (((z >> 32) * u64::from(end)) >> 32) as u32
    }

    pub(crate) fn shuffle(&mut self, numbers: &mut [u32]) {
        for end in (1..numbers.len()).rev() {
            numbers.swap(end, self.below(end as u32 + 1) as usize);
        }
    }
}

/// Bytes that the process has in memory.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

const _: () = assert!(HOST_HEADER_BYTES.is_multiple_of(8));
