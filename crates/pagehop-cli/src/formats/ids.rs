//! Row ids: a .npy column of integers, or text with one number per line.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};

use pagehop_engine::Error;

use super::layout::refuse;
use super::reading::{cannot, open_regular};
use super::{Element, Shape, Table};

/// Longest line of a text file of numbers, in bytes. No number is as long.
const LINE_BYTES_MAX: u64 = 64;

/// All ids of the file at `path`, in its order. A file without ids gives none.
pub(super) fn read_int_ids(path: &Path) -> Result<Vec<u64>, Error> {
    let (mut ids, count) = Ids::open_counted(path)?;
    let mut all = Vec::new();
    ids.next(count as usize, &mut all)?;
    Ok(all)
}

/// A file of row ids.
#[derive(Debug)]
pub(super) enum Ids {
    Column { table: Table, wide: Vec<i128>, taken: usize },
    Text(Lines),
}

impl Ids {
    /// Opens `path`, which must hold `rows` ids.
    pub(super) fn open(path: &Path, rows: u64) -> Result<Self, Error> {
        let (ids, found) = Self::open_counted(path)?;
        if found != rows {
            return refuse(path, format!("it holds {found} ids for {rows} vectors"));
        }
        Ok(ids)
    }

    /// Opens `path` and says how many ids it holds.
    fn open_counted(path: &Path) -> Result<(Self, u64), Error> {
        let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
        if is_npy {
            let table = Table::open(path, Shape::Column)?;
            let found = table.layout().rows;
            if found > 0 {
                table.layout().check_ids(path)?;
            }
            Ok((Self::Column { table, wide: Vec::new(), taken: 0 }, found))
        } else {
            let mut lines = Lines::open(path)?;
            let found = lines.count()?;
            Ok((Self::Text(lines), found))
        }
    }

    /// Continues at id number `row`, which is at most the number of ids.
    pub(super) fn go_to(&mut self, row: u64) -> Result<(), Error> {
        match self {
            Self::Column { table, wide, taken } => {
                wide.clear();
                *taken = 0;
                table.go_to(row)
            }
            Self::Text(lines) => {
                lines.rewind()?;
                for _ in 0..row {
                    lines.next()?;
                }
                Ok(())
            }
        }
    }

    /// Replaces the content of `out` by the next `count` ids.
    pub(super) fn next(&mut self, count: usize, out: &mut Vec<u64>) -> Result<(), Error> {
        out.clear();
        match self {
            Self::Column { table, wide, taken } => {
                while out.len() < count {
                    if *taken == wide.len() {
                        wide.clear();
                        *taken = 0;
                        if table.next_rows(wide, Element::to_ids)?.1 == 0 {
                            return refuse(table.path(), "it became shorter while it was read");
                        }
                    }
                    let id = wide[*taken];
                    let row = table.rows_read() - (wide.len() - *taken) as u64;
                    let Ok(id) = u64::try_from(id) else {
                        return refuse(table.path(), format!("row {row} has the id {id}, below 0"));
                    };
                    out.push(id);
                    *taken += 1;
                }
            }
            Self::Text(lines) => {
                while out.len() < count {
                    let Some(id) = lines.next()? else {
                        return refuse(&lines.path, "it became shorter while it was read");
                    };
                    out.push(id);
                }
            }
        }
        Ok(())
    }
}

/// Numbers as text, one on each line; empty lines are skipped.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    line_number: u64,
    line: Vec<u8>,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = BufReader::new(open_regular(path)?);
        Ok(Self { path: path.to_owned(), file, line_number: 0, line: Vec::new() })
    }

    fn rewind(&mut self) -> Result<(), Error> {
        self.line_number = 0;
        self.file.rewind().map_err(|error| cannot("seek in", &self.path, error))
    }

    fn count(&mut self) -> Result<u64, Error> {
        let mut count = 0;
        while self.next()?.is_some() {
            count += 1;
        }
        self.rewind()?;
        Ok(count)
    }

    fn next(&mut self) -> Result<Option<u64>, Error> {
        loop {
            self.line.clear();
            let mut limited = std::io::Read::take(&mut self.file, LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut self.line);
            if read.map_err(|error| cannot("read", &self.path, error))? == 0 {
                return Ok(None);
            }
            self.line_number += 1;
            let text = self.line.trim_ascii();
            if text.is_empty() && self.line.len() < LINE_BYTES_MAX as usize {
                continue;
            }
            return match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
                Some(id) => Ok(Some(id)),
                None => refuse(
                    &self.path,
                    format!(
                        "line {} is {:?}, not a number from 0 to 2^64 - 1",
                        self.line_number,
                        String::from_utf8_lossy(&text[..text.len().min(24)]),
                    ),
                ),
            };
        }
    }
}
