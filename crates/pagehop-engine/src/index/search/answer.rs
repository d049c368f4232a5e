//! How a query is answered: by a walk, among the rows that pass a filter, or by a look at every
//! row. The one place that chooses.

use std::ops::ControlFlow;

use crate::index::search::exact::search_exactly;
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::filtered::search_filtered;
use crate::index::search::searcher::Searcher;
use crate::page::Pages;
use crate::{Error, SearchOptions, SearchPlan, SearchResult};

/// The way to the rows nearest to a query.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way<'p> {
    /// A walk over the graph.
    Walk(&'p SearchOptions),
    /// What the plan of the filter says; exactly, without options.
    Filtered(Option<&'p SearchOptions>, &'p FilterPlan),
    /// A look at every row.
    Scan,
}

impl<'p> Way<'p> {
    pub(super) fn of(plan: &'p SearchPlan, filter: Option<&'p FilterPlan>) -> Self {
        match (plan.options.as_ref(), filter) {
            (options, Some(filter)) => Self::Filtered(options, filter),
            (Some(options), None) => Self::Walk(options),
            (None, None) => Self::Scan,
        }
    }
}

impl<P: Pages> Searcher<'_, P> {
    /// Finds the `k` rows nearest to `query`, among those that pass the `filter` if there is one.
    /// For many queries there is [`Index::search_batch`](crate::Index::search_batch).
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`](crate::Index::search_with); [`Error::Argument`] if the
    /// filter was planned for another index.
    pub fn answer(
        &mut self,
        query: &[f32],
        k: usize,
        plan: &SearchPlan,
        filter: Option<&FilterPlan>,
    ) -> Result<SearchResult, Error> {
        answer_watched(self, query, (k, plan), filter, &mut || Ok(()))
    }
}

/// As [`Searcher::answer`]. A search that visits all rows which pass a filter ends if `look` fails,
/// with its error.
pub(super) fn answer_watched<P: Pages>(
    searcher: &mut Searcher<'_, P>,
    query: &[f32],
    (k, plan): (usize, &SearchPlan),
    filter: Option<&FilterPlan>,
    look: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<SearchResult, Error> {
    match Way::of(plan, filter) {
        Way::Walk(options) => searcher.search_with(query, k, options),
        Way::Filtered(options, filter) => search_filtered(searcher, query, k, options, filter, look),
        Way::Scan => {
            let mut go_on = |_| ControlFlow::Continue(());
            let mut found = search_exactly(searcher.pages, searcher.newest, query, k, 1, &mut go_on)?;
            match found.len() {
                1 => Ok(found.remove(0)),
                // A scan takes several queries, one after the other.
                count => {
                    let what = format!("the query has the components of {count} vectors, it must be one");
                    Err(Error::argument(what))
                }
            }
        }
    }
}
