//! Builds an index over the rows of a source, into a new file.

use std::path::Path;

use pagehop_engine::{BuildOptions, BuildReport, Error, OnProgress, VectorSource};

use crate::build::freed_memory;
use crate::build::new_file::NewIndexFile;

/// Builds an index over all rows of `source` at `path`.
///
/// A build that fails or is killed leaves `path` as it was before. In addition, a killed build of
/// more rows than fit in memory leaves its finished work, in `path` with `-build`. So does a build
/// that wrote the index, if the system then refuses to read it or to give it its name. A build that
/// is stopped or finds no space leaves nothing. The next build of the same rows with the same
/// options resumes after the finished work. Any other build starts over. Both remove the file at
/// their end.
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
    let mut sink = NewIndexFile::create(path, overwrite)?.keep_work();
    let mut phase = "";
    let progress: OnProgress<'_> = &mut |now| {
        if std::mem::replace(&mut phase, now.phase) != now.phase {
            freed_memory::return_to_system();
        }
        progress(now)
    };
    let report = pagehop_engine::build(source, options, &mut sink, progress)?;
    if options.calibrate {
        let shape = (report.rows, source.dim());
        let calibrated = sink.calibrate(shape, options.threads, options.memory_bytes, progress);
        calibrated.inspect_err(|error| sink.leave_work(error))?;
    }
    sink.finish()?;
    Ok(report)
}
