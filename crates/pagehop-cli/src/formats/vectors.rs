//! Vectors from a file. Their ids come from another file, or are their positions.

use std::path::Path;

use pagehop_engine::{ColumnRows, EachChunk, Error, IdKind, VectorSource};

use super::columns::read_columns;
use super::ids::Ids;
use super::layout::refuse;
use super::payloads::read_payloads;
use super::text_ids::read_text_ids;
use super::{Element, Shape, Table};

/// A file of vectors, which can be read from the first to the last several times. Vectors and ids
/// that are numbers are read in chunks. Text ids, columns and payloads are in memory as a whole.
#[derive(Debug)]
pub(crate) struct Vectors {
    table: Table,
    ids: Option<Ids>,
    texts: Option<Vec<String>>,
    columns: Option<ColumnRows>,
    row_ids: Vec<u64>,
    components: Vec<f32>,
}

/// Consecutive vectors.
pub(crate) struct Chunk<'v> {
    /// The id of each vector.
    pub(crate) ids: &'v [u64],
    /// Their components, one vector after the other.
    pub(crate) components: &'v [f32],
}

impl Vectors {
    /// Opens the vectors of `path`, whose ids are their positions.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let table = Table::open(path, Shape::Matrix)?;
        table.layout().check_vectors(path)?;
        Ok(Self { table, ids: None, texts: None, columns: None, row_ids: Vec::new(), components: Vec::new() })
    }

    /// Takes ids of this kind from a file, one for each vector.
    pub(crate) fn open_ids(&mut self, path: &Path, kind: IdKind) -> Result<(), Error> {
        if kind != IdKind::Text {
            self.ids = Some(Ids::open(path, self.rows())?);
            return Ok(());
        }
        let texts = read_text_ids(path)?;
        if texts.len() as u64 != self.rows() {
            return refuse(path, format!("it holds {} ids for {} vectors", texts.len(), self.rows()));
        }
        self.texts = Some(texts);
        Ok(())
    }

    /// Vectors in the file.
    pub(crate) fn rows(&self) -> u64 {
        self.table.layout().rows
    }

    /// Takes the values of columns from a Parquet or .csv file, one row for each vector.
    pub(crate) fn open_columns(&mut self, path: &Path) -> Result<(), Error> {
        self.columns = Some(read_columns(path, &[], self.rows())?);
        Ok(())
    }

    /// Takes payloads from a text file, one line for each vector.
    pub(crate) fn open_payloads(&mut self, path: &Path) -> Result<(), Error> {
        let payloads = read_payloads(path, self.rows())?;
        self.columns = Some(self.columns.take().unwrap_or_default().with_payloads(payloads));
        Ok(())
    }

    /// Takes the ids of all vectors if they are texts.
    pub(crate) fn take_text_ids(&mut self) -> Option<Vec<String>> {
        self.texts.take()
    }

    /// The next vectors; `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Chunk<'_>>, Error> {
        self.components.clear();
        let (first, count) = self.table.next_rows(&mut self.components, Element::to_components)?;
        self.chunk(first, count)
    }

    /// The next `most` vectors, or those that are left; `None` at the end.
    pub(crate) fn next_batch(&mut self, most: usize) -> Result<Option<Chunk<'_>>, Error> {
        self.components.clear();
        let (first, mut count) = (self.table.rows_read(), 0);
        while count < most {
            let left = (most - count) as u64;
            let (_, more) = self.table.next_rows_up_to(left, &mut self.components, Element::to_components)?;
            if more == 0 {
                break;
            }
            count += more;
        }
        self.chunk(first, count)
    }

    /// Continues at vector `row`, which is at most the number of vectors.
    pub(crate) fn go_to(&mut self, row: u64) -> Result<(), Error> {
        self.table.go_to(row)?;
        self.ids.as_mut().map_or(Ok(()), |ids| ids.go_to(row))
    }

    /// The `count` vectors from `first` on with their ids; `None` if `count` is 0. Their components
    /// were read.
    fn chunk(&mut self, first: u64, count: usize) -> Result<Option<Chunk<'_>>, Error> {
        if count == 0 {
            return Ok(None);
        }
        match &mut self.ids {
            Some(ids) => ids.next(count, &mut self.row_ids)?,
            None => {
                self.row_ids.clear();
                self.row_ids.extend(first..first + count as u64);
            }
        }
        Ok(Some(Chunk { ids: &self.row_ids, components: &self.components }))
    }
}

impl VectorSource for Vectors {
    fn dim(&self) -> usize {
        self.table.layout().width as usize
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.rows())
    }

    fn text_ids(&self) -> Option<&[String]> {
        self.texts.as_deref()
    }

    fn columns(&self) -> Option<&ColumnRows> {
        self.columns.as_ref()
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        self.go_to(0)?;
        while let Some(Chunk { ids, components }) = self.next_chunk()? {
            each(ids, components)?;
        }
        Ok(())
    }
}
