//! What every way to read must do, and what the counters must say about it.

use crate::support::{Random, Scratch, body_of, expect_body, expect_whole, open, ways, write_pages};
use pagehop_engine::{BODY_BYTES, Error, PageId, Pages, Reader};
use pagehop_store::{Io, OpenOptions};

const SMALL: u64 = 64 * 8192;
const LARGE: u64 = 64 << 20;

#[test]
fn what_was_written_is_read() {
    let scratch = Scratch::new("round-trip");
    let path = scratch.path("pages");
    for count in [1, 2, 63, 64, 65, 127, 128, 129, 300] {
        write_pages(&path, count);
        for options in ways(SMALL) {
            let pages = open(&path, &options);
            assert_eq!(pages.page_count(), count);
            let mut reader = pages.reader();
            for page in 0..count {
                assert_eq!(*reader.finish(PageId(page)).unwrap(), body_of(page)[..], "page {page}");
                reader.release();
            }
        }
    }
}

#[test]
fn every_order_gives_the_same_pages() {
    let scratch = Scratch::new("orders");
    let path = scratch.path("pages");
    let count = 500;
    write_pages(&path, count);
    let mut random = Random(1);
    let mut shuffled: Vec<_> = (0..count).collect();
    random.shuffle(&mut shuffled);
    let orders = [
        (0..count).collect(),
        (0..count).rev().collect(),
        shuffled,
        (0..1500).map(|_| random.below(count)).collect(),
        vec![7; 20],
    ];
    for cache_bytes in [SMALL, LARGE] {
        for options in ways(cache_bytes) {
            for order in &orders {
                for ahead in [0, 4, 60] {
                    let pages = open(&path, &options);
                    let mut reader = pages.reader();
                    for (at, &page) in order.iter().enumerate() {
                        for &next in order[at..].iter().take(ahead) {
                            reader.start(PageId(next), 0..BODY_BYTES);
                        }
                        expect_body(page, reader.finish(PageId(page)).unwrap());
                        reader.release();
                    }
                }
            }
        }
    }
}

#[test]
fn guards_stay_while_others_come() {
    let scratch = Scratch::new("guards");
    let path = scratch.path("pages");
    write_pages(&path, 1000);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        let mut reader = pages.reader();
        for round in 0..5 {
            // More pages than the cache has frames, each twice, without a release.
            let held: Vec<_> = (0..300)
                .chain(0..300)
                .map(|at| round * 100 + at)
                .map(|page| (page, reader.finish(PageId(page)).unwrap()))
                .collect();
            for (page, body) in held {
                assert_eq!(*body, body_of(page)[..]);
            }
            reader.release();
        }
    }
}

#[test]
fn too_many_guards_are_an_error_and_not_a_hang() {
    let scratch = Scratch::new("too-many");
    let path = scratch.path("pages");
    write_pages(&path, 1000);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        let mut reader = pages.reader();
        let error = (0..1000).find_map(|page| reader.finish(PageId(page)).err()).unwrap();
        assert!(error.to_string().contains("too small"), "{error}");
        reader.release();
        expect_body(999, reader.finish(PageId(999)).unwrap());
    }
}

#[test]
fn several_readers_in_one_thread_do_not_stop_each_other() {
    let scratch = Scratch::new("several");
    let path = scratch.path("pages");
    write_pages(&path, 400);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        let held = pages.reader();
        let guards: Vec<_> = (0..64).map(|page| held.finish(PageId(page)).unwrap()).collect();
        let started = pages.reader();
        for page in 100..140 {
            started.start(PageId(page), 0..64);
        }
        let mut others: Vec<_> = (0..10).map(|_| pages.reader()).collect();
        for page in 64..400 {
            for reader in &mut others {
                expect_body(page, reader.finish(PageId(page)).unwrap());
                reader.release();
            }
        }
        for (page, guard) in guards.into_iter().enumerate() {
            expect_body(page as u32, guard);
        }
    }
}

#[test]
fn a_page_that_does_not_exist_is_corrupt_and_starting_it_is_nothing() {
    let scratch = Scratch::new("unknown");
    let path = scratch.path("pages");
    write_pages(&path, 10);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        let reader = pages.reader();
        for page in [10, 11, u32::MAX] {
            reader.start(PageId(page), 0..BODY_BYTES);
            let error = reader.finish(PageId(page)).unwrap_err();
            assert!(matches!(error, Error::Corrupt { page: PageId(p), .. } if p == page), "{error}");
            assert!(error.to_string().contains("10 pages"), "{error}");
        }
        assert_eq!(reader.pages_missed(), 0);
        assert_eq!(pages.counters().reads, 0);
    }
}

