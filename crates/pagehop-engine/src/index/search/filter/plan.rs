//! How to search for rows that pass a filter: by a walk that leaves others out of its answer, or by
//! reading the postings of all that may pass.
//!
//! ```text
//! runs     places in the trees of columns that have all rows which may pass: of an AND those of
//!          its cheapest part, of an OR those of all parts
//! share    the estimated share of rows that pass: each part of an AND counts for itself. The
//!          slack of a walk is for a share between this and the largest that the parts allow
//! choose   what costs less: the runs, or a walk, which visits more nodes without use the smaller
//!          the share is. A leaf of postings costs half of the page of a node
//! ```

use std::sync::Arc;

use crate::columns::ColumnKind;
use crate::columns::signatures::Signatures;
use crate::filter::{Given, SignatureTest, TagsTest, Test};
use crate::index::search::filter::shares::{EVERY_VALUE, Passing, SHARE_MIN, Shares};
use crate::index::search::filter::walls;
use crate::index::state::State;
use crate::options::SEARCH_LIST_MAX;
use crate::page::Reader;
use crate::page::postings::PostingKey;
use crate::{Error, SearchOptions};

/// Estimated pages of nodes that a search for up to [`FEW_ROWS`] rows reads with a slack of 0,
/// without a filter and with postings, and their growth with the slack, as a power of e, up to the
/// largest slack. More rows take pages in proportion. Three real sets differ from that by a fifth
/// up to a slack of .1: `docs/decisions/0015-filters.md`, *The pages of a slack*.
const NODE_PAGES: f64 = 11.0;
const NODE_PAGES_POWER: f32 = 9.4;
const SLACK_MAX: f32 = 0.2;
pub(super) const FEW_ROWS: usize = 10;
/// The pages of a walk grow with this power of the share of rows that pass, if signatures tell some
/// of those that do not, and with the other if not: 1.4 and 1.7 times as many for half of the rows.
const WALK_POWER: Powers<f64> = Powers { with_signatures: -0.52, without: -0.75 };
/// The slack of a walk is multiplied by these powers of the share of rows that pass.
const SLACK_POWER: Powers<f32> = Powers { with_signatures: -0.05, without: 0.3 };
/// Pages of the id map for an id, which are shared. An id of a row leads to a page of nodes, too.
const ID_PAGES: f64 = 0.2;
/// The cost of a leaf of postings in pages of nodes. In memory it is .6 of a hop, and from storage
/// .4: leaves are known before they are read, so more reads are under way.
const LEAF_COST: f64 = 0.5;
/// The largest share of rows that pass with which a walk scores the edges of all nodes of a page,
/// and the fewest nodes of a page for that. At a tenth it saves 30% of the pages at the same
/// recall, and takes as much time in memory. At a half it saves 10 to 25%, and takes a third more
/// time or more. Such a page costs more than one of which a node is expanded.
const WHOLE_PAGES_MAX: f64 = 0.25;
const WHOLE_PAGES_NODES_MIN: usize = 3;
const WHOLE_PAGE_COST: f64 = 1.3;
/// Estimated fill of a leaf.
const LEAF_FILL: f64 = 0.85;
/// From this number of leaves on, some are skipped. Fewer are all read: most of them are near, and
/// rows of skipped leaves would be missed. With 41 leaves, reading all and visiting fewer nodes
/// takes fewer pages.
pub(crate) const LEAVES_WHOLE: usize = 48;
/// Of more leaves of one value, a search for up to [`FEW_ROWS`] rows reads this number and this
/// share, those of the cells near the query. With a tenth of 150,000 texts it reads 93 of 216, with
/// a half 266 of 1,020. They grow with a power of the number of rows: 656 for 100 rows.
const LEAVES_NEAR: f64 = 24.0;
const SHARE_NEAR: f64 = 0.25;
const NEAR_POWER: f64 = 0.4;

/// Powers of the share of rows that pass, by whether signatures tell some of those that do not.
struct Powers<T> {
    with_signatures: T,
    without: T,
}

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

/// What is expected of the runs of a filter.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    /// Pages of the id map and of nodes that ids lead to.
    of_ids: f64,
    /// Leaves of postings, and those of them that a search for few rows reads.
    leaves: f64,
    near: f64,
    /// Rows; a search by the runs visits at most this many nodes.
    rows: f64,
}

