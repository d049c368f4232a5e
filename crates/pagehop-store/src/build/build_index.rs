//! Builds an index over the rows of a source, into a new file.

use std::path::Path;

use pagehop_engine::{BuildOptions, BuildReport, Error, OnProgress, VectorSource};

use crate::build::new_file::NewIndexFile;

/// Builds an index over all rows of `source` at `path`.
///
/// A build that fails or is killed leaves what was at `path` before, or nothing.
///
/// # Errors
///
/// Those of [`NewIndexFile::create`], before any work is done; those of [`pagehop_engine::build`]
/// and of [`pagehop_engine::Index::calibrate`]; [`Error::Io`] if the file cannot be written.
pub fn build(
    path: &Path,
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    overwrite: bool,
    progress: OnProgress<'_>,
) -> Result<BuildReport, Error> {
    let mut sink = NewIndexFile::create(path, overwrite)?;
    let report = pagehop_engine::build(source, options, &mut sink, progress)?;
    if options.calibrate {
        sink.calibrate(options.threads, progress)?;
    }
    sink.finish()?;
    Ok(report)
}
