//! The cost of a page: resident, resident and touched, and from storage.
//!
//! `cargo bench -p pagehop-store [-- MEBIBYTES]`: the size of the file, 1024 by default. The file
//! is written in the build directory and removed. Each figure is the best of three runs.

use std::path::Path;
use std::time::Instant;

use pagehop_engine::{BODY_BYTES, PageId, PageSink, Pages, Reader};
use pagehop_store::{IndexFile, Io, NewIndexFile, OpenOptions};

fn main() {
    let mebibytes = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(1024_u32);
    let count = mebibytes * 128;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pages-{}", std::process::id()));
    let began = Instant::now();
    write(&path, count);
    let rate = f64::from(mebibytes) / began.elapsed().as_secs_f64();
    println!("write {count} pages with sync: {rate:.0} MiB/s");

    resident(&path, count);
    for io in [Io::Uring, Io::Pread] {
        for threads in [1, 2] {
            for depth in [1, 4, 16] {
                cold(&path, count, io, threads, depth);
            }
        }
    }
    let _ = std::fs::remove_file(&path);
}

fn write(path: &Path, count: u32) {
    let mut sink = NewIndexFile::create(path, true).unwrap();
    let mut body = vec![0x5a; BODY_BYTES];
    for page in (1..count).chain([0]) {
        let front: &[u8] = if page == 0 { b"PAGEHOP\0" } else { &page.to_le_bytes() };
        body[..front.len()].copy_from_slice(front);
        sink.write(PageId(page), &body).unwrap();
    }
    sink.finish().unwrap();
}

fn open(path: &Path, cache_bytes: u64, io: Io) -> IndexFile {
    IndexFile::open(path, &OpenOptions { cache_bytes, direct: Some(true), io, ..OpenOptions::default() }).unwrap()
}

/// Nanoseconds to find one of `among` pages and to release it.
fn finish_ns(pages: &IndexFile, among: u32) -> f64 {
    let steps = 2_000_000_u32;
    best_ns(steps, || {
        let mut reader = pages.reader();
        let mut random = Random(1);
        let mut sum = 0_u64;
        for _ in 0..steps {
            sum += reader.finish(PageId(random.below(among))).unwrap().as_ptr() as u64;
            reader.release();
        }
        sum
    })
}

fn resident(path: &Path, count: u32) {
    let small = finish_ns(&open(path, 16 << 20, Io::Auto), 256);
    let pages = open(path, 1 << 40, Io::Auto);
    let began = Instant::now();
    let mut reader = pages.reader();
    for page in 0..count {
        for next in page..(page + 16).min(count) {
            reader.start(PageId(next), 0..0);
        }
        reader.finish(PageId(page)).unwrap();
        reader.release();
    }
    let rate = f64::from(count) / 128.0 / began.elapsed().as_secs_f64();
    println!("warm in order, 16 ahead: {rate:.0} MiB/s");
    for _ in 0..3 {
        for page in 0..count {
            reader.finish(PageId(page)).unwrap();
        }
    }
    drop(reader);

    let few = finish_ns(&pages, 256);
    let any = finish_ns(&pages, count);
    println!("resident finish + release: {few:.1} ns of 256 pages, {any:.1} ns of all");
    println!("resident finish + release in a cache that may evict: {small:.1} ns");

    let steps = 300_000_u32;
    for ahead in [0, 1, 4] {
        let node = best_ns(steps, || {
            let mut reader = pages.reader();
            let mut random = Random(3);
            let mut next: Vec<u32> = (0..=ahead).map(|_| random.below(count * 2)).collect();
            let mut sum = 0_u64;
            for step in 0..steps as usize {
                let at = step % next.len();
                let half = std::mem::replace(&mut next[at], random.below(count * 2));
                if ahead > 0 {
                    let (page, node) = (PageId(next[at] / 2), next[at] as usize % 2 * 4084);
                    reader.start(page, node..node + 4084);
                }
                let body = reader.finish(PageId(half / 2)).unwrap();
                sum += node_sum(&body[half as usize % 2 * 4084..][..4084]);
                reader.release();
            }
            sum
        });
        println!("resident node of 4084 bytes touched, {ahead} ahead: {node:.0} ns");
    }
    let search = best_ns(1_000_000, || (0..1_000_000).map(|_| pages.reader().pages_missed()).sum());
    println!("reader() and its drop: {search:.1} ns");
}

/// Reads one byte of every cache line, as a loop that scores edges would.
fn node_sum(node: &[u8]) -> u64 {
    node.chunks(64).map(|line| u64::from(line[0])).sum()
}

/// Searches that read 32 random pages each, with `depth` pages in flight.
fn cold(path: &Path, count: u32, io: Io, threads: u64, depth: usize) {
    let mut best = (0.0, 0.0);
    let mut uncached = 0;
    for run in 0..3 {
        let pages = open(path, 4 << 20, io);
        let searches = 300_u64;
        let began = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let pages = &pages;
                scope.spawn(move || {
                    let mut random = Random(run * 100 + thread);
                    for _ in 0..searches {
                        let wanted: Vec<_> = (0..32).map(|_| PageId(random.below(count))).collect();
                        let mut reader = pages.reader();
                        let mut started = 0;
                        for (at, &page) in wanted.iter().enumerate() {
                            while depth > 1 && started < wanted.len().min(at + depth) {
                                reader.start(wanted[started], 0..BODY_BYTES);
                                started += 1;
                            }
                            std::hint::black_box(reader.finish(page).unwrap()[5]);
                            reader.release();
                        }
                    }
                });
            }
        });
        let seconds = began.elapsed().as_secs_f64();
        let rate = (searches * threads) as f64 / seconds;
        uncached += pages.counters().uncached_reads;
        if rate > best.0 {
            best = (rate, pages.counters().reads as f64 / seconds);
        }
    }
    println!(
        "cold {io:?}, {threads} thread(s), depth {depth}: {:.0} searches of 32 pages/s, {:.0} reads/s, \
         {uncached} reads without a frame",
        best.0, best.1
    );
}

/// The best of three runs of `work`, in nanoseconds per step.
fn best_ns(steps: u32, mut work: impl FnMut() -> u64) -> f64 {
    let runs = (0..3).map(|_| {
        let began = Instant::now();
        std::hint::black_box(work());
        began.elapsed().as_secs_f64() * 1e9 / f64::from(steps)
    });
    runs.fold(f64::INFINITY, f64::min)
}

/// A generator of numbers that look random and depend only on the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z >> 32) * u64::from(end)) >> 32) as u32
    }
}
