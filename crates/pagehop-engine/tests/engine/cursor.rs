//! A cursor: its first rows are those of a search, at the cost of that search. All other rows
//! follow, and each comes once.

use crate::support;
use crate::support::{Noise, Rows, change, embeddings, index, no_progress, vacuum};
use pagehop_engine::{Cursor, Found, Index, Metric, Pages, SearchOptions, Stats};

fn options(search_list: usize, slack: f32, beam_width: usize) -> SearchOptions {
    SearchOptions { search_list, slack, beam_width }
}

fn take<P: Pages>(cursor: &mut Cursor<'_, P>, most: usize) -> Vec<Found> {
    let mut rows = Vec::new();
    while rows.len() < most
        && let Some(found) = cursor.next_hit().unwrap()
    {
        rows.push(found);
    }
    rows
}

fn assert_every_row_comes_once<P: Pages>(cursor: &mut Cursor<'_, P>, ids: &[u64], what: &str) {
    let mut found: Vec<u64> = take(cursor, usize::MAX).iter().map(|found| found.row_id).collect();
    found.sort_unstable();
    assert!(found == ids, "{what}: {} of {} rows", found.len(), ids.len());
    assert_eq!(cursor.next_hit().unwrap(), None);
}

/// Clusters without edges between them.
fn clusters(dim: usize, clusters: usize, each: usize) -> Rows {
    let centers = embeddings(dim, clusters, 20);
    let noise = embeddings(dim, clusters * each, 21);
    let shift = |at: usize| 50.0 * centers[at / dim % clusters * dim + at % dim];
    Rows::new(dim, noise.iter().enumerate().map(|(at, x)| x + shift(at)).collect())
}

#[test]
fn the_first_ten_rows_equal_a_search_and_cost_the_same() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let rows = Rows::new(96, embeddings(96, 3000, 1));
        let index = index(&rows, metric);
        let mut searcher = index.searcher();
        for options in [SearchOptions::default(), options(10, 0.1, 1), options(40, f32::INFINITY, 16)] {
            for query in embeddings(96, 30, 2).chunks_exact(96) {
                let expected = searcher.search_with(query, 10, &options).unwrap();
                let mut cursor = index.cursor(query, &options).unwrap();
                let found = take(&mut cursor, 10);
                let hits = expected.hits.iter().map(|hit| (hit.row_id, hit.distance));
                assert!(
                    hits.eq(found.iter().map(|found| (found.row_id, found.distance))),
                    "{metric:?} {options:?}"
                );
                let Stats { hops, pages_read, estimates, distances, .. } = cursor.stats();
                let stats = Stats { hops, pages_read, estimates, distances, ..expected.stats };
                assert_eq!(stats, expected.stats, "{metric:?} {options:?}");
            }
        }
    }
}

#[test]
fn the_expected_number_of_rows_equals_a_search_and_costs_the_same() {
    let rows = Rows::new(96, embeddings(96, 3000, 1));
    let index = index(&rows, Metric::L2);
    let mut reused = index.cursor(rows.row(0), &SearchOptions::default()).unwrap();
    for (k, options) in
        [(1, options(3, 0.0, 4)), (4, options(20, 0.1, 4)), (60, options(70, 0.1, 4)), (300, options(1, 0.2, 4))]
    {
        for query in embeddings(96, 20, 2).chunks_exact(96) {
            let expected = index.search_with(query, k, &options).unwrap();
            reused.rescan(query, &options).unwrap();
            reused.expect(k);
            let found = take(&mut reused, k);
            assert!(expected.hits.iter().map(|hit| hit.row_id).eq(found.iter().map(|found| found.row_id)), "{k}");
            assert_eq!(reused.stats().hops, expected.stats.hops, "{k}");
        }
    }
    reused.rescan(rows.row(5), &SearchOptions::default()).unwrap();
    assert_eq!(reused.ahead().count(), 0);
    reused.expect(2);
    assert!(reused.next_hit().unwrap().is_some());
    assert_eq!(reused.ahead().count(), 1, "the second row");
}

