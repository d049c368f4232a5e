//! Versions of rows that wait for vacuum to let them into their nodes.

mod support;

use std::collections::BTreeSet;
use std::ops::{Deref, Range};
use std::sync::RwLock;

use pagehop_engine::page::{Pages, Reader};
use pagehop_engine::{Error, Index, Metric, PageId, RemoveReport};
use pagehop_sim::MemPages;
use support::hosted::{EVERYTHING, built, check, insert, remove, tids, vacuum};
use support::{Rows, embeddings, no_progress};

/// Pages that are changed while others read them, as those of a server.
struct Shared(RwLock<MemPages>);

impl Pages for Shared {
    type Reader<'p> = &'p Self;

    fn reader(&self) -> &Self {
        self
    }

    fn page_count(&self) -> u32 {
        self.0.read().unwrap().page_count()
    }
}

struct Copied(Vec<u8>);

impl Deref for Copied {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Reader for &Shared {
    type Guard<'r>
        = Copied
    where
        Self: 'r;

    fn start(&self, _: PageId, _: Range<usize>) {}

    fn finish(&self, page: PageId) -> Result<Copied, Error> {
        let pages = self.0.read().unwrap();
        let reader = pages.reader();
        reader.finish(page).map(|body| Copied(body.to_vec()))
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        0
    }
}

/// Versions of known rows wait in a list: no node's page changes for them, and none comes twice or is lost while vacuum lets them in.
#[test]
fn versions_wait_for_vacuum() {
    let dim = 24;
    let mut rows = Rows::new(dim, embeddings(dim, 400, 5));
    rows.ids = (1..=400).collect();
    let mut pages = built(&rows, Metric::L2);
    let before = check(&pages);
    let query = rows.row(3);
    // Readers of the index as it was, as it is with some waiting, and as it is when others have come.
    let early = Index::open(pages.clone()).unwrap();
    let mut all: BTreeSet<u64> = (1..=400).collect();
    for version in 1..=12 {
        for row in 0..50 {
            insert(&mut pages, 1000 * version + row as u64, rows.row(row), true);
            all.insert(1000 * version + row as u64);
        }
    }
    let found = check(&pages);
    assert_eq!((found.nodes, found.pages), (before.nodes, before.pages + 1), "600 tids wait on a page");
    assert_eq!(tids(&pages, query), all);
    assert_eq!(early.search(query, 10, &EVERYTHING).unwrap().hits.len(), 10);
    // Those of a row are equally near, and one of them is evidence of its row.
    let hits = Index::open(&pages).unwrap().search(query, 13, &EVERYTHING).unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.row_id).collect::<Vec<_>>(), {
        let versions = (1..=12).map(|version| 1000 * version + 3);
        std::iter::once(4).chain(versions).collect::<Vec<u64>>()
    });
    // All versions of the first rows but the last two are dead; some rows have no other, and some five.
    let dead: BTreeSet<u64> = all
        .iter()
        .copied()
        .filter(|tid| {
            let (version, row) = if *tid <= 400 { (0, tid - 1) } else { (tid / 1000, tid % 1000) };
            row < 40 && version < 11 || row == 40 || row > 300
        })
        .collect();
    let report = remove(&mut pages, &dead);
    let left = &all - &dead;
    assert_eq!(report, RemoveReport { left: left.len() as u64, removed: dead.len() as u64 });
    assert_eq!(tids(&pages, query), left);
    vacuum(&mut pages);
    let found = check(&pages);
    assert_eq!((found.nodes, found.dead_nodes, found.anchored), (300, 0, 300));
    assert_eq!(tids(&pages, query), left);
    // Nine rows have thirteen versions, three of which fit their nodes; when those died, too, the list ends and its page is free.
    let dead: BTreeSet<u64> = left.iter().copied().filter(|tid| *tid > 400 && tid / 1000 < 11).collect();
    remove(&mut pages, &dead);
    let left = &left - &dead;
    assert_eq!(tids(&pages, query), left);
    assert!(check(&pages).free_slots > found.free_slots);
}

/// The list is as long as an index of so many rows may have it; what comes then goes into nodes, with room or new.
#[test]
fn a_list_of_waiting_versions_has_an_end() {
    let dim = 16;
    let mut rows = Rows::new(dim, embeddings(dim, 2000, 5));
    rows.ids = (1..=2000).collect();
    let mut pages = built(&rows, Metric::L2);
    let nodes = check(&pages).nodes;
    let known = Index::open(pages.clone()).unwrap();
    let mut all = (1..=2000).collect::<BTreeSet<u64>>();
    let mut writer = pages.writer();
    for tid in 10_000..14_000 {
        let mut change = known.change(&mut writer).unwrap();
        change.insert_tid(tid, rows.row(tid as usize % 100), true, &mut no_progress()).unwrap();
        change.finish().unwrap();
        all.insert(tid);
    }
    drop(writer);
    let found = check(&pages);
    // Some 2,000 wait, two more are in each of 100 nodes, and three in each new one.
    assert!((nodes + 300..nodes + 600).contains(&found.nodes) && found.anchored == found.nodes, "{found:?}");
    assert_eq!(tids(&pages, rows.row(1)), all);
    // What a process knows of the list grows with it, page after page, and begins anew after a vacuum.
    let mut later = pages.clone();
    remove(&mut later, &(10_000..13_990).collect());
    assert_eq!(tids(&later, rows.row(1)), (1..=2000).chain(13_990..14_000).collect());
    assert!(check(&later).anchored == check(&later).nodes);
}

