//! One search, from an effort and a filter to rows.

use pagehop_engine::{Effort, Error, Filter, Index, Pages, SearchResult};

/// Finds the `k` rows nearest to `query`, nearest first, ties in order of id; fewer only if there
/// are fewer, or fewer pass the `filter`.
///
/// It plans the effort and the filter each time. For many searches, plan once
/// ([`Index::options`], [`Index::plan_filter`]) and use [`Index::search_batch`] or
/// [`Searcher::answer`](pagehop_engine::Searcher::answer).
///
/// # Errors
///
/// Those of [`Index::options`], [`Index::plan_filter`] and [`Index::search_with`].
pub fn search<P: Pages>(
    index: &Index<P>,
    query: &[f32],
    k: usize,
    effort: &Effort,
    filter: Option<&Filter>,
) -> Result<SearchResult, Error> {
    let mut searcher = index.searcher();
    let plan = searcher.options(k, effort)?;
    let filter = filter.map(|filter| searcher.plan_filter(filter)).transpose()?;
    searcher.answer(query, k, &plan, filter.as_ref())
}
