//! The rows of a file, read in chunks. The file is never in memory as a whole.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use pagehop_engine::Error;

use super::format::Format;
use super::reading::{cannot, open_regular, read_exact};
use super::{Element, Layout, Shape, bin, npy, vecs};

/// Bytes that are read at once, or one row if that is more.
const CHUNK_BYTES: u64 = 4 << 20;

/// A file of rows.
#[derive(Debug)]
pub(crate) struct Table<R = File> {
    path: PathBuf,
    file: R,
    layout: Layout,
    /// The next row to read.
    next_row: u64,
    raw: Vec<u8>,
}

impl Table {
    /// Opens `path`, whose extension names its format.
    pub(crate) fn open(path: &Path, shape: Shape) -> Result<Self, Error> {
        let format = Format::of(path)?;
        let file = open_regular(path)?;
        let file_bytes = file.metadata().map_err(|error| cannot("look at", path, error))?.len();
        Self::new(path, file, file_bytes, format, shape)
    }
}

impl<R: Read + Seek> Table<R> {
    /// The rows of `file`, which is `file_bytes` long; `path` is its name in errors.
    pub(crate) fn new(path: &Path, file: R, file_bytes: u64, format: Format, shape: Shape) -> Result<Self, Error> {
        // A header is read in several small pieces.
        let mut file = BufReader::with_capacity(512, file);
        let layout = match format {
            Format::Npy => npy::layout(path, &mut file, file_bytes, shape),
            Format::Fvecs => vecs::layout(path, &mut file, file_bytes, Element::F32),
            Format::Bvecs => vecs::layout(path, &mut file, file_bytes, Element::U8),
            Format::Ivecs => vecs::layout(path, &mut file, file_bytes, Element::I32),
            Format::Fbin => bin::layout(path, &mut file, file_bytes, Element::F32),
            Format::U8bin => bin::layout(path, &mut file, file_bytes, Element::U8),
            Format::I8bin => bin::layout(path, &mut file, file_bytes, Element::I8),
            Format::Ibin => bin::layout(path, &mut file, file_bytes, Element::I32),
        }?;
        let path = path.to_owned();
        let mut table = Self { path, file: file.into_inner(), layout, next_row: 0, raw: Vec::new() };
        table.rewind()?;
        Ok(table)
    }

    /// The name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the header says.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of rows that were read or skipped: the number of the next row.
    pub(crate) fn rows_read(&self) -> u64 {
        self.next_row
    }

    /// Returns to the first row.
    pub(crate) fn rewind(&mut self) -> Result<(), Error> {
        self.go_to(0)
    }

    /// Continues at `row`, which is at most the number of rows.
    pub(crate) fn go_to(&mut self, row: u64) -> Result<(), Error> {
        self.next_row = row;
        let before = self.row_bytes() * row;
        match self.file.seek(SeekFrom::Start(self.layout.header_bytes + before)) {
            Ok(_) => Ok(()),
            Err(error) => Err(cannot("seek in", &self.path, error)),
        }
    }

    /// Reads the next rows, and `convert` appends their numbers to `out`. Returns the number of the
    /// first row and the number of rows, which is 0 at the end.
    pub(crate) fn next_rows<T>(
        &mut self,
        out: &mut Vec<T>,
        convert: impl Fn(Element, &[u8], &mut Vec<T>),
    ) -> Result<(u64, usize), Error> {
        self.next_rows_up_to(u64::MAX, out, convert)
    }

    /// Like [`Table::next_rows`], with `most` rows at most.
    pub(crate) fn next_rows_up_to<T>(
        &mut self,
        most: u64,
        out: &mut Vec<T>,
        convert: impl Fn(Element, &[u8], &mut Vec<T>),
    ) -> Result<(u64, usize), Error> {
        let row_bytes = self.row_bytes();
        let rows_at_once = (CHUNK_BYTES / row_bytes.max(1)).max(1);
        let rows = rows_at_once.min(self.layout.rows - self.next_row).min(most) as usize;
        let row_bytes = row_bytes as usize;
        self.raw.resize(rows * row_bytes, 0);
        read_exact(&self.path, &mut self.file, &mut self.raw)?;
        let first = self.next_row;
        self.next_row += rows as u64;
        let Layout { prefixed, width, element, .. } = self.layout;
        if !prefixed {
            convert(element, &self.raw, out);
            return Ok((first, rows));
        }
        for (number, row) in (first..).zip(self.raw.chunks_exact(row_bytes)) {
            convert(element, vecs::strip_prefix(&self.path, number, width, row)?, out);
        }
        Ok((first, rows))
    }

    fn row_bytes(&self) -> u64 {
        self.layout.row_bytes().expect("the length of the file was checked")
    }
}