impl Expected {
    /// Those that a search for `k` rows reads.
    fn leaves(&self, k: usize) -> f64 {
        (self.near * FilterPlan::rows_wanted(k).powf(NEAR_POWER)).min(self.leaves)
    }

    fn pages(&self, k: usize) -> f64 {
        self.of_ids + self.leaves(k)
    }

    /// The cost of the pages, in pages of nodes.
    fn cost(&self, k: usize) -> f64 {
        self.of_ids + FilterPlan::leaves_cost(self.leaves(k))
    }
}

/// A filter over one index, and how to search with it: see
/// [`Searcher::plan_filter`](crate::Searcher::plan_filter).
#[derive(Clone, Debug)]
pub struct FilterPlan {
    /// The number of columns of the filter's index: a guard against use with another index.
    pub(crate) columns: usize,
    pub(crate) test: Arc<Test>,
    /// What the test says of signatures, with those that it was made for.
    signature: (Arc<Signatures>, Option<Arc<SignatureTest>>),
    /// Whether a walk scores the edges of all nodes of a page.
    pub(crate) expands_pages: bool,
    /// Runs that have every row that passes; `None` if such rows may be anywhere.
    pub(crate) runs: Option<Arc<Vec<Run>>>,
    /// Whether every row of the runs passes. If not, they have rows that other conditions exclude.
    pub(crate) runs_pass: bool,
    expected: Expected,
    share: Passing,
    /// Whether the filter must read the tags of some rows to decide on them.
    pub(crate) needs_tags: bool,
    /// The same for rows that are in the runs.
    pub(crate) needs_tags_in_runs: bool,
    /// Whether a condition asks for the absence of a tag. The Bloom filter proves absence for most
    /// rows, presence rarely.
    pub(crate) has_negated_tag: bool,
}

impl FilterPlan {
    /// The estimated share of rows that pass, from 0 to 1. Conditions that are joined are taken as
    /// independent of one another.
    pub fn share(&self) -> f64 {
        self.share.likely
    }

    /// What the filter says of the signatures of an index in this state, if anything. A training
    /// makes others.
    pub(crate) fn signature(&self, state: &State) -> Option<Arc<SignatureTest>> {
        let (known, test) = &self.signature;
        match Arc::ptr_eq(known, &state.model.signatures) {
            true => test.clone(),
            false => signature(&self.test, state),
        }
    }

    /// Whether searches for `k` rows with this slack read the postings of all rows that may pass.
    /// If not, they walk the graph.
    pub fn reads_postings(&self, k: usize, slack: f32) -> bool {
        let page = if self.expands_pages { WHOLE_PAGE_COST } else { 1.0 };
        self.runs.is_some() && self.cost_by_runs(k, slack) <= page * self.pages_by_walk(k, slack)
    }

    /// Whether a walk for `k` rows reads fewer pages than a look at every row, which reads
    /// `every_page`.
    pub(crate) fn is_worth_a_walk(&self, k: usize, slack: f32, every_page: usize) -> bool {
        self.pages_by_walk(k, slack) <= every_page as f64
    }

    /// Estimated pages that a walk for `k` rows reads.
    fn pages_by_walk(&self, k: usize, slack: f32) -> f64 {
        Self::node_pages(k, slack) * self.share.likely.max(SHARE_MIN).powf(self.power(WALK_POWER))
    }

    fn power<T>(&self, powers: Powers<T>) -> T {
        if self.signature.1.is_some() { powers.with_signatures } else { powers.without }
    }

    /// Estimated pages that a search for `k` rows reads of the runs and of the nodes that they lead
    /// to.
    pub(crate) fn pages_by_runs(&self, k: usize, slack: f32) -> f64 {
        self.expected.pages(k) + Self::node_pages(k, slack).min(self.expected.rows)
    }

    /// The estimated cost of such a search, in pages of nodes.
    fn cost_by_runs(&self, k: usize, slack: f32) -> f64 {
        self.expected.cost(k) + Self::node_pages(k, slack).min(self.expected.rows)
    }

    /// Whether the runs are worth reading for `k` rows where a look at every row reads `every_page`
    /// once. An exact search has no slack: it visits every row of them, by distance and so at
    /// random.
    pub(crate) fn is_worth_its_runs(&self, k: usize, slack: Option<f32>, every_page: usize) -> bool {
        let Expected { of_ids, leaves, rows, .. } = self.expected;
        let pages = slack.map_or(of_ids + leaves + rows, |slack| self.pages_by_runs(k, slack));
        self.runs.is_some() && pages <= every_page as f64
    }

