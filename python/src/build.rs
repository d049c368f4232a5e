//! `build`: the engine at work, the interpreter asked now and then whether to go on.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagehop_engine::{BuildOptions, Error, Progress};
use pyo3::prelude::*;

use crate::errors;
use crate::source::PySource;

/// Time between two looks at signals and two calls of the user's callback in one phase.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Builds an index over all rows of `source` at `path`; gives rows and pages.
///
/// `source.chunks()` gives pairs of uint64 ids and C-contiguous float32 vectors, the same each time.
#[pyfunction]
#[pyo3(signature = (path, source, dim, *, metric, memory_bytes, threads, seed, overwrite, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of one private call")]
pub(crate) fn build(
    py: Python<'_>,
    path: PathBuf,
    source: Py<PyAny>,
    dim: usize,
    metric: &str,
    memory_bytes: u64,
    threads: usize,
    seed: u64,
    overwrite: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u32)> {
    let metric = metric.parse().map_err(|error| errors::to_python(py, &error))?;
    let options = BuildOptions { metric, memory_bytes, threads, seed };
    let mut source = PySource::new(source, dim);
    let mut watch = Watch::new(progress);
    let built = py.detach(|| {
        pagehop_store::build(&path, &mut source, &options, overwrite, &mut |progress| watch.look(progress))
    });
    match built {
        Ok(report) => Ok((report.rows, report.pages)),
        Err(Error::Interrupted) => {
            let raised = source.take_raised().or(watch.raised);
            Err(raised.unwrap_or_else(|| errors::to_python(py, &Error::Interrupted)))
        }
        Err(error) => Err(errors::to_python(py, &error)),
    }
}

/// Passes progress on, and notices Ctrl-C.
struct Watch {
    callback: Option<Py<PyAny>>,
    phase: &'static str,
    looked: Instant,
    raised: Option<PyErr>,
}

impl Watch {
    fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, phase: "", looked: Instant::now(), raised: None }
    }

    fn look(&mut self, progress: Progress) -> ControlFlow<()> {
        let milestone = progress.phase != self.phase || progress.done == progress.total;
        if !milestone && self.looked.elapsed() < LOOK_EVERY {
            return ControlFlow::Continue(());
        }
        self.phase = progress.phase;
        let answer = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else {
                return Ok(true);
            };
            let answer = callback.bind(py).call1((progress.phase, progress.done, progress.total))?;
            Ok(answer.is_none() || answer.is_truthy()?)
        });
        self.looked = Instant::now();
        match answer {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
