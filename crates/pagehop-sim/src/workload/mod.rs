//! Lives of an index on a disk that fails: a seed decides what is done to it, when the power goes, and what is
//! refused; a model says what must be there afterwards.
//!
//! - `plan.rs`: what a seed chooses beforehand.
//! - `data.rs`: rows, distances, brute force.
//! - `model.rs`: which versions may be found after what happened.
//! - `verify.rs`: an open index against a version.
//! - `session.rs`: operations between the opening of the index and its end, however that comes.

mod data;
mod model;
mod plan;
mod session;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagehop_engine::{BuildOptions, Error, Index, Metric, RowIds, build, create};
use pagehop_store::{FilePages, OpenOptions, StorageSink};

use crate::{Lie, Rng, SimDisk};
use data::{Rows, Source};
use model::{Model, Version};
use plan::Plan;
use session::End;

/// How to run a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Whether every operation is printed as it begins.
    pub trace: bool,
    /// Whether every call to the disk is.
    pub calls: bool,
    /// A bug that the disk plays.
    pub lie: Lie,
    /// Operations after which to stop, if sooner than the seed would.
    pub operations: Option<usize>,
}

/// What was done with a seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations begun.
    pub operations: u64,
    /// Commits that returned.
    pub commits: u64,
    /// Operations that failed for a reason.
    pub failures: u64,
    /// Losses of power.
    pub crashes: u64,
    /// Processes that ended without a word.
    pub kills: u64,
    /// Openings.
    pub openings: u64,
    /// Versions compared in full.
    pub checks: u64,
    /// Rows that searches should have found.
    pub near_wanted: u64,
    /// Those they found.
    pub near_found: u64,
    /// Stands for every call to the disk.
    pub disk: u64,
}