    /// Estimated pages of nodes that a search for `k` rows with this slack reads without a filter,
    /// and with postings.
    fn node_pages(k: usize, slack: f32) -> f64 {
        NODE_PAGES * f64::from(NODE_PAGES_POWER * slack.clamp(0.0, SLACK_MAX)).exp() * Self::rows_wanted(k)
    }

    /// The rows that a search wants, as a multiple of [`FEW_ROWS`]; at least 1.
    fn rows_wanted(k: usize) -> f64 {
        k.max(FEW_ROWS) as f64 / FEW_ROWS as f64
    }

    /// The cost of `leaves` of postings, in pages of nodes.
    pub fn leaves_cost(leaves: f64) -> f64 {
        LEAF_COST * leaves
    }

    /// Estimated pages of a walk that finds only rows that pass, if it reads `pages` without a
    /// filter, `share` of the rows pass, and signatures tell them.
    pub fn walk_pages(pages: f64, share: f64) -> f64 {
        pages * share.powf(WALK_POWER.with_signatures)
    }

    /// Estimated leaves that a search for few rows reads if this number of values has postings in
    /// `leaves` of them. Of a range of unknown values, which are infinitely many, it reads all.
    pub fn leaves_read(leaves: f64, values: f64) -> f64 {
        if leaves < LEAVES_WHOLE as f64 { leaves } else { (LEAVES_NEAR * values + SHARE_NEAR * leaves).min(leaves) }
    }

    /// Hops after which a walk for `k` rows gives up for the runs, if there are any. A walk that
    /// needs somewhat more hops than were estimated is nearly at its end. One that can give up for
    /// a look at every row does so after twice its pages, too.
    pub(crate) fn hops_max(&self, k: usize, slack: f32) -> usize {
        // Without runs the estimate is infinite.
        (2.0 * self.cost_by_runs(k, slack)) as usize
    }

    /// The number of ids that are looked up for the runs; one that occurs twice counts twice.
    pub(crate) fn ids(&self) -> usize {
        let count = |run: &Run| if let Run::Ids(ids) = run { ids.len() } else { 0 };
        self.runs.iter().flat_map(|runs| runs.iter()).map(count).sum()
    }

    /// The number of candidates that the runs have, at most `most`; rows of leaves are estimated.
    pub(crate) fn candidates(&self, most: usize) -> usize {
        most.min((self.expected.rows as usize).saturating_add(self.ids()))
    }

    /// The options of a walk that finds only rows that pass. A list that is too long costs nothing,
    /// a slack that is too small costs rows. Whether joined conditions are met together is not
    /// known, so the slack is for the geometric mean of both shares.
    pub(crate) fn walk_options(&self, options: &SearchOptions) -> SearchOptions {
        let [likely, most] = [self.share.likely, self.share.most].map(|share| (share as f32).clamp(1e-6, 1.0));
        let search_list = ((options.search_list as f32 / likely) as usize).min(SEARCH_LIST_MAX);
        let slack = options.slack * (likely * most).sqrt().powf(self.power(SLACK_POWER));
        SearchOptions { search_list, slack, ..options.clone() }
    }

    /// Plans a filter. With `guesses`, a share that cannot be read is guessed: where a commit is
    /// becoming visible, pages may contradict each other.
    pub(crate) fn new(test: Test, state: &State, reader: &mut impl Reader, guesses: bool) -> Result<Self, Error> {
        let mut planner = Planner { shares: Shares { state, reader, guesses } };
        let share = planner.shares.of(&test)?;
        let (runs, expected) = match planner.runs(&test)? {
            Some(found) => (Some(Arc::new(apart(found.runs))), found.expected),
            None => (None, Expected { of_ids: f64::INFINITY, ..Expected::default() }),
        };
        let columns = state.columns.columns.len();
        // A host that owns the rows tests the tags itself.
        let needs_tags = test.needs_tags() && !state.meta.has_tag_chains();
        let has_negated_tag = has_negated_tag(&test);
        let is_undecided = |run: &Run| test.given(run.tag(state)) == Given::Tags;
        let signature = (state.model.signatures.clone(), signature(&test, state));
        let expands_pages = signature.1.is_some()
            && share.likely <= WHOLE_PAGES_MAX
            && state.meta.layout.nodes_per_page >= WHOLE_PAGES_NODES_MIN;
        let needs_tags_in_runs = needs_tags && runs.iter().flat_map(|runs| runs.iter()).any(is_undecided);
        Ok(Self {
            columns,
            runs_pass: runs_pass(&test),
            test: Arc::new(test),
            signature,
            expands_pages,
            runs,
            expected,
            share,
            needs_tags,
            needs_tags_in_runs,
            has_negated_tag,
        })
    }
}

