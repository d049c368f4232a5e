//! The engine on pages with faults: every search, cursor and check gives the same answer as without
//! faults, or an error that says why it does not.
//!
//! `PAGEHOP_SIM_SEED=123` replays one seed. `PAGEHOP_SIM_SEEDS=100000` runs that number of seeds.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagehop_engine::{
    BuildOptions, EachChunk, Error, Found, Hit, Index, Metric, Pages, SearchOptions, VectorSource, build,
};
use pagehop_sim::{Faults, FaultyPages, MemPages, Rng};

/// Dimension, rows and metric of each index that is tested: one for each kind of page layout.
const SHAPES: [(usize, usize, Metric); 4] =
    [(3, 300, Metric::L2), (64, 400, Metric::Cosine), (200, 300, Metric::InnerProduct), (1536, 120, Metric::L2)];
const QUERIES: usize = 4;

struct Rows {
    dim: usize,
    components: Vec<f32>,
}

impl Rows {
    /// Vectors around five centers.
    fn new(dim: usize, count: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut number = || rng.below(1 << 20) as f32 / (1 << 20) as f32 - 0.5;
        let centers: Vec<f32> = (0..5 * dim).map(|_| 3.0 * number()).collect();
        let component = |at: usize| centers[at % dim + at / dim % 5 * dim];
        let components = (0..count * dim).map(|at| component(at) + number()).collect();
        Self { dim, components }
    }

    fn row(&self, number: usize) -> &[f32] {
        &self.components[number * self.dim..][..self.dim]
    }
}

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        self.dim
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let ids: Vec<u64> = (0..(self.components.len() / self.dim) as u64).collect();
        each(&ids, &self.components)
    }
}

/// An index without faults, and its answers.
struct Sound {
    pages: MemPages,
    queries: Rows,
    answers: Vec<Answer>,
    options: SearchOptions,
}

/// The answers to one query: of a search, and of a cursor that returns every row.
#[derive(Debug, PartialEq)]
struct Answer {
    nearest: Vec<Hit>,
    all: Vec<Found>,
}

impl Answer {
    fn new<P: Pages>(index: &Index<P>, query: &[f32], options: &SearchOptions) -> Result<Self, Error> {
        let nearest = index.search_with(query, 10, options)?.hits;
        let mut cursor = index.cursor(query, options)?;
        let mut all = Vec::new();
        while let Some(hit) = cursor.next_hit()? {
            all.push(hit);
        }
        Ok(Self { nearest, all })
    }
}

impl Sound {
    fn new(shape: usize) -> Self {
        let (dim, count, metric) = SHAPES[shape];
        let mut pages = MemPages::new();
        let options = BuildOptions { metric, threads: 1, ..BuildOptions::default() };
        let mut rows = Rows::new(dim, count, 1);
        build(&mut rows, &options, &mut pages, &mut |_| ControlFlow::Continue(()))
            .expect("there are no faults yet");
        let queries = Rows::new(dim, QUERIES, 2);
        let options = SearchOptions::default();
        let index = Index::open(pages.clone()).expect("there are no faults yet");
        let answers = (0..QUERIES)
            .map(|query| Answer::new(&index, queries.row(query), &options))
            .map(|answer| answer.expect("there are no faults yet"))
            .collect();
        Self { pages, queries, answers, options }
    }
}

#[test]
fn faults_change_no_answer_and_cause_no_panic() {
    let sound: Vec<Sound> = (0..SHAPES.len()).map(Sound::new).collect();
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a seed is a number"));
    let first: Option<u64> = number("PAGEHOP_SIM_SEED");
    let count = number("PAGEHOP_SIM_SEEDS").unwrap_or(if first.is_some() { 1 } else { 1000 });
    let mut survived = [0; 2];
    for seed in (first.unwrap_or(0)..).take(count as usize) {
        let sound = &sound[seed as usize % SHAPES.len()];
        let faults = Faults::from_seed(seed);
        let tried = catch_unwind(AssertUnwindSafe(|| try_faults(sound, &faults)));
        match tried {
            Ok(Ok(whole)) => survived[usize::from(whole)] += 1,
            Ok(Err(what)) => panic!("PAGEHOP_SIM_SEED={seed}: {what}; {faults:?}"),
            Err(_) => panic!("PAGEHOP_SIM_SEED={seed}: the engine panicked; {faults:?}"),
        }
    }
    // Both kinds of runs must occur: with an error and without one.
    assert!(count < 100 || survived.iter().all(|&runs| runs > count / 10), "{survived:?}");
}

/// Opens, searches and checks an index with `faults`. Returns whether no error occurred.
fn try_faults(sound: &Sound, faults: &Faults) -> Result<bool, String> {
    let pages = FaultyPages::new(sound.pages.clone(), faults.clone());
    let harmless = pages.damaged().is_empty() && faults.fail_read.is_none();
    let index = match Index::open(pages) {
        Ok(index) => index,
        Err(error) => return acceptable(&error, harmless),
    };
    let mut whole = true;
    for (query, answer) in sound.answers.iter().enumerate() {
        match Answer::new(&index, sound.queries.row(query), &sound.options) {
            Err(error) => whole &= acceptable(&error, harmless)?,
            // There are no checksums here, so a damaged page may look valid. The answer may then be
            // wrong, but it must end.
            Ok(found) if !index.pages().damaged().is_empty() => {
                let (rows, slots) = (found.all.len(), slots(&index));
                if rows > slots {
                    return Err(format!("query {query}: {rows} rows from {slots} slots"));
                }
            }
            Ok(found) if found == *answer => {}
            Ok(found) => return Err(format!("query {query}: {found:?}, expected {answer:?}")),
        }
    }
    match index.check(&mut |_| ControlFlow::Continue(())) {
        Err(error) => whole &= acceptable(&error, harmless)?,
        Ok(report) if report.nodes < 1 => return Err(format!("{report:?}")),
        Ok(_) => {}
    }
    index.pages().assert_asked_well();
    Ok(whole)
}

/// The number of nodes that fit on the pages.
fn slots<P: Pages>(index: &Index<P>) -> usize {
    // `info` reads page 0 again if damage makes it look as if there were new commits, and that read
    // may fail.
    index.info().map_or(usize::MAX, |info| info.pages as usize * info.nodes_per_page)
}

/// Returns `Ok(false)` if `faults` may cause this error.
fn acceptable(error: &Error, harmless: bool) -> Result<bool, String> {
    match error {
        Error::Corrupt { .. } | Error::Io { .. } | Error::Format { .. } if !harmless => Ok(false),
        _ => Err(format!("unexpected error: {error:?}")),
    }
}
