//! Rows are added, replaced and deleted. After every operation the structure is valid and the index
//! has the right rows. At the end, recall is that of a new build.

use std::collections::BTreeMap;

use crate::support;
use crate::support::{Noise, Rows, change, embeddings, no_progress, recall, vacuum};
use pagehop_engine::{AddReport, CheckReport, CreateOptions, Index, Metric, SearchOptions, create};
use pagehop_sim::MemPages;

const EXPAND_ALL: SearchOptions = SearchOptions { search_list: 100, slack: f32::INFINITY, beam_width: 4 };

fn empty(dim: usize, metric: Metric) -> MemPages {
    let mut pages = MemPages::new();
    create(dim, &CreateOptions { metric, ..CreateOptions::default() }, &mut pages).unwrap();
    pages
}

fn add(pages: &mut MemPages, ids: &[u64], vectors: &[f32]) -> AddReport {
    change(pages, |change| change.add(ids, vectors, None, &mut no_progress()).unwrap())
}

fn add_in_batches(pages: &mut MemPages, rows: &Rows, batch: usize) {
    for (ids, vectors) in rows.ids.chunks(batch).zip(rows.values.chunks(batch * rows.dim)) {
        add(pages, ids, vectors);
    }
}

fn check(pages: &MemPages) -> CheckReport {
    Index::open(pages).unwrap().check(&mut no_progress()).unwrap()
}

/// All rows of the index, from a cursor: their ids, and their distances to one query.
fn all_rows(pages: &MemPages, dim: usize) -> BTreeMap<u64, f32> {
    let index = Index::open(pages).unwrap();
    let mut cursor = index.cursor(&vec![0.25; dim], &EXPAND_ALL).unwrap();
    let mut rows = BTreeMap::new();
    while let Some(hit) = cursor.next_hit().unwrap() {
        assert!(rows.insert(hit.row_id, hit.distance).is_none(), "row {} came twice", hit.row_id);
    }
    rows
}

#[test]
fn an_empty_index_answers_and_grows_row_by_row() {
    for (dim, metric) in [(3, Metric::L2), (70, Metric::Cosine), (100, Metric::InnerProduct), (1100, Metric::L2)] {
        let rows = Rows::new(dim, embeddings(dim, 150, 5));
        let mut pages = empty(dim, metric);
        assert!(Index::open(&pages).unwrap().search_with(rows.row(0), 5, &EXPAND_ALL).unwrap().hits.is_empty());
        assert_eq!(check(&pages).nodes, 0);
        for i in 0..rows.ids.len() {
            let report = add(&mut pages, &rows.ids[i..=i], rows.row(i));
            assert_eq!(report, AddReport { added: 1, ..AddReport::default() });
            let found = check(&pages);
            assert_eq!((found.nodes, found.reachable), (i as u64 + 1, i as u64 + 1), "{dim} {metric:?} row {i}");
        }
        let index = Index::open(pages).unwrap();
        let (recall, ..) = recall(&index, &rows, metric, &embeddings(dim, 20, 6), &EXPAND_ALL);
        assert!(recall > 0.99, "{dim} {metric:?}: {recall}");
        assert_eq!(index.info().unwrap().rows, 150);
    }
}

