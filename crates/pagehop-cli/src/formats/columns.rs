//! Values of columns from a Parquet file, or from a .csv file: a line with names, then a line for
//! each row.
//!
//! In a .csv file, a name may be followed by its kind, as in `price:float`. Without one, the kind
//! is the narrowest that all values have: int, float, bool, timestamp, text; a column of integers,
//! one of them beyond 64 bits, is refused. An empty field is a missing value. Tags, whose kind must
//! be named, are a list as in JSON: `["new", "red"]`.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use csv::{Reader, ReaderBuilder, StringRecord};
use pagehop_engine::{Column, ColumnKind, ColumnRows, Error, Value};

use super::layout::refuse;
#[cfg(feature = "parquet")]
use super::parquet_columns::read as parquet;
use super::reading::{cannot, open_regular};

/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// Kinds that are inferred, in the order in which they are tried; text if none fits.
const INFERRED: [ColumnKind; 4] = [ColumnKind::Int, ColumnKind::Float, ColumnKind::Bool, ColumnKind::Timestamp];

/// The values of the columns of `path`, which must hold `rows` rows. `known` are the columns of the
/// index, if there is one.
pub(crate) fn read_columns(path: &Path, known: &[Column], rows: u64) -> Result<ColumnRows, Error> {
    if let Some(file) = open_parquet(path)? {
        return parquet(path, file, known, rows);
    }
    let columns = read(path, known)?;
    match columns.len() as u64 {
        found if found == rows => Ok(columns),
        found => refuse(path, format!("it holds {found} rows of values for {rows} rows")),
    }
}

fn read(path: &Path, known: &[Column]) -> Result<ColumnRows, Error> {
    let (mut reader, names) = open(path)?;
    let mut named = Vec::with_capacity(names.len());
    for name in &names {
        named.push(match name.rsplit_once(':') {
            Some((name, kind)) => {
                (name.trim(), Some(ColumnKind::of_name(kind.trim()).map_err(|e| about(path, &e))?))
            }
            None => {
                let name = name.trim();
                (name, known.iter().find(|column| column.name == name).map(|column| column.kind))
            }
        });
    }
    let inferred = if named.iter().any(|(_, kind)| kind.is_none()) { infer(path, &named)? } else { Vec::new() };
    let kind = |(at, (name, kind)): (usize, &(&str, Option<ColumnKind>))| {
        let kind = kind.unwrap_or_else(|| inferred[at]);
        Column { name: (*name).to_owned(), kind }
    };
    let columns: Vec<Column> = named.iter().enumerate().map(kind).collect();
    let mut rows = ColumnRows::new(columns.clone()).map_err(|error| about(path, &error))?;
    let (mut record, mut values) = (StringRecord::new(), Vec::with_capacity(columns.len()));
    while next(path, &mut reader, &mut record)? {
        values.clear();
        for (column, text) in columns.iter().zip(&record) {
            let value = match column.kind {
                _ if text.is_empty() => Ok(Value::Null),
                ColumnKind::Tags => tags(text),
                kind => Value::parse(kind, text),
            };
            values.push(value.map_err(|error| at(path, &record, &column.name, &error))?);
        }
        rows.push(&values)
            .map_err(|error| Error::argument(format!("{}, line {}: {error}", path.display(), line(&record))))?;
    }
    Ok(rows)
}

fn tags(text: &str) -> Result<Value, Error> {
    let tags = serde_json::from_str(text).map(Value::Tags);
    tags.map_err(|_| Error::argument(format!("{} is not a list of tags, such as [\"new\", \"red\"]", cut(text))))
}

/// The part of a text that errors show: its first 40 characters.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// What the values of a column may be.
struct Possible {
    has_values: bool,
    /// The kinds of [`INFERRED`] that all values have.
    kinds: Vec<ColumnKind>,
    /// Whether all values are whole numbers, of any size.
    are_whole: bool,
    /// The first whole number beyond 64 bits, and its line.
    beyond: Option<(String, u64)>,
}

