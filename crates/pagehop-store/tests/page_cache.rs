//! A build that does not fit into memory keeps to its memory in the system's page cache too.

mod support;

use std::ops::ControlFlow;

use pagehop_engine::{BuildOptions, EachChunk, Error, PAGE_BYTES, Progress, VectorSource, build_memory_bytes_min};
use support::cached::{cached_bytes, is_memory};
use support::{Random, Scratch, is_emulated};

const DIM: usize = 192;
const ROWS: u64 = 16_000;
const CHUNK_ROWS: u64 = 1_000;

/// Bytes for pieces that are read ahead, and for pages of pieces that the system cannot drop yet.
const BESIDE_BYTES: u64 = 1 << 20;

/// Rows around this many centers, which are soon calibrated.
const CENTERS: u64 = 100;

/// Rows that are computed when they are read, so that the source is in no cache.
struct Rows;

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let mut random = Random(7);
        for first in (0..ROWS).step_by(CHUNK_ROWS as usize) {
            let ids: Vec<u64> = (first..first + CHUNK_ROWS).collect();
            let values = ids.iter().flat_map(|id| {
                let mut center = Random(1 + id % CENTERS);
                let mut both = || (center.below(1000) + random.below(300)) as f32 / 500.0;
                (0..DIM).map(|_| both()).collect::<Vec<f32>>()
            });
            each(&ids, &values.collect::<Vec<f32>>())?;
        }
        Ok(())
    }
}

#[test]
fn the_files_of_a_spilled_build_take_a_small_share_of_the_page_cache() {
    let scratch = Scratch::new("page-cache");
    let directory = scratch.path("").canonicalize().unwrap();
    if is_emulated() || is_memory(&directory) {
        println!("not measured: {} is in memory, or an emulator has the system calls", directory.display());
        return;
    }
    let memory_bytes = build_memory_bytes_min(ROWS as usize, DIM, 0, 2).next_multiple_of(1 << 20);
    let options = BuildOptions { memory_bytes, threads: 2, calibrate: true, ..BuildOptions::default() };
    let mut most = Vec::<(&str, u64)>::new();
    let mut go_on = |progress: Progress| {
        let cached = cached_bytes(&directory);
        match most.last_mut().filter(|(phase, _)| *phase == progress.phase) {
            Some((_, most)) => *most = cached.max(*most),
            None => most.push((progress.phase, cached)),
        }
        ControlFlow::Continue(())
    };
    let built = pagehop_store::build(&scratch.path("items.pagehop"), &mut Rows, &options, false, &mut go_on);
    let index_bytes = u64::from(built.unwrap().pages) * PAGE_BYTES as u64;
    println!("{index_bytes} bytes of an index, {memory_bytes} of memory, cached at most: {most:?}");
    assert!(most.iter().any(|(phase, _)| *phase == "spread"), "the rows fit in memory");
    assert!(index_bytes > memory_bytes, "the index would be measured through the page cache");
    // A thirty-second of the memory, as the guide says.
    let limit = memory_bytes / 32 + BESIDE_BYTES;
    assert!(index_bytes > 8 * limit, "an index of {index_bytes} bytes shows little with a limit of {limit}");
    for (phase, cached) in most {
        assert!(cached <= limit, "{cached} bytes are cached in {phase}, {limit} are allowed");
    }
}
