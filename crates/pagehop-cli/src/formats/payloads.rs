//! Payloads from a text file: one line for each row.

use std::io::Read;
use std::path::Path;

use pagehop_engine::Error;

use super::layout::refuse;
use super::reading::{cannot, open_regular};

/// The payload of each of `rows` rows: the bytes of its line, without the line break.
///
/// # Errors
///
/// [`Error::Format`] if the file has another number of lines; [`Error::Io`] if it cannot be read.
pub(crate) fn read_payloads(path: &Path, rows: u64) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let lines = lines(path)?;
    if lines.len() as u64 != rows {
        return refuse(path, format!("it has {} lines, and there are {rows} rows", lines.len()));
    }
    Ok(lines.into_iter().map(Some).collect())
}

/// The bytes of each line, without the line break, which is `\n` or `\r\n`.
///
/// # Errors
///
/// [`Error::Io`] if the file cannot be read.
pub(super) fn lines(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes).map_err(|error| cannot("read", path, error))?;
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).collect())
}
