//! Builds that go on after the partitions that a killed build has finished, if the host keeps them.

use std::cell::RefCell;
use std::ops::ControlFlow;

use crate::support::spilling::Spilling;
use crate::support::{Noise, Rows, embeddings, is_long, metrics, no_progress, options};
use pagehop_engine::Vectors::{Codes, Float16};
use pagehop_engine::{
    BuildOptions, EachChunk, Error, Metric, PageId, Pages, VectorSource, build, build_memory_bytes_min,
};

const DIM: usize = 48;
const COUNT: usize = 6_000;

type Kept = RefCell<(u64, Vec<Vec<u8>>)>;

fn rows() -> Rows {
    Rows::new(DIM, embeddings(DIM, COUNT, 1))
}

fn small(metric: Metric) -> BuildOptions {
    BuildOptions { memory_bytes: build_memory_bytes_min(COUNT, DIM, 0, 2), ..options(metric) }
}

fn bodies(sink: &Spilling) -> Vec<Vec<u8>> {
    (0..sink.pages.page_count()).map(|page| sink.pages.body(PageId(page)).to_vec()).collect()
}

/// Builds with the kept work. Returns the pages, the number of rows that were connected already,
/// the number of rows that were refined, and the work that is kept then.
fn resumed(rows: &Rows, options: &BuildOptions, kept: Kept) -> (Vec<Vec<u8>>, u64, u64, Kept) {
    let mut sink = Spilling { kept: Some(kept), ..Spilling::default() };
    let (mut old, mut refined, mut last) = (0, 0, 0);
    let report = &mut |progress: pagehop_engine::Progress| {
        match progress.phase {
            "resume" => (old, last) = (progress.done, progress.done),
            "refine" => {
                refined += progress.done.saturating_sub(last);
                last = last.max(progress.done);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    build(&mut rows.clone(), options, &mut sink, report).unwrap();
    (bodies(&sink), old, refined, sink.kept.unwrap())
}

#[test]
fn a_build_goes_on_after_what_was_finished_and_gives_the_same_index() {
    for metric in metrics() {
        let (rows, options) = (rows(), small(metric));
        let (whole, old, refined, kept) = resumed(&rows, &options, Kept::default());
        assert_eq!(old, 0);
        assert!(refined > COUNT as u64 / 2);
        let all = kept.borrow().1.len();
        assert!(all > 3, "{all} partitions");
        for finished in [0, 1, all - 1, all] {
            let (key, work) = kept.borrow().clone();
            let some = RefCell::new((key, work[..finished].to_vec()));
            let (pages, old, less, again) = resumed(&rows, &options, some);
            assert!(pages == whole, "{finished} of {all} partitions gave another index");
            assert_eq!(old > 0, finished > 0);
            assert_eq!(less == 0, finished == all);
            assert!(old + less <= COUNT as u64);
            assert_eq!(again.borrow().1, work, "the same work is kept");
        }
    }
}

#[test]
fn other_rows_options_or_memory_begin_again() {
    let (rows, options) = (rows(), small(Metric::L2));
    let (_, _, _, kept) = resumed(&rows, &options, Kept::default());
    let mut changed = rows.clone();
    changed.values[COUNT * DIM / 2] += 0.5;
    let mut fewer = rows.clone();
    fewer.ids.pop();
    fewer.values.truncate((COUNT - 1) * DIM);
    let seed = BuildOptions { seed: options.seed + 1, ..options.clone() };
    let memory = BuildOptions { memory_bytes: options.memory_bytes + (1 << 20), ..options.clone() };
    for (what, rows, options) in [
        ("a vector", &changed, &options),
        ("a row", &fewer, &options),
        ("the seed", &rows, &seed),
        ("the memory", &rows, &memory),
        ("the metric", &rows, &small(Metric::Cosine)),
    ] {
        let (_, old, _, _) = resumed(rows, options, kept.clone());
        assert_eq!(old, 0, "another {what} was not noticed");
    }
    // Partitions do not depend on ids.
    let mut named = rows.clone();
    named.ids.iter_mut().for_each(|id| *id += 1);
    assert_eq!(resumed(&named, &options, kept).1, COUNT as u64);
}

#[test]
fn damaged_work_is_refused_or_does_no_harm() {
    let (rows, options) = (rows(), small(Metric::L2));
    let (whole, _, _, kept) = resumed(&rows, &options, Kept::default());
    let mut noise = Noise(5);
    for round in 0..if is_long() { 8 } else { 4 } {
        let (key, mut work) = kept.borrow().clone();
        let (at, mut draw) = (round % work.len(), || noise.unit().abs());
        let length = work[at].len();
        match round % 4 {
            0 => work[at].truncate((length as f32 * draw()) as usize),
            1 => work[at][..12].fill(0xff),
            2 => work.swap(0, 1),
            // Writes a number that is not the number of a row, at a random place.
            _ => {
                let word = (length as f32 * draw()) as usize / 4 * 4;
                work[at][word.min(length - 4)..][..4].fill(0xff);
            }
        }
        let (pages, old, ..) = resumed(&rows, &options, RefCell::new((key, work)));
        assert!(old < COUNT as u64, "damaged work was taken in round {round}");
        assert!(pages == whole, "round {round}");
    }
}

/// A change of rows, and the text of the error for it.
type Change = (fn(&mut Rows), &'static str);

/// Rows that change after some scans.
struct Changing {
    rows: Rows,
    scans: usize,
    change: fn(&mut Rows),
}

impl VectorSource for Changing {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        if self.scans == 0 {
            (self.change)(&mut self.rows);
        }
        self.scans = self.scans.wrapping_sub(1);
        self.rows.scan(each)
    }
}

#[test]
fn a_source_that_changes_between_scans_is_an_error() {
    let vector = |rows: &mut Rows| rows.values[7 * DIM] += 0.25;
    let id = |rows: &mut Rows| *rows.ids.last_mut().unwrap() += 1;
    let fewer = |rows: &mut Rows| {
        rows.ids.pop();
        rows.values.truncate(rows.ids.len() * DIM);
    };
    let changes: [Change; 3] = [(vector, "other vectors"), (id, "other rows"), (fewer, "fewer rows")];
    let in_memory = Rows::new(DIM, embeddings(DIM, 1_000, 1));
    for (rows, memory_bytes) in [(rows(), small(Metric::L2).memory_bytes), (in_memory, 1 << 30)] {
        // Vectors that are kept are read in a third scan.
        let errors = changes.into_iter().flat_map(|(change, says)| {
            [(Codes, 1), (Float16, 2)].map(|(vectors, scans)| (change, says, vectors, scans))
        });
        let sound = [(Codes, 0), (Codes, 2)].map(|(vectors, scans)| (changes[0].0, "", vectors, scans));
        for (change, says, vectors, scans) in errors.chain(sound) {
            let options = BuildOptions { memory_bytes, vectors, ..options(Metric::L2) };
            let is_sound = says.is_empty();
            let mut source = Changing { rows: rows.clone(), scans, change };
            match build(&mut source, &options, &mut Spilling::default(), &mut no_progress()) {
                Ok(_) => assert!(is_sound, "{says} in scan {scans}, {vectors:?}"),
                Err(Error::Argument { what }) => assert!(!is_sound && what.reason.contains(says), "{says}: {what}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
