//! Errors and their messages: a user must learn what is wrong, where, and what to do.

use std::ops::ControlFlow;

use crate::support::{Noise, Rows, built, embeddings, index, no_progress, options};
use pagehop_engine::{BuildOptions, Error, Index, Metric, PageId, PageSink, Pages, SearchOptions, build};
use pagehop_sim::MemPages;

fn message<T>(result: Result<T, Error>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn errors_name_the_bad_row() {
    let mut rows = Rows::new(8, embeddings(8, 300, 1));
    rows.values[8 * 250 + 3] = f32::NAN;
    assert_eq!(
        message(built(&rows, &options(Metric::L2))),
        "row 250 (id 1000001757): component 3 of the vector is NaN"
    );
    rows.values[8 * 250 + 3] = f32::NEG_INFINITY;
    assert!(message(built(&rows, &options(Metric::L2))).contains("component 3 of the vector is -inf"));
    rows.values[8 * 250 + 3] = 3e19;
    assert!(message(built(&rows, &options(Metric::L2))).contains("too large"));
    rows.values[8 * 250..8 * 251].fill(0.0);
    assert!(message(built(&rows, &options(Metric::Cosine))).contains("zero vector"));
    built(&rows, &options(Metric::L2)).unwrap();
    rows.ids[7] = rows.ids[90];
    assert!(message(built(&rows, &options(Metric::L2))).contains("is given to rows 7 and 90; each row needs"));
}

#[test]
fn bad_builds_are_refused() {
    assert!(message(built(&Rows::new(8, vec![]), &options(Metric::L2))).contains("no rows"));
    assert!(message(built(&Rows::new(5000, vec![0.0; 5000]), &options(Metric::L2))).contains("1 to 4096"));
    let rows = Rows::new(8, embeddings(8, 300, 1));
    let small = BuildOptions { memory_bytes: 1 << 16, ..options(Metric::L2) };
    let refused = built(&rows, &small);
    assert!(matches!(refused, Err(Error::Memory { needed_bytes, .. }) if needed_bytes > 1 << 16));
    let stop = &mut |_| ControlFlow::Break(());
    let result = build(&mut rows.clone(), &options(Metric::L2), &mut MemPages::new(), stop);
    assert!(matches!(result, Err(Error::Interrupted)));
}

#[test]
fn bad_searches_are_refused() {
    let rows = Rows::new(8, embeddings(8, 300, 1));
    let ix = index(&rows, Metric::Cosine);
    let default = SearchOptions::default();
    assert_eq!(message(ix.search_with(&[1.0; 7], 10, &default)), "the index has 8 dimensions, the vector has 7");
    assert!(message(ix.search_with(&[f32::NAN; 8], 10, &default)).contains("component 0 of the vector is NaN"));
    assert!(message(ix.search_with(&[0.0; 8], 10, &default)).contains("zero vector"));
    assert!(message(ix.search_with(&[1.0; 8], 0, &default)).contains("k is 0"));
    let list = SearchOptions { search_list: 1_000_000, ..default.clone() };
    assert!(message(ix.search_with(&[1.0; 8], 10, &list)).contains("search_list is 1000000"));
    let beam = SearchOptions { beam_width: 0, ..default.clone() };
    assert!(message(ix.search_with(&[1.0; 8], 10, &beam)).contains("beam_width is 0"));
    let slack = SearchOptions { slack: f32::NAN, ..default };
    assert!(message(ix.search_with(&[1.0; 8], 10, &slack)).contains("slack is NaN"));
}

#[test]
fn extreme_scales_still_work() {
    for scale in [1e-18, 1e-6, 1e6, 1e16] {
        let mut rows = Rows::new(16, embeddings(16, 800, 2));
        rows.values.iter_mut().for_each(|v| *v *= scale);
        for metric in [Metric::L2, Metric::InnerProduct] {
            let ix = index(&rows, metric);
            let result = ix.search_with(rows.row(5), 3, &SearchOptions::default()).unwrap();
            assert!(result.hits.iter().all(|hit| hit.distance.is_finite()), "scale {scale}: {result:?}");
            if metric == Metric::L2 && scale > 1e-10 {
                assert_eq!(result.hits[0].row_id, rows.ids[5], "scale {scale}");
            }
        }
    }
}

#[test]
fn unknown_formats_and_versions_are_refused() {
    let rows = Rows::new(8, embeddings(8, 300, 1));
    let pages = built(&rows, &options(Metric::L2)).unwrap();
    for version in [0, 1, 2, 3, 4, 255] {
        let mut other = pages.clone();
        other.body_mut(PageId(0))[8] = version;
        let expected =
            format!("the index has format version {version}; this build reads version 16: rebuild the index");
        assert_eq!(message(Index::open(other)), expected);
    }
    let mut other = pages.clone();
    other.body_mut(PageId(0))[..8].copy_from_slice(b"SQLite f");
    assert_eq!(message(Index::open(other)), "this is not a Pagehop index");
    assert!(Index::open(MemPages::new()).is_err());
}

/// The least number of damaged indexes that are tried, however slow the machine or its emulator is.
const ROUNDS_MIN: u64 = 40;

/// Any bytes in any page give an answer or `Corrupt`, but never a panic or an endless search.
#[test]
fn any_bytes_give_ok_or_corrupt() {
    let seconds = std::env::var("PAGEHOP_FUZZ_SECONDS").map_or(3, |s| s.parse().expect("a number of seconds"));
    let seed = std::env::var("PAGEHOP_FUZZ_SEED").map_or(1, |s| s.parse().expect("a seed"));
    println!("PAGEHOP_FUZZ_SEED={seed} PAGEHOP_FUZZ_SECONDS={seconds}");
    let mut noise = Noise(seed);
    let bases: Vec<MemPages> = [(8, Metric::L2), (100, Metric::InnerProduct), (784, Metric::Cosine)]
        .map(|(dim, metric)| built(&Rows::new(dim, embeddings(dim, 120, 3)), &options(metric)).unwrap())
        .into();
    let dims = [8, 100, 784];
    let start = std::time::Instant::now();
    let mut rounds = 0u64;
    let mut refused = 0u64;
    while start.elapsed().as_secs() < seconds || rounds < ROUNDS_MIN {
        let which = noise.next() as usize % bases.len();
        let mut pages = bases[which].clone();
        for _ in 0..1 + noise.next() % 4 {
            damage(&mut pages, &mut noise);
        }
        let query: Vec<f32> = (0..dims[which]).map(|_| noise.gauss()).collect();
        refused += u64::from(use_everything(pages, &query).is_err());
        rounds += 1;
    }
    println!("{rounds} damaged indexes, {refused} refused");
    assert!(refused > rounds / 10, "too little damage was noticed: {refused} of {rounds}");
}

fn damage(pages: &mut MemPages, noise: &mut Noise) {
    let page = PageId((noise.next() % u64::from(pages.page_count())) as u32);
    // The meta page is small, but most code depends on it, so it is damaged more often.
    let page = if noise.next().is_multiple_of(3) { PageId(0) } else { page };
    let body = pages.body_mut(page);
    let span = if page == PageId(0) { 160 } else { body.len() as u64 };
    let start = (noise.next() % span) as usize;
    match noise.next() % 4 {
        0 => body[start] = noise.next() as u8,
        1 => body[start] ^= 1 << (noise.next() % 8),
        2 => {
            let end = (start + 1 + (noise.next() % 256) as usize).min(body.len());
            body[start..end].fill_with(|| noise.next() as u8);
        }
        _ => {
            let other = PageId((noise.next() % u64::from(pages.page_count())) as u32);
            let copy = pages.body(other).to_vec();
            pages.body_mut(page).copy_from_slice(&copy);
        }
    }
}

fn use_everything(pages: MemPages, query: &[f32]) -> Result<(), Error> {
    let ix = Index::open(pages)?;
    let query: Vec<f32> = query.iter().copied().cycle().take(ix.info().unwrap().dim).collect();
    let searched = ix.search_with(&query, 10, &SearchOptions::default());
    let mut cursor = ix.cursor(&query, &SearchOptions::default())?;
    let mut rows = 0;
    let walked = loop {
        match cursor.next_hit() {
            Ok(Some(_)) => rows += 1,
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    let nodes = u64::from(ix.info().unwrap().pages) * ix.info().unwrap().nodes_per_page as u64;
    assert!(rows <= nodes, "{rows} rows of {nodes} nodes");
    ix.check(&mut no_progress())?;
    searched?;
    walked
}

/// Changes of a damaged index end, with or without an error.
#[test]
fn changes_of_an_index_of_any_bytes_end() {
    let seconds = std::env::var("PAGEHOP_FUZZ_SECONDS").map_or(3, |s| s.parse().expect("a number of seconds"));
    let seed = std::env::var("PAGEHOP_FUZZ_SEED").map_or(2, |s| s.parse().expect("a seed"));
    println!("PAGEHOP_FUZZ_SEED={seed} PAGEHOP_FUZZ_SECONDS={seconds}");
    let mut noise = Noise(seed);
    let bases: Vec<(Rows, MemPages)> = [(8, 900, Metric::L2), (100, 150, Metric::InnerProduct)]
        .map(|(dim, count, metric)| {
            let rows = Rows::new(dim, embeddings(dim, count, 3));
            let mut pages = built(&rows, &options(metric)).unwrap();
            change_everything(&mut pages, &rows, 0).unwrap();
            (rows, pages)
        })
        .into();
    let start = std::time::Instant::now();
    let (mut rounds, mut refused) = (0u64, 0u64);
    while start.elapsed().as_secs() < seconds || rounds < ROUNDS_MIN {
        let (rows, base) = &bases[noise.next() as usize % bases.len()];
        let mut pages = base.clone();
        for _ in 0..1 + noise.next() % 3 {
            damage(&mut pages, &mut noise);
        }
        refused += u64::from(change_everything(&mut pages, rows, 20).is_err());
        rounds += 1;
    }
    println!("{rounds} damaged indexes, {refused} refused");
    assert!(refused > rounds / 20, "too little damage was noticed: {refused} of {rounds}");
}

/// Replaces, deletes and adds a few rows from position `from` on, then vacuums, and leaves a few
/// dead rows.
fn change_everything(pages: &mut MemPages, rows: &Rows, from: usize) -> Result<(), Error> {
    let known = Index::open(pages.clone())?;
    let dim = rows.dim;
    for vacuums in [false, true, false] {
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer)?;
        change.add(
            &rows.ids[from..from + 4],
            &rows.values[(from + 50) * dim..(from + 54) * dim],
            None,
            &mut no_progress(),
        )?;
        change.delete(&rows.ids[from + 4..from + 12])?;
        if vacuums {
            change.vacuum(10, &mut no_progress())?;
        }
        change.add(
            &rows.ids[from + 4..from + 8],
            &rows.values[from * dim..(from + 4) * dim],
            None,
            &mut no_progress(),
        )?;
        change.finish()?;
        writer.commit();
    }
    Ok(())
}

#[test]
fn a_failing_sink_fails_the_build() {
    struct Full(u32);
    impl PageSink for Full {
        fn write(&mut self, page: PageId, _: &[u8]) -> Result<(), Error> {
            self.0 += 1;
            if self.0 < 5 {
                return Ok(());
            }
            Err(Error::io(format!("write of page {}", page.0), std::io::ErrorKind::StorageFull.into()))
        }
    }
    let rows = Rows::new(64, embeddings(64, 300, 1));
    let result = build(&mut rows.clone(), &options(Metric::L2), &mut Full(0), &mut no_progress());
    assert!(message(result).contains("write of page"));
}

/// A page of zeros looks like one of free slots.
#[test]
fn a_page_of_zeros_is_not_taken_for_free_slots() {
    let rows = Rows::new(8, embeddings(8, 300, 1));
    let pages = built(&rows, &options(Metric::L2)).unwrap();
    let all = SearchOptions { search_list: 1000, slack: f32::INFINITY, ..SearchOptions::default() };
    let mut damaged = 0;
    for page in (1..pages.page_count()).map(PageId).filter(|page| pages.body(*page)[0] == 2) {
        let mut pages = pages.clone();
        pages.body_mut(page).fill(0);
        let index = Index::open(pages).unwrap();
        let said = message(index.search_with(rows.row(0), 300, &all));
        assert!(said.contains(&format!("page {} is corrupt", page.0)), "{said}");
        damaged += 1;
    }
    assert!(damaged > 10, "{damaged}");
}
