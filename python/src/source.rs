//! A Python object with `chunks()` as a source of vectors for the engine.
//!
//! The build runs without the GIL. Each chunk is copied while the GIL is held, so Python code
//! cannot change memory that the engine reads.

use pagehop_engine::{ColumnRows, EachChunk, Error, VectorSource};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// Most components that are passed to the engine at once; they have 8 MiB.
const CHUNK_COMPONENTS: usize = 2 << 20;

/// Rows from `object.chunks()`, an iterator of `(ids, vectors)`: one-dimensional uint64 and
/// two-dimensional C-contiguous float32.
pub(crate) struct PySource {
    object: Py<PyAny>,
    dim: usize,
    rows: Option<u64>,
    texts: Option<Vec<String>>,
    columns: Option<ColumnRows>,
    /// The exception that ended a scan, kept while the engine returns with [`Error::Interrupted`].
    raised: Option<PyErr>,
}

struct Chunk {
    ids: Vec<u64>,
    components: Vec<f32>,
}

impl PySource {
    /// A source of `rows` rows, if their number is known. With `texts`, these are the ids of all
    /// rows, and the ids of the chunks are ignored.
    pub(crate) fn new(
        object: Py<PyAny>,
        (rows, dim): (Option<u64>, usize),
        texts: Option<Vec<String>>,
        columns: Option<ColumnRows>,
    ) -> Self {
        Self { object, dim, rows, texts, columns, raised: None }
    }

    /// The exception that ended the last scan.
    pub(crate) fn take_raised(&mut self) -> Option<PyErr> {
        self.raised.take()
    }

    fn keep(&mut self, error: PyErr) -> Error {
        self.raised = Some(error);
        Error::Interrupted
    }

    fn next(&self, chunks: &Py<PyAny>) -> PyResult<Option<Chunk>> {
        Python::attach(|py| {
            py.check_signals()?;
            let Some(item) = chunks.bind(py).try_iter()?.next() else {
                return Ok(None);
            };
            let (ids, vectors): (PyBuffer<u64>, PyBuffer<f32>) = item?.extract()?;
            let chunk = Chunk { ids: ids.to_vec(py)?, components: vectors.to_vec(py)? };
            if chunk.ids.len() * self.dim != chunk.components.len() {
                let what = format!(
                    "chunk of {} ids has {} components, not {} for each",
                    chunk.ids.len(),
                    chunk.components.len(),
                    self.dim
                );
                return Err(crate::errors::argument(py, what));
            }
            Ok(Some(chunk))
        })
    }
}

impl VectorSource for PySource {
    fn dim(&self) -> usize {
        self.dim
    }

    fn row_count(&self) -> Option<u64> {
        self.rows
    }

    fn text_ids(&self) -> Option<&[String]> {
        self.texts.as_deref()
    }

    fn columns(&self) -> Option<&ColumnRows> {
        self.columns.as_ref()
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let rows_max = (CHUNK_COMPONENTS / self.dim.max(1)).max(1);
        let chunks = Python::attach(|py| {
            let chunks = self.object.bind(py).call_method0("chunks")?;
            Ok(chunks.try_iter()?.into_any().unbind())
        });
        let chunks = chunks.map_err(|error| self.keep(error))?;
        while let Some(chunk) = self.next(&chunks).map_err(|error| self.keep(error))? {
            let components = chunk.components.chunks(rows_max * self.dim);
            for (ids, components) in chunk.ids.chunks(rows_max).zip(components) {
                each(ids, components)?;
            }
        }
        Ok(())
    }
}
