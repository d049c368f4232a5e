//! `pagehop delete`: deletes rows by id.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::{DeleteReport, Index, Progress, RowId};
use pagehop_store::IndexFile;
use serde::Serialize;

use crate::arguments::{BATCH_ROWS, parse_batch};
use crate::errors::Error;
use crate::formats::{IdList, check_ids_file, read_ids};
use crate::index_file::{self, ChangeOptions};
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
    /// File of row ids: a .npy column of integers, or text with one id per line.
    ids: PathBuf,
    /// Rows deleted in one commit. A commit is atomic.
    #[arg(long, value_name = "ROWS", default_value_t = BATCH_ROWS, value_parser = parse_batch)]
    batch: usize,
    #[command(flatten)]
    changing: ChangeOptions,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a, I> {
    index: &'a Path,
    deleted: u64,
    unknown: Vec<I>,
    seconds: f64,
}

/// Deletes the rows.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    check_ids_file(&args.ids)?;
    let index = args.changing.open(&args.index)?;
    match read_ids(&args.ids, index_file::info(&args.index, &index)?.id_kind)? {
        IdList::Int(ids) => delete_all(args, index, ids, began),
        IdList::Text(ids) => delete_all(args, index, ids, began),
    }
}

fn delete_all<I: RowId + Ord + fmt::Display + Serialize>(
    args: &Args,
    index: Index<IndexFile>,
    mut ids: Vec<I>,
    began: Instant,
) -> Result<(), Error> {
    // A repeated id would be reported as unknown when it is deleted again.
    ids.sort_unstable();
    ids.dedup();
    let mut report = DeleteReport { deleted: 0, unknown: Vec::new() };
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

fn delete<I: RowId>(
    args: &Args,
    index: &Index<IndexFile>,
    ids: &[I],
    report: &mut DeleteReport<I>,
) -> Result<(), Error> {
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

fn unknown_in_words(unknown: &[impl fmt::Display]) -> String {
    if unknown.is_empty() {
        return String::new();
    }
    let named: Vec<String> = unknown.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if unknown.len() > NAMED { ", ..." } else { "" };
    let ids = if unknown.len() == 1 { "id was" } else { "ids were" };
    format!("; {} {ids} not in the index: {}{more}", grouped(unknown.len() as u64), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unknown_ids_are_listed() {
        assert_eq!(unknown_in_words(&[0; 0]), "");
        assert_eq!(unknown_in_words(&[7]), "; 1 id was not in the index: 7");
        assert_eq!(unknown_in_words(&[1, 2, 3, 4, 5]), "; 5 ids were not in the index: 1, 2, 3, 4, 5");
        assert_eq!(unknown_in_words(&[1, 2, 3, 4, 5, 6]), "; 6 ids were not in the index: 1, 2, 3, 4, 5, ...");
    }
}
