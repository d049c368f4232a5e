//! Many threads on a cache that is far too small, each looking at its guards while the others
//! evict.

mod support;

use std::time::Duration;

use pagehop_engine::{PageId, Pages, Reader};
use support::{Random, Scratch, expect_body, expect_whole, open, ways, write_pages};

const COUNT: u32 = 3000;
/// Searches of each thread.
const SEARCHES: usize = 60;

fn hammer(pages: &pagehop_store::IndexFile, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..SEARCHES {
        let mut reader = pages.reader();
        let beam = 1 + random.below(12);
        for _ in 0..1 + random.below(40) {
            // Mostly the same few pages, so that threads meet.
            let wanted: Vec<_> = (0..beam)
                .map(|_| if random.below(3) == 0 { random.below(COUNT) } else { random.below(100) })
                .collect();
            for &page in &wanted {
                reader.start(PageId(page), 0..4096);
            }
            let taken = random.below(beam + 1) as usize;
            let guards: Vec<_> =
                wanted.iter().take(taken).map(|&page| (page, reader.finish(PageId(page)).unwrap())).collect();
            if random.below(50) == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
            for &(page, body) in guards.iter().chain(&guards) {
                expect_body(page, body);
            }
            if random.below(5) != 0 {
                reader.release();
            }
        }
    }
}

#[test]
fn guards_hold_their_page_while_others_evict() {
    let scratch = Scratch::new("threads");
    let path = scratch.path("pages");
    write_pages(&path, COUNT);
    for (number, cache_pages) in [64, 128, 1024].into_iter().enumerate() {
        for options in ways(cache_pages * 8192) {
            let pages = open(&path, &options);
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let pages = &pages;
                    scope.spawn(move || hammer(pages, 100 * number as u64 + thread));
                }
            });
            println!("{options:?}: {:?}", pages.counters());
            expect_whole(&pages);
        }
    }
}

#[test]
fn threads_that_end_leave_their_reads() {
    let scratch = Scratch::new("thread-ends");
    let path = scratch.path("pages");
    write_pages(&path, COUNT);
    for options in ways(2048 * 8192) {
        let pages = open(&path, &options);
        for round in 0..50 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let reader = pages.reader();
                    for page in 0..20 {
                        reader.start(PageId(round * 20 + page), 0..64);
                    }
                    reader.finish(PageId(2999)).unwrap();
                });
            });
            let reader = pages.reader();
            for page in 0..20 {
                expect_body(round * 20 + page, reader.finish(PageId(round * 20 + page)).unwrap());
            }
        }
    }
}
