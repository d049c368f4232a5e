//! `pagehop delete`: deletes rows by id.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::{DeleteReport, Index, Progress};
use pagehop_store::IndexFile;
use serde::Serialize;

use crate::arguments::{BATCH_ROWS, parse_batch};
use crate::errors::Error;
use crate::formats::read_ids;
use crate::index_file::{self, WriteOptions};
use crate::interrupt;
use crate::output::{Reporting, grouped, say};
use crate::progress::ProgressLine;

/// Most unknown ids that the report on standard error lists.
const NAMED: usize = 5;

/// Delete rows by id.
///
/// Ids that are not in the index are reported. `pagehop vacuum` frees the space of deleted rows.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of row ids: a .npy column of integers, or text with one number per line.
    ids: PathBuf,
    /// Rows deleted in one commit. A commit is atomic.
    #[arg(long, value_name = "ROWS", default_value_t = BATCH_ROWS, value_parser = parse_batch)]
    batch: usize,
    #[command(flatten)]
    writing: WriteOptions,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    deleted: u64,
    unknown: Vec<u64>,
    seconds: f64,
}

/// Deletes the rows.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let mut ids = read_ids(&args.ids)?;
    // A repeated id would count as unknown the second time.
    ids.sort_unstable();
    ids.dedup();
    let index = args.writing.open(&args.index)?;
    let mut report = DeleteReport::default();
    if let Err(error) = delete(args, &index, &ids, &mut report) {
        if matches!(error, Error::Interrupted) {
            // If this fails, the log still holds every commit.
            let _ = index_file::close(&args.index, index);
        }
        if report.deleted == 0 {
            return Err(error);
        }
        let deleted = grouped(report.deleted);
        return Err(
            error.and(&format!("{deleted} rows are deleted; run the same command again to delete the rest"))
        );
    }
    index_file::close(&args.index, index)?;
    let DeleteReport { deleted, unknown } = report;
    let report = Report { index: &args.index, deleted, unknown, seconds: began.elapsed().as_secs_f64() };
    if !args.reporting.quiet {
        say(format_args!(
            "{}: {} rows deleted in {:.1} s{}",
            args.index.display(),
            grouped(report.deleted),
            report.seconds,
            unknown_in_words(&report.unknown),
        ));
    }
    args.reporting.json_line(&report)
}

fn delete(args: &Args, index: &Index<IndexFile>, ids: &[u64], report: &mut DeleteReport) -> Result<(), Error> {
    let mut line = ProgressLine::new(args.reporting.quiet);
    for (number, batch) in ids.chunks(args.batch).enumerate() {
        let done = (number * args.batch) as u64;
        if line.update(Progress { phase: "delete", done, total: ids.len() as u64 }).is_break() {
            return Err(Error::Interrupted);
        }
        let part = pagehop_store::delete(index, batch, None, &mut |progress| line.update(progress))
            .map_err(|error| Error::about(&args.index, &error))?;
        report.deleted += part.deleted;
        report.unknown.extend(part.unknown);
    }
    Ok(())
}

fn unknown_in_words(unknown: &[u64]) -> String {
    if unknown.is_empty() {
        return String::new();
    }
    let named: Vec<String> = unknown.iter().take(NAMED).map(u64::to_string).collect();
    let more = if unknown.len() > NAMED { ", ..." } else { "" };
    let ids = if unknown.len() == 1 { "id was" } else { "ids were" };
    format!("; {} {ids} not in the index: {}{more}", grouped(unknown.len() as u64), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unknown_ids_are_listed() {
        assert_eq!(unknown_in_words(&[]), "");
        assert_eq!(unknown_in_words(&[7]), "; 1 id was not in the index: 7");
        assert_eq!(unknown_in_words(&[1, 2, 3, 4, 5]), "; 5 ids were not in the index: 1, 2, 3, 4, 5");
        assert_eq!(unknown_in_words(&[1, 2, 3, 4, 5, 6]), "; 6 ids were not in the index: 1, 2, 3, 4, 5, ...");
    }
}