#[test]
fn any_range_may_be_wanted() {
    let scratch = Scratch::new("ranges");
    let path = scratch.path("pages");
    write_pages(&path, 2);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        let reader = pages.reader();
        reader.finish(PageId(1)).unwrap();
        #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
        let ranges = [0..0, 0..BODY_BYTES, 5..3, 0..usize::MAX, usize::MAX..usize::MAX, 9000..9001, 8167..8168];
        for range in ranges {
            reader.start(PageId(1), range);
        }
        expect_body(1, reader.finish(PageId(1)).unwrap());
    }
}

#[test]
fn what_was_started_and_dropped_is_there_for_the_next() {
    let scratch = Scratch::new("dropped");
    let path = scratch.path("pages");
    write_pages(&path, 2000);
    for cache_bytes in [SMALL, LARGE] {
        for options in ways(cache_bytes) {
            let pages = open(&path, &options);
            let mut random = Random(2);
            for round in 0..300 {
                let mut reader = pages.reader();
                for _ in 0..random.below(40) {
                    reader.start(PageId(random.below(2000)), 0..100);
                }
                match round % 3 {
                    // Either nothing was submitted, or something was, or another page was read.
                    0 => {}
                    1 => {
                        reader.finish(PageId(random.below(2000))).unwrap();
                        reader.start(PageId(random.below(2000)), 0..100);
                    }
                    _ => reader.release(),
                }
            }
            expect_whole(&pages);
        }
    }
}

#[test]
fn a_reader_that_pauses_holds_up_no_other() {
    fn expect_send<T: Send>(_: &T) {}
    let scratch = Scratch::new("pauses");
    let path = scratch.path("pages");
    write_pages(&path, 1000);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        let mut paused = pages.reader();
        expect_send(&paused);
        for page in 0..100 {
            paused.finish(PageId(page)).unwrap();
            paused.release();
        }
        // One page was submitted, and two were not.
        paused.start(PageId(500), 0..64);
        paused.finish(PageId(99)).unwrap();
        paused.start(PageId(501), 0..64);
        paused.start(PageId(502), 0..64);
        paused.release();

        let mut reader = pages.reader();
        let began = std::time::Instant::now();
        for page in 490..510 {
            expect_body(page, reader.finish(PageId(page)).unwrap());
            reader.release();
        }
        println!("{options:?}: {:?}", began.elapsed());
        for page in 0..1000 {
            expect_body(page, reader.finish(PageId(page)).unwrap());
            reader.release();
        }
        assert_eq!(pages.counters().uncached_reads, 0);
        assert_eq!(pages.counters().reads, paused.pages_missed() + reader.pages_missed());
        for page in 500..503 {
            expect_body(page, paused.finish(PageId(page)).unwrap());
        }
    }
}

#[test]
fn a_forgotten_reader_blocks_no_other() {
    let scratch = Scratch::new("forgotten");
    let path = scratch.path("pages");
    write_pages(&path, 300);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        for round in 0..3 {
            let reader = pages.reader();
            for page in round * 5..round * 5 + 5 {
                reader.start(PageId(page), 0..64);
            }
            reader.finish(PageId(200 + round)).unwrap();
            reader.start(PageId(100), 0..64);
            std::mem::forget(reader);
        }
        let mut reader = pages.reader();
        for page in 0..300 {
            expect_body(page, reader.finish(PageId(page)).unwrap());
            reader.release();
        }
    }
}

#[test]
fn a_panicking_search_leaves_its_reads_to_others() {
    let scratch = Scratch::new("panicking");
    let path = scratch.path("pages");
    write_pages(&path, 300);
    for options in ways(LARGE) {
        let pages = open(&path, &options);
        let search = std::panic::AssertUnwindSafe(|| {
            let reader = pages.reader();
            for page in 0..20 {
                reader.start(PageId(page), 0..64);
            }
            let body = reader.finish(PageId(30)).unwrap();
            reader.start(PageId(31), 0..64);
            std::panic::resume_unwind(Box::new(body.len()));
        });
        std::panic::catch_unwind(search).unwrap_err();
        let reader = pages.reader();
        for page in 0..300 {
            expect_body(page, reader.finish(PageId(page)).unwrap());
        }
    }
}