/// A cursor that began before a vacuum returns what was there then, each row once.
#[test]
fn a_cursor_outlives_a_vacuum_of_what_waited() {
    let dim = 16;
    let mut rows = Rows::new(dim, embeddings(dim, 500, 5));
    rows.ids = (1..=500).collect();
    let mut pages = built(&rows, Metric::L2);
    (0..100).for_each(|row| insert(&mut pages, 1001 + row as u64, rows.row(row), true));
    let shared = Shared(RwLock::new(pages));
    let index = Index::open(&shared).unwrap();
    for handed in [0, 1, 10, 11, 60, 300] {
        let mut cursor = index.cursor(rows.row(7), &EVERYTHING).unwrap();
        let mut found = BTreeSet::new();
        let mut next = |found: &mut BTreeSet<u64>| {
            let hit = cursor.next_hit().unwrap();
            hit.is_some_and(|hit| found.insert(hit.row_id) || panic!("tid {} came twice", hit.row_id))
        };
        (0..handed).for_each(|_| assert!(next(&mut found)));
        let mut pages = shared.0.write().unwrap();
        remove(&mut pages, &BTreeSet::new());
        (0..100).for_each(|row| insert(&mut pages, 10_000 * (handed + 1) + row as u64, rows.row(row), true));
        drop(pages);
        while next(&mut found) {}
        assert!(found.is_superset(&(1..=500).chain(1001..=1100).collect()), "after {handed}");
    }
}

/// An index of an older program becomes one of this when something waits in it: the older one would not look there.
#[test]
fn a_list_makes_an_index_one_of_this_version() {
    let mut rows = Rows::new(16, embeddings(16, 200, 5));
    rows.ids = (1..=200).collect();
    let mut pages = built(&rows, Metric::L2);
    pages.body_mut(PageId(0))[8] = 2;
    let version = |pages: &MemPages| Index::open(pages).unwrap().info().unwrap().format_version;
    insert(&mut pages, 1000, &embeddings(16, 1, 6), false);
    assert_eq!(version(&pages), 2);
    insert(&mut pages, 1001, rows.row(0), true);
    assert_eq!(version(&pages), 3);
    check(&pages);
}

/// What is wrong with the list is an error of whoever meets it.
#[test]
fn a_damaged_list_is_named() {
    let mut rows = Rows::new(16, embeddings(16, 200, 5));
    rows.ids = (1..=200).collect();
    let mut whole = built(&rows, Metric::L2);
    let list = PageId(whole.page_count());
    (0..20).for_each(|row| insert(&mut whole, 1000 + row as u64, rows.row(row), true));
    assert_eq!(whole.body(list)[0], 6);
    let damages: [(&str, usize, &[u8], bool); 7] = [
        ("its kind", 0, &[2], true),
        ("more entries than it has room for", 2, &[0xA6, 2], true),
        ("itself after it", 4, &list.0.to_le_bytes(), true),
        ("a page that is not there after it", 4, &[0xFF, 0xFF, 0, 0], true),
        ("a depth of none", 8, &[0], true),
        ("a node that is not there", 40, &[0xFF, 0xFF, 0xFF, 0], false),
        ("no tid", 44, &[0, 0, 0, 0, 0, 0, 0, 1], false),
    ];
    for (what, at, bytes, every_search) in damages {
        let mut pages = whole.clone();
        pages.body_mut(list)[at..at + bytes.len()].copy_from_slice(bytes);
        let failed = Index::open(&pages).and_then(|index| index.check(&mut no_progress()));
        assert!(matches!(failed, Err(Error::Corrupt { .. })), "{what}: {failed:?}");
        let searched = Index::open(&pages).and_then(|index| index.search(rows.row(3), 5, &EVERYTHING));
        assert_eq!(searched.is_err(), every_search, "{what}");
    }
}

/// After every step of an insertion or of a vacuum the index is whole, and the next vacuum does what is left.
#[test]
fn a_vacuum_may_end_after_any_step() {
    let mut rows = Rows::new(16, embeddings(16, 300, 5));
    rows.ids = (1..=300).collect();
    let mut pages = built(&rows, Metric::L2);
    let mut stops = Vec::new();
    let known = Index::open(pages.clone()).unwrap();
    let dead: BTreeSet<u64> = (1..=30).chain(1000..1015).chain(3000..3060).chain(300..=300).collect();
    let mut is_dead = |tid| dead.contains(&tid);
    let mut writer = pages.writer().with_after_step(Box::new(|pages| {
        check(pages);
        stops.push(pages.clone());
    }));
    for version in 1..=4 {
        for row in 0..60 {
            let mut change = known.change(&mut writer).unwrap();
            change.insert_tid(1000 * version + row, rows.row(row as usize), true, &mut no_progress()).unwrap();
            change.finish().unwrap();
        }
    }
    for part in 0..4 {
        let mut change = known.change(&mut writer).unwrap();
        match part {
            0 => assert_eq!(change.drop_dead_tids(&mut is_dead).unwrap(), 75),
            1 => assert_eq!(change.remove_tids(0..u32::MAX, &mut is_dead).unwrap().left, 300 + 240 - 75 - 31),
            3 => assert!(change.vacuum(u64::MAX, &mut no_progress()).unwrap().steps() > 0),
            _ => assert!(change.settle_tids(None).unwrap().is_some()),
        }
        change.finish().unwrap();
    }
    drop(writer);
    assert!(stops.len() > 240 + 30);
    for (at, mut stopped) in stops.into_iter().enumerate().skip(230).step_by(3) {
        let before = tids(&stopped, rows.row(9));
        remove(&mut stopped, &dead);
        vacuum(&mut stopped);
        assert_eq!(tids(&stopped, rows.row(9)), &before - &dead, "step {at}");
        check(&stopped);
    }
}
