//! Insertions make landmarks: twice as many as a build makes, and only of rows that exist.

use crate::support::{Rows, built, change, embeddings, no_progress, options, recall, vacuum};
use pagehop_engine::page::{PageId, Pages};
use pagehop_engine::{Index, Metric, SearchOptions};
use pagehop_sim::{Calls, Faults, FaultyPages, MemPages};

const DIM: usize = 96;
/// Dimensions of which few landmarks fill a page.
const WIDE: usize = 2048;
/// Bytes of a landmark on its page: 16, and the edge code, of 1,536 bits at most.
const LANDMARK_BYTES: usize = 16 + 192;
const PAGE_LANDMARKS: usize = (8168 - 16) / LANDMARK_BYTES;

/// The number of landmarks on each page of landmarks.
fn landmarks(pages: &MemPages) -> Vec<usize> {
    let bodies = (1..pages.page_count()).map(|page| pages.body(PageId(page)));
    bodies.filter(|body| body[0] == 13).map(|body| usize::from(u16::from_le_bytes([body[2], body[3]]))).collect()
}

/// Hops and recall of searches that end by their slack.
fn hops(pages: &MemPages, rows: &Rows, queries: &[f32]) -> (f64, f64) {
    let index = Index::open(pages).unwrap();
    let search = SearchOptions { search_list: 400, slack: 0.1, beam_width: 4 };
    let mut searcher = index.searcher();
    let count = queries.len() / rows.dim;
    let hops: u64 = queries
        .chunks_exact(rows.dim)
        .map(|query| searcher.search_with(query, 10, &search).unwrap().stats.hops)
        .sum();
    let index = Index::open(pages.clone()).unwrap();
    (hops as f64 / count as f64, recall(&index, rows, Metric::L2, queries, &search).0)
}

#[test]
fn one_inserted_row_in_four_becomes_a_landmark() {
    let rows = Rows::new(DIM, embeddings(DIM, 4_000, 3));
    let first = Rows::new(DIM, rows.values[..2_000 * DIM].to_vec());
    let mut pages = built(&first, &options(Metric::L2)).unwrap();
    let of_build: usize = landmarks(&pages).iter().sum();
    assert_eq!(of_build, 2_000 / 8);
    // Rows are added in two changes. A change sees the landmarks that it made.
    for (ids, vectors) in rows.ids[2_000..].chunks(1_000).zip(rows.values[2_000 * DIM..].chunks(1_000 * DIM)) {
        change(&mut pages, |change| change.add(ids, vectors, None, &mut no_progress()).unwrap());
        Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
    }
    let made = landmarks(&pages).iter().sum::<usize>() - of_build;
    assert!((made as f64 / 2_000.0 * 4.0 - 1.0).abs() < 0.1, "{made} landmarks of 2,000 rows");
    let fresh = built(&rows, &options(Metric::L2)).unwrap();
    let queries = embeddings(DIM, 500, 4);
    let ((grown, found), (built, in_build)) = (hops(&pages, &rows, &queries), hops(&fresh, &rows, &queries));
    assert!(
        grown < 1.1 * built && found > in_build - 0.02,
        "{grown} hops ({found}), {built} ({in_build}) of a build"
    );
}

#[test]
fn landmarks_of_rows_that_are_gone_make_room_for_others() {
    let count = 500;
    let mut rows = Rows::new(WIDE, embeddings(WIDE, count, 5));
    let mut pages = built(&rows, &options(Metric::L2)).unwrap();
    for round in 0..11 {
        let moved: Vec<f32> = embeddings(WIDE, count, 100 + round).iter().map(|x| x + 0.2).collect();
        rows = Rows::new(WIDE, moved);
        change(&mut pages, |change| change.add(&rows.ids, &rows.values, None, &mut no_progress()).unwrap());
        vacuum(&mut pages);
        Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
        let made = landmarks(&pages);
        assert!(made.iter().all(|count| *count <= PAGE_LANDMARKS), "{made:?}");
        // A page has one node, so the index has as many slots as pages. A page is added while there
        // are fewer landmarks than a quarter of that.
        let most = pages.page_count() as usize / 4 + PAGE_LANDMARKS;
        assert!(made.iter().sum::<usize>() <= most, "{made:?}, {most}");
        assert!(11 * count / 4 > 2 * most, "there is room for half of all that were made");
    }
    let fresh = built(&rows, &options(Metric::L2)).unwrap();
    let queries: Vec<f32> = embeddings(WIDE, 200, 200).iter().map(|x| x + 0.2).collect();
    let ((changed, found), (built, in_build)) = (hops(&pages, &rows, &queries), hops(&fresh, &rows, &queries));
    assert!(
        changed < 1.4 * built && found > in_build - 0.03,
        "{changed} hops ({found}), {built} ({in_build}) of a build"
    );
}

/// The calls that are made when an index is opened, if at most `in_flight` pages are read ahead.
fn calls_of_open(pages: &MemPages, in_flight: usize) -> Calls {
    let faults = Faults { in_flight_max: in_flight, ..Faults::default() };
    let pages = FaultyPages::new(pages.clone(), faults);
    Index::open(&pages).unwrap();
    pages.calls()
}

#[test]
fn the_pages_of_landmarks_are_read_ahead() {
    let (count, more) = (16_384, 400);
    let rows = Rows::new(DIM, embeddings(DIM, count + more, 7));
    let first = Rows::new(DIM, rows.values[..count * DIM].to_vec());
    let mut pages = built(&first, &options(Metric::L2)).unwrap();
    let chain = landmarks(&pages).len() as u64;
    assert!(chain > 2, "{chain}");
    let calls = calls_of_open(&pages, 16);
    assert_eq!((calls.starts, calls.unknown), (chain - 1, 0));
    assert_eq!(calls.finishes, calls_of_open(&pages, 0).finishes);
    // The page of insertions comes first, then those of the build. One more page may look as if it
    // followed.
    change(&mut pages, |change| {
        change.add(&rows.ids[count..], &rows.values[count * DIM..], None, &mut no_progress()).unwrap();
    });
    assert_eq!(landmarks(&pages).len() as u64, chain + 1);
    let calls = calls_of_open(&pages, 16);
    assert!((chain - 1..=chain).contains(&calls.starts) && calls.unknown == 0, "{calls:?}");
    assert_eq!(calls.finishes, calls_of_open(&pages, 0).finishes);
}

/// A search begins at landmarks and offers entry points at its end. It finds the rows that are
/// entry points like all others.
#[test]
fn rows_that_are_entry_points_are_found() {
    let rows = Rows::new(DIM, embeddings(DIM, 6_000, 3));
    let index = Index::open(built(&rows, &options(Metric::L2)).unwrap()).unwrap();
    let mut searcher = index.searcher();
    let options = SearchOptions { search_list: 10, slack: f32::INFINITY, beam_width: 4 };
    let mut finds = |row: &[f32], id: u64| {
        searcher.search_with(row, 10, &options).unwrap().hits.iter().any(|hit| hit.row_id == id)
    };
    let found = rows.values.chunks_exact(DIM).zip(&rows.ids).filter(|(row, id)| finds(row, **id)).count();
    println!("{found} of 6,000 rows find themselves");
    // It was 5,991 when a search began at the nearest entry point, too.
    assert!(found > 5_996, "{found} of 6,000 rows find themselves");
}