#[test]
fn the_counters_count_reads_exactly() {
    let scratch = Scratch::new("counters");
    let path = scratch.path("pages");
    write_pages(&path, 200);
    for options in ways(LARGE) {
        let ahead = options.io == Io::Uring;
        let pages = open(&path, &options);
        let mut reader = pages.reader();
        assert_eq!(pages.counters().reads, 0, "opening is not counted");

        for page in [5, 6, 5, 6, 7] {
            reader.finish(PageId(page)).unwrap();
        }
        assert_eq!(reader.pages_missed(), 3);

        // Pages that are started and finished: one read each.
        for page in 10..20 {
            reader.start(PageId(page), 0..64);
            reader.start(PageId(page), 0..64);
        }
        for page in (10..20).rev() {
            reader.finish(PageId(page)).unwrap();
        }
        assert_eq!(reader.pages_missed(), 13);

        // A page that is started and submitted, but never finished, is counted when it is read.
        reader.start(PageId(30), 0..64);
        reader.start(PageId(31), 0..64);
        reader.finish(PageId(31)).unwrap();
        reader.release();
        assert_eq!(reader.pages_missed(), 14 + u64::from(ahead));

        // A page whose start was dropped before it was submitted is not read.
        reader.start(PageId(40), 0..64);
        let missed = reader.pages_missed();
        drop(reader);
        assert_eq!(pages.counters().reads, missed);

        let reader = pages.reader();
        reader.finish(PageId(5)).unwrap();
        assert_eq!(reader.pages_missed(), 0);
        let counters = pages.counters();
        assert_eq!(counters.bytes, counters.reads * 8192);
        assert_eq!((counters.evictions, counters.uncached_reads), (0, 0));
    }
}

#[test]
fn a_full_cache_evicts_and_reads_again() {
    let scratch = Scratch::new("evicts");
    let path = scratch.path("pages");
    write_pages(&path, 256);
    for options in ways(SMALL) {
        let pages = open(&path, &options);
        assert_eq!(pages.cache_bytes(), SMALL);
        let mut reader = pages.reader();
        for round in 1..=3 {
            for page in 0..256 {
                reader.finish(PageId(page)).unwrap();
                reader.release();
            }
            // The cycle is longer than the cache, so the clock keeps no page until it is read
            // again.
            assert_eq!(reader.pages_missed(), 256 * round);
        }
        let counters = pages.counters();
        assert_eq!((counters.reads, counters.uncached_reads), (768, 0));
        assert!((768 - 64..=768).contains(&counters.evictions), "{counters:?}");
    }
}

#[test]
fn pages_in_use_outlive_a_scan() {
    let scratch = Scratch::new("scan");
    let path = scratch.path("pages");
    write_pages(&path, 4000);
    for options in ways(256 * 8192) {
        let pages = open(&path, &options);
        let mut reader = pages.reader();
        let mut hot_misses = 0;
        for page in 100..4000 {
            for hot in 0..32 {
                let before = reader.pages_missed();
                reader.finish(PageId(hot)).unwrap();
                hot_misses += reader.pages_missed() - before;
            }
            reader.finish(PageId(page)).unwrap();
            reader.release();
        }
        assert_eq!(hot_misses, 32);
    }
}

#[test]
fn the_default_is_the_best_there_is() {
    let scratch = Scratch::new("default");
    let path = scratch.path("pages");
    write_pages(&path, 10);
    let pages = open(&path, &OpenOptions::default());
    assert_eq!(pages.path(), path);
    assert_eq!(pages.cache_bytes(), 10 * 8192, "never more frames than pages");
    println!("{:?}, direct: {}", pages.io(), pages.is_direct());
    let without_rings = open(&path, &OpenOptions { io: Io::Pread, ..OpenOptions::default() });
    assert!(!without_rings.is_direct(), "only the system reads ahead, into its page cache");
    for options in ways(LARGE) {
        let pages = open(&path, &options);
        assert_eq!(pages.io(), options.io);
        assert!(options.direct != Some(false) || !pages.is_direct());
    }
}
