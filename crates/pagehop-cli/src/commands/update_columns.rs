//! `pagehop update-columns`: changes the values of rows in some columns.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::{Column, ColumnRows, Index, Progress, RowId};
use pagehop_store::IndexFile;
use serde::Serialize;

use crate::arguments::{BATCH_ROWS, parse_batch};
use crate::errors::Error;
use crate::formats::{IdList, check_ids_file, read_columns, read_ids};
use crate::index_file::{self, ChangeOptions};
use crate::interrupt;
use crate::output::{Reporting, grouped, say};
use crate::progress::ProgressLine;

/// Give rows other values in some columns. Their vectors and other values stay.
///
/// An id that is not in the index is an error. Each row gets a new place; --auto-vacuum says when
/// the old ones become free.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of row ids: a .npy column of integers, or text with one id per line.
    ids: PathBuf,
    /// File of values, a row for each id: Parquet, or .csv with a line of names of columns first.
    columns: PathBuf,
    /// Rows changed in one commit. A commit is atomic.
    #[arg(long, value_name = "ROWS", default_value_t = BATCH_ROWS, value_parser = parse_batch)]
    batch: usize,
    #[command(flatten)]
    changing: ChangeOptions,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    changed: u64,
    seconds: f64,
}

/// Changes the values.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    check_ids_file(&args.ids)?;
    let index = args.changing.open(&args.index)?;
    let about = index_file::info(&args.index, &index)?;
    match read_ids(&args.ids, about.id_kind)? {
        IdList::Int(ids) => update_all(args, index, &ids, &about.columns, began),
        IdList::Text(ids) => update_all(args, index, &ids, &about.columns, began),
    }
}

fn update_all<I: RowId>(
    args: &Args,
    index: Index<IndexFile>,
    ids: &[I],
    known: &[Column],
    began: Instant,
) -> Result<(), Error> {
    let columns = read_columns(&args.columns, known, ids.len() as u64)?;
    let (mut done, mut changed) = (0, 0);
    if let Err(error) = update(args, &index, ids, &columns, &mut done, &mut changed) {
        if matches!(error, Error::Interrupted) {
            // If this fails, the log still holds every commit.
            let _ = index_file::close(&args.index, index);
        }
        if done == 0 {
            return Err(error);
        }
        let done = grouped(done as u64);
        return Err(error.and(&format!("the first {done} rows are changed; the same command changes the rest")));
    }
    index_file::close(&args.index, index)?;
    let unchanged = ids.len() as u64 - changed;
    let report = Report { index: &args.index, changed, seconds: began.elapsed().as_secs_f64() };
    if !args.reporting.quiet {
        let (changed, unchanged) = (grouped(changed), grouped(unchanged));
        let (index, seconds) = (args.index.display(), report.seconds);
        say(format_args!("{index}: {changed} rows changed, {unchanged} unchanged in {seconds:.1} s"));
    }
    args.reporting.json_line(&report)
}

fn update<I: RowId>(
    args: &Args,
    index: &Index<IndexFile>,
    ids: &[I],
    columns: &ColumnRows,
    done: &mut usize,
    changed: &mut u64,
) -> Result<(), Error> {
    let mut line = ProgressLine::new(args.reporting.quiet);
    for batch in ids.chunks(args.batch) {
        if line.update(Progress { phase: "update", done: *done as u64, total: ids.len() as u64 }).is_break() {
            return Err(Error::Interrupted);
        }
        let rows = columns.part(*done..*done + batch.len());
        let part = pagehop_store::update_columns(index, batch, &rows, &mut |progress| line.update(progress));
        *changed += part.map_err(|error| Error::about(&args.index, &error))?;
        *done += batch.len();
    }
    Ok(())
}
