//! Filters: which rows a search may find, by their ids and the values of their columns.
//!
//! - `mod.rs`: filters as users write them in Rust.
//! - `parse.rs`: filters as text, such as `topic = 7 and price < 20`.
//! - `test.rs`: a filter over the columns of one index, which a row passes or not.
//! - `ranges.rs`: the keys for which a comparison is true.
//! - `contains.rs`: the conditions on tags.
//! - `signature.rs`: a filter over the signatures of rows.
//!
//! As in SQL, a comparison with a missing value is neither true nor false, and a row passes if its
//! filter is true.

mod contains;
mod parse;
mod ranges;
mod signature;
mod test;

use crate::Error;
use crate::columns::Value;

pub(crate) use contains::TagsTest;
pub(crate) use signature::SignatureTest;
pub(crate) use test::{Given, Test};

/// Deepest nesting of a filter.
pub const FILTER_DEPTH_MAX: usize = 64;

/// A condition on a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// A column's value against another: the name of the column, the operator, the other value.
    Compare(String, Comparison, Value),
    /// A column's value is one of these.
    In(String, Vec<Value>),
    /// A column's value is missing.
    IsNull(String),
    /// A column's set has at least one of these tags; false for no tags.
    ContainsAny(String, Vec<String>),
    /// A column's set has all of these tags; true for no tags.
    ContainsAll(String, Vec<String>),
    /// The row's id is one of these.
    Ids(Vec<u64>),
    /// The row's id, which is a text, is one of these.
    TextIds(Vec<String>),
    /// The condition is false.
    Not(Box<Self>),
    /// All conditions are true.
    And(Vec<Self>),
    /// One of the conditions is true.
    Or(Vec<Self>),
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Filter {
    /// The same filter with numbers of rows in place of text ids. `look` gets each list of ids, and
    /// returns the numbers of those that the index has.
    ///
    /// # Errors
    ///
    /// Those of `look`, and [`Error::Argument`] for nesting beyond [`FILTER_DEPTH_MAX`].
    pub(crate) fn with_numbers(
        &self,
        look: &mut dyn FnMut(GivenIds<'_>) -> Result<Vec<u64>, Error>,
    ) -> Result<Self, Error> {
        self.numbered(look, FILTER_DEPTH_MAX)
    }

    fn numbered(
        &self,
        look: &mut dyn FnMut(GivenIds<'_>) -> Result<Vec<u64>, Error>,
        depth: usize,
    ) -> Result<Self, Error> {
        if depth == 0 {
            return Err(too_deep());
        }
        let mut all = |parts: &[Self]| -> Result<Vec<Self>, Error> {
            parts.iter().map(|part| part.numbered(look, depth - 1)).collect()
        };
        Ok(match self {
            Self::Ids(ids) => Self::Ids(look(GivenIds::Int(ids))?),
            Self::TextIds(texts) => Self::Ids(look(GivenIds::Text(texts))?),
            Self::Not(part) => Self::Not(Box::new(part.numbered(look, depth - 1)?)),
            Self::And(parts) => Self::And(all(parts)?),
            Self::Or(parts) => Self::Or(all(parts)?),
            Self::Compare(..) | Self::In(..) | Self::IsNull(_) | Self::ContainsAny(..) | Self::ContainsAll(..) => {
                self.clone()
            }
        })
    }
}

/// Ids in a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GivenIds<'a> {
    Int(&'a [u64]),
    Text(&'a [String]),
}

fn too_deep() -> Error {
    Error::argument(format!("a filter is nested more than {FILTER_DEPTH_MAX} deep"))
}
