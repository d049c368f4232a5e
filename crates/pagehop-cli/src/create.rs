//! `pagehop create`: an index without rows, to add some to.

use std::path::{Path, PathBuf};

use pagehop_engine::{BuildOptions, Metric};
use serde::Serialize;

use crate::build::{MetricName, refuse_to_replace};
use crate::errors::Error;
use crate::output::{json_line, metric_name, say};

/// Create an empty index.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to put the index.
    index: PathBuf,
    /// Dimensions of the vectors to come.
    #[arg(long, value_name = "N")]
    dim: usize,
    /// Rule of closeness.
    #[arg(long, value_enum, default_value = "l2")]
    metric: MetricName,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = BuildOptions::default().seed)]
    seed: u64,
    /// Replace what is at INDEX.
    #[arg(long)]
    overwrite: bool,
    /// Report as one line of JSON on standard output.
    #[arg(long)]
    json: bool,
    /// No report on standard error.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    dim: usize,
    metric: &'static str,
}

/// Creates it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    refuse_to_replace(&args.index, args.overwrite)?;
    let metric: Metric = args.metric.into();
    pagehop_store::create(&args.index, args.dim, metric, args.seed, args.overwrite)
        .map_err(|error| Error::about(&args.index, &error))?;
    let report = Report { index: &args.index, dim: args.dim, metric: metric_name(metric) };
    if !args.quiet {
        let Report { dim, metric, .. } = report;
        say(format_args!("{}: no rows yet, of {dim} dimensions under {metric}", args.index.display()));
    }
    json_line(args.json, &report)
}
