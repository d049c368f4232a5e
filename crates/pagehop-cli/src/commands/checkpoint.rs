//! `pagehop checkpoint`: writes every commit into the index file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pagehop_store::OpenOptions;
use serde::Serialize;

use crate::errors::Error;
use crate::index_file;
use crate::output::{Reporting, human_bytes, say};

/// Write every commit into the index file, so that it can be copied or moved alone.
///
/// After a crash, commits that are not in the index file yet are in INDEX-log. This command
/// recovers them and removes the files beside the index, unless another process has the index open.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    log_bytes: u64,
    page_bytes_written: u64,
    /// Whether the index is one file now; if not, another process has it open.
    alone: bool,
    seconds: f64,
}

/// Writes them.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let began = Instant::now();
    let index = index_file::open_to_write(&args.index, &OpenOptions::default())?;
    let log_bytes = index.pages().log_used_bytes();
    index.pages().checkpoint().map_err(|error| Error::about(&args.index, &error))?;
    let page_bytes_written = index.pages().counters().page_bytes_written;
    index_file::close(&args.index, index)?;
    let alone = !index_file::has_files_beside(&args.index);
    let seconds = began.elapsed().as_secs_f64();
    let report = Report { index: &args.index, log_bytes, page_bytes_written, alone, seconds };
    if !args.reporting.quiet {
        let name = args.index.display();
        match report.log_bytes {
            0 => say(format_args!("{name}: every commit was in the index file already")),
            bytes => say(format_args!(
                "{name}: {} of commits written into the index file in {seconds:.1} s",
                human_bytes(bytes)
            )),
        }
        if !alone {
            say(format_args!(
                "another process has it open; the files beside it are removed when the last process closes it"
            ));
        }
    }
    args.reporting.json_line(&report)
}
