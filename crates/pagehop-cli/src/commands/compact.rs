//! `pagehop compact`: writes an index again, without dead rows and free space.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_store::{CompactOptions, OpenOptions};
use serde::Serialize;

use crate::arguments::{parse_bytes, parse_threads};
use crate::errors::Error;
use crate::output::{Reporting, grouped, say};
use crate::progress::ProgressLine;
use crate::{index_file, interrupt};

/// Write an index again with its live rows only, so that the space of deleted rows is free.
///
/// It takes as long as a build of the rows, and needs the space of a second file until it is done.
/// An index that keeps no vectors is built from its codes: vectors are then off by the error of two
/// codes instead of one. If it fails or is stopped, the index is as it was. No process may have the
/// index open, except with --into.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// Write a new file, and leave the index as it is. Other processes may use it at the same time.
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Replace the file at --into.
    #[arg(long, requires = "into")]
    overwrite: bool,
    /// Memory the build may use, for example 512MiB or 2GiB.
    #[arg(long, value_name = "BYTES", default_value = "2GiB", value_parser = parse_bytes)]
    memory: u64,
    /// Threads, up to 4,096; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    rows: u64,
    pages: u32,
    pages_before: u32,
    seconds: f64,
}

/// Writes it again.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let options = CompactOptions { memory_bytes: args.memory, threads: args.threads };
    let mut line = ProgressLine::new(args.reporting.quiet);
    let mut look = |progress| line.update(progress);
    let done = match &args.into {
        None => pagehop_store::compact(&args.index, &options, &mut look),
        Some(target) => {
            index_file::refuse_to_replace(target, args.overwrite)?;
            let index = index_file::open(&args.index, &OpenOptions::default())?;
            pagehop_store::compact_into(&index, target, args.overwrite, &options, &mut look)
        }
    };
    drop(line);
    let done = done.map_err(|error| Error::about(&args.index, &error))?;
    let index = args.into.as_deref().unwrap_or(&args.index);
    let (rows, pages, pages_before) = (done.rows, done.pages, done.pages_before);
    let report = Report { index, rows, pages, pages_before, seconds: began.elapsed().as_secs_f64() };
    if !args.reporting.quiet {
        say(format_args!(
            "{}: {} rows on {} pages, before {}, in {:.1} s",
            index.display(),
            grouped(rows),
            grouped(pages.into()),
            grouped(pages_before.into()),
            report.seconds
        ));
    }
    args.reporting.json_line(&report)
}
