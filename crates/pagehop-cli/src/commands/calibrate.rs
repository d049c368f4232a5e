//! `pagehop calibrate`: which settings reach which recall.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::{CALIBRATED_ROWS_MIN, Calibration, RECALLS};
use serde::Serialize;

use crate::arguments::parse_threads;
use crate::errors::Error;
use crate::index_file::{self, WriteOptions};
use crate::interrupt;
use crate::output::{Output, Reporting, grouped, say};
use crate::progress::ProgressLine;
use crate::queries::read_queries;

/// Measure which settings reach which recall, and store it for `search --recall`.
///
/// `build` does it too, except with --no-calibrate. Reads the index about once; searches continue.
/// Prints a line for each k and recall: the settings that reach it, and the half-width of the 95%
/// confidence interval of the recall.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of at least 50 of your queries, of which up to 8,000 are used, evenly spaced; without
    /// it, vectors of the index serve as queries.
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Threads, up to 4,096; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    #[command(flatten)]
    writing: WriteOptions,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    rows: u64,
    samples: u32,
    by_queries: bool,
    settings: Vec<Setting>,
    seconds: f64,
}

/// Settings that reach a recall; without a `search_list`, none were found. An infinite `slack` is
/// `null`, because JSON has no infinity.
#[derive(Serialize)]
struct Setting {
    k: usize,
    recall: f32,
    search_list: Option<usize>,
    slack: Option<f32>,
    half_interval: Option<f32>,
    best: f32,
}

/// Calibrates the index.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let index = args.writing.open(&args.index)?;
    let info = index_file::info(&args.index, &index)?;
    let queries = read_queries(args.queries.as_deref(), &args.index, info.dim)?;
    let mut line = ProgressLine::new(args.reporting.quiet);
    let known =
        pagehop_store::calibrate(&index, queries.as_deref(), args.threads, &mut |progress| line.update(progress));
    drop(line);
    let known = known.map_err(|error| Error::about(&args.index, &error))?;
    index_file::close(&args.index, index)?;
    let name = args.index.display();
    if known.is_none() && !args.reporting.quiet {
        say(format_args!(
            "{name}: {} rows are too few to calibrate (minimum {CALIBRATED_ROWS_MIN}); a search with --recall \
             visits all of them",
            grouped(info.rows)
        ));
    }
    let seconds = began.elapsed().as_secs_f64();
    let (rows, samples) = known.as_ref().map_or((info.rows, 0), |known| (known.rows, known.samples));
    let by_queries = known.as_ref().is_some_and(|known| known.by_queries);
    let settings = known.iter().flat_map(settings).collect();
    let report = Report { index: &args.index, rows, samples, by_queries, settings, seconds };
    let mut output = Output::new();
    if args.reporting.json {
        output.json(&report)?;
    } else {
        report.print(&mut output)?;
    }
    output.finish()?;
    if known.is_some() && !args.reporting.quiet {
        let exact = grouped(samples.into());
        let queries = match queries.map(|queries| (queries.len() / info.dim) as u64) {
            Some(given) if given > samples.into() => format!("{exact} of {} queries", grouped(given)),
            Some(_) => format!("{exact} queries"),
            None => format!("its own vectors, {exact} of them compared with every row,"),
        };
        say(format_args!("{name}: calibrated with {queries} in {seconds:.1} s"));
    }
    Ok(())
}

fn settings(known: &Calibration) -> impl Iterator<Item = Setting> {
    known.entries.iter().flat_map(|entry| {
        RECALLS.iter().zip(&entry.settings).map(|(recall, setting)| Setting {
            k: entry.k,
            recall: *recall,
            search_list: setting.map(|setting| setting.search_list),
            slack: setting.map(|setting| setting.slack),
            half_interval: setting.map(|setting| setting.half_interval),
            best: entry.best,
        })
    })
}

impl Report<'_> {
    fn print(&self, output: &mut Output) -> Result<(), Error> {
        for setting in &self.settings {
            let Setting { k, recall, best, .. } = setting;
            match (setting.search_list, setting.slack, setting.half_interval) {
                (Some(list), Some(slack), Some(half_interval)) => output.text(format_args!(
                    "k {k:<5} recall {recall:<6} search list {list:<6} slack {slack:<8.4} +- {half_interval:.4}\n"
                ))?,
                _ => output
                    .text(format_args!("k {k:<5} recall {recall:<6} not reached, the best was {best:.4}\n"))?,
            }
        }
        Ok(())
    }
}
