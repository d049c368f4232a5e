//! The index file of a command: how it is opened and closed, and which files are not overwritten.

use std::path::Path;

use clap::ValueEnum;
use pagehop_engine::{Index, Info};
use pagehop_store::{Durability, IndexFile, OpenOptions, files_beside};

use crate::arguments::parse_cache;
use crate::errors::Error;

/// How to open an index that the command changes.
#[derive(clap::Args)]
pub(crate) struct WriteOptions {
    /// Memory for pages of the index, for example 16MiB; auto is a quarter of what is free.
    #[arg(long, value_name = "BYTES", default_value = "auto", value_parser = parse_cache)]
    cache: u64,
    /// When a commit survives a loss of power. It always survives the end of the process.
    #[arg(long, value_enum, default_value = "commit")]
    durability: DurabilityName,
}

/// The same for a command whose changes leave dead rows.
#[derive(clap::Args)]
pub(crate) struct ChangeOptions {
    #[command(flatten)]
    writing: WriteOptions,
    /// Dead rows, as a share of the rows. When there are that many plus 256, changes also free the
    /// space of dead ones; `off` leaves that to `pagehop vacuum`.
    #[arg(long, value_name = "SHARE", default_value = "0.2", value_parser = parse_share)]
    auto_vacuum: AutoVacuum,
}

/// The share of dead rows from which on changes vacuum; `None` if they never do.
#[derive(Clone, Copy)]
struct AutoVacuum(Option<f32>);

fn parse_share(text: &str) -> Result<AutoVacuum, String> {
    if text == "off" {
        return Ok(AutoVacuum(None));
    }
    match text.parse() {
        Ok(share) if share >= 0.0 && f32::is_finite(share) => Ok(AutoVacuum(Some(share))),
        _ => Err("it must be a number from 0 on, or `off`".into()),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityName {
    /// As soon as it is done.
    Commit,
    /// From the next checkpoint on, at the latest from the end of the command.
    Checkpoint,
}

impl WriteOptions {
    /// Opens the index at `path` for writing. Commits of a writer that was killed are recovered.
    pub(crate) fn open(&self, path: &Path) -> Result<Index<IndexFile>, Error> {
        self.open_with(path, None)
    }

    fn open_with(&self, path: &Path, auto_vacuum: Option<f32>) -> Result<Index<IndexFile>, Error> {
        let durability = match self.durability {
            DurabilityName::Commit => Durability::Commit,
            DurabilityName::Checkpoint => Durability::Checkpoint,
        };
        let options = OpenOptions { cache_bytes: self.cache, durability, auto_vacuum, ..OpenOptions::default() };
        open_to_write(path, &options)
    }
}

impl ChangeOptions {
    /// As [`WriteOptions::open`].
    pub(crate) fn open(&self, path: &Path) -> Result<Index<IndexFile>, Error> {
        self.writing.open_with(path, self.auto_vacuum.0)
    }
}

/// Opens the index at `path`.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Index<IndexFile>, Error> {
    pagehop_store::open(path, options).map_err(|error| Error::about(path, &error))
}

/// Opens the index at `path` for writing; the other options are `options`.
pub(crate) fn open_to_write(path: &Path, options: &OpenOptions) -> Result<Index<IndexFile>, Error> {
    open(path, &OpenOptions { write: true, ..options.clone() })
}

/// The description of `index`, opened at `path`.
pub(crate) fn info(path: &Path, index: &Index<IndexFile>) -> Result<Info, Error> {
    index.info().map_err(|error| Error::about(path, &error))
}

/// Writes every commit into the index file and closes it. The files beside it are removed unless
/// another process has the index open.
pub(crate) fn close(path: &Path, index: Index<IndexFile>) -> Result<(), Error> {
    index.into_pages().close().map_err(|error| {
        let ([log, _], name) = (files_beside(path), path.display());
        Error::about(path, &error).and(&format!(
            "every commit is safe in {}, which belongs to the index; `pagehop checkpoint {name}` writes them into \
             the index",
            log.display()
        ))
    })
}

/// Whether there are files beside the index at `path`: another process has it open, or a writer was
/// killed.
pub(crate) fn has_files_beside(path: &Path) -> bool {
    files_beside(path).iter().any(|file| file.exists())
}

/// Refuses to write an index over an existing file, unless `overwrite` is set.
pub(crate) fn refuse_to_replace(index: &Path, overwrite: bool) -> Result<(), Error> {
    if overwrite || !index.exists() {
        return Ok(());
    }
    Err(Error::Use(format!("{} exists already; --overwrite replaces it", index.display())))
}

/// Refuses to overwrite a file that the command reads.
pub(crate) fn refuse_same_file(output: &Path, input: &Path) -> Result<(), Error> {
    let (Ok(written), Ok(read)) = (output.canonicalize(), input.canonicalize()) else {
        return Ok(());
    };
    if written == read {
        let output = output.display();
        return Err(Error::Use(format!("{output} would be overwritten while it is read")));
    }
    Ok(())
}
