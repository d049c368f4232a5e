//! `pagehop build`: an index over the vectors of a file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::{BuildOptions, PAGE_BYTES, VectorSource};
use serde::Serialize;

use crate::arguments::{IdKindName, MetricName, VectorsName, parse_bytes, parse_threads};
use crate::errors::Error;
use crate::formats::Vectors;
use crate::index_file::{refuse_same_file, refuse_to_replace};
use crate::interrupt;
use crate::output::{Reporting, grouped, human_bytes, say};
use crate::progress::ProgressLine;

/// Build an index over the vectors of a file.
///
/// The index appears under its name when it is complete. A build that fails, is interrupted or is
/// killed changes nothing there. If a build of more vectors than fit in --memory is killed, its
/// finished work stays beside INDEX, as INDEX-build, and the same command continues after it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File of vectors: .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin.
    #[arg(value_name = "VECTORS")]
    source: PathBuf,
    /// Where to put the index.
    #[arg(short, long, value_name = "INDEX")]
    output: PathBuf,
    /// File of row ids: a .npy column of integers, or text with one number per line. Without it,
    /// the id of a row is its position in the file, from 0. With --id-kind text: text with one id
    /// per line.
    #[arg(long, value_name = "FILE", required_if_eq("id_kind", "text"))]
    ids: Option<PathBuf>,
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
    /// File of values that searches can filter by, a row for each vector: Parquet, or .csv with a
    /// line of names of columns first. There, a name may be followed by its kind, as in
    /// price:float. The kinds are bool, int, float, text, timestamp, uuid and tags, which are a
    /// list as in JSON. In Parquet, tags are lists of strings.
    #[arg(long, value_name = "FILE")]
    columns: Option<PathBuf>,
    /// File of payloads, which `search --payload` and `get --payload` give back: text, a line for
    /// each vector. Rows that are added later may have payloads, too.
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Memory the build may use, for example 512MiB or 2GiB. What does not fit is put aside in
    /// temporary files beside INDEX. Their part of the page cache counts as memory of the build.
    #[arg(long, value_name = "BYTES", default_value = "2GiB", value_parser = parse_bytes)]
    memory: u64,
    /// Threads, up to 4,096; 0 means one per core. The index does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// Seed of everything random. The same input, options and seed give the same file, except for
    /// six bytes that identify it.
    #[arg(long, value_name = "N", default_value_t = BuildOptions::default().seed)]
    seed: u64,
    /// Do not measure at the end which settings reach which recall; `pagehop calibrate` does it
    /// later.
    #[arg(long)]
    no_calibrate: bool,
    /// Replace the file at INDEX.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    rows: u64,
    dim: usize,
    metric: &'static str,
    pages: u32,
    bytes: u64,
    /// Rows that a killed build had connected.
    resumed_rows: u64,
    seconds: f64,
}

/// Builds the index.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    for input in std::iter::once(&args.source).chain(&args.ids).chain(&args.columns).chain(&args.payload) {
        refuse_same_file(&args.output, input)?;
    }
    refuse_to_replace(&args.output, args.overwrite)?;
    let mut vectors = Vectors::open(&args.source)?;
    let id_kind = args.id_kind.into();
    args.ids.iter().try_for_each(|ids| vectors.open_ids(ids, id_kind))?;
    args.columns.iter().try_for_each(|columns| vectors.open_columns(columns))?;
    args.payload.iter().try_for_each(|payload| vectors.open_payloads(payload))?;
    let dim = vectors.dim();
    let options = BuildOptions {
        metric: args.metric.into(),
        id_kind,
        vectors: args.vectors.into(),
        memory_bytes: args.memory,
        threads: args.threads,
        seed: args.seed,
        calibrate: !args.no_calibrate,
    };
    let (mut line, mut resumed_rows) = (ProgressLine::new(args.reporting.quiet), 0);
    let built = pagehop_store::build(&args.output, &mut vectors, &options, args.overwrite, &mut |progress| {
        if progress.phase == "resume" {
            resumed_rows = progress.done;
        }
        line.update(progress)
    });
    drop(line);
    let built = built?;
    let report = Report {
        index: &args.output,
        rows: built.rows,
        dim,
        metric: options.metric.name(),
        pages: built.pages,
        bytes: u64::from(built.pages) * PAGE_BYTES as u64,
        resumed_rows,
        seconds: began.elapsed().as_secs_f64(),
    };
    if !args.reporting.quiet {
        if resumed_rows > 0 {
            say(format_args!("resumed: an earlier build had connected {} rows", grouped(resumed_rows)));
        }
        let Report { rows, dim, pages, bytes, seconds, .. } = report;
        say(format_args!(
            "{}: {} rows of {dim} dimensions on {} pages, {}, in {seconds:.1} s",
            args.output.display(),
            grouped(rows),
            grouped(pages.into()),
            human_bytes(bytes),
        ));
    }
    args.reporting.json_line(&report)
}
