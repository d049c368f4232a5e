//! The cost of a writer: a commit with and without its sync, a checkpoint, recovery, and how
//! readers of another opening keep up.
//!
//! `cargo bench -p pagehop-store --bench commits [-- PAGES]`: the pages of the index, 100,000 by
//! default. Each commit changes 3,000 of them, as adding 100 rows does: 12 runs of 8 bytes and some
//! runs of 4 bytes in each page.

use std::path::Path;
use std::time::Instant;

use pagehop_engine::{BODY_BYTES, PageId, PageSink, Pages, PagesMut, Reader};
use pagehop_store::{Durability, IndexFile, NewIndexFile, OpenOptions};

const CHANGED: u32 = 3000;

fn main() {
    let count = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(100_000_u32);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("commits-{}", std::process::id()));
    write(&path, count);
    opening(&path);
    for durability in [Durability::Checkpoint, Durability::Commit] {
        commits(&path, count, durability);
    }
    recovery(&path, count);
    let _ = std::fs::remove_file(&path);
}

fn options(durability: Durability) -> OpenOptions {
    OpenOptions { write: true, durability, cache_bytes: 2 << 30, ..OpenOptions::default() }
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

fn opening(path: &Path) {
    let began = Instant::now();
    for _ in 0..100 {
        drop(IndexFile::open(path, &OpenOptions::default()).unwrap());
    }
    println!("open and close for reading: {:.0} us", began.elapsed().as_secs_f64() * 1e4);
}

/// Changes some pages. Returns the seconds for the changes and for the commit.
fn change(pages: &IndexFile, count: u32, random: &mut Random) -> (f64, f64) {
    let began = Instant::now();
    let mut transaction = pages.begin().unwrap();
    for _ in 0..CHANGED {
        let page = PageId(1 + random.below(count - 1));
        let value = random.below(u32::MAX).to_le_bytes();
        let step = &mut |bodies: &mut [&mut [u8]]| {
            for run in 0..12 {
                bodies[0][1000 + run * 64..][..4].copy_from_slice(&value);
                bodies[0][1004 + run * 64..][..4].copy_from_slice(&value);
            }
            (0..4).for_each(|run| bodies[0][100 + run * 200..][..4].copy_from_slice(&value));
            Ok(())
        };
        transaction.step(&[page], step).unwrap();
    }
    let changed = began.elapsed().as_secs_f64();
    let began = Instant::now();
    transaction.commit().unwrap();
    (changed, began.elapsed().as_secs_f64())
}

fn commits(path: &Path, count: u32, durability: Durability) {
    let pages = IndexFile::open(path, &options(durability)).unwrap();
    let mut reader = pages.reader();
    for page in 0..count {
        (page..(page + 16).min(count)).for_each(|next| reader.start(PageId(next), 0..0));
        reader.finish(PageId(page)).unwrap();
        reader.release();
    }
    drop(reader);
    let mut random = Random(1);
    let mut times: Vec<_> = (0..20).map(|_| change(&pages, count, &mut random)).collect();
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let counters = pages.counters();
    println!(
        "{durability:?}: changes {:.1} ms, commit {:.1} ms (median of 20), {} bytes of log a page",
        times[10].0 * 1e3,
        times[10].1 * 1e3,
        counters.log_bytes_written / u64::from(20 * CHANGED),
    );
    let other = IndexFile::open(path, &OpenOptions { cache_bytes: 2 << 30, ..OpenOptions::default() }).unwrap();
    let read = |what: &str| {
        let began = Instant::now();
        let mut reader = other.reader();
        reader.snapshot(true);
        for page in 0..count.min(20_000) {
            reader.finish(PageId(page)).unwrap();
            reader.release();
        }
        let each = began.elapsed().as_secs_f64() * 1e6 / f64::from(count.min(20_000));
        println!("another opening, {what}: {each:.2} us a page");
    };
    read("cold, with a log");
    read("resident");
    change(&pages, count, &mut random);
    read("after a commit");
    read("resident after a commit");
    drop(other);
    let (used, began) = (pages.log_used_bytes(), Instant::now());
    pages.checkpoint().unwrap();
    let written = pages.counters().page_bytes_written;
    println!(
        "checkpoint of {} KiB of log: {:.2} s, {} MiB of pages written",
        used >> 10,
        began.elapsed().as_secs_f64(),
        written >> 20
    );
    pages.close().unwrap();
}

fn recovery(path: &Path, count: u32) {
    let pages = IndexFile::open(path, &options(Durability::Checkpoint)).unwrap();
    let mut random = Random(2);
    while pages.log_used_bytes() < 1 << 30 {
        change(&pages, count, &mut random);
    }
    drop(pages);
    let began = Instant::now();
    let pages = IndexFile::open(path, &options(Durability::Commit)).unwrap();
    println!("recovery of 1 GiB of log: {:.2} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    pages.checkpoint().unwrap();
    println!("and its checkpoint: {:.2} s", began.elapsed().as_secs_f64());
    pages.close().unwrap();
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (((z >> 32) * u64::from(end)) >> 32) as u32
    }
}
