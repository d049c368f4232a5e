//! A check that builds on the last one says what a check of everything says.

use std::collections::BTreeSet;

use crate::support::hosted::{built, insert, remove};
use crate::support::{Noise, Rows, embeddings, no_progress};
use pagehop_engine::{CheckedPages, Index, Metric, PageId, Pages, check_again};
use pagehop_sim::MemPages;

/// What both checks say of these pages.
fn both(pages: &MemPages, last: &mut CheckedPages) -> [String; 2] {
    let Ok(index) = Index::open(pages) else { return [String::new(), String::new()] };
    [index.check(&mut no_progress()), check_again(pages, last, &mut no_progress())]
        .map(|found| format!("{found:?}"))
}

#[test]
fn every_damage_is_found_again() {
    let rows = Rows::new(72, embeddings(72, 400, 1));
    let first = Rows { ids: rows.ids[..300].to_vec(), values: rows.values[..300 * 72].to_vec(), ..rows.clone() };
    let mut pages = built(&first, Metric::L2);
    let mut last = CheckedPages::default();
    // Changes between checks: nodes that are new, dead, and free.
    for at in 300..400 {
        insert(&mut pages, rows.ids[at], rows.row(at), false);
        let [expected, found] = both(&pages, &mut last);
        assert_eq!(found, expected, "after {at} rows");
        assert!(found.starts_with("Ok"), "{found}");
    }
    remove(&mut pages, &BTreeSet::from_iter(rows.ids[..40].iter().copied()));
    let (mut noise, mut damaged) = (Noise(2), 0);
    for _ in 0..2000 {
        let (mut other, mut known) = (pages.clone(), last.clone());
        let page = PageId(noise.next() as u32 % pages.page_count());
        let body = other.body_mut(page);
        let at = noise.next() as usize % body.len();
        body[at] ^= 1 << (noise.next() % 8);
        let [expected, found] = both(&other, &mut known);
        assert_eq!(found, expected, "byte {at} of {page:?}");
        damaged += usize::from(expected.starts_with("Err"));
        // After an error the check begins with nothing.
        let [expected, found] = both(&pages, &mut known);
        assert_eq!(found, expected);
    }
    assert!(damaged > 500, "{damaged} damages were found");
}
