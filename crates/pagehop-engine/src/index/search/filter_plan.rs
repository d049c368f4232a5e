//! How to search for rows that pass a filter: by a walk that leaves others out of its answer, or by
//! reading the postings of all that may pass.
//!
//! ```text
//! runs     places in the trees of columns that have all rows which may pass: of an AND those of
//!          its cheapest part, of an OR those of all parts
//! share    the estimated share of rows that pass: each part of an AND counts for itself
//! choose   what reads fewer pages: the runs, or a walk, which visits more nodes without use the
//!          smaller the share is. A leaf of postings and a node cost about the same time, also in
//!          memory
//! ```

use std::sync::Arc;

use crate::columns::ColumnKind;
use crate::filter::{Given, TagsTest, Test};
use crate::index::find::find;
use crate::index::state::State;
use crate::options::SEARCH_LIST_MAX;
use crate::page::column_tree::Tree;
use crate::page::postings::PostingKey;
use crate::page::{PageId, Reader};
use crate::{Error, IdKind, SearchOptions};

/// Estimated pages of nodes that a search for up to [`FEW_ROWS`] rows reads without a filter, and
/// with postings. More rows take pages in proportion. Measured at a recall of 0.95 on 50,000 text
/// embeddings: `docs/decisions/0015-filters.md`.
const NODE_PAGES: f64 = 30.0;
const FEW_ROWS: usize = 10;
/// The pages of a walk grow with this power of the share of rows that pass: 1.5 times as many for
/// half of the rows, 2.4 times as many for 3 of 10.
const WALK_POWER: f64 = -0.75;
/// The slack that a walk needs falls with this power of the share of rows that pass.
const SLACK_POWER: f32 = 0.3;
/// Pages of the id map for an id, which are shared. An id of a row leads to a page of nodes, too.
const ID_PAGES: f64 = 0.2;
/// Ids of a list that are looked up to estimate how many of them rows have.
const IDS_LOOKED_UP: usize = 64;
/// The golden ratio: the fractions of its multiples are spread evenly, and in no even steps.
const GOLDEN: f64 = 0.618_034;
/// Estimated fill of a leaf.
const LEAF_FILL: f64 = 0.85;
/// From this number of leaves on, some are skipped. Fewer are all read: most of them are near, and
/// rows of skipped leaves would be missed. With 41 leaves, reading all and visiting fewer nodes
/// takes fewer pages.
pub(crate) const LEAVES_WHOLE: usize = 48;
/// Of more leaves of one value, a search reads this number and this share, those of the cells near
/// the query. With a tenth of 150,000 rows it reads 55 of 162, with a twentieth 42 of 80.
const LEAVES_NEAR: f64 = 24.0;
const SHARE_NEAR: f64 = 0.25;
/// Ranges of a column that are looked up to estimate the rows in all of them.
const RANGES_LOOKED_UP: usize = 32;
/// Every value that a column may have.
const EVERY_VALUE: (u64, u64) = (0, u64::MAX);
/// Smallest share that is assumed.
const SHARE_MIN: f64 = 1e-9;

/// A place that has rows which may pass a filter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Run {
    /// Postings of a column, both ends included.
    Postings { column: usize, low: PostingKey, high: PostingKey },
    /// Rows by their ids.
    Ids(Vec<u64>),
}

impl Run {
    /// The tag that every row of the run has, and its column.
    fn tag(&self, state: &State) -> Option<(usize, u64)> {
        let Self::Postings { column, low, high } = self else { return None };
        let tag = low.value().filter(|tag| high.value() == Some(*tag))?;
        (state.columns.columns[*column].kind == ColumnKind::Tags).then_some((*column, tag))
    }
}

