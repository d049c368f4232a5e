//! Host-owned rows: a node holds several versions of a row, the host decides which rows are
//! visible, and each step takes effect at once.

use std::collections::BTreeSet;

use crate::support::hosted::{EVERYTHING, built, change, check, insert, remove, row_ids, vacuum};
use crate::support::{Noise, Rows, embeddings, no_progress};
use pagehop_engine::page::Pages;
use pagehop_engine::{
    CreateOptions, Error, IdKind, Index, Metric, PageId, Prepared, RemoveReport, SearchOptions, create,
};
use pagehop_sim::MemPages;

#[test]
fn versions_of_a_row_share_a_node() {
    let dim = 40;
    let mut rows = Rows::new(dim, embeddings(dim, 300, 5));
    rows.ids = (1..=300).collect();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let mut pages = built(&rows, metric);
        let before = check(&pages);
        // A node has room for two more versions of its row. The third gets its own node, because it
        // is not known to be a version and so does not wait in the pending list.
        for version in 1..=3 {
            for row in 0..10 {
                insert(&mut pages, 1000 * version + row as u64 + 1, rows.row(row), false);
            }
            let found = check(&pages);
            let more = if version == 3 { 10 } else { 0 };
            assert_eq!((found.nodes, found.anchored), (before.nodes + more, before.nodes + more), "{metric:?}");
        }
        let all: BTreeSet<u64> =
            (1..=300).chain((1..=3).flat_map(|v| (1..=10).map(move |r| 1000 * v + r))).collect();
        assert_eq!(row_ids(&pages, rows.row(0)), all);
        let index = Index::open(&pages).unwrap();
        // Under the inner product, longer rows may be nearer to a row than the row itself. Its
        // versions have the same distance, so they follow each other.
        let hits = index.search_with(rows.row(4), 50, &EVERYTHING).unwrap().hits;
        let of_row: Vec<usize> = (0..50).filter(|at| hits[*at].row_id % 1000 == 5).collect();
        assert_eq!(of_row, (of_row[0]..of_row[0] + 4).collect::<Vec<_>>(), "{metric:?}: {hits:?}");
        // Removes the first versions of ten rows, and all versions of some other rows.
        let dead: BTreeSet<u64> = (1..=10).chain(100..=150).collect();
        let report = remove(&mut pages, &dead);
        assert_eq!(report, RemoveReport { left: 330 - 61, removed: 61 });
        assert_eq!(row_ids(&pages, rows.row(0)), &all - &dead);
        assert_eq!(check(&pages).dead_nodes, 51);
        vacuum(&mut pages);
        let found = check(&pages);
        assert_eq!((found.nodes, found.dead_nodes, found.anchored), (259, 0, 259));
        assert_eq!(row_ids(&pages, rows.row(0)), &all - &dead);
    }
}

/// A row that is said to be known may have another vector, no farther from the old one than that
/// is from its code. It gets a node of its own: the bounds of distances are for roundings.
#[test]
fn a_known_row_whose_vector_has_changed_gets_a_node_of_its_own() {
    let dim = 256;
    let mut rows = Rows::new(dim, embeddings(dim, 300, 5));
    rows.ids = (1..=300).collect();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let mut pages = built(&rows, metric);
        for row in 0..20 {
            let length = rows.row(row).iter().map(|x| x * x).sum::<f32>().sqrt();
            let part = 1e-4 * length / (dim as f32).sqrt();
            let moved = |(at, x): (usize, &f32)| if at % 2 == 0 { x + part } else { x - part };
            let vector: Vec<f32> = rows.row(row).iter().enumerate().map(moved).collect();
            insert(&mut pages, 1001 + row as u64, &vector, true);
            insert(&mut pages, 2001 + row as u64, rows.row(row), true);
        }
        assert_eq!(check(&pages).nodes, 320, "{metric:?}");
    }
}