impl Possible {
    fn take(&mut self, text: &str, line: u64) {
        self.has_values = true;
        self.kinds.retain(|kind| match kind {
            // 0 and 1 are not booleans here, but integers.
            ColumnKind::Bool => text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"),
            kind => Value::parse(*kind, text).is_ok(),
        });
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        self.are_whole &= !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if self.are_whole && self.beyond.is_none() && Value::parse(ColumnKind::Int, text).is_err() {
            self.beyond = Some((cut(text), line));
        }
    }
}

/// The first kind of [`INFERRED`] that all values of a column have, for each column; text if there
/// is none.
fn infer(path: &Path, columns: &[(&str, Option<ColumnKind>)]) -> Result<Vec<ColumnKind>, Error> {
    let (mut reader, _) = open(path)?;
    let nothing = || Possible { has_values: false, kinds: INFERRED.to_vec(), are_whole: true, beyond: None };
    let mut possible: Vec<Possible> = columns.iter().map(|_| nothing()).collect();
    let mut record = StringRecord::new();
    while next(path, &mut reader, &mut record)? {
        let values = possible.iter_mut().zip(&record).filter(|(_, text)| !text.is_empty());
        values.for_each(|(possible, text)| possible.take(text, line(&record)));
    }
    for ((name, kind), possible) in columns.iter().zip(&possible) {
        if kind.is_some() {
            continue;
        }
        if !possible.has_values {
            return refuse(path, format!("column {name:?} has no values; name its kind: {name}:int"));
        }
        // As a float it would lose digits, and different numbers, such as ids, would be equal.
        if let Some((text, line)) = possible.beyond.as_ref().filter(|_| possible.are_whole) {
            return Err(Error::argument(format!(
                "{}, line {line}, column {name:?}: {text} is an integer beyond 64 bits; \
                 name the column's kind: {name}:text or {name}:float",
                path.display()
            )));
        }
    }
    let kind = |possible: Possible| possible.kinds.first().copied().unwrap_or(ColumnKind::Text);
    Ok(possible.into_iter().map(kind).collect())
}

/// The file at `path` if it is a Parquet file; `None` otherwise. A file that is named .parquet but
/// does not begin like one is refused.
fn open_parquet(path: &Path) -> Result<Option<File>, Error> {
    let mut file = open_regular(path)?;
    let mut start = Vec::new();
    let read = file.by_ref().take(PARQUET.len() as u64).read_to_end(&mut start);
    read.and_then(|_| file.rewind()).map_err(|error| cannot("read", path, error))?;
    let is_named_so = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
    match start == PARQUET {
        true => Ok(Some(file)),
        false if is_named_so => refuse(path, "it is not a Parquet file: it does not begin with PAR1"),
        false => Ok(None),
    }
}

#[cfg(not(feature = "parquet"))]
fn parquet(path: &Path, _: File, _: &[Column], _: u64) -> Result<ColumnRows, Error> {
    refuse(
        path,
        "it is a Parquet file, which this command was compiled without; in Python, \
         pagehop.build(..., columns=pyarrow.parquet.read_table(path)) reads it",
    )
}

fn open(path: &Path) -> Result<(Reader<File>, StringRecord), Error> {
    let mut reader = ReaderBuilder::new().from_reader(open_regular(path)?);
    let names = reader.headers().map_err(|error| refused(path, error))?.clone();
    Ok((reader, names))
}

fn next(path: &Path, reader: &mut Reader<File>, record: &mut StringRecord) -> Result<bool, Error> {
    reader.read_record(record).map_err(|error| refused(path, error))
}

fn refused(path: &Path, error: csv::Error) -> Error {
    let what = format!("{}: {error}", path.display());
    match error.into_kind() {
        csv::ErrorKind::Io(error) => cannot("read", path, error),
        _ => Error::Format { what },
    }
}

fn about(path: &Path, error: &Error) -> Error {
    Error::argument(format!("{}: {error}", path.display()))
}

fn at(path: &Path, record: &StringRecord, name: &str, error: &Error) -> Error {
    Error::argument(format!("{}, line {}, column {name:?}: {error}", path.display(), line(record)))
}

fn line(record: &StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}
