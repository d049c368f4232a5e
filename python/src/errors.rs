//! Converts errors of the engine into the exceptions of `pagehop.errors`.

use pagehop_engine::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The exception for `error`.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    raise(py, error).unwrap_or_else(|import_failed| import_failed)
}

/// The exception for an argument that is refused.
pub(crate) fn argument(py: Python<'_>, what: impl Into<String>) -> PyErr {
    to_python(py, &Error::argument(what))
}

fn raise(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let errors = ERRORS.get_or_try_init(py, || py.import("pagehop.errors").map(Bound::unbind))?.bind(py);
    let text = error.to_string();
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
        Error::Argument { .. } | Error::Memory { .. } => errors.getattr("ArgumentError")?.call1((text,))?,
        Error::Interrupted => errors.getattr("Interrupted")?.call1((text,))?,
        _ => errors.getattr("Error")?.call1((text,))?,
    };
    Ok(PyErr::from_value(exception))
}
