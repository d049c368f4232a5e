//! The values of one column, read some rows at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use pagehop_engine::{ColumnKind, Error, Value};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{AsBytes as _, ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

use super::super::element::f16_to_f32;
use super::super::layout::refuse;
use super::damage::damaged;
use super::pages::{Pages, Unread, unreadable};
use super::types::{Form, List, Source};

const DAY_US: i64 = 86_400_000_000;
/// Bytes of an invalid text that an error shows.
const BYTES_SHOWN: usize = 40;

/// A column in a row group.
pub(super) struct Leaf<'a> {
    path: &'a Path,
    source: &'a Source,
    kind: ColumnKind,
    reader: ColumnReader,
    /// List elements in pages that the decoder has, before their rows are read.
    unread: Unread,
    /// Definition and repetition levels of the rows that were read last.
    levels: Levels,
}

#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// A value of a leaf, or what is wrong with it.
type Converted = Result<Value, String>;

impl<'a> Leaf<'a> {
    pub(super) fn open(
        path: &'a Path,
        file: &Arc<File>,
        group: &RowGroupMetaData,
        source: &'a Source,
        kind: ColumnKind,
    ) -> Result<Self, Error> {
        if let Some(compression) = unreadable(group, source.at) {
            let (name, remedy) = (&source.name, "write it with compression='zstd' or 'snappy'");
            return refuse(
                path,
                format!("column {name:?} is compressed with {compression}, which is not read: {remedy}"),
            );
        }
        let unread = Unread::default();
        let count = source.list.is_some().then(|| unread.clone());
        let pages = Pages::open(file, group, source.at, count);
        let pages = pages.map_err(|error| damaged(path, Some(&source.name), &error))?;
        let reader = get_column_reader(source.leaf.clone(), Box::new(pages));
        Ok(Self { path, source, kind, reader, unread, levels: Levels::default() })
    }

    /// The values of the next `rows` rows. `first` is the number of the first of them in the file,
    /// for errors.
    pub(super) fn read(&mut self, rows: usize, first: usize) -> Result<Vec<Value>, Error> {
        let name = &self.source.name;
        let mut values = self.elements(rows).map_err(|error| damaged(self.path, Some(name), &error))?.into_iter();
        let max = self.source.leaf.max_def_level();
        let mut converted = Vec::with_capacity(rows);
        match self.source.list {
            Some(list) => self.levels.gather(list, max, &mut values, &mut converted),
            None if max == 0 => converted.extend(values),
            None => {
                let value = |level: &i16| if *level == max { values.next() } else { Some(Ok(Value::Null)) };
                converted.extend(self.levels.definition.iter().map_while(value));
            }
        }
        if converted.len() != rows {
            let error = ParquetError::General("a row group has fewer values than rows".to_owned());
            return Err(damaged(self.path, Some(name), &error));
        }
        let wrong = |(row, value): (usize, Converted)| {
            let place = format!("{}: row {}, column {name:?}", self.path.display(), first + row);
            value.map_err(|what| Error::argument(format!("{place}: {what}")))
        };
        converted.into_iter().enumerate().map(wrong).collect()
    }

