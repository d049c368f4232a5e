//! Command line of the simulator: runs the workload of one seed or of several.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pagehop_sim::Lie;
use pagehop_sim::document::{grouped, put};
use pagehop_sim::workload::{Outcome, RunOptions, run};

const HELP: &str = "pagehop-sim: runs a random workload on an index whose disk fails

  --seed N         the seed to run, or the first of several (default: 0)
  --seeds N        how many seeds to run (default: 1, with a trace of its operations)
  --threads N      run that many seeds at the same time (default: 1)
  --operations N   stop each seed after N operations
  --calls          print every call to the disk
  --lie BUG        simulate a bug of the disk: log-sync, index-sync, double-write
  --keep-going     continue after a violation
  --document FILE  write the counts behind `<!-- counted: lives -->` in FILE, if nothing was violated
  --of TEXT        what was counted, and when, for the document";

/// The arguments of the command line.
#[derive(Default)]
struct Arguments {
    first: u64,
    count: Option<u64>,
    threads: u64,
    keep_going: bool,
    document: Option<PathBuf>,
    of: String,
    options: RunOptions,
}

/// Sums over all seeds.
#[derive(Default)]
struct Sums {
    seeds: u64,
    violations: u64,
    outcome: Outcome,
}

/// The arguments; `None` if one of them is unknown or has a wrong value.
fn arguments() -> Option<Arguments> {
    let mut all = Arguments { threads: 1, ..Arguments::default() };
    let images = Lie::LogWrites { from: 8192, to: 8_409_088 };
    let lies = [("log-sync", Lie::LogSync), ("index-sync", Lie::IndexSync), ("double-write", images)];
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut text = || arguments.next();
        match argument.as_str() {
            "--seed" => all.first = text()?.parse().ok()?,
            "--seeds" => all.count = Some(text()?.parse().ok()?),
            "--threads" => all.threads = text()?.parse().ok().filter(|threads| *threads > 0)?,
            "--operations" => all.options.operations = Some(text()?.parse().ok()?),
            "--calls" => all.options.calls = true,
            "--lie" => {
                let lie = text()?;
                all.options.lie = lies.iter().find(|known| known.0 == lie)?.1;
            }
            "--keep-going" => all.keep_going = true,
            "--document" => all.document = Some(text()?.into()),
            "--of" => all.of = text()?,
            _ => return None,
        }
    }
    all.options.trace = all.count.is_none();
    Some(all)
}

impl Sums {
    fn add(&mut self, outcome: &Outcome) {
        let sum = &mut self.outcome;
        sum.operations += outcome.operations;
        sum.commits += outcome.commits;
        sum.failures += outcome.failures;
        sum.crashes += outcome.crashes;
        sum.kills += outcome.kills;
        sum.openings += outcome.openings;
        sum.vacuumed += outcome.vacuumed;
        sum.compactions += outcome.compactions;
        sum.checks += outcome.checks;
    }

    fn text(&self) -> String {
        let Outcome {
            operations, commits, failures, crashes, kills, openings, vacuumed, compactions, checks, ..
        } = self.outcome;
        let [seeds, operations, commits, failures] = [self.seeds, operations, commits, failures].map(grouped);
        let [crashes, kills, openings, checks] = [crashes, kills, openings, checks].map(grouped);
        let [vacuumed, compactions] = [vacuumed, compactions].map(grouped);
        format!(
            "{seeds} seeded lives of an index: {operations} operations, {commits} commits, {failures} calls that \
             failed because of a fault or a limit, {crashes} losses of power, {kills} killed processes, {compactions} \
             compactions, {vacuumed} rows vacuumed by calls, {openings} openings, and {checks} comparisons of \
             everything with what must be there. {} violations.",
            self.violations
        )
    }
}

/// Runs seeds on this thread until none is left. Several threads share the counter `next`.
fn work(all: &Arguments, next: &AtomicU64, sums: &Mutex<Sums>, began: Instant) {
    let end = all.first + all.count.unwrap_or(1);
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let result = run(seed, &all.options);
        let mut sums = sums.lock().expect("no thread panics with the sums");
        sums.seeds += 1;
        match result {
            Ok(outcome) => {
                sums.add(&outcome);
                if all.options.trace {
                    println!("{outcome:#?}");
                }
            }
            Err(violation) => {
                println!("{violation}");
                sums.violations += 1;
                if !all.keep_going {
                    next.store(end, Ordering::Relaxed);
                }
            }
        }
        if sums.seeds.is_multiple_of(1000) {
            println!("{} seeds: {} violations, {:.0?}", sums.seeds, sums.violations, began.elapsed());
        }
    }
}

fn main() -> ExitCode {
    let Some(all) = arguments() else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    let (next, sums, began) = (AtomicU64::new(all.first), Mutex::new(Sums::default()), Instant::now());
    std::thread::scope(|scope| {
        (0..all.threads).for_each(|_| drop(scope.spawn(|| work(&all, &next, &sums, began))));
    });
    let sums = sums.into_inner().expect("no thread panics with the sums");
    println!("{} {:.1?}", sums.text(), began.elapsed());
    if sums.violations > 0 {
        return ExitCode::FAILURE;
    }
    let Some(document) = &all.document else { return ExitCode::SUCCESS };
    let text = format!("{}: {}", all.of, sums.text());
    match put(document, "lives", &text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagehop-sim: {error}");
            ExitCode::FAILURE
        }
    }
}