#[test]
fn every_row_comes_once_for_any_options() {
    let (dim, count) = (40, 900);
    let rows = Rows::new(dim, embeddings(dim, count, 3));
    let query = &embeddings(dim, 1, 4)[..];
    let mut sets = vec![("whole", support::built(&rows, &support::options(Metric::L2)).unwrap(), rows.ids.clone())];
    let mut pages = sets[0].1.clone();
    let (gone, rest): (Vec<_>, Vec<_>) = rows.ids.iter().partition(|id| **id % 3 > 0);
    change(&mut pages, |change| change.delete(&gone).unwrap());
    sets.push(("with dead rows", pages.clone(), rest.clone()));
    vacuum(&mut pages);
    sets.push(("after vacuum", pages.clone(), rest));
    // Other rows are in the old slots. Stale edges to the old rows lead to the new ones, with
    // estimates of the old vectors.
    let mut pages = sets[0].1.clone();
    let other = embeddings(dim, count, 5);
    for (ids, vectors) in rows.ids.chunks(60).zip(other.chunks(60 * dim)) {
        change(&mut pages, |change| change.add(ids, vectors, None, &mut no_progress()).unwrap());
        vacuum(&mut pages);
    }
    sets.push(("after all were replaced", pages, rows.ids.clone()));
    let clusters = clusters(dim, 6, 150);
    sets.push((
        "clusters",
        support::built(&clusters, &support::options(Metric::L2)).unwrap(),
        clusters.ids.clone(),
    ));
    for (what, pages, ids) in sets {
        let index = Index::open(pages).unwrap();
        let mut reused = index.cursor(query, &options(1, 0.0, 1)).unwrap();
        assert_every_row_comes_once(&mut reused, &ids, what);
        reused.rescan(clusters.row(7), &SearchOptions::default()).unwrap();
        assert_every_row_comes_once(&mut reused, &ids, what);
        for (search_list, slack) in [(1, 0.2), (12, 0.0), (12, 5.0), (100, 0.2), (100_000, f32::INFINITY)] {
            let mut cursor = index.cursor(query, &options(search_list, slack, 4)).unwrap();
            assert_every_row_comes_once(&mut cursor, &ids, &format!("{what}, {search_list}, {slack}"));
            for expected in [1, 37, 500, 2000] {
                cursor.rescan(query, &options(search_list, slack, 4)).unwrap();
                cursor.expect(expected);
                assert_every_row_comes_once(
                    &mut cursor,
                    &ids,
                    &format!("{what}, {search_list}, {slack}, {expected}"),
                );
            }
        }
    }
}

/// The rows that come before more are expected are the nearest of the first search. Hardly any of
/// them is so far that later rows are nearer.
#[test]
fn more_rows_than_expected_are_found_as_by_a_search_for_them() {
    let dim = 96;
    let rows = Rows::new(dim, embeddings(dim, 3000, 1));
    let index = index(&rows, Metric::L2);
    let (few, many) = (options(40, 0.05, 4), options(120, 0.05, 4));
    let mut cursor = index.cursor(rows.row(0), &few).unwrap();
    let (mut hops, mut common, mut late) = ([0, 0], 0, 0);
    for query in embeddings(dim, 60, 2).chunks_exact(dim) {
        let searched = index.search_with(query, 60, &many).unwrap();
        cursor.rescan(query, &few).unwrap();
        let mut found = take(&mut cursor, 5);
        cursor.expect_more(60, &many).unwrap();
        cursor.expect_more(50, &few).unwrap();
        found.extend(take(&mut cursor, 55));
        late += found.windows(2).filter(|pair| pair[1].distance < pair[0].distance).count();
        common += searched.hits.iter().filter(|hit| found.iter().any(|found| found.row_id == hit.row_id)).count();
        hops[0] += searched.stats.hops;
        hops[1] += cursor.stats().hops;
    }
    assert!(common as f64 > 0.98 * 60.0 * 60.0, "{common} of {}", 60 * 60);
    assert!(hops[1] as f64 <= 1.03 * hops[0] as f64, "{hops:?}");
    assert!(late <= 10, "{late} of {} rows come after a farther one", 60 * 60);
}

#[test]
fn every_row_comes_once_when_more_rows_are_expected() {
    let dim = 40;
    let rows = Rows::new(dim, embeddings(dim, 900, 3));
    let index = index(&rows, Metric::L2);
    for (search_list, slack) in [(1, 0.0), (12, 0.2), (400, f32::INFINITY)] {
        let options = options(search_list, slack, 4);
        for (taken, more) in [(0, 20), (5, 20), (5, 2000), (9, 100), (10, 11), (12, 40), (60, 700), (300, 800)] {
            let mut cursor = index.cursor(&embeddings(dim, 1, 4), &options).unwrap();
            let mut found = take(&mut cursor, taken);
            cursor.expect_more(more, &options).unwrap();
            found.extend(take(&mut cursor, more / 2));
            cursor.expect_any(&options).unwrap();
            found.extend(take(&mut cursor, usize::MAX));
            let mut ids: Vec<u64> = found.iter().map(|found| found.row_id).collect();
            ids.sort_unstable();
            assert_eq!(ids, rows.ids, "{search_list} {slack}: {taken}, {more}");
        }
    }
}

