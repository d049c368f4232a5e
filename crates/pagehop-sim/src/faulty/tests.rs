//! `FaultyPages` has the faults that its seed determines, and no others.

use pagehop_engine::PageSink;

use super::*;

fn pages(count: u32) -> MemPages {
    let mut pages = MemPages::new();
    for id in (1..count).chain([0]) {
        pages.write(PageId(id), &[id as u8; BODY_BYTES]).unwrap();
    }
    pages
}

#[test]
fn without_faults_every_page_is_what_was_written() {
    for seed in 0..50 {
        let faults = Faults { seed, in_flight_max: seed as usize % 5, ..Faults::default() };
        let faulty = FaultyPages::new(pages(20), faults);
        let mut rng = Rng::new(seed);
        let mut reader = faulty.reader();
        for _ in 0..200 {
            let page = PageId(rng.below(20) as u32);
            if rng.one_in(2) {
                reader.start(page, 0..64);
            } else {
                assert_eq!(reader.finish(page).unwrap()[0], page.0 as u8, "seed {seed}");
            }
            if rng.one_in(10) {
                reader.release();
            }
        }
        faulty.assert_asked_well();
    }
}

#[test]
fn only_the_read_with_the_given_number_fails() {
    let faults = Faults { fail_read: Some(3), seed: 42, ..Faults::default() };
    let faulty = FaultyPages::new(pages(4), faults);
    let first = faulty.reader();
    assert!(first.finish(PageId(1)).is_ok());
    assert!(first.finish(PageId(2)).is_ok());
    let second = faulty.reader();
    let Err(Error::Io { what, .. }) = second.finish(PageId(3)) else {
        panic!("the third read must fail");
    };
    assert_eq!(what, "read 3, of page 3, with seed 42");
    assert!(second.finish(PageId(3)).is_ok());
}

#[test]
fn damage_follows_from_the_seed_and_is_listed() {
    let whole = pages(100);
    let mut kinds = Vec::new();
    for seed in 0..20 {
        let faults = Faults { seed, damage_one_in: 3, ..Faults::default() };
        let faulty = FaultyPages::new(whole.clone(), faults.clone());
        let again = FaultyPages::new(whole.clone(), faults);
        let reader = faulty.reader();
        for page in (0..100).map(PageId) {
            let body = reader.finish(page).unwrap();
            let listed = faulty.damaged().iter().any(|&(damaged, _)| damaged == page);
            assert_eq!(body != whole.body(page), listed, "page {}, seed {seed}", page.0);
            assert_eq!(body, again.reader().finish(page).unwrap());
        }
        for &(_, kind) in faulty.damaged() {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    assert_eq!(kinds.len(), 6, "only {kinds:?} occurred");
}

#[test]
fn prefetches_are_dropped_reordered_and_counted() {
    let faulty = FaultyPages::new(pages(50), Faults { seed: 7, in_flight_max: 4, ..Faults::default() });
    let reader = faulty.reader();
    for id in 0..50 {
        reader.start(PageId(id), 0..BODY_BYTES);
    }
    for id in (0..50).rev() {
        reader.finish(PageId(id)).unwrap();
    }
    let calls = faulty.calls();
    assert_eq!((calls.starts, calls.finishes, calls.unknown), (50, 50, 0));
    assert!(calls.starts_dropped > 0, "{calls:?}");
    assert!(calls.finishes_ready > 0 && calls.finishes_ready < 50, "{calls:?}");
    assert_eq!(reader.pages_missed(), 50);
}

#[test]
#[should_panic(expected = "do not exist")]
fn an_access_to_an_unknown_page_fails_the_test() {
    let faulty = FaultyPages::new(pages(3), Faults::default());
    faulty.reader().start(PageId(3), 0..1);
    faulty.assert_asked_well();
}

#[test]
fn seeds_give_different_mixes_of_faults() {
    let mixes: Vec<Faults> = (0..200).map(Faults::from_seed).collect();
    let failing = mixes.iter().filter(|faults| faults.fail_read.is_some()).count();
    let damaging = mixes.iter().filter(|faults| faults.damage_one_in > 0).count();
    assert!((50..150).contains(&failing) && (50..150).contains(&damaging), "{failing} {damaging}");
}
