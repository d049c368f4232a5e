//! A new .npy file: an array of numbers. The file gets its name when it is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::npy;
use crate::errors::Error;

/// An array that is being written. Its number of rows is known at the end.
pub(crate) struct NewNpy {
    path: PathBuf,
    /// NumPy's name of the numbers, such as `<i8`.
    kind: &'static str,
    /// Numbers of a row; `None` for a column.
    width: Option<usize>,
    rows: u64,
    temporary: Temporary,
    writer: BufWriter<File>,
}

/// A file that is removed unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the file was renamed, this fails and changes nothing.
        let _ = fs::remove_file(&self.0);
    }
}

impl NewNpy {
    /// Begins an array without rows, to appear at `path`.
    pub(crate) fn create(path: &Path, kind: &'static str, width: Option<usize>) -> Result<Self, Error> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".tmp-{}", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).map_err(|error| refused(path, &error))?;
        let writer = BufWriter::with_capacity(1 << 16, file);
        let temporary = Temporary(temporary);
        let mut array = Self { path: path.to_owned(), kind, width, rows: 0, temporary, writer };
        array.write(&npy::new_header(kind, 0, width))?;
        Ok(array)
    }

    /// Appends `rows` rows. `bytes` has their numbers, little-endian.
    pub(crate) fn rows(&mut self, rows: usize, bytes: &[u8]) -> Result<(), Error> {
        self.rows += rows as u64;
        self.write(bytes)
    }

    /// Writes the final header and renames the file to its name.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let header = npy::new_header(self.kind, self.rows, self.width);
        let written = (|| {
            self.writer.seek(SeekFrom::Start(0))?;
            self.writer.write_all(&header)?;
            self.writer.flush()?;
            fs::rename(&self.temporary.0, &self.path)
        })();
        written.map_err(|error| refused(&self.path, &error))
    }

    /// The name that the file gets when it is complete.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.writer.write_all(bytes).map_err(|error| refused(&self.path, &error))
    }
}

fn refused(path: &Path, error: &io::Error) -> Error {
    Error::Failure(format!("cannot write {}: {error}", path.display()))
}
