//! Every request and its answer, as a .npy file of int64, for other programs to evaluate.
//!
//! Each row is a request: the number of its query, its latency in nanoseconds, and the ids of its
//! answer, padded with -1. The rows of one connection are in order, and connections follow one
//! another.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::errors::Error;

/// Numbers before the ids in a row.
const HEAD: usize = 2;
/// The length of a .npy header is a multiple of this, in bytes.
const ALIGN: usize = 64;

/// The requests and answers of one connection, or of several.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    values: Vec<i64>,
}

impl Answers {
    /// Records a request: its query, its latency, and the first `rows` ids of its answer.
    pub(crate) fn keep(&mut self, query: usize, latency: Duration, ids: &[Option<i64>], rows: usize) {
        self.values.push(i64::try_from(query).unwrap_or(i64::MAX));
        self.values.push(i64::try_from(latency.as_nanos()).unwrap_or(i64::MAX));
        self.values.extend((0..rows).map(|at| ids.get(at).copied().flatten().unwrap_or(-1)));
    }

    /// Appends the requests and answers of another connection.
    pub(crate) fn add(&mut self, other: Self) {
        self.values.extend(other.values);
    }

    /// Writes the file; each row has `rows` ids.
    pub(crate) fn write(&self, path: &Path, rows: usize) -> Result<(), Error> {
        let written = File::create(path).and_then(|file| self.write_to(BufWriter::new(file), rows));
        written.map_err(|error| Error::Failure(format!("cannot write {}: {error}", path.display())))
    }

    fn write_to(&self, mut file: impl Write, rows: usize) -> std::io::Result<()> {
        let width = HEAD + rows;
        let shape = format!("({}, {width})", self.values.len() / width);
        let mut header = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}");
        // Magic, version and header length take ten bytes; a newline ends the header.
        let padding = (ALIGN - (10 + header.len() + 1) % ALIGN) % ALIGN;
        header.extend(std::iter::repeat_n(' ', padding).chain(['\n']));
        file.write_all(b"\x93NUMPY\x01\0")?;
        file.write_all(&u16::try_from(header.len()).expect("a shape is short").to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for value in &self.values {
            file.write_all(&value.to_le_bytes())?;
        }
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_one_width_whatever_was_answered() {
        let (mut answers, mut other) = (Answers::default(), Answers::default());
        answers.keep(3, Duration::from_nanos(1500), &[Some(7), None, Some(8)], 2);
        other.keep(0, Duration::from_nanos(9), &[], 2);
        answers.add(other);
        let mut bytes = Vec::new();
        answers.write_to(&mut bytes, 2).unwrap();
        let body = bytes.len() - 8 * 8;
        assert_eq!(body % ALIGN, 0);
        assert!(String::from_utf8_lossy(&bytes[..body]).contains("'shape': (2, 4), }"));
        let values: Vec<i64> = bytes[body..].as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        assert_eq!(values, [3, 1500, 7, -1, 0, 9, -1, -1]);
    }
}
