//! Files of queries for an index.

use std::path::Path;

use pagehop_engine::VectorSource;

use crate::errors::Error;
use crate::formats::Vectors;

/// All vectors of `file` as queries for the index at `path`, whose dimension is `dim`; `None`
/// without a `file`. A file without vectors is refused.
pub(crate) fn read_queries(file: Option<&Path>, path: &Path, dim: usize) -> Result<Option<Vec<f32>>, Error> {
    let Some(file) = file else { return Ok(None) };
    let mut vectors = Vectors::open(file)?;
    check_dim((path, dim), (file, vectors.dim()))?;
    let mut queries = Vec::new();
    while let Some(chunk) = vectors.next_chunk()? {
        queries.extend_from_slice(chunk.components);
    }
    if queries.is_empty() {
        return Err(Error::Use(format!("{} has no vectors", file.display())));
    }
    Ok(Some(queries))
}

/// Refuses a file of vectors whose dimension is not that of the index. Both are given as path and
/// dimension.
pub(crate) fn check_dim(index: (&Path, usize), vectors: (&Path, usize)) -> Result<(), Error> {
    if index.1 == vectors.1 {
        return Ok(());
    }
    Err(Error::Use(format!(
        "{} has {} dimensions, {} has {}",
        vectors.0.display(),
        vectors.1,
        index.0.display(),
        index.1,
    )))
}
