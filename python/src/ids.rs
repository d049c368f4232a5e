//! Ids of rows from Python: a buffer of uint64, or a list of str.

use pagehop_engine::{Error, IdKind, RowId};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::errors;
use crate::search::FileIndex;

/// Ids, all of one kind.
pub(crate) enum Ids {
    Int(Vec<u64>),
    Text(Vec<String>),
}

impl Ids {
    /// The ids of an argument, in the forms that `pagehop/arrays.py` gives them.
    pub(crate) fn of(ids: &Bound<'_, PyAny>) -> PyResult<Self> {
        match ids.extract::<PyBuffer<u64>>() {
            Ok(numbers) => Ok(Self::Int(numbers.to_vec(ids.py())?)),
            Err(_) => Ok(Self::Text(ids.extract()?)),
        }
    }
}

/// Calls `$work` with a slice of the ids, of either kind.
macro_rules! with_ids {
    ($ids:expr, |$slice:ident| $work:expr) => {
        match $ids {
            crate::ids::Ids::Int($slice) => $work,
            crate::ids::Ids::Text($slice) => $work,
        }
    };
}
pub(crate) use with_ids;

/// Whether each of these ids has a row.
pub(crate) fn contains<I: RowId>(index: &FileIndex, ids: &[I]) -> Result<bool, Error> {
    for id in ids {
        if !index.contains(id.clone())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The kind of ids with this name.
pub(crate) fn kind(py: Python<'_>, name: &str) -> PyResult<IdKind> {
    match name {
        "int" => Ok(IdKind::Int),
        "text" => Ok(IdKind::Text),
        _ => {
            Err(errors::to_python(py, &Error::argument(format!("id_kind is '{name}', it must be 'int' or 'text'"))))
        }
    }
}
