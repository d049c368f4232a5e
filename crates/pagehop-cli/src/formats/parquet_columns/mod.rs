//! Values of columns from a Parquet file. They are the same as those that Python takes from
//! `pyarrow.parquet.read_table(path)`.
//!
//! Every column of the file becomes a column of the index. Its kind follows from its type, whatever
//! its name is. NULL and NaN are missing values, and lists of texts are tags.
//!
//! The crate `parquet` decodes the file. It may panic if the file is damaged, so a panic becomes an
//! error here.
//!
//! - `mod.rs`: rows, from all columns.
//! - `types.rs`: which types of Parquet are which kinds.
//! - `leaf.rs`: the values of one column.
//! - `pages.rs`: the pages of one column, decompressed and bounded.
//! - `damage.rs`: errors about damaged files.

mod damage;
mod leaf;
mod pages;
mod types;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use pagehop_engine::{COLUMNS_MAX, Column, ColumnRows, Error, Value};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::layout::refuse;
use damage::{damaged, without_panics};
use leaf::Leaf;
use types::Source;

/// Rows that are decoded at a time. All their texts are in memory together.
const BATCH_ROWS: usize = 128;

/// The values of the columns of `file`, which must hold `rows` rows. `known` are the columns of the
/// index, if there is one.
pub(super) fn read(path: &Path, file: File, known: &[Column], rows: u64) -> Result<ColumnRows, Error> {
    without_panics(|| read_all(path, file, known, rows))
        .unwrap_or_else(|| refuse(path, "the Parquet file is damaged: write it again"))
}

fn read_all(path: &Path, file: File, known: &[Column], rows: u64) -> Result<ColumnRows, Error> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(|e| damaged(path, None, &e))?;
    // The numbers of rows that the file claims are checked against the number of vectors before any
    // row is read, because a damaged file may claim any number.
    check_rows(path, &metadata, rows)?;
    let sources = sources(path, &metadata)?;
    let columns = sources.iter().map(|source| source.column(known)).collect::<Result<_, _>>();
    let columns = columns.or_else(|what| refuse(path, what))?;
    let mut all = ColumnRows::new(columns).map_err(|error| about(path, &error))?;
    let (file, mut values) = (Arc::new(file), Vec::with_capacity(sources.len()));
    for group in metadata.row_groups() {
        if group.num_columns() != metadata.file_metadata().schema_descr().num_columns() {
            return refuse(path, "a row group lacks a column: the Parquet file is damaged");
        }
        let kinds = all.columns().to_vec();
        let leaves =
            sources.iter().zip(kinds).map(|(source, column)| Leaf::open(path, &file, group, source, column.kind));
        let mut leaves = leaves.collect::<Result<Vec<Leaf>, Error>>()?;
        let mut left = group.num_rows() as usize;
        while left > 0 {
            let batch = left.min(BATCH_ROWS);
            let first = all.len();
            let columns = leaves.iter_mut().map(|leaf| leaf.read(batch, first));
            let mut columns: Vec<_> = columns.map(|it| it.map(Vec::into_iter)).collect::<Result<_, Error>>()?;
            for _ in 0..batch {
                values.clear();
                values.extend(columns.iter_mut().map(|values| values.next().unwrap_or(Value::Null)));
                all.push(&values).map_err(|error| about(path, &error))?;
            }
            left -= batch;
        }
    }
    Ok(all)
}

fn check_rows(path: &Path, metadata: &ParquetMetaData, rows: u64) -> Result<(), Error> {
    let groups = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
    let found = groups.reduce(|all, group| all?.checked_add(group?)).unwrap_or(Some(0));
    match found {
        Some(found) if i64::try_from(found) != Ok(metadata.file_metadata().num_rows()) => {
            refuse(path, "the row counts of its row groups do not match its footer: the Parquet file is damaged")
        }
        Some(found) if found == rows => Ok(()),
        Some(found) => refuse(path, format!("it holds {found} rows of values for {rows} rows")),
        None => refuse(path, "a row group has no number of rows: the Parquet file is damaged"),
    }
}

fn sources(path: &Path, metadata: &ParquetMetaData) -> Result<Vec<Source>, Error> {
    let schema = metadata.file_metadata().schema_descr();
    match schema.root_schema().get_fields().len() {
        0 => refuse(path, "it has no columns"),
        1..=COLUMNS_MAX => types::sources(schema).or_else(|what| refuse(path, what)),
        columns => {
            let what = format!("there are {columns} columns, an index takes up to {COLUMNS_MAX}");
            refuse(path, format!("{what}: write those that searches filter by to a file of their own"))
        }
    }
}

fn about(path: &Path, error: &Error) -> Error {
    Error::argument(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
