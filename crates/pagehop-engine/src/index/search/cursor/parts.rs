//! The state that the phases of a cursor share: the rows that it has visited, and its buffers.

use std::sync::Arc;

use super::second_phase::SecondPhase;
use super::sequential::Sequential;
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::met::{Met, Row};
use crate::index::search::walk::{EVIDENCE_ROWS, Walk};
use crate::index::state::State;
use crate::page::Pages;
use crate::{Error, SearchOptions, Stats};

/// Most memory of a cursor that is kept for the next search after it has read postings.
const SMALL_BYTES: usize = 256 << 10;

/// The state of a cursor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// No node was visited yet.
    Begin,
    /// The walk has ended, and this many of its nearest rows were returned.
    First(usize),
    Second,
    /// The second phase, with candidates from postings.
    Postings,
    /// Every page is read.
    Sequential,
}

/// The state that the phases of a cursor share.
pub(super) struct CursorParts<'i, P: Pages + 'i> {
    pub(super) pages: &'i P,
    pub(super) state: Arc<State>,
    pub(super) reader: P::Reader<'i>,
    /// The options as the caller gave them, and as they are for the filter.
    pub(super) asked: SearchOptions,
    pub(super) options: SearchOptions,
    /// The number of rows that the caller will probably take.
    pub(super) expected: usize,
    /// The filter of the rows; `None` for all rows.
    pub(super) filter: Option<FilterPlan>,
    pub(super) walk: Walk,
    pub(super) met: Met,
    pub(super) second: SecondPhase,
    pub(super) sequential: Sequential,
    /// Most bytes of the phases before the sequential one, and of the search, and whether it has
    /// ended there.
    pub(super) memory_max: usize,
    pub(super) memory_end: usize,
    pub(super) is_full: bool,
    /// Most reads of pages, and whether the search has ended there.
    pub(super) reads_max: u64,
    pub(super) is_cut: bool,
    pub(super) stats: Stats,
}

impl<'i, P: Pages> CursorParts<'i, P> {
    /// The state of a cursor that has visited no row, whose `walk` has the query.
    pub(super) fn new(
        pages: &'i P,
        state: Arc<State>,
        reader: P::Reader<'i>,
        walk: Walk,
        options: &SearchOptions,
    ) -> Self {
        Self {
            pages,
            state,
            reader,
            asked: options.clone(),
            options: options.clone(),
            expected: EVIDENCE_ROWS,
            filter: None,
            walk,
            met: Met::default(),
            second: SecondPhase::default(),
            sequential: Sequential::default(),
            memory_max: usize::MAX,
            memory_end: usize::MAX,
            is_full: false,
            reads_max: u64::MAX,
            is_cut: false,
            stats: Stats::default(),
        }
    }

    /// Searches with these options from now on.
    pub(super) fn set_options(&mut self, options: &SearchOptions) -> Result<(), Error> {
        options.validate(1)?;
        self.asked = options.clone();
        self.options = self.filter.as_ref().map_or_else(|| options.clone(), |filter| filter.walk_options(options));
        Ok(())
    }

    /// Whether rows that pass the filter can be read from postings.
    pub(super) fn has_postings(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.runs.is_some())
    }

    /// Takes the next row of the second phase, once it is certain.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give the memory.
    pub(super) fn take_nearest(&mut self) -> Result<Option<Row>, Error> {
        let Some(at) = self.second.take_nearest(&self.options)? else { return Ok(None) };
        // Postings may follow, which begin with the rows that were not returned.
        self.met.rows[at].is_returned = true;
        Ok(Some(self.met.rows[at]))
    }

    /// Whether the walk of the second phase must end for the postings of the filter: it costs twice
    /// as much already, or no edge leads to the rows that are left.
    pub(super) fn second_is_over(&self) -> bool {
        let is_over = |filter: &FilterPlan| {
            self.second.frontier.is_empty()
                || self.walk.visited.len() >= filter.hops_max(self.second.out, self.asked.slack)
        };
        self.filter.as_ref().is_some_and(|filter| filter.runs.is_some() && is_over(filter))
    }

    /// Approximate memory of the rows and candidates of the search, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes()
            + self.met.memory_bytes()
            + self.second.memory_bytes()
            + self.sequential.memory_bytes()
    }

    /// Whether the buffers may be kept for the next search.
    pub(super) fn is_small(&self) -> bool {
        self.memory_bytes() <= SMALL_BYTES
    }

    /// The number of reads of pages so far: of nodes visited and of leaves of postings.
    pub(super) fn page_reads(&self) -> u64 {
        self.stats.hops + self.stats.pages_read
    }

    /// Ends the search if it has reached its limit of memory. Before the first row a little is not
    /// limited, so that there is one.
    pub(super) fn ends_by_memory(&mut self) -> bool {
        let least = if self.second.out == 0 { SMALL_BYTES } else { 0 };
        self.is_full |= self.memory_bytes() > self.memory_end.max(least);
        self.is_full
    }

    /// Ends the search if it has reached its limit of reads.
    pub(super) fn ends_by_reads(&mut self) -> bool {
        self.is_cut |= self.page_reads() >= self.reads_max;
        self.is_cut
    }
}