/// A filter over one index, and how to search with it: see
/// [`Searcher::plan_filter`](crate::Searcher::plan_filter).
#[derive(Clone, Debug)]
pub struct FilterPlan {
    /// The number of columns of the filter's index: a guard against use with another index.
    pub(crate) columns: usize,
    pub(crate) test: Arc<Test>,
    /// Runs that have every row that passes; `None` if such rows may be anywhere.
    pub(crate) runs: Option<Arc<Vec<Run>>>,
    /// Estimated pages of the runs.
    runs_pages: f64,
    /// Estimated rows in the runs; a search by them visits at most this many nodes.
    runs_rows: f64,
    pub(crate) share: f64,
    /// Whether the filter must read the tags of some rows to decide on them.
    pub(crate) needs_tags: bool,
    /// The same for rows that are in the runs.
    pub(crate) needs_tags_in_runs: bool,
    /// Whether a condition asks for the absence of a tag. The Bloom filter proves absence for most
    /// rows, presence rarely.
    pub(crate) has_negated_tag: bool,
}

impl FilterPlan {
    /// The estimated share of rows that pass, from 0 to 1. Conditions that are joined by AND are
    /// taken as independent of one another.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Whether searches for `k` rows read the postings of all rows that may pass. If not, they walk
    /// the graph.
    pub fn reads_postings(&self, k: usize) -> bool {
        let walk_pages = Self::walk_pages(Self::node_pages(k), self.share.max(SHARE_MIN));
        self.runs.is_some() && self.pages_by_runs(k) <= walk_pages
    }

    /// Estimated pages that a search for `k` rows reads of the runs and of the nodes that they lead
    /// to.
    pub(crate) fn pages_by_runs(&self, k: usize) -> f64 {
        self.runs_pages + Self::node_pages(k).min(self.runs_rows)
    }

    /// Estimated pages of nodes that a search for `k` rows reads without a filter, and with
    /// postings. For hosts that estimate costs before there is a plan.
    pub fn node_pages(k: usize) -> f64 {
        NODE_PAGES * k.max(FEW_ROWS) as f64 / FEW_ROWS as f64
    }

    /// Estimated pages of a walk that finds only rows that pass, if it reads `pages` without a
    /// filter and `share` of the rows pass.
    pub fn walk_pages(pages: f64, share: f64) -> f64 {
        pages * share.powf(WALK_POWER)
    }

    /// Estimated leaves that a search reads if this number of values has postings in `leaves` of
    /// them. Of a range of unknown values, which are infinitely many, it reads all.
    pub fn leaves_read(leaves: f64, values: f64) -> f64 {
        if leaves < LEAVES_WHOLE as f64 { leaves } else { (LEAVES_NEAR * values + SHARE_NEAR * leaves).min(leaves) }
    }

    /// Hops after which a walk for `k` rows gives up for the runs, if there are any. A walk that
    /// needs somewhat more hops than were estimated is nearly at its end.
    pub(crate) fn hops_max(&self, k: usize) -> usize {
        // Without runs the estimate is infinite.
        (2.0 * self.pages_by_runs(k)) as usize
    }

    /// The number of ids that are looked up for the runs; one that occurs twice counts twice.
    pub(crate) fn ids(&self) -> usize {
        let count = |run: &Run| if let Run::Ids(ids) = run { ids.len() } else { 0 };
        self.runs.iter().flat_map(|runs| runs.iter()).map(count).sum()
    }

    /// The number of candidates that the runs have, at most `most`; rows of leaves are estimated.
    pub(crate) fn candidates(&self, most: usize) -> usize {
        most.min((self.runs_rows as usize).saturating_add(self.ids()))
    }

    /// The options of a walk that finds only rows that pass.
    pub(crate) fn walk_options(&self, options: &SearchOptions) -> SearchOptions {
        let share = (self.share as f32).clamp(1e-6, 1.0);
        let search_list = ((options.search_list as f32 / share) as usize).min(SEARCH_LIST_MAX);
        SearchOptions { search_list, slack: options.slack * share.powf(SLACK_POWER), ..options.clone() }
    }