    /// The elements of the next `rows` rows, without the missing ones. Their levels are in
    /// `levels`.
    fn elements(&mut self, rows: usize) -> Result<Vec<Converted>, ParquetError> {
        let (kind, levels) = (self.kind, &mut self.levels);
        let elements = match (&mut self.reader, self.source.form) {
            (ColumnReader::BoolColumnReader(reader), _) => levels.read(reader, rows, |is| Ok(Value::Bool(is))),
            (ColumnReader::Int32ColumnReader(reader), form) => levels.read(reader, rows, |x| match form {
                Form::Days => microseconds(i64::from(x), DAY_US),
                Form::Uint32 => Ok(Value::Int(i64::from(x as u32))),
                _ => Ok(Value::Int(i64::from(x))),
            }),
            (ColumnReader::Int64ColumnReader(reader), form) => levels.read(reader, rows, |x| match form {
                Form::Milliseconds => microseconds(x, 1000),
                Form::Microseconds => Ok(Value::Timestamp(x)),
                Form::Nanoseconds => Ok(Value::Timestamp(x.div_euclid(1000))),
                Form::Uint64 if x < 0 => Err(format!("{} is above 2**63 - 1", x as u64)),
                _ => Ok(Value::Int(x)),
            }),
            (ColumnReader::FloatColumnReader(reader), _) => levels.read(reader, rows, |x| Ok(float(f64::from(x)))),
            (ColumnReader::DoubleColumnReader(reader), _) => levels.read(reader, rows, |x| Ok(float(x))),
            (ColumnReader::ByteArrayColumnReader(reader), Form::Bytes) => {
                levels.read(reader, rows, |bytes: ByteArray| uuid(bytes.data()))
            }
            (ColumnReader::ByteArrayColumnReader(reader), _) => {
                levels.read(reader, rows, |bytes: ByteArray| text(bytes.data(), kind))
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), form) => {
                levels.read(reader, rows, |bytes: FixedLenByteArray| match (form, bytes.as_bytes()) {
                    (Form::Float16, &[low, high]) => {
                        Ok(float(f64::from(f16_to_f32(u16::from_le_bytes([low, high])))))
                    }
                    (_, bytes) => uuid(bytes),
                })
            }
            (ColumnReader::Int96ColumnReader(_), _) => Err(ParquetError::NYI("INT96".to_owned())),
        };
        self.unread.was_read(self.levels.definition.len());
        elements
    }
}

impl Levels {
    fn read<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        rows: usize,
        value: impl Fn(T::T) -> Converted,
    ) -> Result<Vec<Converted>, ParquetError> {
        self.definition.clear();
        self.repetition.clear();
        let mut values = Vec::new();
        let (definition, repetition) = (Some(&mut self.definition), Some(&mut self.repetition));
        reader.read_records(rows, definition, repetition, &mut values)?;
        Ok(values.into_iter().map(value).collect())
    }

    /// Gathers elements into lists, which are sets of tags.
    fn gather(
        &self,
        list: List,
        max: i16,
        elements: &mut impl Iterator<Item = Converted>,
        lists: &mut Vec<Converted>,
    ) {
        for (&definition, &repetition) in self.definition.iter().zip(&self.repetition) {
            if repetition == 0 {
                let is_missing = list.is_optional && definition == 0;
                lists.push(Ok(if is_missing { Value::Null } else { Value::Tags(Vec::new()) }));
            }
            if definition < list.element {
                continue;
            }
            let element = if definition == max { elements.next() } else { None };
            // A damaged file can begin within a list.
            let Some(last) = lists.last_mut() else { return };
            match (last.as_mut(), element) {
                (Ok(Value::Tags(tags)), Some(Ok(Value::Text(tag)))) => tags.push(tag),
                (Ok(_), Some(Err(what))) => *last = Err(what),
                (Ok(_), _) => *last = Err("NULL is not a tag: leave it out of the list".to_owned()),
                (Err(_), _) => {}
            }
        }
    }
}

/// The time `units` after 1970; `unit` is in microseconds.
fn microseconds(units: i64, unit: i64) -> Converted {
    let time = units.checked_mul(unit).map(Value::Timestamp);
    time.ok_or_else(|| format!("{units} x {unit} microseconds do not fit in a 64-bit timestamp"))
}

/// NaN is a missing value, as in Python.
fn float(x: f64) -> Value {
    if x.is_nan() { Value::Null } else { Value::Float(x) }
}

fn uuid(bytes: &[u8]) -> Converted {
    let uuid = <[u8; 16]>::try_from(bytes).map(Value::Uuid);
    uuid.map_err(|_| format!("bytes of length {}, a UUID has 16; texts must have the type string", bytes.len()))
}

fn text(bytes: &[u8], kind: ColumnKind) -> Converted {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES_SHOWN)]);
        return Err(format!("{start:?} is not UTF-8"));
    };
    match kind {
        ColumnKind::Uuid => Value::parse(kind, text).map_err(|error| error.to_string()),
        _ => Ok(Value::Text(text.to_owned())),
    }
}
