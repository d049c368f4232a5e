//! `pagehop create`: an index without rows.

use std::path::{Path, PathBuf};

use pagehop_engine::{BuildOptions, Column, CreateOptions, Metric};
use serde::Serialize;

use crate::arguments::{IdKindName, MetricName, VectorsName, parse_column};
use crate::errors::Error;
use crate::index_file::refuse_to_replace;
use crate::output::{Reporting, say};

/// Create an empty index.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to put the index.
    index: PathBuf,
    /// Dimensions of its vectors.
    #[arg(long, value_name = "N")]
    dim: usize,
    /// Distance between vectors.
    #[arg(long, value_enum, default_value = "l2")]
    metric: MetricName,
    /// The kind of row ids.
    #[arg(long, value_name = "KIND", value_enum, default_value = "int")]
    id_kind: IdKindName,
    /// Keep vectors beside their codes: searches then rank the last candidates by them, and
    /// distances are exact. The file grows by 2 or 4 bytes for each component.
    #[arg(long, value_name = "KIND", value_enum, default_value = "codes")]
    vectors: VectorsName,
    /// A column of values that searches can filter by, and its kind: bool, int, float, text,
    /// timestamp, tags or uuid. May be given several times.
    #[arg(long = "column", value_name = "NAME:KIND", value_parser = parse_column)]
    columns: Vec<Column>,
    /// Rows may have payloads: bytes that `search --payload` and `get --payload` give back.
    #[arg(long)]
    payload: bool,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = BuildOptions::default().seed)]
    seed: u64,
    /// Replace the file at INDEX.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    reporting: Reporting,
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
    let options = CreateOptions {
        metric,
        id_kind: args.id_kind.into(),
        vectors: args.vectors.into(),
        columns: args.columns.clone(),
        payload: args.payload,
        seed: args.seed,
    };
    pagehop_store::create(&args.index, args.dim, &options, args.overwrite)
        .map_err(|error| Error::about(&args.index, &error))?;
    let report = Report { index: &args.index, dim: args.dim, metric: metric.name() };
    if !args.reporting.quiet {
        let Report { dim, metric, .. } = report;
        say(format_args!("{}: empty index of {dim} dimensions, metric {metric}", args.index.display()));
    }
    args.reporting.json_line(&report)
}