/// A search visits the same nodes whether each row has one version or two: several versions do not
/// count as several found rows.
#[test]
fn versions_of_a_row_do_not_change_how_far_a_search_goes() {
    let dim = 40;
    let mut rows = Rows::new(dim, embeddings(dim, 2000, 5));
    rows.ids = (1..=2000).collect();
    let once = built(&rows, Metric::L2);
    let mut twice = once.clone();
    (0..2000).for_each(|row| insert(&mut twice, 10_001 + row as u64, rows.row(row), true));
    assert_eq!(check(&twice).nodes, 2000);
    let (once, twice) = (Index::open(&once).unwrap(), Index::open(&twice).unwrap());
    let options = SearchOptions { slack: 0.1, ..SearchOptions::default() };
    for query in embeddings(dim, 50, 6).chunks_exact(dim) {
        let (one, other) =
            (once.search_with(query, 10, &options).unwrap(), twice.search_with(query, 10, &options).unwrap());
        assert_eq!(one.stats.hops, other.stats.hops);
        let both: Vec<u64> = one.hits[..5].iter().flat_map(|hit| [hit.row_id, hit.row_id + 10_000]).collect();
        assert_eq!(other.hits.iter().map(|hit| hit.row_id).collect::<Vec<_>>(), both);
        let (mut one, mut other) = (once.cursor(query, &options).unwrap(), twice.cursor(query, &options).unwrap());
        for rank in 1..=30 {
            let row = one.next_hit().unwrap().unwrap();
            for version in [0, 10_000] {
                assert_eq!(other.next_hit().unwrap().unwrap().row_id, row.row_id + version);
            }
            assert_eq!(one.page_reads(), other.page_reads(), "{rank}");
        }
    }
}

/// Rows that come together train the model once, as a build over them would. If they do not train
/// it, they are left to be inserted.
#[test]
fn rows_that_come_together_train_the_model_once() {
    let dim = 40;
    let mut rows = Rows::new(dim, embeddings(dim, 1000, 5));
    rows.ids = (1..=1000).collect();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let mut pages = MemPages::new();
        create(dim, &CreateOptions { metric, id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages)
            .unwrap();
        let train = |pages: &mut MemPages, range: std::ops::Range<usize>| {
            let (ids, vectors) = (&rows.ids[range.clone()], &rows.values[range.start * dim..range.end * dim]);
            change(pages, |change| change.train_if_grown(ids, vectors, &[], &mut no_progress()).unwrap())
        };
        assert_eq!(train(&mut pages, 0..0), 0);
        assert_eq!(train(&mut pages, 0..100), 100);
        let index = Index::open(pages.clone()).unwrap();
        assert_eq!(index.info().unwrap().trained_rows, 100);
        assert_eq!(index.room_at_once().unwrap(), 4096 - 100);
        let before = pages.clone();
        let few = train(&mut pages, 100..110) > 0;
        // Under the inner product, a longer row trains an index of so few rows.
        assert!(!few || metric == Metric::InnerProduct);
        assert!(few || pages.page_count() == before.page_count());
        (100..110).filter(|_| !few).for_each(|row| insert(&mut pages, rows.ids[row], rows.row(row), false));
        assert_eq!(train(&mut pages, 110..1000), 890);
        let info = Index::open(pages.clone()).unwrap().info().unwrap();
        assert_eq!((info.rows, info.trained_rows), (1000, 1000));
        assert_eq!(check(&pages).nodes, 1000);
        assert_eq!(row_ids(&pages, rows.row(0)), (1..=1000).collect());
        let index = Index::open(&pages).unwrap();
        let found = |row: usize| index.search_with(rows.row(row), 1, &EVERYTHING).unwrap().hits[0].row_id;
        let itself = (0..1000).filter(|row| found(*row) == *row as u64 + 1).count();
        assert!(itself > 990 || metric == Metric::InnerProduct, "{itself}");
        let refused = change(&mut pages, |change| change.train_if_grown(&[1], &[0.0], &[], &mut no_progress()));
        assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
        let refused =
            change(&mut pages, |change| change.train_if_grown(&[0], rows.row(0), &[], &mut no_progress()));
        assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
    }
    let old = built(&Rows::new(4, embeddings(4, 17_000, 6)), Metric::L2);
    assert_eq!(Index::open(&old).unwrap().room_at_once().unwrap(), 0);
}