    pub(crate) fn new(test: Test, state: &State, reader: &mut impl Reader) -> Result<Self, Error> {
        let mut planner = Planner { state, reader };
        let share = planner.share(&test)?;
        let (runs, runs_pages, runs_rows) = match planner.runs(&test)? {
            Some(runs) => (Some(Arc::new(apart(runs.runs))), runs.pages, runs.rows),
            None => (None, f64::INFINITY, 0.0),
        };
        let columns = state.columns.columns.len();
        // A host that owns the rows tests the tags itself.
        let needs_tags = test.needs_tags() && !state.meta.has_tag_chains();
        let has_negated_tag = has_negated_tag(&test);
        let is_undecided = |run: &Run| test.given(run.tag(state)) == Given::Tags;
        let needs_tags_in_runs = needs_tags && runs.iter().flat_map(|runs| runs.iter()).any(is_undecided);
        Ok(Self {
            columns,
            test: Arc::new(test),
            runs,
            runs_pages,
            runs_rows,
            share,
            needs_tags,
            needs_tags_in_runs,
            has_negated_tag,
        })
    }
}

/// The same places as runs that have none in common: those of ids first, then by column.
fn apart(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by_key(|run| match run {
        Run::Ids(_) => None,
        Run::Postings { column, low, .. } => Some((*column, *low)),
    });
    runs.dedup_by(|next, last| {
        let Run::Postings { column, low, high } = next else { return false };
        let Run::Postings { column: of_last, high: end, .. } = last else { return false };
        let touches = column == of_last && *low <= *end;
        if touches {
            *end = *end.max(high);
        }
        touches
    });
    runs
}

fn has_negated_tag(test: &Test) -> bool {
    match test {
        Test::Tags(test) => !test.is_in,
        Test::And(parts) | Test::Or(parts) => parts.iter().any(has_negated_tag),
        _ => false,
    }
}

/// Runs and their cost.
struct Costed {
    runs: Vec<Run>,
    pages: f64,
    rows: f64,
}

struct Planner<'a, R: Reader> {
    state: &'a State,
    reader: &'a mut R,
}

