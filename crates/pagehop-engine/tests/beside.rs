//! Training beside insertions: the host has the vectors, and a reader finds all rows at any time.

mod support;

use std::collections::BTreeSet;

use pagehop_engine::{
    Error, HostRows, Index, Metric, OnProgress, RowIds, Scratch, SearchOptions, TrainingHost, create,
};
use pagehop_sim::{MemPages, MemWriter};
use support::hosted::{built, check, insert, remove, row_ids};
use support::{Rows, embeddings, no_progress};

/// Row `id` of the host is at `id - 1`.
struct Host<'p> {
    writer: Option<MemWriter<'p>>,
    rows: &'p Rows,
    asked: Vec<u64>,
}

impl<'p> TrainingHost for Host<'p> {
    type Pages = MemWriter<'p>;

    fn alone(&mut self) -> Result<MemWriter<'p>, Error> {
        Ok(self.writer.take().expect("it is asked for once"))
    }

    fn rows(&mut self, row_ids: &[u64]) -> Result<HostRows, Error> {
        self.asked = row_ids.to_vec();
        let vectors = row_ids.iter().flat_map(|id| self.rows.row(*id as usize - 1).to_vec()).collect();
        Ok(HostRows { row_ids: row_ids.to_vec(), vectors, values: Vec::new() })
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        None
    }
}

/// Trains with the rows of `known`; what `writer` does to the pages is the caller's.
fn train(
    before: &MemPages,
    writer: MemWriter<'_>,
    rows: &Rows,
    known: &[u64],
    progress: OnProgress<'_>,
) -> Result<bool, Error> {
    let values = known.iter().flat_map(|id| rows.row(*id as usize - 1).to_vec()).collect();
    let mut source = Rows { ids: known.to_vec(), ..Rows::new(rows.dim, values) };
    let mut host = Host { writer: Some(writer), rows, asked: Vec::new() };
    let trained =
        Index::open(before.clone()).unwrap().train_beside(&mut source, known, 1 << 30, &mut host, progress);
    assert!(host.asked.iter().all(|id| known.binary_search(id).is_err()), "{:?}", host.asked);
    trained
}

fn grown(rows: &Rows, metric: Metric, count: usize) -> MemPages {
    let mut pages = MemPages::new();
    create(rows.dim, metric, 1, RowIds::HostOwned, &mut pages).unwrap();
    (0..count).for_each(|row| insert(&mut pages, row as u64 + 1, rows.row(row), false));
    pages
}

fn hops(pages: &MemPages, dim: usize) -> f64 {
    let index = Index::open(pages).unwrap();
    let options = SearchOptions { slack: 0.1, ..SearchOptions::default() };
    let queries = embeddings(dim, 200, 77);
    queries.chunks_exact(dim).map(|query| index.search(query, 10, &options).unwrap().stats.hops as f64).sum()
}

/// An insertion trains an index of up to 1,024 rows. Beyond that the index says that it is to be
/// trained, and is then as good as one that was built over all rows.
#[test]
fn an_index_that_grew_is_trained_like_a_new_one() {
    let dim = 40;
    let rows = Rows::new(dim, embeddings(dim, 5000, 5));
    let all: Vec<u64> = (1..=5000).collect();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let mut pages = grown(&rows, metric, 5000);
        let index = Index::open(pages.clone()).unwrap();
        assert_eq!(index.info().unwrap().trained_rows, 512);
        assert!(index.wants_training().unwrap());
        assert_eq!(index.host_row_ids(&mut pages.clone().writer()).unwrap(), all);
        // As if 300 rows had come since.
        let known = &all[..4700];
        let before = pages.clone();
        assert!(train(&before, pages.writer(), &rows, known, &mut no_progress()).unwrap());
        let index = Index::open(pages.clone()).unwrap();
        let info = index.info().unwrap();
        assert_eq!((info.rows, info.trained_rows), (5000, 4700), "{metric:?}");
        assert!(!index.wants_training().unwrap());
        assert_eq!(check(&pages).nodes, 5000);
        assert_eq!(row_ids(&pages, rows.row(0)), all.iter().copied().collect());
        let fresh = built(&Rows { ids: all.clone(), ..rows.clone() }, metric);
        let ratio = hops(&pages, dim) / hops(&fresh, dim);
        assert!((0.9..1.05).contains(&ratio), "{metric:?}: {ratio}");
        // The pages of the old graph serve new rows.
        (0..3).for_each(|_| pages.writer().commit());
        insert(&mut pages, 9000, rows.row(1), false);
        insert(&mut pages, 9001, rows.row(2), false);
        assert!(Index::open(&pages).unwrap().info().unwrap().free_slots > 4000);
        check(&pages);
        // Another training comes too late, and changes nothing.
        let (before, mut later) = (pages.clone(), pages.clone());
        assert!(!train(&before, later.writer(), &rows, known, &mut no_progress()).unwrap());
        assert_eq!(row_ids(&later, rows.row(0)), row_ids(&pages, rows.row(0)));
    }
}

/// A reader finds every row after every step, and so does the next change on the pages that are
/// left if the training ends there.
#[test]
fn a_training_beside_others_may_end_after_any_step() {
    let dim = 20;
    let rows = Rows::new(dim, embeddings(dim, 2000, 6));
    let live: BTreeSet<u64> = (1..=1200).collect();
    let mut pages = grown_without_training(&rows, &live);
    // Versions of rows wait in the pending list, or are in their nodes.
    let live: BTreeSet<u64> = (1..=1250).collect();
    (1201..=1250).for_each(|id| insert(&mut pages, id, rows.row(id as usize - 1), id % 2 == 0));
    let dead: BTreeSet<u64> = (1..=1250).filter(|id| id % 17 == 3).collect();
    remove(&mut pages, &dead);
    let live = &live - &dead;
    let known: Vec<u64> = live.iter().copied().take(live.len() - 20).collect();
    let (mut stops, mut steps) = (Vec::new(), 0);
    let before = pages.clone();
    let writer = pages.writer().with_after_step(Box::new(|pages| {
        steps += 1;
        if steps % 23 == 0 || steps < 4 {
            check(pages);
            assert_eq!(row_ids(pages, rows.row(0)), live);
            stops.push(pages.clone());
        }
    }));
    assert!(train(&before, writer, &rows, &known, &mut no_progress()).unwrap());
    assert!(stops.len() > 5, "{steps} steps");
    for mut stopped in stops {
        insert(&mut stopped, 1999, rows.row(1998), false);
        check(&stopped);
        let found = row_ids(&stopped, rows.row(0));
        assert!(found.is_superset(&live) && found.contains(&1999));
    }
    assert_eq!(row_ids(&pages, rows.row(0)), live);
}

/// An index whose model knows 129 rows: those that come one by one from there train it at 1,032,
/// which is more than an insertion may.
fn grown_without_training(rows: &Rows, live: &BTreeSet<u64>) -> MemPages {
    let ids: Vec<u64> = live.iter().copied().collect();
    let values = ids[..129].iter().flat_map(|id| rows.row(*id as usize - 1).to_vec()).collect();
    let mut pages = built(&Rows { ids: ids[..129].to_vec(), ..Rows::new(rows.dim, values) }, Metric::L2);
    ids[129..].iter().for_each(|id| insert(&mut pages, *id, rows.row(*id as usize - 1), false));
    pages
}