/// Other writers wait for a training by rows that come together, so at most some thousand rows
/// train.
#[test]
fn many_rows_that_come_together_train_the_model_with_the_first() {
    let mut rows = Rows::new(4, embeddings(4, 6000, 5));
    rows.ids = (1..=6000).collect();
    let mut pages = MemPages::new();
    create(4, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages).unwrap();
    let train = |pages: &mut MemPages, first: usize| {
        let (ids, vectors) = (&rows.ids[first..], &rows.values[first * 4..]);
        change(pages, |change| change.train_if_grown(ids, vectors, &[], &mut no_progress()).unwrap())
    };
    assert_eq!(train(&mut pages, 0), 4096);
    assert_eq!(train(&mut pages, 4096), 0);
    let info = Index::open(&pages).unwrap().info().unwrap();
    assert_eq!((info.rows, info.trained_rows), (4096, 4096));
    assert_eq!(Index::open(&pages).unwrap().room_at_once().unwrap(), 0);
    (4096..4200).for_each(|row| insert(&mut pages, rows.ids[row], rows.row(row), false));
    assert_eq!(check(&pages).nodes, 4200);
    assert_eq!(row_ids(&pages, rows.row(0)), (1..=4200).collect());
}

/// An index grows from zero rows, row by row. The model is trained again as the index grows, and
/// the pages of the old graph become free.
#[test]
fn an_index_grows_row_by_row() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 700, 5));
    for metric in [Metric::L2, Metric::InnerProduct] {
        let mut pages = MemPages::new();
        create(dim, &CreateOptions { metric, id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages)
            .unwrap();
        for i in 0..700 {
            insert(&mut pages, i as u64 + 1, rows.row(i), false);
            if i % 50 == 0 || i < 20 {
                let found = check(&pages);
                assert_eq!((found.nodes, found.anchored), (i as u64 + 1, i as u64 + 1));
            }
        }
        assert_eq!(row_ids(&pages, rows.row(3)), (1..=700).collect());
        let info = Index::open(&pages).unwrap().info().unwrap();
        assert!(info.trained_rows * 8 > 700 && info.rows == 700, "{info:?}");
    }
}

/// After every step of a change, also of a training, the index is valid. If a change ends after any
/// step, the next change works on the pages that it left.
#[test]
fn a_change_may_end_after_any_step() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 80, 5));
    let mut before = MemPages::new();
    create(dim, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut before).unwrap();
    for i in 0..70 {
        let mut stops = Vec::new();
        let known = Index::open(before.clone()).unwrap();
        let mut pages = before.clone();
        let mut writer = pages.writer().with_after_step(Box::new(|pages| {
            check(pages);
            stops.push(pages.clone());
        }));
        let mut change = known.change(&mut writer).unwrap();
        change.insert_hosted(i as u64 + 1, rows.row(i), &[], false, &mut no_progress()).unwrap();
        change.finish().unwrap();
        drop(writer);
        before = pages;
        // The 64th row trains the model, which takes most steps.
        if i % 9 == 0 || i == 63 || i < 3 {
            for mut stopped in stops {
                insert(&mut stopped, 1000, rows.row(75), false);
                insert(&mut stopped, 1001, rows.row(75), true);
                check(&stopped);
                let found = row_ids(&stopped, rows.row(0));
                assert!(found.is_superset(&(1..=i as u64).collect()), "after row {i}: {found:?}");
                assert!(found.contains(&1000) && found.contains(&1001));
            }
        }
    }
}

