//! Columns and payloads of test rows: values, filters, and which rows pass a filter.

use std::collections::BTreeSet;
use std::sync::Arc;

use pagehop_engine::{Column, ColumnKind, ColumnRows, Comparison, Error, Filter, Value};

use super::data::Row;
use crate::Rng;

/// The columns that an index may have, in their order.
const COLUMNS: [(&str, ColumnKind); 6] = [
    ("n", ColumnKind::Int),
    ("g", ColumnKind::Tags),
    ("x", ColumnKind::Float),
    ("t", ColumnKind::Text),
    ("b", ColumnKind::Bool),
    ("h", ColumnKind::Tags),
];
/// The number of different tags. The more tags a set has, the more often its word also matches tags
/// that are not in the set.
const TAGS: usize = 24;
/// Most columns of an index.
pub const COLUMNS_MAX: usize = COLUMNS.len();

/// The column at position `at`.
pub(super) fn column(at: usize) -> Column {
    let (name, kind) = COLUMNS[at];
    Column { name: name.into(), kind }
}

/// The first `count` columns, at most [`COLUMNS_MAX`].
pub fn columns(count: usize) -> Vec<Column> {
    (0..count).map(column).collect()
}

/// The columns of a change, and whether it has payloads.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The positions of the columns, from 0.
    pub columns: Vec<usize>,
    /// Whether payloads are given.
    pub payloads: bool,
}

impl Given {
    /// The values of `rows` in these columns, and their payloads; `None` if neither columns nor
    /// payloads are given.
    ///
    /// # Errors
    ///
    /// Those of [`ColumnRows::push`].
    pub fn of<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Result<Option<ColumnRows>, Error> {
        let mut packed = ColumnRows::new(self.columns.iter().map(|at| column(*at)).collect())?;
        let mut payloads = Vec::new();
        for row in rows {
            let values: Vec<Value> = self.columns.iter().map(|at| row.values[*at].clone()).collect();
            packed.push(&values)?;
            payloads.push(row.payload.as_ref().map(|payload| payload.to_vec()));
        }
        if self.payloads {
            packed = packed.with_payloads(payloads);
        }
        Ok((self.payloads || !self.columns.is_empty()).then_some(packed))
    }
}

/// A random payload. Most are short, and some are empty, missing, or as long as several pages.
pub fn payload(rng: &mut Rng) -> Option<Arc<[u8]>> {
    let most = match rng.below(12) {
        0 => return None,
        1 => 1,
        2 | 3 => 3000,
        4 => 30_000,
        _ => 200,
    };
    let (length, word) = (rng.below(most), rng.next_u64().to_le_bytes());
    Some((0..length).map(|at| word[at % 8] ^ at as u8).collect())
}

/// A random value of the column at position `at`. There are few different values, so that many rows
/// have the same.
fn value(at: usize, rng: &mut Rng) -> Value {
    if rng.one_in(6) {
        return Value::Null;
    }
    let number = rng.below(7) as i64 - 3;
    match COLUMNS[at].1 {
        ColumnKind::Int if rng.one_in(20) => Value::Int([i64::MIN, i64::MAX][rng.below(2)]),
        ColumnKind::Int => Value::Int(number),
        ColumnKind::Float if rng.one_in(20) => Value::Float([f64::NEG_INFINITY, f64::INFINITY][rng.below(2)]),
        ColumnKind::Float => Value::Float(number as f64 / 2.0),
        ColumnKind::Text => Value::Text(format!("text {number}")),
        ColumnKind::Tags => Value::Tags(tags(rng)),
        _ => Value::Bool(number < 0),
    }
}

/// A few different tags, in order; seldom most of them.
fn tags(rng: &mut Rng) -> Vec<String> {
    let most = [3, 3, 6, TAGS][rng.below(4)];
    let count = rng.below(most);
    let drawn: BTreeSet<usize> = (0..count).map(|_| rng.below(TAGS).min(rng.below(TAGS))).collect();
    drawn.into_iter().map(|tag| format!("tag {tag}")).collect()
}

/// Random values of the first `count` columns.
pub fn values(count: usize, rng: &mut Rng) -> Arc<[Value]> {
    (0..count).map(|at| value(at, rng)).collect()
}

/// A random filter over the first `count` columns. `some_id` draws an id.
pub fn filter(count: usize, depth: usize, some_id: &mut dyn FnMut(&mut Rng) -> u64, rng: &mut Rng) -> Filter {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let kind = rng.below(if depth == 0 { 8 } else { 12 });
    if kind >= 8 {
        let mut part = || filter(count, depth - 1, some_id, rng);
        return match kind {
            8 => Filter::Not(Box::new(part())),
            9 => Filter::Or(vec![part(), part()]),
            _ => Filter::And(vec![part(), part()]),
        };
    }
    if kind == 0 || count == 0 {
        return Filter::Ids((0..1 + rng.below(12)).map(|_| some_id(rng)).collect());
    }
    let at = rng.below(count);
    let name = COLUMNS[at].0.to_owned();
    let comparisons = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
    match kind {
        1 => Filter::IsNull(name),
        2..5 if COLUMNS[at].1 == ColumnKind::Tags => Filter::ContainsAny(name, tags(rng)),
        _ if COLUMNS[at].1 == ColumnKind::Tags => Filter::ContainsAll(name, tags(rng)),
        2 => Filter::In(name, (0..rng.below(4)).map(|_| value(at, rng)).collect()),
        3..5 => Filter::Compare(name, Equal, value(at, rng)),
        _ => {
            let ordered = if COLUMNS[at].1 == ColumnKind::Text { 2 } else { comparisons.len() };
            Filter::Compare(name, comparisons[rng.below(ordered)], value(at, rng))
        }
    }
}

/// Whether a row passes: true, false, or unknown (`None`), as in SQL.
///
/// # Panics
///
/// If the filter names a column that the row lacks.
pub fn passes(filter: &Filter, id: u64, row: &[Value]) -> Option<bool> {
    let value = |name: &str| &row[COLUMNS.iter().position(|column| column.0 == name).expect("a known column")];
    let order = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.partial_cmp(b),
        _ => None,
    };
    match filter {
        Filter::Compare(name, comparison, with) => order(value(name), with).map(|order| match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }),
        Filter::In(name, values) => any(values.iter().map(|with| order(value(name), with).map(|o| o.is_eq()))),
        Filter::IsNull(name) => Some(*value(name) == Value::Null),
        Filter::ContainsAny(name, tags) => match value(name) {
            Value::Tags(set) => Some(tags.iter().any(|tag| set.contains(tag))),
            _ => None,
        },
        Filter::ContainsAll(name, tags) => match value(name) {
            Value::Tags(set) => Some(tags.iter().all(|tag| set.contains(tag))),
            _ => None,
        },
        Filter::Ids(ids) => Some(ids.contains(&id)),
        Filter::TextIds(texts) => Some(texts.contains(&super::ids::text(id))),
        Filter::Not(part) => passes(part, id, row).map(|truth| !truth),
        Filter::Or(parts) => any(parts.iter().map(|part| passes(part, id, row))),
        Filter::And(parts) => {
            any(parts.iter().map(|part| passes(part, id, row).map(|truth| !truth))).map(|truth| !truth)
        }
    }
}

fn any(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let parts: Vec<Option<bool>> = parts.collect();
    if parts.contains(&Some(true)) { Some(true) } else { parts.iter().all(Option::is_some).then_some(false) }
}