/// After every step, the state that a crash would leave is checked, and readers see the last
/// commit.
#[test]
fn every_step_leaves_a_valid_index() {
    let dim = 24;
    let rows = Rows::new(dim, embeddings(dim, 700, 5));
    let mut pages = empty(dim, Metric::L2);
    add(&mut pages, &rows.ids[..300], &rows.values[..300 * dim]);
    let mut steps = 0;
    let mut noise = Noise(9);
    for round in 0..3 {
        let before = all_rows(&pages, dim);
        let commit = Index::open(&pages).unwrap().info().unwrap().commit;
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer().with_after_step(Box::new(|pages| {
            steps += 1;
            check(pages);
            // The last step writes the number of the commit, which makes its rows visible.
            let is_open = Index::open(pages).unwrap().info().unwrap().commit == commit;
            if steps % 16 == 0 && is_open {
                assert!(all_rows(pages, dim) == before, "a reader sees rows that are not committed");
            }
        }));
        let mut change = known.change(&mut writer).unwrap();
        let picked: Vec<usize> = (0..12).map(|_| (noise.next() % 700) as usize).collect();
        for i in &picked {
            let j = (i + 350 * (round % 2)) % 700;
            change.add(&rows.ids[*i..=*i], rows.row(j), None, &mut no_progress()).unwrap();
        }
        let gone: Vec<u64> = (0..8).map(|_| rows.ids[(noise.next() % 300) as usize]).collect();
        change.delete(&gone).unwrap();
        change.vacuum(6, &mut no_progress()).unwrap();
        change.finish().unwrap();
        writer.commit();
        check(&pages);
    }
    assert!(steps > 300, "{steps}");
}

#[test]
fn rows_are_replaced_deleted_and_added_again() {
    let dim = 48;
    let rows = Rows::new(dim, embeddings(dim, 1000, 5));
    let mut pages = empty(dim, Metric::L2);
    add(&mut pages, &rows.ids[..500], &rows.values[..500 * dim]);
    // Equal vectors change nothing. Other vectors under the same ids replace the old ones.
    let again = add(&mut pages, &rows.ids[..20], &rows.values[..20 * dim]);
    assert_eq!(again, AddReport { unchanged: 20, ..AddReport::default() });
    let other = add(&mut pages, &rows.ids[..20], &rows.values[500 * dim..520 * dim]);
    assert_eq!(other, AddReport { replaced: 20, ..AddReport::default() });
    assert_eq!(Index::open(&pages).unwrap().info().unwrap().rows, 500);
    let hits = Index::open(&pages).unwrap().search_with(rows.row(503), 1, &EXPAND_ALL).unwrap().hits;
    assert_eq!(hits[0].row_id, rows.ids[3]);
    // Unknown ids are reported. An id that is given twice is unknown the second time.
    let ids = [rows.ids[100], 1, rows.ids[101], rows.ids[100]];
    let report = change(&mut pages, |change| change.delete(&ids).unwrap());
    assert_eq!((report.deleted, report.unknown), (2, vec![1, rows.ids[100]]));
    assert!(!all_rows(&pages, dim).contains_key(&rows.ids[100]));
    let back = add(&mut pages, &rows.ids[100..102], &rows.values[100 * dim..102 * dim]);
    assert_eq!(back.added, 2);
    assert_eq!(all_rows(&pages, dim).len(), 500);
    assert_eq!(check(&pages).dead_nodes, 22);
    let report = vacuum(&mut pages);
    assert_eq!((report.freed, report.waiting), (22, 0));
    let found = check(&pages);
    assert_eq!((found.nodes, found.dead_nodes, found.reachable), (500, 0, 500));
}

#[test]
fn everything_can_be_deleted_and_added_again() {
    let dim = 32;
    let rows = Rows::new(dim, embeddings(dim, 400, 5));
    let mut pages = empty(dim, Metric::L2);
    for round in 0..3 {
        add_in_batches(&mut pages, &rows, 50);
        assert_eq!(all_rows(&pages, dim).len(), 400, "round {round}");
        change(&mut pages, |change| change.delete(&rows.ids).unwrap());
        assert!(all_rows(&pages, dim).is_empty());
        assert_eq!(vacuum(&mut pages).freed, 400);
        assert_eq!(check(&pages).nodes, 0);
    }
    let before = pagehop_engine::Pages::page_count(&pages);
    add_in_batches(&mut pages, &rows, 50);
    assert!(pagehop_engine::Pages::page_count(&pages) <= before + 4, "space is not reused");
    assert_eq!(check(&pages).reachable, 400);
}

