//! The cache keeps to its budget. Each measurement runs in its own process.

mod support;

use std::path::PathBuf;

use pagehop_engine::{PageId, Pages, Reader};
use pagehop_store::{Io, OpenOptions};
use support::{
    Random, Scratch, emulator_bytes_max, expect_body, open, resident_bytes, this_command, uring, write_pages,
};

/// `PATH,CACHE_BYTES,THREADS,IO`, for a child, which is this program started again.
const CHILD: &str = "PAGEHOP_TEST_MEMORY";

#[test]
fn child_reads_everything() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let [path, cache_bytes, threads, io] = task.split(',').collect::<Vec<_>>().try_into().unwrap();
    let io = if io == "pread" { Io::Pread } else { uring() };
    let options =
        OpenOptions { cache_bytes: cache_bytes.parse().unwrap(), direct: Some(true), io, ..OpenOptions::default() };
    let before = resident_bytes();
    let pages = open(&PathBuf::from(path), &options);
    println!("opened {}", resident_bytes().saturating_sub(before));
    let peak = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads.parse().unwrap() {
            let (pages, peak) = (&pages, &peak);
            scope.spawn(move || {
                let mut random = Random(thread);
                for round in 0..2000 {
                    let mut reader = pages.reader();
                    let wanted: Vec<_> = (0..16).map(|_| random.below(pages.page_count())).collect();
                    for &page in &wanted {
                        reader.start(PageId(page), 0..64);
                    }
                    for &page in &wanted[..12] {
                        expect_body(page, reader.finish(PageId(page)).unwrap());
                    }
                    reader.release();
                    if round % 200 == 0 {
                        peak.fetch_max(resident_bytes(), std::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("peak {}", peak.into_inner().max(resident_bytes()) - before);
}

#[test]
fn the_budget_is_kept() {
    let scratch = Scratch::new("memory");
    let path = scratch.path("pages");
    let file_pages = 8192;
    write_pages(&path, file_pages);
    for (cache_bytes, threads, io) in [
        (0_u64, 1, "uring"),
        (16 << 20, 1, "uring"),
        (16 << 20, 8, "uring"),
        (16 << 20, 8, "pread"),
        (1 << 40, 2, "uring"),
    ] {
        let output = this_command()
            .args(["--exact", "child_reads_everything", "--nocapture"])
            .env(CHILD, format!("{},{cache_bytes},{threads},{io}", path.display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.split(name).nth(1));
            line.unwrap_or_else(|| panic!("{output:?}")).trim().parse().unwrap()
        };
        let (opened, peak) = (figure("opened "), figure("peak "));
        let budget = cache_bytes.min(u64::from(file_pages) * 8192);
        println!("cache {cache_bytes}, {threads} threads, {io}: {opened} bytes when opened, {peak} at most");
        assert!(opened < (2 << 20) + emulator_bytes_max(), "opening touches no frames: {opened}");
        assert!(peak < budget + (8 << 20) + emulator_bytes_max(), "{peak} bytes with a budget of {budget}");
    }
}