/// What a test says of signatures, if anything. Under the inner product they are not used: all rows
/// are at nearly the same distance, and rows that lead to others would be left out.
fn signature(test: &Test, state: &State) -> Option<Arc<SignatureTest>> {
    let of_test = || SignatureTest::new(test, &state.model.signatures);
    if walls::tells(&state.meta) { of_test().map(Arc::new) } else { None }
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

/// Whether every row in the runs of a test passes it. The postings of a tag may be of rows that do
/// not have it, and ids may be of rows that are gone.
fn runs_pass(test: &Test) -> bool {
    match test {
        Test::Within { .. } | Test::Missing { .. } | Test::Present { .. } => true,
        Test::Or(parts) => parts.iter().all(runs_pass),
        Test::And(parts) => parts.len() == 1 && runs_pass(&parts[0]),
        Test::Tags(_) | Test::Ids { .. } => false,
    }
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
    expected: Expected,
}

struct Planner<'a, R: Reader> {
    shares: Shares<'a, R>,
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
                let of_ids = ids.len() as f64 * (ID_PAGES + self.shares.of_ids(ids)?);
                let expected = Expected { of_ids, ..Expected::default() };
                Some(Costed { runs: vec![Run::Ids(ids.clone())], expected })
            }
            Test::Tags(_) | Test::Ids { .. } => None,
            Test::And(parts) => {
                let mut best: Option<Costed> = None;
                let cost = |costed: &Costed| costed.expected.cost(FEW_ROWS);
                for part in parts {
                    let other = self.runs(part)?;
                    best = match (best, other) {
                        (Some(best), Some(other)) if cost(&best) <= cost(&other) => Some(best),
                        (best, other) => other.or(best),
                    };
                }
                best
            }
            Test::Or(parts) => {
                let mut all = Costed { runs: Vec::new(), expected: Expected::default() };
                for part in parts {
                    let Some(more) = self.runs(part)? else { return Ok(None) };
                    all.runs.extend(more.runs);
                    let Expected { of_ids, leaves, near, rows } = &mut all.expected;
                    *of_ids += more.expected.of_ids;
                    *leaves += more.expected.leaves;
                    *near += more.expected.near;
                    *rows += more.expected.rows;
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
        let of_row = self.shares.postings_of_row(column, &ranges)?;
        let state = self.shares.state;
        let (rows, tree) = (state.meta.rows as f64, state.columns.tree(&state.meta, column));
        let leaf = tree.shape.capacity as f64 * LEAF_FILL;
        // A run has at least the way to its leaf, but several may end on one.
        let leaves = of_row * rows / leaf + ranges.len() as f64;
        let leaves = if self.shares.is_of_tags(column) { leaves } else { leaves.min(rows / leaf + 1.0) };
        let values = ranges.iter().map(|range| range.map_or(1.0, |(low, high)| (high - low) as f64 + 1.0)).sum();
        let run = |range| {
            let (low, high) = PostingKey::range(range);
            Run::Postings { column, low, high }
        };
        let near = if walls::tells(&state.meta) { FilterPlan::leaves_read(leaves, values) } else { leaves };
        let expected = Expected { of_ids: 0.0, leaves, near, rows: of_row.min(1.0) * rows };
        Ok(Costed { runs: ranges.into_iter().map(run).collect(), expected })
    }
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
    fn more_rows_take_more_leaves_and_never_more_than_there_are() {
        let expected = Expected { leaves: 400.0, near: 124.0, ..Expected::default() };
        assert_eq!([1, 10, 1_000].map(|k| expected.pages(k)), [124.0, 124.0, 400.0]);
        assert!((expected.pages(100) - 311.5).abs() < 0.1, "{}", expected.pages(100));
        assert_eq!(expected.cost(10), 62.0);
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
