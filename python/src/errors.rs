//! Converts errors of the engine into the exceptions of `pagehop.errors`.

use std::path::Path;

use pagehop_engine::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The exception for `error`.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    raise(py, error, error.to_string()).unwrap_or_else(|import_failed| import_failed)
}

/// The exception for an argument that is refused.
pub(crate) fn argument(py: Python<'_>, what: impl Into<String>) -> PyErr {
    to_python(py, &Error::argument(what))
}

/// The exception for `error` about the index at `path`; it names the index unless the error does.
pub(crate) fn about(py: Python<'_>, path: &Path, error: &Error) -> PyErr {
    let (text, name) = (error.to_string(), path.display().to_string());
    let is_named = text.contains(&name) || matches!(error, Error::Interrupted);
    let text = if is_named { text } else { format!("{name}: {text}") };
    raise(py, error, text).unwrap_or_else(|import_failed| import_failed)
}

/// The exception for `error` about a query of a batch for the index at `path`. If the query is
/// refused, the exception names its position.
pub(crate) fn about_query(py: Python<'_>, path: &Path, at: usize, error: Error) -> PyErr {
    about(py, path, &error.about(format_args!("query {at}")))
}

fn raise(py: Python<'_>, error: &Error, text: String) -> PyResult<PyErr> {
    let errors = ERRORS.get_or_try_init(py, || py.import("pagehop.errors").map(Bound::unbind))?.bind(py);
    let exception = match error {
        Error::Corrupt { page, .. } => errors.getattr("CorruptIndexError")?.call1((text, page.0))?,
        Error::Io { source, .. } => errors.getattr("IoError")?.call1((text, source.raw_os_error()))?,
        Error::Format { .. } => errors.getattr("FormatError")?.call1((text,))?,
        Error::Dimension { expected, got } => errors.getattr("DimensionError")?.call1((text, *expected, *got))?,
        Error::Busy { .. } => errors.getattr("BusyError")?.call1((text,))?,
        Error::Full { source, .. } => {
            let errno = source.as_ref().and_then(std::io::Error::raw_os_error);
            errors.getattr("FullError")?.call1((text, errno))?
        }
        Error::Forked { .. } => errors.getattr("ForkedError")?.call1((text,))?,
        Error::Argument { .. } => errors.getattr("ArgumentError")?.call1((text,))?,
        Error::Memory { needed_bytes, .. } => errors.getattr("OutOfMemoryError")?.call1((text, *needed_bytes))?,
        Error::Interrupted => errors.getattr("Interrupted")?.call1((text,))?,
        _ => errors.getattr("Error")?.call1((text,))?,
    };
    Ok(PyErr::from_value(exception))
}
