//! What Python must know about the CPU before it loads NumPy.

use pyo3::prelude::*;

/// Whether this CPU lacks instructions that NumPy's newer wheels need.
#[pyfunction]
pub(crate) fn is_before_x86_64_v2() -> bool {
    pagehop_kernels::is_before_x86_64_v2()
}
