//! What the commands that change an index share: how they open it, and how they let go of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pagehop_engine::{Index, Info};
use pagehop_store::{Durability, FilePages, OpenOptions};

use crate::build::{parse_bytes, parse_count};
use crate::errors::Error;
use crate::info;

/// Rows of a batch, if nothing else is asked for.
pub(crate) const BATCH_ROWS: usize = 1000;
/// Most rows of a batch.
const BATCH_ROWS_MAX: usize = 10_000_000;

/// How to open an index that is to be changed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// When a commit is safe from a loss of power. From the end of the process it always is.
    #[arg(long, value_enum, default_value = "commit")]
    durability: DurabilityName,
    /// Memory for pages of the index, for example 16MiB.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    cache: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityName {
    /// When it is done.
    Commit,
    /// At the next checkpoint, the end of the command at the latest.
    Checkpoint,
}

impl Options {
    /// Opens the index at `path` for writing; what a writer that was killed left behind is recovered.
    pub(crate) fn open(&self, path: &Path) -> Result<Index<FilePages>, Error> {
        let durability = match self.durability {
            DurabilityName::Commit => Durability::Commit,
            DurabilityName::Checkpoint => Durability::Checkpoint,
        };
        open(path, &OpenOptions { cache_bytes: self.cache, durability, ..OpenOptions::default() })
    }
}

/// Opens the index at `path` for writing, otherwise as `options` say.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Index<FilePages>, Error> {
    info::open(path, &OpenOptions { write: true, ..options.clone() })
}

/// What `index`, opened at `path`, says of itself.
pub(crate) fn about(path: &Path, index: &Index<FilePages>) -> Result<Info, Error> {
    index.info().map_err(|error| Error::about(path, &error))
}

/// Brings every commit into the index file and closes it; if nobody else has it open, the files beside it go.
pub(crate) fn close(path: &Path, index: Index<FilePages>) -> Result<(), Error> {
    index.into_pages().close().map_err(|error| {
        let path_name = path.display();
        Error::about(path, &error).and(&format!(
            "what was committed is safe in {path_name}-log, which belongs to the index; `pagehop checkpoint \
             {path_name}` brings it in"
        ))
    })
}

/// Whether files lie beside the index at `path`: others have it open, or a writer did not end in order.
pub(crate) fn has_files_beside(path: &Path) -> bool {
    has_log(path) || beside(path, "-shared").exists()
}

/// Whether the index at `path` has a log: it is being written, or a writer did not end in order.
pub(crate) fn has_log(path: &Path) -> bool {
    beside(path, "-log").exists()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// A number of rows.
pub(crate) fn parse_batch(text: &str) -> Result<usize, String> {
    parse_count(text, 1, BATCH_ROWS_MAX)
}
