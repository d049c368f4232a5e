//! What every phase of a build needs: its options, the layout of nodes, threads and progress.

use crate::page::layout::NodeLayout;
use crate::progress::report;
use crate::quantize::prepare::inner_dim;
use crate::{BuildOptions, DIM_MAX, Error, OnProgress, threads};

/// A build in progress.
pub(super) struct Job<'a> {
    pub(super) options: &'a BuildOptions,
    pub(super) layout: NodeLayout,
    pub(super) threads: usize,
    pub(super) progress: OnProgress<'a>,
    /// Rows of the partitions that are connected so far, and of all.
    pub(super) before: u64,
    pub(super) total: u64,
}

impl<'a> Job<'a> {
    /// A build of rows with `words` values each that has not begun.
    pub(super) fn new(
        options: &'a BuildOptions,
        (dim, words): (usize, usize),
        progress: OnProgress<'a>,
    ) -> Result<Self, Error> {
        check_dim(dim)?;
        let layout = NodeLayout::choose(inner_dim(dim), words);
        Ok(Self { options, layout, threads: threads::available(options.threads), progress, before: 0, total: 0 })
    }

    /// Reports that `done` rows of a partition passed a phase.
    pub(super) fn step_rows(&mut self, phase: &'static str, done: usize) -> Result<(), Error> {
        let done = (self.before + done as u64).min(self.total);
        self.step(phase, done, self.total)
    }

    /// Reports progress, and turns a `Break` into an error.
    pub(super) fn step(&mut self, phase: &'static str, done: u64, total: u64) -> Result<(), Error> {
        report(self.progress, phase, done, total)
    }
}

/// Refuses dimensions that no index has.
pub(super) fn check_dim(dim: usize) -> Result<(), Error> {
    if (1..=DIM_MAX).contains(&dim) {
        return Ok(());
    }
    Err(Error::argument(format!("vectors have {dim} dimensions, an index takes 1 to {DIM_MAX}")))
}