#[test]
fn rows_stay_reachable_as_others_come_and_go() {
    let dim = 12;
    let rows = Rows::new(dim, embeddings(dim, 600, 9));
    for seed in 0..20 {
        let mut noise = Noise(seed);
        let mut pages = MemPages::new();
        create(dim, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages).unwrap();
        let (mut living, mut next) = (BTreeSet::new(), 1);
        for _ in 0..12 {
            for _ in 0..noise.next() % 60 {
                let row = (noise.next() % 600) as usize;
                insert(&mut pages, next, rows.row(row), noise.next().is_multiple_of(2));
                living.insert(next);
                next += 1;
            }
            let dead: BTreeSet<u64> = living.iter().copied().filter(|_| noise.next().is_multiple_of(3)).collect();
            remove(&mut pages, &dead);
            living = &living - &dead;
            if noise.next().is_multiple_of(2) {
                vacuum(&mut pages);
            }
            let found = check(&pages);
            assert_eq!((found.anchored, found.reachable), (found.nodes, found.nodes), "{seed}: {found:?}");
            assert_eq!(row_ids(&pages, rows.row(1)), living, "{seed}");
        }
    }
}

#[test]
fn operations_for_the_other_kind_of_row_ids_are_refused() {
    let dim = 8;
    let rows = Rows::new(dim, embeddings(dim, 10, 5));
    let mut hosted = MemPages::new();
    create(dim, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut hosted).unwrap();
    let mut mapped = MemPages::new();
    create(dim, &CreateOptions::default(), &mut mapped).unwrap();
    change(&mut hosted, |change| {
        assert!(change.add(&[1], rows.row(0), None, &mut no_progress()).is_err());
        assert!(change.delete(&[1]).is_err());
        for row_id in [0, 1 << 48] {
            assert!(change.insert_hosted(row_id, rows.row(0), &[], false, &mut no_progress()).is_err());
        }
        assert!(change.insert_hosted(1, &rows.row(0)[1..], &[], false, &mut no_progress()).is_err());
        assert!(change.insert_hosted(1, &[f32::NAN; 8], &[], false, &mut no_progress()).is_err());
    });
    change(&mut mapped, |change| {
        assert!(change.insert_hosted(1, rows.row(0), &[], false, &mut no_progress()).is_err());
        assert!(change.remove_dead_rows(0..9, &mut |_| true).is_err());
    });
}

/// Robust prune keeps one edge to many duplicates, and that duplicate has few edges to give back.
#[test]
fn a_thousand_equal_rows_are_all_found() {
    let dim = 24;
    let row = vec![0.5; dim];
    let mut pages = MemPages::new();
    create(dim, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages).unwrap();
    (1..=1000).for_each(|row_id| insert(&mut pages, row_id, &row, false));
    let found = check(&pages);
    assert_eq!((found.anchored, found.reachable), (found.nodes, found.nodes), "{found:?}");
    assert_eq!(row_ids(&pages, &row), (1..=1000).collect());
    remove(&mut pages, &(1..=900).collect());
    loop {
        let report = change(&mut pages, |change| change.vacuum(1, &mut no_progress()).unwrap());
        let found = check(&pages);
        assert_eq!((found.anchored, found.reachable), (found.nodes, found.nodes), "{report:?} {found:?}");
        if report.steps() == 0 {
            break;
        }
    }
    assert_eq!(row_ids(&pages, &row), (901..=1000).collect());
}

#[test]
fn an_index_whose_rows_are_all_dead_grows_again() {
    let dim = 16;
    let mut rows = Rows::new(dim, embeddings(dim, 400, 5));
    rows.ids = (1..=400).collect();
    for steps in [0, 1, 150, 399, 400, 401, 600, u64::MAX] {
        let mut pages = built(&rows, Metric::L2);
        assert_eq!(remove(&mut pages, &(1..=400).collect()), RemoveReport { left: 0, removed: 400 });
        change(&mut pages, |change| change.vacuum(steps, &mut no_progress()).unwrap());
        assert_eq!((check(&pages).nodes, row_ids(&pages, rows.row(0)).len()), (0, 0));
        let again: BTreeSet<u64> = (1001..=1100).collect();
        for row_id in &again {
            insert(&mut pages, *row_id, rows.row(*row_id as usize - 1001), false);
            assert_eq!(check(&pages).reachable, row_id - 1000, "{steps} steps, row {row_id}");
        }
        vacuum(&mut pages);
        let found = check(&pages);
        assert_eq!((found.nodes, found.dead_nodes, found.anchored), (100, 0, 100), "{steps} steps: {found:?}");
        assert_eq!(row_ids(&pages, rows.row(0)), again, "{steps} steps");
    }
}

