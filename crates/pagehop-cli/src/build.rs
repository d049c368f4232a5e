//! `pagehop build`: an index over the vectors of a file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use pagehop_engine::{BuildOptions, Metric, PAGE_BYTES, VectorSource};
use serde::Serialize;

use crate::errors::Error;
use crate::formats::Vectors;
use crate::interrupt;
use crate::output::{grouped, human_bytes, json_line, metric_name, say};
use crate::progress::ProgressLine;

/// Build an index over the vectors of a file.
///
/// The index appears under its name when it is complete. A build that fails, is interrupted or
/// killed leaves what was there before.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File of vectors: .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin.
    vectors: PathBuf,
    /// Where to put the index.
    #[arg(short, long, value_name = "INDEX")]
    output: PathBuf,
    /// File of row ids: a .npy column of integers, or text with one number on each line. Without it
    /// a row's id is its number, from 0.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Rule of closeness.
    #[arg(long, value_enum, default_value = "l2")]
    metric: MetricName,
    /// Memory the build may use, for example 512MiB or 2GiB.
    #[arg(long, value_name = "BYTES", default_value = "2GiB", value_parser = parse_bytes)]
    memory: u64,
    /// Threads; 0 means one for each core. The index does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// Seed of everything random: the same input, options and seed give the same bytes, but for the
    /// identity that every file has of its own.
    #[arg(long, value_name = "N", default_value_t = BuildOptions::default().seed)]
    seed: u64,
    /// Do not end by measuring which settings reach which recall; `pagehop calibrate` can do it later.
    #[arg(long)]
    no_calibrate: bool,
    /// Replace what is at INDEX.
    #[arg(long)]
    overwrite: bool,
    /// Report as one line of JSON on standard output.
    #[arg(long)]
    json: bool,
    /// No progress and no report on standard error.
    #[arg(short, long)]
    quiet: bool,
}

/// A metric as it is named on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum MetricName {
    /// Squared Euclidean distance.
    L2,
    /// Negative inner product.
    Ip,
    /// 1 - cosine similarity.
    Cosine,
}

impl From<MetricName> for Metric {
    fn from(name: MetricName) -> Self {
        match name {
            MetricName::L2 => Self::L2,
            MetricName::Ip => Self::InnerProduct,
            MetricName::Cosine => Self::Cosine,
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    rows: u64,
    dim: usize,
    metric: &'static str,
    pages: u32,
    bytes: u64,
    seconds: f64,
}

/// Builds the index.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    for input in std::iter::once(&args.vectors).chain(&args.ids) {
        refuse_same_file(&args.output, input)?;
    }
    refuse_to_replace(&args.output, args.overwrite)?;
    let mut vectors = Vectors::open(&args.vectors, args.ids.as_deref())?;
    let dim = vectors.dim();
    let options = BuildOptions {
        metric: args.metric.into(),
        memory_bytes: args.memory,
        threads: args.threads,
        seed: args.seed,
        calibrate: !args.no_calibrate,
        ..BuildOptions::default()
    };
    let mut line = ProgressLine::new(args.quiet);
    let built = pagehop_store::build(&args.output, &mut vectors, &options, args.overwrite, &mut |progress| {
        line.update(progress)
    });
    drop(line);
    let built = built?;
    let report = Report {
        index: &args.output,
        rows: built.rows,
        dim,
        metric: metric_name(options.metric),
        pages: built.pages,
        bytes: u64::from(built.pages) * PAGE_BYTES as u64,
        seconds: began.elapsed().as_secs_f64(),
    };
    if !args.quiet {
        let Report { rows, dim, pages, bytes, seconds, .. } = report;
        say(format_args!(
            "{}: {} rows of {dim} dimensions on {} pages, {}, in {seconds:.1} s",
            args.output.display(),
            grouped(rows),
            grouped(pages.into()),
            human_bytes(bytes),
        ));
    }
    json_line(args.json, &report)
}

/// Refuses to put an index where something is, unless it may `overwrite` that.
pub(crate) fn refuse_to_replace(index: &Path, overwrite: bool) -> Result<(), Error> {
    if overwrite || !index.exists() {
        return Ok(());
    }
    Err(Error::Use(format!("{} exists already; --overwrite replaces it", index.display())))
}

/// Refuses to write a file over one that is read.
pub(crate) fn refuse_same_file(output: &Path, input: &Path) -> Result<(), Error> {
    let (Ok(there), Ok(read)) = (output.canonicalize(), input.canonicalize()) else {
        return Ok(());
    };
    if there == read {
        let output = output.display();
        return Err(Error::Use(format!("{output} would be written over while it is read")));
    }
    Ok(())
}

/// A size as people write it.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    pagehop_store::parse_bytes(text).map_err(|error| error.to_string())
}

/// A number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    parse_count(text, 0, 1024)
}

/// A number from `min` to `max`.
pub(crate) fn parse_count(text: &str, min: usize, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (min..=max).contains(&count) => Ok(count),
        _ => Err(format!("it must be a whole number from {min} to {max}")),
    }
}