#[test]
fn a_reader_of_an_old_snapshot_keeps_its_rows() {
    let dim = 32;
    let rows = Rows::new(dim, embeddings(dim, 300, 5));
    let mut pages = empty(dim, Metric::L2);
    add(&mut pages, &rows.ids, &rows.values);
    change(&mut pages, |change| change.delete(&rows.ids[..50]).unwrap());
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer().with_oldest_snapshot(1);
    let mut change = known.change(&mut writer).unwrap();
    let report = change.vacuum(u64::MAX, &mut no_progress()).unwrap();
    assert_eq!((report.freed, report.waiting), (0, 50));
    change.finish().unwrap();
    writer.commit();
    assert_eq!(vacuum(&mut pages).freed, 50);
}

/// Compares recall, pages per query and size with those of a new build, after all rows were
/// replaced.
#[test]
fn replacing_every_row_gives_an_index_like_a_fresh_build() {
    let (dim, count) = (64, 3000);
    let queries = embeddings(dim, 200, 7);
    let old = Rows::new(dim, embeddings(dim, count, 5));
    let new = Rows::new(dim, embeddings(dim, count, 6));
    let fresh = support::built(&new, &support::options(Metric::L2)).unwrap();
    let mut pages = support::built(&old, &support::options(Metric::L2)).unwrap();
    for (ids, vectors) in new.ids.chunks(100).zip(new.values.chunks(100 * dim)) {
        assert_eq!(add(&mut pages, ids, vectors).replaced, 100);
        vacuum(&mut pages);
    }
    let found = check(&pages);
    assert_eq!((found.nodes, found.dead_nodes), (count as u64, 0));
    assert_eq!((found.reachable, found.anchored), (found.nodes, found.nodes), "{found:?}");
    assert!(found.stale_edges * 20 < found.edges, "{found:?}");
    let sizes = (pagehop_engine::Pages::page_count(&pages), pagehop_engine::Pages::page_count(&fresh));
    assert!(f64::from(sizes.0) < 1.15 * f64::from(sizes.1), "{sizes:?} {found:?}");
    let options = SearchOptions { search_list: 100, slack: 0.2, beam_width: 4 };
    let (fresh, pages) = (Index::open(fresh).unwrap(), Index::open(pages).unwrap());
    let (fresh_recall, fresh_pages, _) = recall(&fresh, &new, Metric::L2, &queries, &options);
    let (recall, pages, _) = recall(&pages, &new, Metric::L2, &queries, &options);
    assert!(recall > fresh_recall - 0.01, "recall {recall}, fresh {fresh_recall}");
    // A build chooses among all rows which of them share a page, and its landmarks are right. An
    // insertion takes a free slot, and leaves landmarks as they are.
    assert!(pages < 1.4 * fresh_pages, "{pages} pages per query, fresh {fresh_pages}");
}

/// Rows without structure are the hardest case for vacuum: the search of a repair does not find
/// most nodes that have an edge to the dead node.
#[test]
fn vacuum_keeps_every_row_of_noise_reachable() {
    let (dim, count) = (64, 2500);
    let mut noise = Noise(9);
    let uniform = |noise: &mut Noise| (0..count * dim).map(|_| (noise.next() >> 40) as f32).collect();
    let rows = Rows::new(dim, uniform(&mut noise));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    for round in 0..3 {
        let other: Vec<f32> = uniform(&mut noise);
        add(&mut pages, &rows.ids[..count / 2], &other[..count / 2 * dim]);
        vacuum(&mut pages);
        let found = check(&pages);
        let all = count as u64;
        assert_eq!((found.nodes, found.reachable, found.anchored), (all, all, all), "{round}: {found:?}");
    }
}

#[test]
fn equal_rows_are_all_found() {
    let (dim, count) = (24, 1500);
    let rows = Rows::new(dim, vec![0.5; count * dim]);
    let mut pages = empty(dim, Metric::L2);
    add_in_batches(&mut pages, &rows, 100);
    let found = check(&pages);
    let all = count as u64;
    assert_eq!((found.nodes, found.reachable, found.anchored), (all, all, all), "{found:?}");
    assert_eq!(all_rows(&pages, dim).len(), count);
}

