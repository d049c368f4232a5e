//! `pagehop add`: adds the rows of a file to an index, batch by batch.
//!
//! Each batch is one commit, which also records how far the import is. However the import ends, the
//! index holds all batches up to some batch, and `--resume` continues after it.

mod mark;

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_engine::{AddReport, ColumnRows, Index, Progress, VectorSource};
use pagehop_store::{AddOptions, IndexFile};
use serde::Serialize;

use crate::arguments::{BATCH_ROWS, parse_batch, parse_threads};
use crate::errors::Error;
use crate::formats::{Chunk, Vectors, read_columns, read_payloads};
use crate::index_file::{self, ChangeOptions};
use crate::interrupt;
use crate::output::{Reporting, grouped, say};
use crate::progress::ProgressLine;
use crate::queries::check_dim;

use mark::Start;

/// Add the vectors of a file to an index. A row whose id is already in the index replaces that row.
///
/// Rows are added in batches. A batch is added completely or not at all. Once the progress has
/// passed a batch, it stays in the index, however the command ends. Rows that are in the index
/// already with the same vector, values and payload are skipped.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of vectors: .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin.
    vectors: PathBuf,
    /// File of row ids: a .npy column of integers, or text with one number per line. Without it,
    /// the id of a row is its position in the file, from 0. An index whose ids are texts takes a
    /// text file with one id per line.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// File of values of the index's columns, a row for each vector: Parquet, or .csv with a line
    /// of their names first. A row has no value in a column that the file lacks.
    #[arg(long, value_name = "FILE")]
    columns: Option<PathBuf>,
    /// File of payloads, for an index that keeps any: text, a line for each vector.
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Rows added in one commit: large batches are faster, small ones are safe sooner.
    #[arg(long, value_name = "ROWS", default_value_t = BATCH_ROWS, value_parser = parse_batch)]
    batch: usize,
    /// Continue after the last batch that an earlier `add` of the same files committed.
    #[arg(long)]
    resume: bool,
    /// Threads, up to 4,096; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    #[command(flatten)]
    changing: ChangeOptions,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    first_row: u64,
    rows: u64,
    added: u64,
    replaced: u64,
    unchanged: u64,
    seconds: f64,
    rows_per_s: f64,
}

/// Adds the rows.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let began = Instant::now();
    let mut vectors = Vectors::open(&args.vectors)?;
    let index = args.changing.open(&args.index)?;
    let about = index_file::info(&args.index, &index)?;
    check_dim((&args.index, about.dim), (&args.vectors, vectors.dim()))?;
    args.ids.iter().try_for_each(|ids| vectors.open_ids(ids, about.id_kind))?;
    let columns = args.columns.as_ref().map(|path| read_columns(path, &about.columns, vectors.rows()));
    let mut columns = columns.transpose()?;
    if let Some(path) = &args.payload {
        let payloads = read_payloads(path, vectors.rows())?;
        columns = Some(columns.unwrap_or_default().with_payloads(payloads));
    }
    let inputs = args.ids.iter().chain(&args.columns).chain(&args.payload);
    let fingerprint = mark::fingerprint(&args.vectors, inputs)?;
    let start = if args.resume { mark::start(about.mark, fingerprint, vectors.rows()) } else { Start::First };
    if args.resume && !args.reporting.quiet {
        say_start(args, start, vectors.rows());
    }
    let first_row = start.row();
    vectors.go_to(first_row)?;

    let (texts, report) = (vectors.take_text_ids(), AddReport::default());
    let mut import = Import { args, vectors, texts, columns, fingerprint, done: first_row, report };
    if let Err(error) = import.all(&index) {
        return Err(import.ended_early(error, index));
    }
    index_file::close(&args.index, index)?;
    let seconds = began.elapsed().as_secs_f64();
    let rows = import.done - first_row;
    let AddReport { added, replaced, unchanged } = import.report;
    let rows_per_s = rows as f64 / seconds.max(1e-9);
    let report = Report { index: &args.index, first_row, rows, added, replaced, unchanged, seconds, rows_per_s };
    report.tell(args)
}

impl Report<'_> {
    fn tell(&self, args: &Args) -> Result<(), Error> {
        let Self { added, replaced, unchanged, seconds, rows_per_s, .. } = *self;
        if !args.reporting.quiet {
            say(format_args!(
                "{}: {} rows added, {} replaced, {} unchanged in {seconds:.1} s, {} per second",
                self.index.display(),
                grouped(added),
                grouped(replaced),
                grouped(unchanged),
                grouped(rows_per_s as u64),
            ));
        }
        args.reporting.json_line(self)
    }
}

/// An import under way.
struct Import<'a> {
    args: &'a Args,
    vectors: Vectors,
    /// The ids of all rows, if they are texts.
    texts: Option<Vec<String>>,
    columns: Option<ColumnRows>,
    fingerprint: u64,
    /// Rows of the file that are in the index.
    done: u64,
    report: AddReport,
}

impl Import<'_> {
    /// Adds batch after batch.
    fn all(&mut self, index: &Index<IndexFile>) -> Result<(), Error> {
        let total = self.vectors.rows();
        let mut line = ProgressLine::new(self.args.reporting.quiet);
        while let Some(Chunk { ids, components }) = self.vectors.next_batch(self.args.batch)? {
            let before = self.done;
            let after = before + ids.len() as u64;
            let columns = self.columns.as_ref().map(|columns| columns.part(before as usize..after as usize));
            let mut whole = |part: Progress| {
                // A batch may train the model first. The phases of a training count their own
                // steps.
                let of_all = part.phase == "add";
                line.update(if of_all { Progress { done: before + part.done, total, ..part } } else { part })
            };
            let options = AddOptions { mark: Some([self.fingerprint, after]), threads: self.args.threads };
            let columns = columns.as_ref();
            let part = match &self.texts {
                Some(texts) => {
                    let ids = &texts[before as usize..after as usize];
                    pagehop_store::add_with_columns(index, ids, components, columns, options, &mut whole)
                }
                None => pagehop_store::add_with_columns(index, ids, components, columns, options, &mut whole),
            };
            let of_file = (self.args.vectors.as_path(), before);
            let part = part.map_err(|error| Error::about_rows(&self.args.index, of_file, error))?;
            self.report.added += part.added;
            self.report.replaced += part.replaced;
            self.report.unchanged += part.unchanged;
            self.done = after;
        }
        Ok(())
    }

    /// `error`, followed by how much is in the index and how to continue.
    fn ended_early(&self, error: Error, index: Index<IndexFile>) -> Error {
        let name = self.args.index.display();
        if matches!(error, Error::Interrupted) {
            // If this fails, the log still holds every commit.
            let _ = index_file::close(&self.args.index, index);
        }
        if self.done == 0 {
            return error;
        }
        error.and(&format!(
            "the first {} of {} rows of {} are in {name}; the same command with --resume continues after them",
            grouped(self.done),
            grouped(self.vectors.rows()),
            self.args.vectors.display(),
        ))
    }
}

fn say_start(args: &Args, start: Start, rows: u64) {
    let (index, vectors, rows) = (args.index.display(), args.vectors.display(), grouped(rows));
    match start {
        Start::After(done) => {
            let done = grouped(done);
            say(format_args!("resuming: the first {done} of {rows} rows of {vectors} are in {index} already"));
        }
        Start::First => say(format_args!(
            "nothing to resume: the last import into {index} was not of {vectors} as it is now; starting with \
             its first row"
        )),
    }
}
