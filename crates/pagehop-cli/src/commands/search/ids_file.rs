//! The ids found, as a .npy matrix of int64. The file appears under its name when it is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pagehop_engine::SearchResult;

use crate::errors::Error;
use crate::formats::int64_header;

/// A matrix of `k` ids for each query.
pub(super) struct IdsFile {
    path: PathBuf,
    k: usize,
    temporary: Temporary,
    writer: BufWriter<File>,
}

/// A file that is removed unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the renaming there is nothing left to remove.
        let _ = fs::remove_file(&self.0);
    }
}

impl IdsFile {
    /// Begins a matrix of `queries` rows, to appear at `path`.
    pub(super) fn create(path: &Path, queries: u64, k: usize) -> Result<Self, Error> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".tmp-{}", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).map_err(|error| refused(path, &error))?;
        let mut writer = BufWriter::with_capacity(1 << 16, file);
        let temporary = Temporary(temporary);
        let header = int64_header(queries, k as u64);
        writer.write_all(&header).map_err(|error| refused(path, &error))?;
        Ok(Self { path: path.to_owned(), k, temporary, writer })
    }

    /// Appends the result of the next query.
    pub(super) fn write(&mut self, result: &SearchResult) -> Result<(), Error> {
        for at in 0..self.k {
            let id = match result.hits.get(at).map(|hit| (hit.row_id, i64::try_from(hit.row_id))) {
                None => -1,
                Some((_, Ok(id))) => id,
                Some((id, Err(_))) => {
                    return Err(Error::Failure(format!(
                        "row id {id} is too large for the int64 of {}; use --json instead",
                        self.path.display()
                    )));
                }
            };
            let written = self.writer.write_all(&id.to_le_bytes());
            written.map_err(|error| refused(&self.path, &error))?;
        }
        Ok(())
    }

    /// Completes the matrix under its name.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let written = self.writer.flush().and_then(|()| fs::rename(&self.temporary.0, &self.path));
        written.map_err(|error| refused(&self.path, &error))
    }
}

fn refused(path: &Path, error: &io::Error) -> Error {
    Error::Failure(format!("cannot write {}: {error}", path.display()))
}
