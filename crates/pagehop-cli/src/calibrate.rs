//! `pagehop calibrate`: which settings reach which recall.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::Calibration;
use pagehop_engine::index::{CALIBRATED_ROWS_MIN, RECALLS};
use serde::Serialize;

use crate::build::parse_threads;
use crate::errors::Error;
use crate::interrupt;
use crate::output::{Output, grouped, say};
use crate::progress::ProgressLine;
use crate::recall::{read_queries, short};
use crate::writing;

/// Measure which settings reach which recall, and store it for `search --recall`.
///
/// The end of a build does it, too. It reads the index once or so; searches go on meanwhile. Prints a line for each number of
/// neighbors and recall: what reaches it, and the interval in which the recall lies with 95% probability.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of queries such as the index is asked, 50 or more, instead of vectors of the index.
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Threads; 0 means one for each core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    #[command(flatten)]
    writing: writing::Options,
    /// As one line of JSON.
    #[arg(long)]
    json: bool,
    /// No progress and no report on standard error.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    rows: u64,
    samples: u32,
    settings: Vec<Setting>,
    seconds: f64,
}

/// What reaches a recall; nothing if `slack` is missing. JSON has no infinity: `slack` is `null` then, and there is a `search_list`.
#[derive(Serialize)]
struct Setting {
    k: usize,
    recall: f64,
    slack: Option<f32>,
    search_list: Option<usize>,
    interval: Option<f32>,
    best: f32,
}

/// Calibrates it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let index = args.writing.open(&args.index)?;
    let info = writing::about(&args.index, &index)?;
    let queries = read_queries(args.queries.as_deref(), &args.index, info.dim)?;
    let mut line = ProgressLine::new(args.quiet);
    let known = pagehop_store::calibrate(&index, &queries, args.threads, &mut |progress| line.update(progress));
    drop(line);
    let known = known.map_err(|error| Error::about(&args.index, &error))?;
    writing::close(&args.index, index)?;
    let name = args.index.display();
    if known.is_none() && !args.quiet {
        say(format_args!(
            "{name}: {} rows are too few to calibrate, {CALIBRATED_ROWS_MIN} at least; a search with --recall looks through \
             all of them",
            grouped(info.rows)
        ));
    }
    let seconds = began.elapsed().as_secs_f64();
    let (rows, samples) = known.as_ref().map_or((info.rows, 0), |known| (known.rows, known.samples));
    let settings = known.iter().flat_map(settings).collect();
    let report = Report { index: &args.index, rows, samples, settings, seconds };
    let mut output = Output::new();
    if args.json {
        output.json(&report)?;
    } else {
        report.print(&mut output)?;
    }
    output.finish()?;
    if known.is_some() && !args.quiet {
        say(format_args!("{name}: calibrated by {} queries in {seconds:.1} s", grouped(samples.into())));
    }
    Ok(())
}

fn settings(known: &Calibration) -> impl Iterator<Item = Setting> {
    known.entries.iter().flat_map(|entry| {
        RECALLS.iter().zip(&entry.settings).map(|(recall, setting)| Setting {
            k: entry.k,
            recall: short(*recall),
            slack: setting.map(|setting| setting.slack),
            search_list: setting.map(|setting| setting.search_list),
            interval: setting.map(|setting| setting.interval),
            best: entry.best,
        })
    })
}

impl Report<'_> {
    fn print(&self, output: &mut Output) -> Result<(), Error> {
        for setting in &self.settings {
            let Setting { k, recall, best, .. } = setting;
            match (setting.slack, setting.search_list, setting.interval) {
                (Some(slack), Some(list), Some(interval)) => output.text(format_args!(
                    "k {k:<5} recall {recall:<6} slack {slack:<8.4} search list {list:<6} +- {interval:.4}\n"
                ))?,
                _ => output
                    .text(format_args!("k {k:<5} recall {recall:<6} not reached, the best was {best:.4}\n"))?,
            }
        }
        Ok(())
    }
}
