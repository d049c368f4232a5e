//! Walks that may find only some rows.

use std::sync::Arc;

use crate::columns::RowValues;
use crate::filter::{SignatureTest, Test};
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::filter::tags::Undecided;
use crate::index::state::State;

/// The rows that a walk may find.
pub(crate) struct Only {
    pub(super) test: Arc<Test>,
    /// What the test says of the signatures of rows, if anything.
    pub(super) signature: Option<Arc<SignatureTest>>,
    /// Whether the walk scores the edges of all nodes of a page.
    pub(super) expands_pages: bool,
    /// Whether the walk reads the tags of a row to know whether it passes.
    needs_tags: bool,
    /// The walk ends after this many hops.
    pub(in crate::index::search) hops_max: usize,
}

impl Only {
    /// Whether a walk must end after this number of hops.
    pub(crate) fn is_over(&self, hops: usize) -> bool {
        hops >= self.hops_max
    }

    /// The rows that pass a filter, or that may pass without a look at their tags.
    pub(crate) fn new(filter: &FilterPlan, hops_max: usize, looks_at_tags: bool, state: &State) -> Self {
        let (test, signature) = (filter.test.clone(), filter.signature(state));
        let expands_pages = signature.is_some() && filter.expands_pages;
        Self { test, signature, expands_pages, needs_tags: filter.needs_tags && looks_at_tags, hops_max }
    }

    /// Whether a row may pass; and the row, if only its tags decide.
    pub(super) fn look(&self, row_id: u64, values: RowValues<'_>) -> (bool, Option<Undecided>) {
        let passes = self.may_pass(row_id, values);
        (passes, if passes { self.undecided(row_id, values) } else { None })
    }

    /// Whether a row may pass.
    pub(super) fn may_pass(&self, row_id: u64, values: RowValues<'_>) -> bool {
        self.test.passes(row_id, values)
    }

    /// A row that may pass, if only its tags decide.
    pub(super) fn undecided(&self, row_id: u64, values: RowValues<'_>) -> Option<Undecided> {
        Undecided::if_needed(self.needs_tags, &self.test, row_id, values)
    }
}
