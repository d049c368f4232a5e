//! `pagehop backup`: a copy of an index, while other processes read and write it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_store::OpenOptions;
use serde::Serialize;

use crate::errors::Error;
use crate::output::{Reporting, human_bytes, say};
use crate::progress::ProgressLine;
use crate::{index_file, interrupt};

/// Copy an index to another file, as of its newest commit.
///
/// Other processes may read and write the index at the same time. The copy is one file that needs
/// no log. Every page is verified. A backup that fails or is stopped leaves what was at TARGET
/// before.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// The file to write.
    target: PathBuf,
    /// Replace the file at TARGET.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    target: &'a Path,
    pages: u32,
    bytes: u64,
    seconds: f64,
}

/// Copies it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    index_file::refuse_to_replace(&args.target, args.overwrite)?;
    let began = Instant::now();
    // A backup does not read pages through the cache.
    let options = OpenOptions { cache_bytes: 0, ..OpenOptions::default() };
    let index = index_file::open(&args.index, &options)?;
    let mut line = ProgressLine::new(args.reporting.quiet);
    let done = pagehop_store::backup(&index, &args.target, args.overwrite, &mut |progress| line.update(progress));
    drop(line);
    let done = done.map_err(|error| Error::about(&args.index, &error))?;
    let seconds = began.elapsed().as_secs_f64();
    let report = Report { index: &args.index, target: &args.target, pages: done.pages, bytes: done.bytes, seconds };
    if !args.reporting.quiet {
        say(format_args!(
            "{}: {} copied to {} in {seconds:.1} s",
            args.index.display(),
            human_bytes(done.bytes),
            args.target.display()
        ));
    }
    args.reporting.json_line(&report)
}
