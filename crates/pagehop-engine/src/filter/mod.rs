//! Filters: which rows a search may find, by their ids and the values of their columns.
//!
//! - `mod.rs`: filters as users write them in Rust.
//! - `parse.rs`: filters as text, such as `topic = 7 and price < 20`.
//! - `test.rs`: a filter over the columns of one index, which a row passes or not.
//!
//! As in SQL, a comparison with a missing value is neither true nor false, and a row passes if its
//! filter is true.

mod parse;
mod test;

use crate::columns::Value;

pub(crate) use test::Test;

/// Deepest nesting of a filter.
pub const FILTER_DEPTH_MAX: usize = 64;

/// A condition on a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// A column's value against another: the name of the column, how, and with what.
    Compare(String, Comparison, Value),
    /// A column's value is one of these.
    In(String, Vec<Value>),
    /// A column's value is missing.
    IsNull(String),
    /// The row's id is one of these.
    Ids(Vec<u64>),
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
