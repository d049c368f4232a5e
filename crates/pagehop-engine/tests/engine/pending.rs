//! The pending list: versions of known rows wait there until vacuum moves them into their nodes.

use std::collections::BTreeSet;
use std::ops::{Deref, Range};
use std::sync::RwLock;

use crate::support::hosted::{EVERYTHING, built, change, check, insert, remove, row_ids, vacuum};
use crate::support::{Rows, embeddings, no_progress};
use pagehop_engine::page::{Pages, Reader};
use pagehop_engine::{Error, Index, Metric, PageId, RemoveReport};
use pagehop_sim::MemPages;

/// Pages that are changed while readers use them, as on a server.
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

/// Versions of known rows go into the pending list. Inserting them does not change a page of nodes.
/// While vacuum moves them, no version is returned twice or lost.
#[test]
fn versions_wait_for_vacuum() {
    let dim = 24;
    let mut rows = Rows::new(dim, embeddings(dim, 400, 5));
    rows.ids = (1..=400).collect();
    let mut pages = built(&rows, Metric::L2);
    let before = check(&pages);
    let query = rows.row(3);
    // A reader that opened the index before any version waited.
    let early = Index::open(pages.clone()).unwrap();
    let mut all: BTreeSet<u64> = (1..=400).collect();
    for version in 1..=12 {
        for row in 0..50 {
            insert(&mut pages, 1000 * version + row as u64, rows.row(row), true);
            all.insert(1000 * version + row as u64);
        }
    }
    let found = check(&pages);
    assert_eq!((found.nodes, found.pages), (before.nodes, before.pages + 1), "600 row_ids wait on one page");
    assert_eq!(row_ids(&pages, query), all);
    assert_eq!(early.search_with(query, 10, &EVERYTHING).unwrap().hits.len(), 10);
    // The versions of a row have the same distance; together they count as one row.
    let hits = Index::open(&pages).unwrap().search_with(query, 13, &EVERYTHING).unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.row_id).collect::<Vec<_>>(), {
        let versions = (1..=12).map(|version| 1000 * version + 3);
        std::iter::once(4).chain(versions).collect::<Vec<u64>>()
    });
    // For the first 40 rows, all versions except the last two are dead. Some rows lose their only
    // version, and one row loses all.
    let dead: BTreeSet<u64> = all
        .iter()
        .copied()
        .filter(|row_id| {
            let (version, row) = if *row_id <= 400 { (0, row_id - 1) } else { (row_id / 1000, row_id % 1000) };
            row < 40 && version < 11 || row == 40 || row > 300
        })
        .collect();
    let report = remove(&mut pages, &dead);
    let left = &all - &dead;
    assert_eq!(report, RemoveReport { left: left.len() as u64, removed: dead.len() as u64 });
    assert_eq!(row_ids(&pages, query), left);
    vacuum(&mut pages);
    let found = check(&pages);
    assert_eq!((found.nodes, found.dead_nodes, found.anchored), (300, 0, 300));
    assert_eq!(row_ids(&pages, query), left);
    // Nine rows have thirteen versions, and three of these fit into their nodes. When most of the
    // others are dead too, the list is empty, and its page takes the next versions.
    let dead: BTreeSet<u64> = left.iter().copied().filter(|row_id| *row_id > 400 && row_id / 1000 < 11).collect();
    remove(&mut pages, &dead);
    let left = &left - &dead;
    assert_eq!(row_ids(&pages, query), left);
    let page_count = pages.page_count();
    insert(&mut pages, 20_000, rows.row(3), true);
    assert_eq!((check(&pages).pages, found.pages), (page_count, page_count));
}

/// The length of the list is limited by the number of rows. Further versions go into nodes with
/// room, or into new nodes.
#[test]
fn the_pending_list_is_bounded() {
    let dim = 16;
    let mut rows = Rows::new(dim, embeddings(dim, 2000, 5));
    rows.ids = (1..=2000).collect();
    let mut pages = built(&rows, Metric::L2);
    let nodes = check(&pages).nodes;
    let known = Index::open(pages.clone()).unwrap();
    let mut all = (1..=2000).collect::<BTreeSet<u64>>();
    let mut writer = pages.writer();
    for row_id in 10_000..14_000 {
        let mut change = known.change(&mut writer).unwrap();
        change.insert_hosted(row_id, rows.row(row_id as usize % 100), &[], true, &mut no_progress()).unwrap();
        change.finish().unwrap();
        all.insert(row_id);
    }
    drop(writer);
    let found = check(&pages);
    // About 2,000 versions wait, two more are in each of 100 nodes, and three are in each new node.
    assert!((nodes + 300..nodes + 600).contains(&found.nodes) && found.anchored == found.nodes, "{found:?}");
    assert_eq!(row_ids(&pages, rows.row(1)), all);
    // A process's map of the list grows with the list, page by page, and is built again after a
    // vacuum.
    let mut later = pages.clone();
    remove(&mut later, &(10_000..13_990).collect());
    assert_eq!(row_ids(&later, rows.row(1)), (1..=2000).chain(13_990..14_000).collect());
    assert!(check(&later).anchored == check(&later).nodes);
}