#[test]
fn a_prepared_row_gets_the_same_place_as_one_inserted_at_once() {
    let rows = Rows::new(16, embeddings(16, 600, 4));
    let (mut at_once, mut before) = (built(&rows, Metric::L2), built(&rows, Metric::L2));
    let others = embeddings(16, 40, 5);
    for (row_id, vector) in (70_000..).zip(others.chunks_exact(16)) {
        insert(&mut at_once, row_id, vector, false);
        let known = Index::open(before.clone()).unwrap();
        let prepared = known.prepare(vector, row_id % 2 == 0);
        assert!(prepared.is_some());
        let mut writer = before.writer();
        let mut change = known.change(&mut writer).unwrap();
        change.insert_prepared(row_id, vector, &[], prepared, false, &mut no_progress()).unwrap();
        change.finish().unwrap();
    }
    assert!(row_ids(&at_once, &others[..16]) == row_ids(&before, &others[..16]));
    for query in others.chunks_exact(16) {
        let find = |pages: &MemPages| Index::open(pages).unwrap().search_with(query, 5, &EVERYTHING).unwrap().hits;
        assert_eq!(find(&at_once), find(&before));
    }
}

#[test]
fn a_row_that_was_prepared_for_another_model_is_encoded_again() {
    let rows = Rows::new(16, embeddings(16, 600, 4));
    let other = Index::open(built(&Rows::new(16, embeddings(16, 600, 9)), Metric::L2)).unwrap();
    let mut pages = built(&rows, Metric::L2);
    let vector = &embeddings(16, 1, 5)[..];
    change(&mut pages, |change| {
        let foreign = other.prepare(vector, false);
        change.insert_prepared(70_000, vector, &[], foreign, false, &mut no_progress()).unwrap();
    });
    let hit = Index::open(&pages).unwrap().search_with(vector, 1, &EVERYTHING).unwrap().hits[0];
    assert_eq!(hit.row_id, 70_000);
    assert!(hit.distance < 1e-3, "its stored vector is {} away from it", hit.distance);
    let mut empty = MemPages::new();
    create(16, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut empty).unwrap();
    assert!(Index::open(empty).unwrap().prepare(vector, false).is_none(), "it has no model");
}

/// An insertion in two parts: prepare, then insert.
struct Begun<'v> {
    known: Index<MemPages>,
    prepared: Option<Prepared>,
    vector: &'v [f32],
}

impl<'v> Begun<'v> {
    fn new(pages: &MemPages, vector: &'v [f32]) -> Self {
        let known = Index::open(pages.clone()).unwrap();
        let prepared = known.prepare(vector, false);
        assert!(prepared.is_some());
        Self { known, prepared, vector }
    }

    fn end(self, pages: &mut MemPages, row_id: u64) {
        let mut writer = pages.writer();
        let mut change = self.known.change(&mut writer).unwrap();
        change.insert_prepared(row_id, self.vector, &[], self.prepared, false, &mut no_progress()).unwrap();
        change.finish().unwrap();
    }
}

#[test]
fn two_concurrent_insertions_of_the_same_row_share_a_node() {
    let dim = 16;
    let mut pages = built(&Rows::new(dim, embeddings(dim, 600, 4)), Metric::L2);
    for (row_id, vector) in (10_000..).zip(embeddings(dim, 30, 5).chunks_exact(dim)) {
        let (one, other) = (Begun::new(&pages, vector), Begun::new(&pages, vector));
        let before = check(&pages).nodes;
        one.end(&mut pages, row_id);
        other.end(&mut pages, row_id + 10_000);
        assert_eq!(check(&pages).nodes, before + 1, "row {row_id}");
    }
}

