//! A search without a filter, from its query to its answer, one turn at a time.

use crate::index::search::observer::Unobserved;
use crate::index::search::plan::list_capacity;
use crate::index::search::rerank;
use crate::index::search::walk::{Turn, Walk};
use crate::index::state::State;
use crate::options::SEARCH_LIST_MAX;
use crate::page::{PageId, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, SearchOptions, SearchResult, Stats};

/// Longest candidate list of a walk that is kept for the next search: some 100 KB.
const SPARE_LIST: usize = 4096;

/// One search under way, with buffers for the next one.
#[derive(Default)]
pub(crate) struct Running {
    pub(crate) walk: Walk,
    k: usize,
    to_distance: ToDistance,
    /// Length of the candidate list.
    capacity: usize,
    /// Longest candidate list so far.
    pub(crate) longest: usize,
    /// Whether candidates far beyond the k-th estimate are rejected.
    uses_estimate: bool,
    stats: Stats,
    pages_read: Vec<PageId>,
    /// The query, if rows have kept vectors to compare it with.
    query: Vec<f32>,
}

impl Running {
    /// Begins a search for the `k` rows nearest to `query`.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`](crate::Index::search_with) for an invalid query.
    pub(crate) fn begin(
        &mut self,
        state: &State,
        reader: &impl Reader,
        query: &[f32],
        k: usize,
        options: &SearchOptions,
    ) -> Result<(), Error> {
        self.to_distance = self.walk.probe.prepare(&state.meta, &state.model, query)?;
        self.k = k;
        self.stats = Stats::default();
        self.pages_read.clear();
        self.query.clear();
        if state.meta.kept().is_some() {
            self.query.extend_from_slice(query);
        }
        self.capacity = list_capacity(k, options, state);
        // If some candidates are dead, the k-th candidate may be nearer than the k-th row.
        self.uses_estimate = state.meta.change.dead_rows == 0;
        self.enter(state, reader, options);
        Ok(())
    }

    fn enter(&mut self, state: &State, reader: &impl Reader, options: &SearchOptions) {
        self.longest = self.longest.max(self.capacity);
        self.walk.begin(state, self.capacity, self.k, self.uses_estimate);
        self.walk.use_row_codes(state);
        self.walk.nearest.keep_spare(rerank::spare(state));
        self.walk.enter(state, options, reader);
    }

    /// Searches to the end.
    pub(crate) fn run<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
    ) -> Result<(), Error> {
        loop {
            while self.walk.turn(state, reader, options, &mut Unobserved, &mut self.stats)? != Turn::Ended {}
            if self.is_enough(state) {
                return Ok(());
            }
            self.enter(state, reader, options);
        }
    }

    /// Takes one turn, unless it would wait for a page.
    pub(crate) fn turn<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        options: &SearchOptions,
        may_wait: bool,
    ) -> Result<Turn, Error> {
        if !may_wait && !self.walk.is_ready(state, reader) {
            return Ok(Turn::Waits);
        }
        let turn = self.walk.turn(state, reader, options, &mut Unobserved, &mut self.stats)?;
        if turn == Turn::Ended && !self.is_enough(state) {
            self.enter(state, reader, options);
            return Ok(Turn::Moved);
        }
        Ok(turn)
    }

    /// Whether the walk that ended found enough rows. If not, nodes without a visible row took
    /// places in the list, and the next walk has a longer list.
    fn is_enough(&mut self, state: &State) -> bool {
        self.pages_read.extend(self.walk.pages(&state.meta));
        let found = self.walk.nearest.found.len().min(self.k) as u64;
        let tried_all = !self.uses_estimate && (!self.walk.list.is_full() || self.capacity >= SEARCH_LIST_MAX);
        if found >= state.meta.rows.min(self.k as u64) || tried_all {
            return true;
        }
        self.uses_estimate = false;
        self.capacity *= 4;
        false
    }

    /// The answer of a search that ended. `missed` is the number of storage reads that the search
    /// caused.
    ///
    /// # Errors
    ///
    /// Those of [`rerank::rerank`].
    pub(crate) fn result<R: Reader>(
        &mut self,
        state: &State,
        reader: &mut R,
        missed: u64,
    ) -> Result<SearchResult, Error> {
        let mut stats = self.stats;
        let missed_before = reader.pages_missed();
        let Self { walk, k, to_distance, query, pages_read, .. } = self;
        let found = &walk.nearest.found;
        let hits = rerank::rerank(state, reader, query, *k, found, *to_distance, pages_read)?;
        stats.pages_read = rerank::distinct(pages_read);
        stats.pages_missed = missed + reader.pages_missed() - missed_before;
        Ok(SearchResult { hits, stats, snapshot: state.snapshot })
    }

    /// Whether the buffers are small enough to be kept.
    pub(crate) fn is_small(&self) -> bool {
        self.longest <= SPARE_LIST
    }
}
