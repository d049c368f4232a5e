//! The compiled half of the Python package.
//!
//! `pagehop/*.py` converts arguments and wraps results. This module checks its arguments, releases
//! the GIL, calls the engine, and converts errors of the engine into exceptions.

mod build;
mod columns;
mod compact;
mod cpu;
mod errors;
mod ids;
mod index;
mod info;
mod interpreter;
mod open;
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
    use crate::compact::compact;
    #[pymodule_export]
    use crate::cpu::is_before_x86_64_v2;
    #[pymodule_export]
    use crate::index::Index;
    #[pymodule_export]
    use crate::open::{open, parse_bytes};

    /// Most dimensions of a vector.
    #[pymodule_export]
    const DIM_MAX: usize = pagehop_engine::DIM_MAX;
    /// Largest `samples`.
    #[pymodule_export]
    const SAMPLES_MAX: usize = pagehop_engine::SAMPLES_MAX;
    /// Largest `k` and `search_list`.
    #[pymodule_export]
    const SEARCH_LIST_MAX: usize = pagehop_engine::SEARCH_LIST_MAX;
    /// The size of a cache that takes a quarter of the free memory.
    #[pymodule_export]
    const CACHE_AUTO: u64 = pagehop_store::CACHE_AUTO;
    /// Largest `beam_width`.
    #[pymodule_export]
    const BEAM_WIDTH_MAX: usize = pagehop_engine::BEAM_WIDTH_MAX;
    /// Largest `threads`.
    #[pymodule_export]
    const THREADS_MAX: usize = pagehop_engine::THREADS_MAX;
}