impl<R: Reader> Planner<'_, R> {
    /// The runs of a test; `None` if rows that pass may be anywhere.
    fn runs(&mut self, test: &Test) -> Result<Option<Costed>, Error> {
        Ok(match test {
            Test::Within { column, ranges } => Some(self.postings(*column, ranges.iter().copied().map(Some))?),
            Test::Missing { column } => Some(self.postings(*column, [None])?),
            Test::Present { column } => Some(self.postings(*column, [Some(EVERY_VALUE)])?),
            Test::Tags(TagsTest { column, hashes, is_in: true, .. }) => {
                Some(self.postings(*column, hashes.iter().map(|hash| Some((*hash, *hash))))?)
            }
            Test::Ids { ids, is_in: true } => {
                let pages = ids.len() as f64 * (ID_PAGES + self.share_of_ids(ids)?);
                Some(Costed { runs: vec![Run::Ids(ids.clone())], pages, rows: 0.0 })
            }
            Test::Tags(_) | Test::Ids { .. } => None,
            Test::And(parts) => {
                let mut best: Option<Costed> = None;
                for part in parts {
                    let other = self.runs(part)?;
                    best = match (best, other) {
                        (Some(best), Some(other)) if best.pages <= other.pages => Some(best),
                        (best, other) => other.or(best),
                    };
                }
                best
            }
            Test::Or(parts) => {
                let mut all = Costed { runs: Vec::new(), pages: 0.0, rows: 0.0 };
                for part in parts {
                    let Some(more) = self.runs(part)? else { return Ok(None) };
                    all.runs.extend(more.runs);
                    all.pages += more.pages;
                    all.rows += more.rows;
                }
                Some(all)
            }
        })
    }

    /// The runs of values of a column, or of those rows that have none.
    fn postings(
        &mut self,
        column: usize,
        ranges: impl IntoIterator<Item = Option<(u64, u64)>>,
    ) -> Result<Costed, Error> {
        let ranges: Vec<_> = ranges.into_iter().collect();
        let (rows, of_row) = (self.state.meta.rows as f64, self.postings_of_row(column, &ranges)?);
        let tree = self.state.columns.tree(&self.state.meta, column);
        let leaf = tree.shape.capacity as f64 * LEAF_FILL;
        // A run has at least the way to its leaf, but several may end on one.
        let leaves = of_row * rows / leaf + ranges.len() as f64;
        let leaves = if self.is_of_tags(column) { leaves } else { leaves.min(rows / leaf + 1.0) };
        let values = ranges.iter().map(|range| range.map_or(1.0, |(low, high)| (high - low) as f64 + 1.0)).sum();
        let run = |range| {
            let (low, high) = PostingKey::range(range);
            Run::Postings { column, low, high }
        };
        Ok(Costed {
            runs: ranges.into_iter().map(run).collect(),
            pages: FilterPlan::leaves_read(leaves, values),
            rows: of_row.min(1.0) * rows,
        })
    }

    fn is_of_tags(&self, column: usize) -> bool {
        self.state.columns.columns[column].kind == ColumnKind::Tags
    }

    /// The share of rows that pass.
    fn share(&mut self, test: &Test) -> Result<f64, Error> {
        Ok(match test {
            Test::Within { column, ranges } => self.share_of(*column, ranges)?,
            // A row may have several tags.
            Test::Present { column } if self.is_of_tags(*column) => 1.0 - self.share_missing(*column)?,
            Test::Present { column } => self.share_of(*column, &[EVERY_VALUE])?,
            Test::Missing { column } => self.share_missing(*column)?,
            Test::Tags(TagsTest { column, hashes, is_in: true, .. }) => self.share_of_tags(*column, hashes)?,
            Test::Tags(TagsTest { column, hashes, .. }) => {
                let present = 1.0 - self.share_missing(*column)?;
                present * self.share_without_tags(*column, hashes, present)?
            }
            Test::Ids { ids, is_in } => {
                let found = ids.len() as f64 * self.share_of_ids(ids)?;
                let share = (found / self.state.meta.rows.max(1) as f64).min(1.0);
                if *is_in { share } else { 1.0 - share }
            }
            Test::And(parts) => {
                parts.iter().try_fold(1.0, |share, part| Ok::<_, Error>(share * self.share(part)?))?
            }
            Test::Or(parts) => {
                1.0 - parts.iter().try_fold(1.0, |rest, part| Ok::<_, Error>(rest * (1.0 - self.share(part)?)))?
            }
        })
    }

    /// The share of these ids that rows have, by a look at some of them: a mask is longer than the
    /// index if ids have gaps, and callers may know ids that are gone.
    fn share_of_ids(&mut self, ids: &[u64]) -> Result<f64, Error> {
        // Texts became numbers by a look-up of all of them.
        if self.state.meta.id_kind != IdKind::Int || ids.is_empty() {
            return Ok(1.0);
        }
        let count = ids.len().min(IDS_LOOKED_UP);
        let part = ids.len() as f64 / count as f64;
        let mut found = 0;
        for at in 0..count {
            // One of each part of the list. In even steps, all might be ids of rows where half are.
            let place = (at as f64 + (at as f64 * GOLDEN).fract()) * part;
            found += usize::from(find(&self.state.meta, self.reader, ids[place as usize])?.is_some());
        }
        Ok(found as f64 / count as f64)
    }

    /// The share of rows without a value of a column.
    fn share_missing(&mut self, column: usize) -> Result<f64, Error> {
        self.share_of_runs(column, &[None])
    }

    /// The share of rows with one of these tags in a column, at most: a row may have several.
    fn share_of_tags(&mut self, column: usize, hashes: &[u64]) -> Result<f64, Error> {
        let runs: Vec<_> = hashes.iter().map(|hash| Some((*hash, *hash))).collect();
        self.share_of_runs(column, &runs)
    }

    /// The share without these tags among the `present` rows that have a set in a column. The tags
    /// are taken as independent of one another.
    fn share_without_tags(&mut self, column: usize, hashes: &[u64], present: f64) -> Result<f64, Error> {
        let runs: Vec<_> = hashes.iter().map(|hash| Some((*hash, *hash))).collect();
        let looked_up = self.postings_of_some(column, &runs)?;
        let power = hashes.len() as f64 / looked_up.len().max(1) as f64;
        let without = |of_tag: f64| 1.0 - (of_tag / present.max(SHARE_MIN)).min(1.0);
        Ok(looked_up.into_iter().map(without).product::<f64>().powf(power))
    }

    /// The share of rows with a value of a column in one of `ranges`.
    fn share_of(&mut self, column: usize, ranges: &[(u64, u64)]) -> Result<f64, Error> {
        let runs: Vec<_> = ranges.iter().map(|range| Some(*range)).collect();
        self.share_of_runs(column, &runs)
    }

    /// The share of rows that have a posting of a column in one of `ranges`, or without a value, if
    /// each row has at most one.
    fn share_of_runs(&mut self, column: usize, ranges: &[Option<(u64, u64)>]) -> Result<f64, Error> {
        Ok(self.postings_of_row(column, ranges)?.min(1.0))
    }

    /// The postings of a column in `ranges`, or without a value, for each row.
    fn postings_of_row(&mut self, column: usize, ranges: &[Option<(u64, u64)>]) -> Result<f64, Error> {
        let looked_up = self.postings_of_some(column, ranges)?;
        Ok(looked_up.iter().sum::<f64>() * ranges.len() as f64 / looked_up.len().max(1) as f64)
    }

    /// The same for each of some of `ranges`, spread over all.
    fn postings_of_some(&mut self, column: usize, ranges: &[Option<(u64, u64)>]) -> Result<Vec<f64>, Error> {
        let Some(tree) = tree_of(self.state, column).filter(|_| self.state.meta.rows > 0) else {
            return Ok(Vec::new());
        };
        let is_of_tags = self.is_of_tags(column);
        let every = ranges.len().div_ceil(RANGES_LOOKED_UP).max(1);
        let mut looked_up = Vec::new();
        for range in ranges.iter().step_by(every) {
            let (low, high) = PostingKey::range(*range);
            let low = tree.share_before(self.reader, low)?;
            let high = tree.share_before(self.reader, high)?;
            looked_up.push(match low.leaf == high.leaf {
                true => high.less.saturating_sub(low.less) as f64 / self.state.meta.rows as f64,
                false => {
                    // A row with several tags has several postings.
                    let postings = (low.postings + high.postings) / 2.0;
                    let rows = (self.state.meta.rows + self.state.meta.change.dead_rows) as f64;
                    let of_row = if is_of_tags { postings / rows } else { 1.0 };
                    (high.share - low.share).max(0.0) * of_row
                }
            });
        }
        Ok(looked_up)
    }
}

/// The tree that a run is in.
pub(crate) fn tree_of(state: &State, column: usize) -> Option<Tree> {
    let root = state.columns.roots.get(column).copied().filter(|root| *root != PageId(0))?;
    Some(Tree { root, ..state.columns.tree(&state.meta, column) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_values_more_leaves_are_near() {
        let read = FilterPlan::leaves_read;
        assert_eq!((read(40.0, 1.0), read(40.0, f64::INFINITY)), (40.0, 40.0));
        assert_eq!([read(400.0, 1.0), read(400.0, 3.0), read(400.0, 50.0)], [124.0, 172.0, 400.0]);
        assert_eq!(read(400.0, f64::INFINITY), 400.0);
    }

    #[test]
    fn runs_have_nothing_in_common() {
        let run = |column, low, high| {
            let (low, high) = PostingKey::range(Some((low, high)));
            Run::Postings { column, low, high }
        };
        let ids = Run::Ids(vec![5]);
        let runs = vec![run(1, 4, 4), run(0, 7, 9), run(1, 4, 4), run(0, 0, 7), ids.clone(), run(0, 11, 12)];
        assert_eq!(apart(runs), [ids, run(0, 0, 9), run(0, 11, 12), run(1, 4, 4)]);
    }
}
