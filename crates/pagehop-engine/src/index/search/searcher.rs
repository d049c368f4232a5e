//! Searches for the `k` nearest rows, one after another, with reused buffers.

use std::cell::Cell;
use std::sync::Arc;

use crate::index::open::Index;
use crate::index::search::plan::plan;
use crate::index::search::running::Running;
use crate::index::state::{Newest, State};
use crate::page::{Pages, Reader};
use crate::{Effort, Error, IdKind, SearchOptions, SearchPlan, SearchResult};

thread_local! {
    /// The buffers of this thread's last searcher, so that a face that makes a searcher for each
    /// query, such as Python, need not allocate them each time.
    static SPARE: Cell<Option<Box<Running>>> = const { Cell::new(None) };
}

/// Searches one after another on one thread. Keeps its buffers between searches.
pub struct Searcher<'i, P: Pages + 'i> {
    pub(super) pages: &'i P,
    pub(super) newest: &'i Newest,
    pub(super) state: Arc<State>,
    pub(super) reader: P::Reader<'i>,
    pub(super) running: Option<Box<Running>>,
}

impl<P: Pages> Index<P> {
    /// The options of a search for the `k` nearest rows with `effort`.
    ///
    /// A recall above all that the calibration reached is not an error, nor is a recall in an index
    /// that was never calibrated: [`SearchPlan::reach`] says so. An index too small to be
    /// calibrated is searched to its end.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a `k`, a recall or a setting out of range; any error of the host.
    pub fn options(&self, k: usize, effort: &Effort) -> Result<SearchPlan, Error> {
        self.searcher().options(k, effort)
    }

    /// A searcher for one thread. It keeps its buffers between searches.
    pub fn searcher(&self) -> Searcher<'_, P> {
        Searcher::new(self.pages(), self.newest())
    }

    /// Finds the `k` rows nearest to `query`, with these options and whatever the index was
    /// calibrated to: [`Index::options`] gives those that reach a recall. Returns fewer rows only
    /// if the index has fewer.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] if `query` has another number of dimensions than the index;
    /// [`Error::Argument`] if the metric is not defined for it or an option is out of range;
    /// [`Error::Corrupt`] if a page contradicts the format.
    pub fn search_with(&self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        self.searcher().search_with(query, k, options)
    }
}

impl<'i, P: Pages> Searcher<'i, P> {
    fn new(pages: &'i P, newest: &'i Newest) -> Self {
        // A thread that is ending has no spare buffers any more.
        let running = SPARE.try_with(Cell::take).ok().flatten();
        Self { pages, newest, state: newest.known(), reader: pages.reader(), running }
    }

    /// How to search for the `k` nearest rows; see [`Index::options`](crate::Index::options).
    pub fn options(&mut self, k: usize, effort: &Effort) -> Result<SearchPlan, Error> {
        self.renew()?;
        plan(&self.state.meta, k, effort)
    }

    /// Finds the `k` rows nearest to `query`; see
    /// [`Index::search_with`](crate::Index::search_with).
    pub fn search_with(&mut self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        options.validate(k)?;
        self.renew()?;
        let missed_before = self.reader.pages_missed();
        let running = self.running.get_or_insert_default();
        running.begin(&self.state, &self.reader, query, k, options)?;
        running.run(&self.state, &mut self.reader, options)?;
        let missed = self.reader.pages_missed() - missed_before;
        let result = running.result(&self.state, &mut self.reader, missed)?;
        self.reader.pause();
        Ok(result)
    }

    /// Takes the newest state of the index.
    pub(super) fn renew(&mut self) -> Result<(), Error> {
        if self.state.meta.id_kind == IdKind::HostOwned || self.reader.snapshot(true) != self.state.snapshot {
            self.state = self.newest.renew(&mut self.reader)?;
        }
        Ok(())
    }
}

impl<P: Pages> Drop for Searcher<'_, P> {
    fn drop(&mut self) {
        let running = self.running.take().filter(|running| running.is_small());
        _ = SPARE.try_with(|spare| spare.set(running));
    }
}
