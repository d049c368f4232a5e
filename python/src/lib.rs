//! The Python face of Pagehop, in Rust: what NumPy cannot do for itself.
//!
//! `pagehop/*.py` checks and converts arguments and owns the arrays; this module lets go of the
//! interpreter, calls the engine, and turns its errors into Python's.

mod build;
mod errors;
mod index;
mod recall;
mod search;
mod source;
mod turn;
mod watch;

use pyo3::prelude::*;

/// The compiled half of `pagehop`; use the package, not this module.
#[pymodule]
mod _pagehop {
    #[pymodule_export]
    use crate::build::{build, create};
    #[pymodule_export]
    use crate::index::{Index, open, parse_bytes};

    /// Largest `k` and `search_list`.
    #[pymodule_export]
    const SEARCH_LIST_MAX: usize = pagehop_engine::index::SEARCH_LIST_MAX;
    /// Largest `beam_width`.
    #[pymodule_export]
    const BEAM_WIDTH_MAX: usize = pagehop_engine::index::BEAM_WIDTH_MAX;
}