/// Something that must never be.
#[derive(Debug)]
pub struct Violation {
    /// The seed that shows it.
    pub seed: u64,
    /// Operations until it showed.
    pub operations: usize,
    /// What was seen.
    pub what: String,
    /// What was done, the newest last.
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

/// Why an operation did not succeed.
enum Trouble {
    /// An error, which may have a reason.
    Error(Error),
    Violation(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

type Checked<T> = Result<T, String>;

/// Everything that a seed has.
struct World {
    plan: Plan,
    options: RunOptions,
    rng: Rng,
    disk: SimDisk,
    model: Model,
    outcome: Outcome,
    /// Version that comes next.
    next_number: u64,
    /// Calls that had failed when the index was opened.
    failed_before_life: u64,
    history: Vec<String>,
}

/// Runs `seed`.
///
/// # Errors
///
/// The first violation, a panic included.
pub fn run(seed: u64, options: &RunOptions) -> Result<Outcome, Box<Violation>> {
    let mut world = match World::new(seed, *options) {
        Ok(world) => world,
        Err(what) => return Err(Box::new(Violation { seed, operations: 0, what, history: Vec::new() })),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
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

/// Compares the index in `pages` with `rows`, as of the commit whose mark begins with `mark`: every row by a cursor
/// from `query`, and if `alone` its own check too, which another process's commit may disturb.
///
/// # Errors
///
/// What is wrong.
pub fn compare(
    pages: &FilePages,
    metric: Metric,
    query: &[f32],
    mark: u64,
    rows: &BTreeMap<u64, Arc<[f32]>>,
    alone: bool,
) -> Result<(), String> {
    let version = Version { number: mark, rows: Arc::new(rows.clone()) };
    let (query, outcome) = (query.into(), &mut Outcome::default());
    let compared = Index::open(pages).map_err(Trouble::Error).and_then(|index| match alone {
        true => verify::everything(&index, metric, &query, &version, outcome),
        false => verify::every_row(&index, metric, &query, &version),
    });
    compared.map_err(|trouble| match trouble {
        Trouble::Error(error) => error.to_string(),
        Trouble::Violation(what) => what,
    })
}

impl World {
    fn new(seed: u64, options: RunOptions) -> Checked<Self> {
        let mut rng = Rng::new(seed ^ 0x9a6e_40b5);
        let plan = Plan::draw(&mut rng);
        let mut rows = Rows::new();
        for _ in 0..plan.built.unwrap_or(0) {
            rows.insert(id(&plan, &mut rng), plan.cloud.row(&mut rng));
        }
        let disk = SimDisk::new(seed);
        build_on(&disk, &plan, &rows, seed).map_err(|error| format!("building {} rows: {error}", rows.len()))?;
        disk.lie(options.lie);
        if options.calls {
            disk.print_calls();
        }
        let mut world = Self {
            plan,
            options,
            rng,
            disk,
            model: Model::new(rows),
            outcome: Outcome::default(),
            next_number: 1,
            failed_before_life: 0,
            history: Vec::new(),
        };
        let Plan { dim, metric, built, batch, ids, .. } = &world.plan;
        let cloud = world.plan.cloud.describe();
        let begins =
            format!("{dim} dimensions, {metric:?}, {built:?} rows, batches of {batch}, {ids} ids, {cloud}");
        world.note(|| begins);
        Ok(world)
    }

    fn run(&mut self) -> Checked<()> {
        let most = self.options.operations.unwrap_or(usize::MAX).min(self.plan.operations) as u64;
        while self.outcome.operations < most {
            self.life(most)?;
        }
        self.disk.heal();
        self.disk.set_budget(None);
        self.open_and_verify(true)?;
        self.open_and_verify(false)?;
        let Outcome { near_found, near_wanted, .. } = self.outcome;
        if near_wanted >= 100 && near_found * 10 < near_wanted * 9 {
            return Err(format!("searches found {near_found} of the {near_wanted} nearest rows"));
        }
        Ok(())
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        if self.options.trace {
            println!("{:4} {line}", self.outcome.operations);
        }
        self.history.push(line);
    }

    fn query(&mut self) -> Arc<[f32]> {
        self.plan.cloud.row(&mut self.rng)
    }

    /// From one opening to the end of the process.
    fn life(&mut self, most: u64) -> Checked<()> {
        // Dangers may wait for the opening.
        match self.rng.below(16) {
            0 => self.arm_stop(30),
            1 => self.arm_fault(30),
            _ => {}
        }
        if self.rng.one_in(8) {
            self.outcome.operations += 1;
            self.open_and_verify(false)?;
        }
        let options = self.plan.open_options(true, &mut self.rng);
        let Some(pages) = self.open(&options)? else { return Ok(()) };
        let end = self.session(&pages, most)?;
        self.note(|| format!("{end:?}"));
        match end {
            End::Close => {
                let failed = self.disk.failed();
                let result = pages.close();
                if let Err(error) = &result {
                    self.excuse(&Trouble::Error(copy_of(error)), failed)?;
                } else {
                    self.model.made_durable();
                }
                if self.disk.is_stopped() {
                    self.end_process();
                }
            }
            End::Exit => drop(pages),
            End::Lost => {
                self.end_process();
                drop(pages);
            }
        }
        Ok(())
    }

    /// Opens the index, finds out which version it is and compares everything. `None` if that failed for a reason,
    /// and the process has ended.
    fn open(&mut self, options: &OpenOptions) -> Checked<Option<FilePages>> {
        self.outcome.openings += 1;
        let how = format!("open: write {}, {:?}, log {}", options.write, options.durability, options.log_bytes);
        self.note(|| how);
        let failed = self.disk.failed();
        self.failed_before_life = failed;
        let query = self.query();
        let storage = Arc::new(self.disk.clone());
        let opened = FilePages::open_on(storage, options).map_err(Trouble::Error).and_then(|pages| {
            let version = self.identify(&pages, &query)?;
            Ok((pages, version))
        });
        match opened {
            Ok((pages, number)) => {
                if options.write {
                    self.model.found(number, options.durability);
                }
                Ok(Some(pages))
            }
            Err(trouble) => {
                self.excuse(&trouble, failed)?;
                self.outcome.operations += 1;
                self.end_process();
                if self.rng.one_in(2) {
                    self.disk.heal();
                }
                Ok(None)
            }
        }
    }

    fn identify(&mut self, pages: &FilePages, query: &Arc<[f32]>) -> Result<u64, Trouble> {
        let index = Index::open(pages)?;
        let number = verify::number_of(&index)?;
        let allowed: Vec<Version> = self.model.allowed().cloned().collect();
        let Some(version) = allowed.iter().find(|version| version.number == number) else {
            let numbers: Vec<u64> = allowed.iter().map(|version| version.number).collect();
            return Err(Trouble::Violation(format!("version {number} was found, expected one of {numbers:?}")));
        };
        self.note(|| format!("  found version {number}, {} rows", version.rows.len()));
        verify::everything(&index, self.plan.metric, query, version, &mut self.outcome)?;
        Ok(number)
    }

    /// Opens the index, compares, and leaves.
    fn open_and_verify(&mut self, write: bool) -> Checked<()> {
        let mut options = self.plan.open_options(write, &mut self.rng);
        options.write = write;
        let Some(pages) = self.open(&options)? else { return Ok(()) };
        drop(pages);
        Ok(())
    }

    /// Whether an operation may have failed as it did, given how many calls had failed before.
    fn excuse(&mut self, trouble: &Trouble, failed_before: u64) -> Checked<()> {
        let something = self.disk.is_stopped() || self.disk.failed() > failed_before;
        let once = self.disk.failed() > self.failed_before_life;
        match trouble {
            Trouble::Violation(what) => Err(what.clone()),
            Trouble::Error(error) => {
                self.outcome.failures += 1;
                let text = format!("  failed: {error}");
                self.note(|| text);
                let small = self.plan.transaction_bytes < 1 << 30;
                match error {
                    Error::Io { .. } if something => Ok(()),
                    Error::Argument { what } if small && what.contains("transaction_bytes") => Ok(()),
                    // The store gave up after an earlier failure, as it says.
                    Error::Io { source, .. } if once && source.to_string().contains("open it again") => Ok(()),
                    error => Err(format!("{error} (nothing was made to fail)")),
                }
            }
        }
    }

    /// The process ends, and perhaps the power with it.
    fn end_process(&mut self) {
        if self.rng.one_in(2) {
            self.note(|| "the power is lost".into());
            let seed = self.rng.next_u64();
            self.disk.crash(seed);
            self.model.power_lost();
            self.outcome.crashes += 1;
        } else {
            self.note(|| "the process is killed".into());
            self.disk.kill();
            self.outcome.kills += 1;
        }
    }
}

fn copy_of(error: &Error) -> Error {
    match error {
        Error::Io { what, source } => Error::io(what.clone(), std::io::Error::other(source.to_string())),
        Error::Corrupt { page, what } => Error::corrupt(*page, what.clone()),
        error => Error::argument(error.to_string()),
    }
}

/// An id that is no position, and now and then one at an end.
fn id(plan: &Plan, rng: &mut Rng) -> u64 {
    match rng.below(plan.ids as usize) as u64 {
        0 => u64::MAX,
        1 => 0,
        n => n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 3 * 20),
    }
}

/// Makes a new index.
fn build_on(disk: &SimDisk, plan: &Plan, rows: &Rows, seed: u64) -> Result<(), Error> {
    let mut sink = StorageSink::create(Arc::new(disk.clone()), *b"phsim1")?;
    if plan.built.is_none() {
        create(plan.dim, plan.metric, seed, RowIds::Mapped, &mut sink)?;
    } else {
        let options = BuildOptions { metric: plan.metric, threads: 1, seed, ..BuildOptions::default() };
        let mut source = Source { dim: plan.dim, rows };
        build(&mut source, &options, &mut sink, &mut |_| ControlFlow::Continue(()))?;
    }
    sink.finish()
}
