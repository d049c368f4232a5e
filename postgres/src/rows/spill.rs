//! The rows of a build: read from the table once, and kept so that they can be read several times.
//!
//! Two scans of a table may see different rows, but the two scans of the engine must see the same
//! rows. Rows stay in memory while there is room. After that they lie in temporary files.

use pagehop_engine::{Column, ColumnRows, EachChunk, Error, Value, VectorSource};

use super::memory::CHUNK_BYTES;
use super::sample::RowSample;
use crate::signals::Signals;
use crate::temp_files::TempFile;

/// Rows in the order of the table.
pub(crate) struct Spill {
    dim: usize,
    /// Rows that may stay in memory.
    memory_rows: usize,
    rows: usize,
    /// The rows after those in the files; all rows if there are no files.
    row_ids: Vec<u64>,
    vectors: Vec<f32>,
    /// The filter columns, and the values of all rows in them, which stay in memory.
    columns: Vec<Column>,
    values: Vec<Value>,
    files: Option<Files>,
}

/// Rows that are not in memory.
struct Files {
    row_ids: TempFile,
    vectors: TempFile,
}

impl Spill {
    /// An empty spill. Up to `memory_rows` of `dim` components stay in memory.
    pub(crate) fn new(dim: usize, memory_rows: usize, columns: Vec<Column>) -> Self {
        let (row_ids, vectors, values) = (Vec::new(), Vec::new(), Vec::new());
        Self { dim, memory_rows, rows: 0, row_ids, vectors, columns, values, files: None }
    }

    /// Most bytes of files that `rows` rows take, if `memory_rows` may stay in memory.
    pub(crate) fn file_bytes(rows: usize, dim: usize, memory_rows: usize) -> u64 {
        let stays = rows <= memory_rows || rows < chunk_rows(dim);
        if stays { 0 } else { (rows * (size_of::<u64>() + 4 * dim)) as u64 }
    }

    /// The filter columns.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Takes the values of all rows in the filter columns out of this spill.
    pub(crate) fn take_values(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.values)
    }

    /// Number of rows so far.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Components of each vector.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// Adds a row. The current memory context lives as long as the rows.
    ///
    /// # Errors
    ///
    /// If the system has no memory for the row: the bytes that it did not give.
    pub(crate) fn add(&mut self, row_id: u64, vector: &[f32], values: &[Value]) -> Result<(), usize> {
        assert_eq!(vector.len(), self.dim, "all rows have the dimensions of their column");
        if self.row_ids.len() == self.row_ids.capacity() {
            // Grows by one chunk at a time: doubling would take twice the memory of the budget.
            let more = chunk_rows(self.dim);
            let given = self.row_ids.try_reserve_exact(more).and(self.vectors.try_reserve_exact(more * self.dim));
            given.map_err(|_| (self.row_ids.len() + more) * (size_of::<u64>() + 4 * self.dim))?;
        }
        let given = self.values.try_reserve(values.len());
        given.map_err(|_| (self.values.len() + values.len()) * size_of::<Value>())?;
        self.values.extend_from_slice(values);
        self.row_ids.push(row_id);
        self.vectors.extend_from_slice(vector);
        self.rows += 1;
        if self.row_ids.len() >= chunk_rows(self.dim) && (self.rows > self.memory_rows || self.files.is_some()) {
            self.write_out();
        }
        Ok(())
    }

    /// Appends the rows in memory to the files.
    fn write_out(&mut self) {
        let create = || Files { row_ids: TempFile::create(), vectors: TempFile::create() };
        let files = self.files.get_or_insert_with(create);
        files.row_ids.append(bytemuck::cast_slice(&self.row_ids));
        files.vectors.append(bytemuck::cast_slice(&self.vectors));
        self.row_ids.clear();
        self.vectors.clear();
    }

    /// Reads all rows from the first on.
    pub(crate) fn chunks(&mut self) -> Chunks<'_> {
        if self.files.is_some() {
            self.write_out();
            (self.row_ids, self.vectors) = (Vec::new(), Vec::new());
        }
        if let Some(files) = &mut self.files {
            let at_start = files.row_ids.seek(0) && files.vectors.seek(0);
            assert!(at_start, "every file has a position 0");
        }
        Chunks { spill: self, next: 0, row_ids: Vec::new(), vectors: Vec::new() }
    }

    /// The rows of the sample as the engine reads them, while `signals` are blocked.
    pub(crate) fn source<'s>(&'s mut self, sample: RowSample, signals: &'s Signals) -> Result<Source<'s>, Error> {
        let mut columns = ColumnRows::new(self.columns.clone())?;
        if !self.columns.is_empty() {
            let rows = self.values.chunks_exact(self.columns.len()).enumerate();
            rows.filter(|(row, _)| sample.contains(*row)).try_for_each(|(_, values)| columns.push(values))?;
        }
        Ok(Source { spill: self, sample, columns, signals })
    }
}

/// Rows in a chunk.
fn chunk_rows(dim: usize) -> usize {
    (CHUNK_BYTES / (4 * dim)).max(1)
}

/// See [`Spill::chunks`].
pub(crate) struct Chunks<'s> {
    spill: &'s mut Spill,
    next: usize,
    /// The rows that were read from the files last.
    row_ids: Vec<u64>,
    vectors: Vec<f32>,
}

impl Chunks<'_> {
    /// The next rows: the position of the first, ids, and components one row after the other.
    pub(crate) fn next(&mut self) -> Option<(usize, &[u64], &[f32])> {
        let dim = self.spill.dim;
        let first = self.next;
        let rows = chunk_rows(dim).min(self.spill.rows - first);
        if rows == 0 {
            return None;
        }
        self.next += rows;
        let Some(files) = &mut self.spill.files else {
            let (row_ids, vectors) = (&self.spill.row_ids[first..], &self.spill.vectors[first * dim..]);
            return Some((first, &row_ids[..rows], &vectors[..rows * dim]));
        };
        self.row_ids.resize(rows, 0);
        self.vectors.resize(rows * dim, 0.0);
        files.row_ids.read(bytemuck::cast_slice_mut(&mut self.row_ids));
        files.vectors.read(bytemuck::cast_slice_mut(&mut self.vectors));
        Some((first, &self.row_ids, &self.vectors))
    }
}

/// See [`Spill::source`].
pub(crate) struct Source<'s> {
    spill: &'s mut Spill,
    sample: RowSample,
    /// The values of the rows in the sample.
    columns: ColumnRows,
    signals: &'s Signals,
}

impl VectorSource for Source<'_> {
    fn dim(&self) -> usize {
        self.spill.dim
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.sample.len() as u64)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns).filter(|columns| !columns.columns().is_empty())
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let Self { spill, sample, signals, .. } = self;
        let dim = spill.dim;
        let mut chunks = signals.delivered(|| spill.chunks());
        let (mut sample_ids, mut sample_vectors) = (Vec::new(), Vec::new());
        while let Some((first, row_ids, vectors)) = signals.delivered(|| chunks.next()) {
            if sample.is_all() {
                each(row_ids, vectors)?;
                continue;
            }
            for (i, (row_id, vector)) in row_ids.iter().zip(vectors.chunks_exact(dim)).enumerate() {
                if sample.contains(first + i) {
                    sample_ids.push(*row_id);
                    sample_vectors.extend_from_slice(vector);
                }
            }
            each(&sample_ids, &sample_vectors)?;
            sample_ids.clear();
            sample_vectors.clear();
        }
        Ok(())
    }
}