/// A cursor that was opened before a vacuum returns the rows of that time, each once.
#[test]
fn a_cursor_survives_a_vacuum_of_the_pending_list() {
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
            hit.is_some_and(|hit| found.insert(hit.row_id) || panic!("row {} came twice", hit.row_id))
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

/// Damage of the list is reported by every operation that reads it.
#[test]
fn a_damaged_list_is_reported() {
    let mut rows = Rows::new(16, embeddings(16, 200, 5));
    rows.ids = (1..=200).collect();
    let mut whole = built(&rows, Metric::L2);
    let list = PageId(whole.page_count());
    (0..20).for_each(|row| insert(&mut whole, 1000 + row as u64, rows.row(row), true));
    assert_eq!(whole.body(list)[0], 6);
    let damages: [(&str, usize, &[u8], bool); 7] = [
        ("its kind", 0, &[2], true),
        ("more entries than fit on the page", 2, &[0xA6, 2], true),
        ("a next page that is itself", 4, &list.0.to_le_bytes(), true),
        ("a next page that does not exist", 4, &[0xFF, 0xFF, 0, 0], true),
        ("a depth of 0", 8, &[0], true),
        ("a node that does not exist", 40, &[0xFF, 0xFF, 0xFF, 0], false),
        ("an invalid row_id", 44, &[0, 0, 0, 0, 0, 0, 0, 1], false),
    ];
    for (what, at, bytes, every_search) in damages {
        let mut pages = whole.clone();
        pages.body_mut(list)[at..at + bytes.len()].copy_from_slice(bytes);
        let failed = Index::open(&pages).and_then(|index| index.check(&mut no_progress()));
        assert!(matches!(failed, Err(Error::Corrupt { .. })), "{what}: {failed:?}");
        let searched = Index::open(&pages).and_then(|index| index.search_with(rows.row(3), 5, &EVERYTHING));
        assert_eq!(searched.is_err(), every_search, "{what}");
    }
}

/// A host may let others go on after any entry of the list, however many entries a page has.
#[test]
fn the_list_is_settled_in_parts() {
    const LOOKS: usize = 7;
    let mut rows = Rows::new(16, embeddings(16, 200, 5));
    rows.ids = (1..=200).collect();
    let mut pages = built(&rows, Metric::L2);
    let mut all: BTreeSet<u64> = (1..=200).collect();
    let mut versions = |pages: &mut MemPages, first: u64, of: Range<usize>| {
        for row in of {
            insert(pages, first + row as u64, rows.row(row), true);
            all.insert(first + row as u64);
        }
        all.clone()
    };
    let mut there = versions(&mut pages, 1000, 0..100);
    change(&mut pages, |change| change.remove_dead_rows(0..u32::MAX, &mut |_| false).unwrap());
    let (mut place, mut parts) = (None, 0);
    loop {
        let mut looks = 0;
        let mut goes_on = || {
            looks += 1;
            looks < LOOKS
        };
        place = change(&mut pages, |change| change.settle_pending(place, &mut goes_on).unwrap());
        assert!(looks <= LOOKS, "{looks} nodes were looked at");
        assert_eq!(row_ids(&pages, rows.row(3)), there, "part {parts}");
        check(&pages);
        if place.is_none() {
            break;
        }
        parts += 1;
        if parts == 5 {
            // Their nodes do not have them yet, so they stay in the list.
            there = versions(&mut pages, 2000, 90..120);
        }
    }
    assert!((130 / LOOKS..30).contains(&parts), "{parts} parts");
    remove(&mut pages, &BTreeSet::new());
    assert_eq!(row_ids(&pages, rows.row(3)), there);
}

/// After every step of an insertion or a vacuum the index is valid, and the next vacuum finishes
/// the work.
#[test]
fn a_vacuum_may_end_after_any_step() {
    let mut rows = Rows::new(16, embeddings(16, 300, 5));
    rows.ids = (1..=300).collect();
    let mut pages = built(&rows, Metric::L2);
    let mut stops = Vec::new();
    let known = Index::open(pages.clone()).unwrap();
    let dead: BTreeSet<u64> = (1..=30).chain(1000..1015).chain(3000..3060).chain(300..=300).collect();
    let mut is_dead = |row_id| dead.contains(&row_id);
    let mut writer = pages.writer().with_after_step(Box::new(|pages| {
        check(pages);
        stops.push(pages.clone());
    }));
    for version in 1..=4 {
        for row in 0..60 {
            let mut change = known.change(&mut writer).unwrap();
            change
                .insert_hosted(1000 * version + row, rows.row(row as usize), &[], true, &mut no_progress())
                .unwrap();
            change.finish().unwrap();
        }
    }
    for part in 0..4 {
        let mut change = known.change(&mut writer).unwrap();
        match part {
            0 => assert_eq!(change.drop_dead_rows(&mut is_dead).unwrap(), 75),
            1 => assert_eq!(change.remove_dead_rows(0..u32::MAX, &mut is_dead).unwrap().left, 300 + 240 - 75 - 31),
            3 => assert!(change.vacuum(u64::MAX, &mut no_progress()).unwrap().steps() > 0),
            _ => assert!(change.settle_pending(None, &mut || true).unwrap().is_some()),
        }
        change.finish().unwrap();
    }
    drop(writer);
    assert!(stops.len() > 240 + 30);
    for (at, mut stopped) in stops.into_iter().enumerate().skip(230).step_by(3) {
        let before = row_ids(&stopped, rows.row(9));
        remove(&mut stopped, &dead);
        vacuum(&mut stopped);
        assert_eq!(row_ids(&stopped, rows.row(9)), &before - &dead, "step {at}");
        check(&stopped);
    }
}
