//! Random histories of an index on a disk that fails. A seed determines the operations, when the
//! power is lost, and which calls fail. A model says which rows must be found afterwards.
//!
//! - `plan.rs`: the choices of a seed before it runs.
//! - `data.rs`, `columns.rs`: rows, distances, brute force; values of columns, filters.
//! - `ids.rs`: the ids of rows in the form that the index has, numbers or texts.
//! - `model.rs`: the versions that may be found after what happened.
//! - `verify.rs`: compares an open index with a version.
//! - `outcome.rs`: the counters of a run, and why an operation did not succeed.
//! - `world.rs`: the state of a run; opens the index and ends processes.
//! - `calls.rs`: whole operations of several transactions: automatic vacuum, compaction.
//! - `session.rs`, `parts.rs`: the operations while the index is open; transactions.

mod calls;
pub mod columns;
mod data;
pub mod ids;
mod model;
mod outcome;
mod parts;
mod plan;
mod session;
mod verify;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagehop_engine::{Filter, Index, Metric};
use pagehop_store::IndexFile;

use model::Version;
use outcome::{Checked, Trouble};
use session::End;
use verify::Queries;
use world::{World, copy_of};

pub use data::Row;
pub use outcome::Outcome;
pub use world::RunOptions;

/// A broken rule: data was lost, an answer was wrong, or the code panicked.
#[derive(Debug)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// Operations until the violation.
    pub operations: usize,
    /// What was wrong.
    pub what: String,
    /// The operations before it, the newest last.
    pub history: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, operations, what, history } = self;
        writeln!(f, "seed {seed}, operation {operations}: {what}")?;
        history.iter().rev().take(12).rev().try_for_each(|line| writeln!(f, "    {line}"))?;
        writeln!(
            f,
            "  replay: PAGEHOP_SIM_SEED={seed} cargo test -p pagehop-sim --test crash one_seed -- --nocapture"
        )?;
        write!(f, "      or: cargo run -p pagehop-sim --release --features store -- --seed {seed}")
    }
}

/// Runs `seed`.
///
/// # Errors
///
/// The first violation. A panic is a violation.
pub fn run(seed: u64, options: &RunOptions) -> Result<Outcome, Box<Violation>> {
    let mut world = match World::new(seed, *options) {
        Ok(world) => world,
        Err(what) => return Err(Box::new(Violation { seed, operations: 0, what, history: Vec::new() })),
    };
    let result = catch_unwind(AssertUnwindSafe(|| live(&mut world))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    });
    let operations = world.outcome.operations as usize;
    match result {
        Ok(()) => Ok(Outcome { disk: world.disk.trace(), ..world.outcome }),
        Err(what) => Err(Box::new(Violation { seed, operations, what, history: world.history })),
    }
}

/// Compares the index in `pages` with `rows`, the rows after the commit with the number `mark`. It
/// reads every row with a cursor from `query`, searches with `filters`, and runs the check of the
/// index itself. No other process may be writing.
///
/// # Errors
///
/// A description of the first difference.
pub fn compare(
    pages: &IndexFile,
    metric: Metric,
    query: &[f32],
    filters: Vec<Filter>,
    mark: u64,
    rows: &BTreeMap<u64, Row>,
) -> Result<(), String> {
    let version = Version { number: mark, rows: Arc::new(rows.clone()) };
    let (queries, outcome) = (Queries { query: query.into(), filters }, &mut Outcome::default());
    let compared = Index::open(pages)
        .map_err(Trouble::Error)
        .and_then(|index| verify::everything(&index, metric, &queries, &version, outcome));
    compared.map_err(|trouble| match trouble {
        Trouble::Error(error) => error.to_string(),
        Trouble::Violation(what) => what,
    })
}

fn live(world: &mut World) -> Checked<()> {
    let most = world.options.operations.unwrap_or(usize::MAX).min(world.plan.operations) as u64;
    while world.outcome.operations < most {
        life(world, most)?;
    }
    world.disk.heal();
    world.disk.set_budget(None);
    world.open_and_verify(true)?;
    world.open_and_verify(false)?;
    let Outcome { near_found, near_wanted, .. } = world.outcome;
    if near_wanted >= 100 && near_found * 10 < near_wanted * 9 {
        return Err(format!("searches found {near_found} of the {near_wanted} nearest rows"));
    }
    Ok(())
}

/// One process: from opening the index to the end of the process.
fn life(world: &mut World, most: u64) -> Checked<()> {
    // A fault may happen while the index is being opened.
    match world.rng.below(16) {
        0 => world.arm_stop(30),
        1 => world.arm_fault(30),
        _ => {}
    }
    if world.rng.one_in(8) {
        world.outcome.operations += 1;
        world.open_and_verify(false)?;
    }
    if world.plan.compacts && world.calls_rng.one_in(4) {
        return calls::compact(world);
    }
    let options = world.plan.open_options(true, &mut world.rng);
    let Some(pages) = world.open(&options)? else { return Ok(()) };
    let (end, pages) = session::run(world, pages, most)?;
    world.note(|| format!("{end:?}"));
    match (end, pages) {
        (End::Close, Some(pages)) => {
            let failed = world.disk.failed();
            let result = pages.close();
            if let Err(error) = &result {
                world.excuse(&Trouble::Error(copy_of(error)), failed)?;
            } else {
                world.model.made_durable();
            }
            if world.disk.is_stopped() {
                world.end_process();
            }
        }
        (End::Exit, pages) => drop(pages),
        (_, pages) => {
            world.end_process();
            drop(pages);
        }
    }
    Ok(())
}
