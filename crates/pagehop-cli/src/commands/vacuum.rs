//! `pagehop vacuum`: removes deleted and replaced rows and frees their space.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::errors::Error;
use crate::index_file::{self, WriteOptions};
use crate::interrupt;
use crate::output::{Reporting, grouped, say};
use crate::progress::ProgressLine;

/// Remove deleted and replaced rows from an index, and free their space for new rows.
///
/// Searches continue. If it is stopped, the part that was done stays done. Then the index is
/// calibrated, if a fifth of its rows has changed since the last time, unless it was calibrated
/// with your queries.
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
    freed: u64,
    waiting: u64,
    repaired: u64,
    seconds: f64,
}

/// Removes them.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let index = args.writing.open(&args.index)?;
    let before = index_file::info(&args.index, &index)?.dead_rows;
    let mut line = ProgressLine::new(args.reporting.quiet);
    let done = pagehop_store::vacuum(&index, &mut |progress| line.update(progress));
    drop(line);
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            let error = Error::about(&args.index, &error);
            let freed = before.saturating_sub(index.info().map_or(before, |about| about.dead_rows));
            if matches!(error, Error::Interrupted) {
                // If this fails, the log still holds every commit.
                let _ = index_file::close(&args.index, index);
            }
            let more = format!(
                "{} of {} dead rows are removed; run the same command again to continue",
                grouped(freed),
                grouped(before)
            );
            let is_begun = freed > 0 || matches!(error, Error::Interrupted);
            return Err(if is_begun { error.and(&more) } else { error });
        }
    };
    index_file::close(&args.index, index)?;
    let seconds = began.elapsed().as_secs_f64();
    let report =
        Report { index: &args.index, freed: done.freed, waiting: done.waiting, repaired: done.repaired, seconds };
    if !args.reporting.quiet {
        say(format_args!(
            "{}: {} dead rows removed in {seconds:.1} s, {} nodes repaired",
            args.index.display(),
            grouped(report.freed),
            grouped(report.repaired),
        ));
        if report.waiting > 0 {
            let waiting = grouped(report.waiting);
            say(format_args!("{waiting} more stay because searches may still see them; vacuum again later"));
        }
    }
    args.reporting.json_line(&report)
}
