//! What every phase of a build needs: its options, the layout of nodes, threads and progress.

use std::ops::ControlFlow;

use crate::page::layout::NodeLayout;
use crate::{BuildOptions, Error, OnProgress, Progress};

/// A build in progress.
pub(super) struct Job<'a> {
    pub(super) options: &'a BuildOptions,
    pub(super) layout: NodeLayout,
    pub(super) threads: usize,
    pub(super) progress: OnProgress<'a>,
    /// Rows of partitions that are connected, and all rows.
    pub(super) before: u64,
    pub(super) total: u64,
}

impl Job<'_> {
    /// Reports that `done` rows of a partition passed a phase.
    pub(super) fn step_rows(&mut self, phase: &'static str, done: usize) -> Result<(), Error> {
        let done = (self.before + done as u64).min(self.total);
        self.step(phase, done, self.total)
    }

    /// Reports progress, and turns a `Break` into an error.
    pub(super) fn step(&mut self, phase: &'static str, done: u64, total: u64) -> Result<(), Error> {
        match (self.progress)(Progress { phase, done, total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }
}
