//! Runs the workload on a failing disk, seed by seed. Also proves that the simulation catches a
//! disk that does not keep its guarantees.
//!
//! `PAGEHOP_SIM_SEED=123 cargo test -p pagehop-sim --test crash one_seed -- --nocapture` replays a
//! seed and prints its operations. `PAGEHOP_SIM_SEEDS=100000` runs that number of seeds.

use std::time::Instant;

use pagehop_sim::Lie;
use pagehop_sim::workload::{Outcome, RunOptions, run};

/// Number of seeds without `PAGEHOP_SIM_SEEDS`.
const SEEDS: u64 = 250;
/// Most seeds that are tried until a bug of the disk is caught.
const SEEDS_FOR_A_LIE: u64 = 300;
/// The part of the log that has the images of pages during a checkpoint.
const IMAGES: Lie = Lie::LogWrites { from: 8192, to: 8_409_088 };

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

#[test]
fn an_index_survives_every_fault_of_the_disk() {
    let seeds = number("PAGEHOP_SIM_SEEDS");
    let (began, mut operations, mut violations) = (Instant::now(), 0, 0);
    let (mut vacuumed, mut compactions) = (0, 0);
    for seed in 0..seeds.unwrap_or(SEEDS) {
        match run(seed, &RunOptions::default()) {
            Ok(outcome) => {
                operations += outcome.operations;
                vacuumed += outcome.vacuumed;
                compactions += outcome.compactions;
            }
            Err(violation) if seeds.is_some() => {
                violations += 1;
                println!("{violation}");
            }
            Err(violation) => panic!("{violation}"),
        }
        if seeds.is_some() && seed % 1000 == 999 {
            println!("seed {seed}: {operations} operations, {violations} violations, {:.0?}", began.elapsed());
        }
    }
    assert_eq!(violations, 0, "the violations are printed above");
    println!("{vacuumed} rows vacuumed by calls, {compactions} compactions");
    assert!(vacuumed > 0 && compactions > 0, "{vacuumed} rows vacuumed by calls, {compactions} compactions");
}

#[test]
fn one_seed() {
    let Some(seed) = number("PAGEHOP_SIM_SEED") else { return };
    let options = RunOptions { trace: true, ..RunOptions::default() };
    let outcome = run(seed, &options).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{outcome:#?}");
}

/// Seeds that once found a page 0 that was only in the memory of the system (`page_0.rs`).
#[test]
fn seeds_that_found_a_page_0_in_memory_only() {
    for seed in [740, 1651, 2769, 3334, 3339, 3689] {
        run(seed, &RunOptions::default()).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn a_seed_determines_the_whole_run() {
    for seed in 1000..1010 {
        let runs: Vec<Option<Outcome>> = (0..2).map(|_| run(seed, &RunOptions::default()).ok()).collect();
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

/// Fails unless `lie` is caught by a seed that finds nothing without it. The search starts at
/// `known`, a seed that caught it once. After changes of the code a later seed will.
fn assert_caught(lie: Lie, known: u64) {
    let is_fine = |seed: u64, lie| run(seed, &RunOptions { lie, ..RunOptions::default() }).is_ok();
    let caught = (known..known + SEEDS_FOR_A_LIE).find(|seed| !is_fine(*seed, lie) && is_fine(*seed, Lie::None));
    println!("{lie:?}: seed {caught:?}");
    assert!(caught.is_some(), "{lie:?} was not caught");
}

#[test]
fn a_log_that_is_not_synced_is_caught() {
    assert_caught(Lie::LogSync, 2);
}

#[test]
fn an_index_that_is_not_synced_is_caught() {
    assert_caught(Lie::IndexSync, 0);
}

#[test]
fn a_log_without_page_images_is_caught() {
    assert_caught(IMAGES, 85);
}
