//! `pagehop retrain`: trains the model of an index again.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::errors::Error;
use crate::index_file::{self, WriteOptions};
use crate::interrupt;
use crate::output::{Reporting, grouped, say};
use crate::progress::ProgressLine;

/// Train the model of an index again with its rows, and build its graph again.
///
/// For an index whose rows have become unlike those that it was trained with. It takes as long as a
/// build. All vectors are in memory, what a build of them needs, and the pages of the new graph, of
/// which there may be 1 GiB; `pagehop compact` does the same in a new file, within --memory.
/// Searches continue. If the training is stopped or fails, the index is as it was.
///
/// Then the index is calibrated again, unless it was calibrated with your queries. If that is
/// stopped or fails, the index is trained, and `pagehop calibrate` measures its settings again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    #[command(flatten)]
    writing: WriteOptions,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    rows: u64,
    seconds: f64,
}

/// Trains it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let index = args.writing.open(&args.index)?;
    let mut line = ProgressLine::new(args.reporting.quiet);
    let done = pagehop_store::retrain(&index, &mut |progress| line.update(progress));
    drop(line);
    let info = index_file::info(&args.index, &index)?;
    let rows = info.rows;
    // The index is closed also after a failure: what was committed before is written into the index
    // file.
    let closed = index_file::close(&args.index, index);
    done.map_err(|error| Error::about(&args.index, &error))?;
    closed?;
    if interrupt::poll().is_break() && info.calibrated.is_none_or(|known| !known.by_queries) {
        let name = args.index.display();
        return Err(Error::Interrupted.and(&format!(
            "{name} is trained with {} rows; `pagehop calibrate {name}` measures its settings again",
            grouped(rows)
        )));
    }
    let report = Report { index: &args.index, rows, seconds: began.elapsed().as_secs_f64() };
    if !args.reporting.quiet {
        let (name, rows) = (args.index.display(), grouped(rows));
        say(format_args!("{name}: trained with {rows} rows in {:.1} s", report.seconds));
    }
    args.reporting.json_line(&report)
}