#[test]
fn each_of_a_few_rows_comes_once() {
    for (count, seed) in (1..40).flat_map(|count| [(count, 1), (count, 2)]) {
        let rows = Rows::new(3, embeddings(3, count, seed));
        let index = index(&rows, Metric::L2);
        for options in [options(1, 0.0, 4), options(10, 0.0, 4), options(100, 0.2, 4)] {
            let mut cursor = index.cursor(rows.row(count / 2), &options).unwrap();
            assert_every_row_comes_once(&mut cursor, &rows.ids, &format!("{count} rows, {options:?}"));
        }
    }
}

#[test]
fn a_rescan_is_like_a_new_cursor() {
    let dim = 48;
    let rows = Rows::new(dim, embeddings(dim, 2000, 5));
    let index = index(&rows, Metric::Cosine);
    let mut noise = Noise(6);
    let mut reused = index.cursor(rows.row(0), &SearchOptions::default()).unwrap();
    for query in embeddings(dim, 60, 7).chunks_exact(dim) {
        assert!(reused.rescan(&query[1..], &SearchOptions::default()).is_err(), "a query of another dimension");
        reused.rescan(query, &SearchOptions::default()).unwrap();
        let mut fresh = index.cursor(query, &SearchOptions::default()).unwrap();
        let most = [0, 1, 9, 10, 11, 40, 300][(noise.next() % 7) as usize];
        assert_eq!(take(&mut reused, most), take(&mut fresh, most));
        let missed = fresh.stats().pages_missed;
        assert_eq!(Stats { pages_missed: missed, ..reused.stats() }, fresh.stats());
    }
}

#[test]
fn rows_behind_dead_ones_are_found() {
    let dim = 16;
    let rows = Rows::new(dim, embeddings(dim, 300, 8));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    // Deletes all rows near the query. A list as short as this is then full of dead nodes.
    let near = support::truth(&rows, Metric::L2, rows.row(0), 280);
    change(&mut pages, |change| change.delete(&near).unwrap());
    let index = Index::open(&pages).unwrap();
    let mut cursor = index.cursor(rows.row(0), &options(10, 0.2, 4)).unwrap();
    let found = take(&mut cursor, usize::MAX);
    assert_eq!(found.len(), 20);
    assert!(found.iter().all(|found| !near.contains(&found.row_id)));
}

#[test]
fn rows_after_the_tenth_are_nearly_in_order() {
    let dim = 64;
    let rows = Rows::new(dim, embeddings(dim, 4000, 9));
    let index = index(&rows, Metric::L2);
    let mut common = 0;
    for query in embeddings(dim, 20, 10).chunks_exact(dim) {
        let mut cursor = index.cursor(query, &SearchOptions::default()).unwrap();
        let found = take(&mut cursor, 100);
        let truth = support::truth(&rows, Metric::L2, query, 100);
        common += found.iter().filter(|found| truth.contains(&found.row_id)).count();
    }
    println!("{common} of 2000");
    assert!(common > 1980, "{common} of the 20 times 100 nearest came among the first 100");
}

/// Recall with a filter on the rows of a cursor is nearly the recall without one. The rows must
/// come in order: a row that comes after a farther one is not counted.
#[test]
fn filters_cost_little_recall() {
    let (dim, k) = (24, 10);
    let rows = Rows::new(dim, embeddings(dim, 5000, 3));
    let index = index(&rows, Metric::L2);
    let queries = embeddings(dim, 300, 4);
    let mut found = [0; 4];
    for (found, every) in found.iter_mut().zip([1, 2, 5, 20]) {
        for query in queries.chunks_exact(dim) {
            let passes = |id: &u64| ((id - rows.ids[0]) / 7).is_multiple_of(every);
            let mut truth = support::truth(&rows, Metric::L2, query, 5000);
            truth.retain(passes);
            let mut cursor = index.cursor(query, &options(100, 0.02, 4)).unwrap();
            let (mut wanted, mut farthest) = (Vec::new(), 0.0);
            while wanted.len() < k {
                let hit = cursor.next_hit().unwrap().unwrap();
                if hit.distance >= farthest && passes(&hit.row_id) {
                    wanted.push(hit.row_id);
                }
                farthest = hit.distance.max(farthest);
            }
            *found += wanted.iter().filter(|id| truth[..k].contains(id)).count();
        }
    }
    let recalls = found.map(|found| found as f64 / 3000.0);
    println!("recall of the ten nearest of all, every 2nd, 5th and 20th row: {recalls:?}");
    assert!(recalls[0] > 0.9);
    assert!(recalls.iter().all(|recall| *recall > recalls[0] - 0.05), "{recalls:?}");
}
