//! Builds that put rows aside: their files come and go, and memory is kept. The measurement runs as
//! a process of its own.

mod support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagehop_engine::{BuildOptions, EachChunk, Error, Progress, VectorSource, build_memory_bytes};
use pagehop_store::OpenOptions;
use support::{Random, Scratch};

const DIM: usize = 64;

/// For this program run again as a child: the path of the index.
const CHILD: &str = "PAGEHOP_TEST_SPILLED";

/// Rows that are made when they are read.
struct Rows(u64);

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let mut random = Random(7);
        for first in (0..self.0).step_by(1000) {
            let ids: Vec<u64> = (first..self.0.min(first + 1000)).collect();
            let mut values = Vec::with_capacity(ids.len() * DIM);
            for _ in &ids {
                let place: Vec<f32> = (0..6).map(|_| random.below(1000) as f32 / 500.0 - 1.0).collect();
                values.extend((0..DIM).map(|at| place[at % 6] * place[(at / 6) % 6] + place[(at * 5) % 6]));
            }
            each(&ids, &values)?;
        }
        Ok(())
    }
}

/// Options with the least memory, which the error names.
fn small(path: &Path, rows: u64) -> BuildOptions {
    let options = BuildOptions { memory_bytes: 1 << 16, threads: 2, calibrate: false, ..BuildOptions::default() };
    let refused = pagehop_store::build(path, &mut Rows(rows), &options, false, &mut |_| ControlFlow::Continue(()));
    let Err(Error::Memory { needed_bytes, .. }) = refused else { panic!("{refused:?}") };
    let memory_bytes = needed_bytes.next_multiple_of(1 << 20);
    assert!(memory_bytes < build_memory_bytes(rows as usize, DIM, 2), "{rows} rows fit in memory");
    BuildOptions { memory_bytes, ..options }
}

#[test]
fn temporary_files_are_gone_after_a_build_and_after_an_error() {
    let scratch = Scratch::new("spilled");
    let path = scratch.path("items.pagehop");
    let options = small(&path, 16_000);
    for stop in ["encode", "spread", "refine", "merge", "write"] {
        let mut go_on = |progress: Progress| match progress.phase == stop {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let built = pagehop_store::build(&path, &mut Rows(16_000), &options, false, &mut go_on);
        assert!(matches!(built, Err(Error::Interrupted)), "{stop}: {built:?}");
        assert!(scratch.names().is_empty(), "{stop} leaves {:?}", scratch.names());
    }
    let built = pagehop_store::build(&path, &mut Rows(16_000), &options, false, &mut |_| ControlFlow::Continue(()));
    assert_eq!(built.unwrap().rows, 16_000);
    assert_eq!(scratch.names(), ["items.pagehop"]);
    let index = pagehop_store::open(&path, &OpenOptions::default()).unwrap();
    let report = index.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!([report.nodes, report.reachable, report.anchored], [16_000; 3]);
}

/// The largest memory of this process so far, files that are mapped included.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn child_builds() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let path = PathBuf::from(path);
    let options = small(&path, 60_000);
    let before = peak_bytes();
    pagehop_store::build(&path, &mut Rows(60_000), &options, false, &mut |_| ControlFlow::Continue(())).unwrap();
    println!("memory {} peak {}", options.memory_bytes, peak_bytes() - before);
}

#[test]
fn the_memory_of_a_build_is_kept() {
    let scratch = Scratch::new("spilled-memory");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_builds", "--nocapture"])
        .env(CHILD, scratch.path("items.pagehop"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let figure = |name: &str| -> u64 {
        let at = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("{output:?}"));
        words[at + 1].parse().unwrap()
    };
    let (memory, peak) = (figure("memory"), figure("peak"));
    println!("{peak} bytes of {memory}");
    // What `small` took before is used again, so a little is not seen.
    assert!(peak < memory, "{peak} bytes of memory, {memory} were allowed");
    assert!(peak > memory / 3, "{peak} bytes of memory are too few to be true, {memory} were allowed");
}
