//! Searches for the `k` nearest rows, one after another, with reused buffers.

use std::cell::Cell;
use std::sync::Arc;

use crate::index::open::Index;
use crate::index::search::observer::Unobserved;
use crate::index::search::plan::plan;
use crate::index::search::walk::{Walk, list_capacity};
use crate::index::state::{Newest, State};
use crate::options::SEARCH_LIST_MAX;
use crate::page::{PageId, Pages, Reader};
use crate::{Effort, Error, RowIds, SearchOptions, SearchPlan, SearchResult, Stats};

/// Longest candidate list of a walk that is kept for the next searcher: some 100 KB.
const SPARE_LIST: usize = 4096;

thread_local! {
    /// The walk of this thread's last searcher, so that a face that makes a searcher for each
    /// query, such as Python, need not allocate its buffers each time.
    static SPARE: Cell<Option<Box<Walk>>> = const { Cell::new(None) };
}

/// Searches one after another on one thread. Keeps its buffers between searches.
pub struct Searcher<'i, P: Pages + 'i> {
    pub(super) pages: &'i P,
    pub(super) newest: &'i Newest,
    pub(super) state: Arc<State>,
    pub(super) reader: P::Reader<'i>,
    pub(super) walk: Option<Box<Walk>>,
    /// Longest candidate list so far.
    pub(super) longest: usize,
    pages_read: Vec<PageId>,
}

impl<P: Pages> Index<P> {
    /// The options of a search for the `k` nearest rows with `effort`.
    ///
    /// If the calibration measured no recall as high as the target, the plan has the settings of
    /// its longest search and the recall of that. An index too small to be calibrated is searched
    /// to its end.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a `k`, a recall or a setting out of range; [`Error::Uncalibrated`]
    /// for a recall on an index that was never calibrated; any error of the host.
    pub fn options(&self, k: usize, effort: &Effort) -> Result<SearchPlan, Error> {
        self.searcher().options(k, effort)
    }

    /// A searcher for one thread. It keeps its buffers between searches.
    pub fn searcher(&self) -> Searcher<'_, P> {
        Searcher::new(self.pages(), self.newest())
    }

    /// Finds the `k` rows nearest to `query`. Returns fewer only if the index has fewer.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] if `query` has another number of dimensions than the index;
    /// [`Error::Argument`] if the metric is not defined for it or an option is out of range;
    /// [`Error::Corrupt`] if a page contradicts the format.
    pub fn search(&self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        self.searcher().search(query, k, options)
    }
}

impl<'i, P: Pages> Searcher<'i, P> {
    fn new(pages: &'i P, newest: &'i Newest) -> Self {
        // Where the thread is ending, there is no spare walk any more.
        let walk = SPARE.try_with(Cell::take).ok().flatten();
        let reader = pages.reader();
        Self { pages, newest, state: newest.known(), reader, walk, longest: 0, pages_read: Vec::new() }
    }

    /// How to search for the `k` nearest rows; see [`Index::options`](crate::Index::options).
    pub fn options(&mut self, k: usize, effort: &Effort) -> Result<SearchPlan, Error> {
        self.renew()?;
        plan(&self.state.meta, k, effort)
    }

    /// Finds the `k` rows nearest to `query`; see [`Index::search`](crate::Index::search).
    pub fn search(&mut self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        options.validate(k)?;
        self.renew()?;
        let state = self.state.clone();
        let walk = self.walk.get_or_insert_default();
        let to_distance = walk.probe.prepare(&state.meta, &state.model, query)?;
        let missed_before = self.reader.pages_missed();
        let mut stats = Stats::default();
        self.pages_read.clear();
        let mut capacity = list_capacity(k, options, &state);
        // If some candidates are dead, the k-th candidate says nothing about the k-th row.
        let mut uses_estimate = state.meta.change.dead_rows == 0;
        loop {
            self.longest = self.longest.max(capacity);
            walk.begin(&state, capacity, k, uses_estimate);
            walk.run(&state, &mut self.reader, options, &mut Unobserved, &mut stats)?;
            self.pages_read.extend(walk.pages(&state.meta));
            let found = walk.nearest.found.len().min(k) as u64;
            let tried_all = !uses_estimate && (!walk.list.is_full() || capacity >= SEARCH_LIST_MAX);
            if found >= state.meta.rows.min(k as u64) || tried_all {
                break;
            }
            // Nodes without a visible row took places in the list. Search again with a longer list.
            uses_estimate = false;
            capacity *= 4;
        }
        stats.distances = stats.hops;
        self.pages_read.sort_unstable();
        self.pages_read.dedup();
        stats.pages_read = self.pages_read.len() as u64;
        stats.pages_missed = self.reader.pages_missed() - missed_before;
        self.reader.pause();
        Ok(SearchResult { hits: walk.nearest.hits(k, to_distance), stats })
    }

    /// Takes the newest state of the index.
    pub(super) fn renew(&mut self) -> Result<(), Error> {
        if self.state.meta.row_ids == RowIds::HostOwned || self.reader.snapshot(true) != self.state.snapshot {
            self.state = self.newest.renew(&mut self.reader)?;
        }
        Ok(())
    }
}

impl<P: Pages> Drop for Searcher<'_, P> {
    fn drop(&mut self) {
        if self.longest <= SPARE_LIST {
            let walk = self.walk.take();
            _ = SPARE.try_with(|spare| spare.set(walk));
        }
    }
}