#[test]
fn a_row_whose_neighbors_are_removed_between_prepare_and_insert_is_found() {
    let dim = 16;
    let mut rows = Rows::new(dim, embeddings(dim, 600, 4));
    rows.ids = (1..=600).collect();
    let mut pages = built(&rows, Metric::L2);
    for (row_id, vector) in (10_000..).zip(embeddings(dim, 40, 5).chunks_exact(dim)) {
        let begun = Begun::new(&pages, vector);
        let near = Index::open(&pages).unwrap().search_with(vector, 8, &EVERYTHING).unwrap().hits;
        remove(&mut pages, &near.iter().map(|hit| hit.row_id).collect());
        if row_id % 2 == 0 {
            vacuum(&mut pages);
            // Other rows reuse their slots.
            let others = embeddings(dim, 8, row_id);
            near.iter().zip(others.chunks_exact(dim)).for_each(|(hit, other)| {
                insert(&mut pages, 100_000 * row_id + hit.row_id, other, false);
            });
        }
        begun.end(&mut pages, row_id);
        check(&pages);
        let found = Index::open(&pages).unwrap().search_with(vector, 1, &EVERYTHING).unwrap().hits[0];
        assert_eq!(found.row_id, row_id);
    }
}

/// An insertion that reads a damaged page fails. An insertion that does not read it has its normal
/// result.
#[test]
fn an_insertion_that_reads_a_damaged_page_is_refused() {
    let dim = 16;
    let pages = built(&Rows::new(dim, embeddings(dim, 300, 4)), Metric::L2);
    let vector = embeddings(dim, 1, 5);
    let insert = |pages: &mut MemPages| -> Result<(), Error> {
        let known = Index::open(pages.clone())?;
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer)?;
        let prepared = known.prepare(&vector, false);
        change.insert_prepared(9, &vector, &[], prepared, false, &mut no_progress())?;
        change.finish().map(drop)
    };
    let mut sound = pages.clone();
    insert(&mut sound).unwrap();
    let (mut refused, mut untouched) = (0, 0);
    // Kind 2 is a page of nodes: docs/format.md.
    let nodes = (0..pages.page_count()).map(PageId).filter(|page| pages.body(*page)[0] == 2);
    for page in nodes {
        let mut damaged = pages.clone();
        damaged.body_mut(page)[1..].fill(0xFF);
        match insert(&mut damaged) {
            Ok(()) => {
                untouched += 1;
                (0..sound.page_count()).map(PageId).filter(|other| *other != page).for_each(|other| {
                    assert!(damaged.body(other) == sound.body(other), "page {} with damage in {}", other.0, page.0);
                });
            }
            Err(Error::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0 && untouched > 0, "{refused} {untouched}");
}

/// A vacuum visits the nodes in the order of their pages, and puts the dead ones into its list in
/// this order. Later it takes them out of the graph in the reverse order. So each page is changed
/// while it is in memory.
#[test]
fn dead_nodes_are_listed_in_the_order_of_their_pages() {
    const DEAD_PAGE: u8 = 5;
    let mut rows = Rows::new(8, embeddings(8, 3000, 5));
    rows.ids = (1..=3000).collect();
    let mut pages = built(&rows, Metric::L2);
    let mut is_dead = |row_id| row_id % 2 == 0;
    for page in (0..pages.page_count()).step_by(4) {
        change(&mut pages, |change| change.remove_dead_rows(page..page + 4, &mut is_dead).unwrap());
    }
    let number = |body: &[u8], at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
    let mut listed = Vec::new();
    let mut page = number(pages.body(PageId(0)), 144);
    while page != 0 {
        let body = pages.body(PageId(page));
        assert_eq!(body[0] & 0x0F, DEAD_PAGE);
        let count = usize::from(u16::from_le_bytes([body[2], body[3]]));
        listed.extend((0..count).rev().map(|at| number(body, 40 + 12 * at)));
        page = number(body, 4);
    }
    assert_eq!(listed.len(), 1500, "on three pages of the list");
    assert!(listed.is_sorted_by(|a, b| a > b), "the order in which a vacuum takes them");
}
