//! The conditions of a scan, which PostgreSQL passes as scan keys, as a filter of the engine.

use pagehop_engine::{Column, Comparison, Filter, Value};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;
use crate::rows::columns::{FilterColumn, Keys, ValueType};
use crate::rows::opclass::{STRATEGY_CONTAINS, STRATEGY_EQUAL, STRATEGY_GREATER, STRATEGY_LESS, STRATEGY_OVERLAPS};

/// Most different values of an array that a condition compares with. A condition with more is left
/// to the executor.
const VALUES_MAX: usize = 100_000;

/// A condition on one filter column.
#[derive(Clone, Debug)]
struct Condition {
    /// Position among the filter columns.
    column: usize,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Is {
        null: bool,
    },
    /// The comparison holds for one of the values: at most one, unless it is of equality.
    Any(Comparison, Vec<i64>),
    /// The array has one of these tags, or all of them.
    Contains {
        all: bool,
        tags: Vec<String>,
    },
}

/// The conditions of a scan, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    conditions: Vec<Condition>,
    /// Whether the executor must test rows that pass: values are known by hashes, or a condition
    /// was left to it.
    pub(super) recheck: bool,
}

impl Conditions {
    /// Reads scan keys.
    ///
    /// # Safety
    ///
    /// `index` is open, and `keys` are of a scan of it.
    pub(super) unsafe fn read(index: pg_sys::Relation, keys: &[pg_sys::ScanKeyData]) -> Self {
        let mut read = Self::default();
        if keys.is_empty() {
            return read;
        }
        // SAFETY: the caller keeps the index open.
        let columns = unsafe { FilterColumn::of(index) };
        for key in keys {
            let has = |flag: u32| key.sk_flags & flag as i32 != 0;
            let is_not_null = has(pg_sys::SK_SEARCHNOTNULL);
            let Some(column) = usize::try_from(key.sk_attno).ok().and_then(|at| at.checked_sub(2)) else {
                // Every row of an index has a vector.
                if !is_not_null {
                    let what = "cannot search pagehop index for rows without a vector".to_string();
                    errors::report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, what, None);
                }
                continue;
            };
            let test = match columns.get(column) {
                _ if is_not_null || has(pg_sys::SK_SEARCHNULL) => Some(Test::Is { null: !is_not_null }),
                // SAFETY: the key is of the index, so its argument is of the type that it says.
                Some(column) if column.value_type.element().is_some() => unsafe { contains(key, column) },
                // SAFETY: the key is of the index, so its argument is of the type that it says.
                Some(column) => unsafe { comparison(key, column) },
                None => unreachable!("the key is of a column of the index"),
            };
            let is_hashed = columns.get(column).is_some_and(|column| column.value_type.is_hashed());
            read.recheck |= is_hashed && !matches!(test, Some(Test::Is { .. })) || test.is_none();
            read.conditions.extend(test.map(|test| Condition { column, test }));
        }
        read
    }

    /// The filter over an index with these columns; `None` if every row passes.
    pub(super) fn filter(&self, columns: &[Column]) -> Option<Filter> {
        let part = |condition: &Condition| {
            let name = || columns[condition.column].name.clone();
            match &condition.test {
                Test::Is { null: true } => Filter::IsNull(name()),
                Test::Is { null: false } => Filter::Not(Box::new(Filter::IsNull(name()))),
                Test::Contains { all: true, tags } => Filter::ContainsAll(name(), tags.clone()),
                Test::Contains { all: false, tags } => Filter::ContainsAny(name(), tags.clone()),
                Test::Any(Comparison::Equal, values) => {
                    Filter::In(name(), values.iter().copied().map(Value::Int).collect())
                }
                Test::Any(comparison, values) => {
                    let compare = |value: &i64| Filter::Compare(name(), *comparison, Value::Int(*value));
                    Filter::Or(values.iter().map(compare).collect())
                }
            }
        };
        (!self.conditions.is_empty()).then(|| Filter::And(self.conditions.iter().map(part).collect()))
    }
}

/// `None` for more than [`VALUES_MAX`] values.
///
/// # Safety
///
/// The key is a condition on an array of `column`, or on one of several.
unsafe fn contains(key: &pg_sys::ScanKeyData, column: &FilterColumn) -> Option<Test> {
    let has = |flag: u32| key.sk_flags & flag as i32 != 0;
    let all = match key.sk_strategy {
        STRATEGY_OVERLAPS => false,
        STRATEGY_CONTAINS => true,
        other => refuse_strategy(other),
    };
    let nothing = Test::Contains { all: false, tags: Vec::new() };
    if has(pg_sys::SK_ISNULL) {
        return Some(nothing);
    }
    // SAFETY: the argument of the key is an array of the column's type and not NULL, as the caller
    // ensures.
    let wanted = unsafe { Keys::of(key.sk_argument, column, VALUES_MAX) }?;
    // No array contains NULL, and none overlaps because of it.
    Some(if all && wanted.has_null { nothing } else { Test::Contains { all, tags: wanted.tags() } })
}

fn refuse_strategy(strategy: u16) -> ! {
    let what = format!("a pagehop index has no strategy {strategy} for this column");
    errors::report(PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION, what, None);
}

/// `None` for more than [`VALUES_MAX`] values.
///
/// # Safety
///
/// The key is a comparison with a value of `column`.
unsafe fn comparison(key: &pg_sys::ScanKeyData, column: &FilterColumn) -> Option<Test> {
    const BETWEEN: [Comparison; 5] = [
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Equal,
        Comparison::GreaterOrEqual,
        Comparison::Greater,
    ];
    debug_assert!((STRATEGY_LESS..=STRATEGY_GREATER).contains(&key.sk_strategy), "the classes have no others");
    let comparison = BETWEEN.get(usize::from(key.sk_strategy.wrapping_sub(STRATEGY_LESS))).copied();
    let comparison = comparison.filter(|_| !column.value_type.is_hashed() || key.sk_strategy == STRATEGY_EQUAL);
    let Some(comparison) = comparison else { refuse_strategy(key.sk_strategy) };
    // A comparison with NULL holds for no row.
    if key.sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
        return Some(Test::Any(comparison, Vec::new()));
    }
    // The other side may be of another type of the same family.
    let other = ValueType::of(key.sk_subtype).unwrap_or(column.value_type);
    // SAFETY: the caller says that the argument is a value, and its type says how to read it.
    let values = unsafe {
        match key.sk_flags & pg_sys::SK_SEARCHARRAY as i32 {
            0 => vec![other.key(key.sk_argument, column.collation)],
            _ => Keys::of(key.sk_argument, column, VALUES_MAX)?.keys.into_iter().collect(),
        }
    };
    Some(Test::Any(comparison, easiest(comparison, values)))
}

/// A shorter list of values that is equivalent: a comparison holds for one of them if it holds for
/// one of `values`. For an order comparison this is the single value that is easiest to meet, since
/// a condition on each of a hundred thousand values would cost memory.
fn easiest(comparison: Comparison, values: Vec<i64>) -> Vec<i64> {
    match comparison {
        Comparison::Less | Comparison::LessOrEqual => values.into_iter().max().into_iter().collect(),
        Comparison::Greater | Comparison::GreaterOrEqual => values.into_iter().min().into_iter().collect(),
        Comparison::Equal | Comparison::NotEqual => values,
    }
}
