//! Command line of the simulator: runs the workload for one seed or several.

use std::process::ExitCode;
use std::time::Instant;

use pagehop_sim::Lie;
use pagehop_sim::workload::{RunOptions, run};

const HELP: &str = "pagehop-sim: runs a random workload on an index whose disk fails

  --seed N         the seed to run, or the first of several (default: 0)
  --seeds N        how many seeds to run (default: 1, with a trace of its operations)
  --operations N   stop each seed after N operations
  --calls          print every call to the disk
  --lie BUG        simulate a bug of the disk: log-sync, index-sync, double-write
  --keep-going     continue after a violation";

fn main() -> ExitCode {
    let (mut first, mut count, mut keep_going) = (0, None, false);
    let mut options = RunOptions::default();
    let images = Lie::LogWrites { from: 8192, to: 8_409_088 };
    let lies = [("log-sync", Lie::LogSync), ("index-sync", Lie::IndexSync), ("double-write", images)];
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        let understood = match argument.as_str() {
            "--seed" => number().map(|seed| first = seed),
            "--seeds" => number().map(|seeds| count = Some(seeds)),
            "--operations" => number().map(|most| options.operations = Some(most as usize)),
            "--calls" => {
                options.calls = true;
                Some(())
            }
            "--lie" => {
                let lie = arguments.next().unwrap_or_default();
                lies.iter().find(|known| known.0 == lie).map(|known| options.lie = known.1)
            }
            "--keep-going" => {
                keep_going = true;
                Some(())
            }
            _ => None,
        };
        if understood.is_none() {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    }
    options.trace = count.is_none();
    let (began, mut violations, mut operations) = (Instant::now(), 0, 0);
    for seed in first..first + count.unwrap_or(1) {
        match run(seed, &options) {
            Ok(outcome) => {
                operations += outcome.operations;
                if options.trace {
                    println!("{outcome:#?}");
                }
            }
            Err(violation) => {
                println!("{violation}");
                violations += 1;
                if !keep_going {
                    break;
                }
            }
        }
        if seed % 1000 == 999 {
            println!("seed {seed}: {operations} operations, {violations} violations, {:.0?}", began.elapsed());
        }
    }
    println!("{operations} operations, {violations} violations, {:.1?}", began.elapsed());
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
