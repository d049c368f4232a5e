//! Page neighbors: the rows of a page that a search reads are compared with the query, too. 384
//! dimensions have three nodes a page, 256 have five.

use std::collections::{BTreeSet, HashMap};

use crate::support::{Noise, Rows, built, calibrated, distance, embeddings, index, no_progress, options};
use pagehop_engine::{Index, Metric, PageId, Pages, SearchOptions};
use pagehop_sim::MemPages;

/// Rows in groups of three near ones, which share a page.
fn triples(dim: usize, groups: usize) -> Rows {
    let centers = embeddings(dim, groups, 1);
    let mut noise = Noise(2);
    let near = centers.chunks(dim).flat_map(|center| [center; 3]).flatten();
    Rows::new(dim, near.map(|x| x + 0.02 * noise.gauss()).collect())
}

/// The page of each row.
fn pages_of_rows(pages: &MemPages, per_page: usize) -> HashMap<u64, u32> {
    let stride = 8128 / per_page / 8 * 8;
    let mut found = HashMap::new();
    for page in (1..pages.page_count()).map(PageId) {
        let bytes = pages.body(page);
        for slot in (0..per_page).filter(|_| bytes[0] == 2) {
            let row_id = bytes[40 + slot * stride..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            found.insert(row_id.unwrap(), page.0);
        }
    }
    found
}

/// A row is in the answer if it is nearer than the last one and shares a page with one of them.
#[test]
fn no_row_of_a_page_that_was_read_is_missed() {
    let rows = triples(384, 800);
    let pages = built(&rows, &options(Metric::L2)).unwrap();
    let (index, page_of) = (Index::open(&pages).unwrap(), pages_of_rows(&pages, 3));
    assert_eq!((index.info().unwrap().nodes_per_page, page_of.len()), (3, 2400));
    let least = SearchOptions { search_list: 10, slack: 0.0, ..SearchOptions::default() };
    let (mut missed, mut looked_at) = (0, 0);
    for query in embeddings(384, 200, 3).chunks(384) {
        let result = index.search_with(query, 10, &least).unwrap();
        let (stats, last) = (result.stats, result.hits[9].distance);
        assert!(stats.pages_read <= stats.hops && stats.hops <= stats.distances, "{stats:?}");
        assert!(stats.distances <= 3 * stats.pages_read, "each row of a page is compared once: {stats:?}");
        let all = &index.search_exactly(query, rows.ids.len(), 1, &mut no_progress()).unwrap()[0].hits;
        let is_found = |id: u64| result.hits.iter().any(|hit| hit.row_id == id);
        for row in all.iter().filter(|row| row.distance < last) {
            let page = page_of[&row.row_id];
            let shares_page = result.hits.iter().any(|hit| page_of[&hit.row_id] == page);
            assert!(is_found(row.row_id) || !shares_page, "{row:?}");
            (missed, looked_at) =
                (missed + usize::from(!is_found(row.row_id)), looked_at + usize::from(shares_page));
        }
    }
    assert!(missed > 20 && looked_at > 1500, "{missed} missed, {looked_at} on pages of others");
}

/// Most slots of a page are read only as neighbors of the node that the walk chose.
#[test]
fn a_damaged_neighbor_of_a_node_is_an_error() {
    let rows = triples(384, 200);
    let pages = built(&rows, &options(Metric::L2)).unwrap();
    let page_of = pages_of_rows(&pages, 3);
    let least = SearchOptions { search_list: 10, slack: 0.0, ..SearchOptions::default() };
    let mut as_neighbors = 0;
    for query in embeddings(384, 20, 3).chunks(384) {
        let hits = Index::open(&pages).unwrap().search_with(query, 10, &least).unwrap().hits;
        for slot in 0..3 {
            let mut damaged = pages.clone();
            let page = PageId(page_of[&hits[0].row_id]);
            // The flags of a node follow 16 bytes of it.
            damaged.body_mut(page)[40 + slot * (8128 / 3 / 8 * 8) + 16] ^= 0x10;
            let error = Index::open(&damaged).unwrap().search_with(query, 10, &least).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(&format!("page {} ", page.0)) && said.contains("flags"), "{said}");
            // An edge that leads to the node has another message.
            as_neighbors += usize::from(said.contains(&format!("slot {slot} has flags 0xb1")));
        }
    }
    assert!(as_neighbors > 20, "{as_neighbors} of 60 nodes");
}

#[test]
fn a_cursor_returns_each_row_once_and_in_order() {
    let rows = triples(256, 200);
    let index = index(&rows, Metric::Cosine);
    assert_eq!(index.info().unwrap().nodes_per_page, 5);
    let query = embeddings(256, 1, 7);
    let mut cursor = index.cursor(&query, &SearchOptions { slack: 0.0, ..SearchOptions::default() }).unwrap();
    let found: Vec<_> = std::iter::from_fn(|| cursor.next_hit().unwrap()).collect();
    let ids: BTreeSet<u64> = found.iter().map(|row| row.row_id).collect();
    assert_eq!((found.len(), ids.len()), (600, 600));
    for row in &found {
        let exact = distance(Metric::Cosine, &query, rows.row((row.row_id - rows.ids[0]) as usize / 7)) as f32;
        assert!((row.distance - exact).abs() < 2e-3, "{row:?}, {exact}");
    }
}

/// A row that stands for a query shares its page with its nearest rows because of itself. Were they
/// found with each other, a calibration would promise too much.
#[test]
fn unseen_queries_find_what_was_asked_where_pages_have_several_rows() {
    for dim in [256, 384] {
        let rows = Rows::new(dim, embeddings(dim, 6000, 1));
        let index = index(&rows, Metric::L2);
        let calibration = calibrated(&index);
        let queries = embeddings(dim, 500, 2);
        for wanted in [0.95, 0.99] {
            let options = calibration.plan(10, wanted).options.unwrap();
            let found = index.recall(10, 0, Some(&queries), &options, 2, &mut no_progress()).unwrap().recall;
            println!("{dim} dimensions, {wanted}: {found}, {options:?}");
            let room = 0.25 * (1.0 - wanted) + 0.004;
            assert!((found - wanted).abs() < room, "{dim} dimensions, {wanted}: {found}");
        }
    }
}