/// After any sequence of changes, every row is reachable from the entry points, and a search finds
/// `k` rows.
#[test]
fn every_row_stays_reachable() {
    for seed in 0..60 {
        let mut noise = Noise(seed);
        let dim = 3 + (noise.next() % 20) as usize;
        let rows = Rows::new(dim, embeddings(dim, 400, seed));
        let mut pages = empty(dim, Metric::L2);
        let mut living: Vec<usize> = Vec::new();
        for operation in 0..25 {
            match noise.next() % 3 {
                0 => {
                    let first = (noise.next() % 370) as usize;
                    let last = first + 1 + (noise.next() % 30) as usize;
                    add(&mut pages, &rows.ids[first..last], &rows.values[first * dim..last * dim]);
                    living.extend((first..last).filter(|row| !living.contains(row)).collect::<Vec<_>>());
                }
                1 => {
                    let count = noise.next() as usize % (living.len() + 1);
                    let gone: Vec<u64> = living.drain(..count).map(|row| rows.ids[row]).collect();
                    change(&mut pages, |change| change.delete(&gone).unwrap());
                }
                _ => {
                    let most = if noise.next().is_multiple_of(2) { u64::MAX } else { 5 };
                    change(&mut pages, |change| change.vacuum(most, &mut no_progress()).unwrap());
                }
            }
            let found = check(&pages);
            assert_eq!(
                (found.nodes, found.reachable, found.anchored),
                (living.len() as u64, living.len() as u64, living.len() as u64),
                "{seed} {operation}"
            );
            let index = Index::open(&pages).unwrap();
            let hits = index.search_with(rows.row(7), 10, &SearchOptions::default()).unwrap().hits;
            assert_eq!(hits.len(), living.len().min(10), "{seed} {operation}: {found:?}");
        }
    }
}

/// Under the inner product, the extra dimension has room only for norms up to that of the longest
/// row of the training. A young index is built again when longer rows come, and then has room for
/// more.
#[test]
fn rows_with_larger_norms_can_be_added_under_the_inner_product() {
    let dim = 40;
    let rows = Rows::new(dim, embeddings(dim, 300, 5));
    let mut pages = empty(dim, Metric::InnerProduct);
    add(&mut pages, &rows.ids[..200], &rows.values[..200 * dim]);
    let longer = Rows { values: rows.values.iter().map(|x| 1.3 * x).collect(), ..rows.clone() };
    add(&mut pages, &rows.ids[200..], &longer.values[200 * dim..]);
    check(&pages);
    let mut all = rows.clone();
    all.values[200 * dim..].copy_from_slice(&longer.values[200 * dim..]);
    let index = Index::open(pages).unwrap();
    let (recall, ..) = recall(&index, &all, Metric::InnerProduct, &embeddings(dim, 30, 6), &EXPAND_ALL);
    assert!(recall > 0.98, "{recall}");
}

/// The cost of a repair must not grow with the number of dead rows, even if hardly any live row is
/// left to repair with.
#[test]
fn vacuum_takes_few_steps_when_nearly_all_rows_are_dead() {
    let (dim, count) = (24, 1500);
    let rows = Rows::new(dim, embeddings(dim, count, 5));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    change(&mut pages, |change| change.delete(&rows.ids[4..]).unwrap());
    let mut steps = 0u64;
    loop {
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer().with_after_step(Box::new(|_| steps += 1));
        let mut change = known.change(&mut writer).unwrap();
        let report = change.vacuum(u64::MAX, &mut no_progress()).unwrap();
        change.finish().unwrap();
        writer.commit();
        if report.steps() == 0 {
            break;
        }
    }
    let found = check(&pages);
    assert_eq!((found.nodes, found.anchored, found.dead_nodes), (4, 4, 0), "{found:?}");
    assert!(steps < 40 * count as u64, "{steps} steps");
}
