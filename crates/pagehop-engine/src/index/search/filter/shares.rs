//! The estimated share of rows that pass a filter: of postings by their place in the tree of a
//! column, of ids by a look-up of some of them. That reads a few pages for each condition.

use crate::columns::ColumnKind;
use crate::filter::{TagsTest, Test};
use crate::index::find::find;
use crate::index::state::State;
use crate::page::column_tree::{Share, Tree};
use crate::page::postings::PostingKey;
use crate::page::{PageId, Reader};
use crate::{Error, IdKind};

/// Ids of a list that are looked up to estimate how many of them rows have.
const IDS_LOOKED_UP: usize = 64;
/// The golden ratio: the fractions of its multiples are spread evenly, and in no even steps.
const GOLDEN: f64 = 0.618_034;
/// Ranges of a column that are looked up to estimate the rows in all of them.
const RANGES_LOOKED_UP: usize = 32;
/// Every value that a column may have.
pub(super) const EVERY_VALUE: (u64, u64) = (0, u64::MAX);
/// A share that is not known.
const GUESS: f64 = 0.1;
/// Smallest share that is assumed.
pub(in crate::index::search) const SHARE_MIN: f64 = 1e-9;

/// The estimated share of rows that pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Passing {
    /// The share if conditions that are joined are independent of one another.
    pub(super) likely: f64,
    /// The largest share that those of the conditions allow, if the same rows meet all of them or,
    /// joined by OR, no row meets two.
    pub(super) most: f64,
}

impl Passing {
    /// The share of rows that meet all conditions with these shares.
    fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        let every = Self { likely: 1.0, most: 1.0 };
        parts
            .into_iter()
            .fold(every, |all, part| Self { likely: all.likely * part.likely, most: all.most.min(part.most) })
    }

    /// The share of rows that meet one of the conditions with these shares.
    fn of_any(parts: impl IntoIterator<Item = Self>) -> Self {
        let none = Self { likely: 0.0, most: 0.0 };
        parts.into_iter().fold(none, |any, part| Self {
            likely: 1.0 - (1.0 - any.likely) * (1.0 - part.likely),
            most: (any.most + part.most).min(1.0),
        })
    }
}

impl From<f64> for Passing {
    /// The share of one condition.
    fn from(share: f64) -> Self {
        Self { likely: share, most: share }
    }
}

/// Estimates shares of the rows of an index.
pub(super) struct Shares<'a, R: Reader> {
    pub(super) state: &'a State,
    pub(super) reader: &'a mut R,
    /// Whether pages of a commit that is becoming visible may contradict others: then a share that
    /// cannot be read is [`GUESS`].
    pub(super) guesses: bool,
}

impl<R: Reader> Shares<'_, R> {
    /// The share of rows that pass.
    pub(super) fn of(&mut self, test: &Test) -> Result<Passing, Error> {
        Ok(match test {
            Test::Within { column, ranges } => self.share_of(*column, ranges)?.into(),
            // A row may have several tags.
            Test::Present { column } if self.is_of_tags(*column) => (1.0 - self.share_missing(*column)?).into(),
            Test::Present { column } => self.share_of(*column, &[EVERY_VALUE])?.into(),
            Test::Missing { column } => self.share_missing(*column)?.into(),
            Test::Tags(TagsTest { column, hashes, is_in: true, .. }) => self.share_of_tags(*column, hashes)?.into(),
            Test::Tags(TagsTest { column, hashes, .. }) => self.share_without_tags(*column, hashes)?,
            Test::Ids { ids, is_in } => {
                let found = ids.len() as f64 * self.of_ids(ids)?;
                let share = (found / self.state.meta.rows.max(1) as f64).min(1.0);
                if *is_in { share.into() } else { (1.0 - share).into() }
            }
            Test::And(parts) => Passing::of_all(self.shares(parts)?),
            Test::Or(parts) => Passing::of_any(self.shares(parts)?),
        })
    }

    fn shares(&mut self, parts: &[Test]) -> Result<Vec<Passing>, Error> {
        parts.iter().map(|part| self.of(part)).collect()
    }

    /// The share of these ids that rows have, by a look at some of them: a mask is longer than the
    /// index if ids have gaps, and callers may know ids that are gone.
    pub(super) fn of_ids(&mut self, ids: &[u64]) -> Result<f64, Error> {
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

    /// The share of rows with a set of a column that has none of these tags. Tags are taken as
    /// independent of one another, as conditions that are joined by AND.
    fn share_without_tags(&mut self, column: usize, hashes: &[u64]) -> Result<Passing, Error> {
        let present = 1.0 - self.share_missing(column)?;
        let runs: Vec<_> = hashes.iter().map(|hash| Some((*hash, *hash))).collect();
        let looked_up = self.postings_of_some(column, &runs)?;
        let power = hashes.len() as f64 / looked_up.len().max(1) as f64;
        let without = |of_tag: f64| Passing::from(1.0 - (of_tag / present.max(SHARE_MIN)).min(1.0));
        let Passing { likely, most } = Passing::of_all(looked_up.into_iter().map(without));
        Ok(Passing { likely: present * likely.powf(power), most: present * most })
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
    pub(super) fn postings_of_row(&mut self, column: usize, ranges: &[Option<(u64, u64)>]) -> Result<f64, Error> {
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
            let share = self.share_of_range(&tree, *range, is_of_tags);
            let guesses = self.guesses && matches!(share, Err(Error::Corrupt { .. }));
            looked_up.push(if guesses { GUESS } else { share? });
        }
        Ok(looked_up)
    }

    fn share_of_range(&mut self, tree: &Tree, range: Option<(u64, u64)>, is_of_tags: bool) -> Result<f64, Error> {
        let (low, high) = PostingKey::range(range);
        let low = tree.share_before(self.reader, low)?;
        let high = tree.share_before(self.reader, high)?;
        let meta = &self.state.meta;
        if low.leaf == high.leaf {
            return Ok(high.less.saturating_sub(low.less) as f64 / meta.rows as f64);
        }
        let rows = (meta.rows + meta.change.dead_rows) as f64;
        // A row with several tags has several postings.
        let of_tree = |share: &Share| share.count as f64 / share.width;
        let postings = if is_of_tags { (of_tree(&low) + of_tree(&high)) / 2.0 } else { rows };
        // The last leaf of values that grow has few postings.
        let on_ends = (low.count.saturating_sub(low.less) + high.less) as f64;
        let between = (high.begin - low.begin - low.width).max(0.0) * postings;
        Ok((on_ends + between) / rows)
    }

    pub(super) fn is_of_tags(&self, column: usize) -> bool {
        self.state.columns.columns[column].kind == ColumnKind::Tags
    }
}

/// The tree that a run is in.
pub(crate) fn tree_of(state: &State, column: usize) -> Option<Tree> {
    let root = state.columns.roots.get(column).copied().filter(|root| *root != PageId(0))?;
    Some(Tree { root, ..state.columns.tree(&state.meta, column) })
}
