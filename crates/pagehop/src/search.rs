//! One search, from an effort and a filter to rows.

use std::ops::ControlFlow;

use pagehop_engine::{Effort, Error, Filter, Index, Pages, SearchResult};

/// Finds the `k` rows nearest to `query`, nearest first, ties in order of id; fewer only if there
/// are fewer, or fewer pass the `filter`.
///
/// It plans the effort and the filter each time. For many searches, plan once
/// ([`Index::options`], [`Index::plan_filter`]) and use [`Index::search_batch`] or
/// [`Index::searcher`].
///
/// # Errors
///
/// Those of [`Index::options`], [`Index::plan_filter`] and [`Index::search`].
pub fn search<P: Pages>(
    index: &Index<P>,
    query: &[f32],
    k: usize,
    effort: &Effort,
    filter: Option<&Filter>,
) -> Result<SearchResult, Error> {
    let options = index.options(k, effort)?.options;
    if let Some(filter) = filter {
        let plan = index.plan_filter(filter)?;
        return index.searcher().search_filtered(query, k, options.as_ref(), &plan);
    }
    if let Some(options) = options {
        return index.search(query, k, &options);
    }
    let mut quiet = |_| ControlFlow::Continue(());
    let mut found = index.search_exactly(query, k, 1, &mut quiet)?;
    match found.len() {
        1 => Ok(found.remove(0)),
        // It takes several queries, one after the other; none is a vector without components.
        count => Err(Error::argument(format!("the query has the components of {count} vectors, it must be one"))),
    }
}
