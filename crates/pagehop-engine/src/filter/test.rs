//! A filter over the columns of one index: names, kinds and NOT are resolved, and comparisons are
//! ranges of keys.

use super::contains::{Sets, TagsTest};
use super::ranges::{common, is_in, outside, ranges, united};
use super::{Comparison, FILTER_DEPTH_MAX, Filter, too_deep};
use crate::Error;
use crate::columns::{Column, ColumnKind, RowValues, Value, tag_columns, tags, unknown};

/// A filter over the columns of one index. Nothing is negated in it but ids.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Whether a column's key is in one of these ranges, ascending, with keys between them that are
    /// in none; both ends belong to a range. Without ranges it never is.
    Within { column: usize, ranges: Vec<(u64, u64)> },
    /// Whether a column's value is missing.
    Missing { column: usize },
    /// Whether a column's value is present.
    Present { column: usize },
    /// Whether a column's set has one of some tags, or none of them.
    Tags(TagsTest),
    /// Whether the id is one of these, ascending.
    Ids { ids: Vec<u64>, is_in: bool },
    /// Whether all parts are true; true without parts.
    And(Vec<Self>),
    /// Whether one part is true; false without parts.
    Or(Vec<Self>),
}

impl Test {
    /// A filter over an index with these columns.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an unknown column, a value of another kind, a comparison that the
    /// kind does not have, NaN, and nesting beyond [`FILTER_DEPTH_MAX`].
    pub(crate) fn new(filter: &Filter, columns: &[Column]) -> Result<Self, Error> {
        compile(filter, columns, false, FILTER_DEPTH_MAX)
    }

    /// Whether a row passes. Where it has several tags and the test is about them, it may pass: see
    /// [`Test::surely_passes`] and [`Test::passes_with`].
    pub(crate) fn passes(&self, id: u64, values: RowValues<'_>) -> bool {
        self.answer(id, values, Sets::MayPass)
    }

    /// Whether a row with these values may pass, whatever its id and its tags are.
    pub(crate) fn may_pass(&self, values: RowValues<'_>) -> bool {
        match self {
            Self::Ids { .. } => true,
            Self::And(parts) => parts.iter().all(|part| part.may_pass(values)),
            Self::Or(parts) => parts.iter().any(|part| part.may_pass(values)),
            other => other.answer(0, values, Sets::MayPass),
        }
    }

    /// Whether it is certain that a row passes, without a look at its tags.
    pub(crate) fn surely_passes(&self, id: u64, values: RowValues<'_>) -> bool {
        self.answer(id, values, Sets::Passes)
    }

    /// Whether a row passes; `sets` has the tags that its words do not say.
    pub(crate) fn passes_with(&self, id: u64, values: RowValues<'_>, sets: &[Vec<u64>]) -> bool {
        self.answer(id, values, Sets::Known(sets))
    }

    fn answer(&self, id: u64, values: RowValues<'_>, sets: Sets<'_>) -> bool {
        match self {
            Self::Within { column, ranges } => values.key(*column).is_some_and(|key| is_in(ranges, key)),
            Self::Missing { column } => values.key(*column).is_none(),
            Self::Present { column } => values.key(*column).is_some(),
            Self::Tags(test) => values.key(test.column).is_some_and(|word| test.passes(word, sets)),
            Self::Ids { ids, is_in } => ids.binary_search(&id).is_ok() == *is_in,
            Self::And(parts) => parts.iter().all(|part| part.answer(id, values, sets)),
            Self::Or(parts) => parts.iter().any(|part| part.answer(id, values, sets)),
        }
    }

    /// Whether the test depends on tags.
    pub(crate) fn needs_tags(&self) -> bool {
        self.given(None) == Given::Tags
    }

    /// What the answer for a row depends on if the row has `tag`, the hash of a tag, in a column.
    /// If it does not depend on tags, [`Test::passes`] is exact for the row.
    pub(crate) fn given(&self, tag: Option<(usize, u64)>) -> Given {
        let all = |parts: &[Self], decided: Given, other: Given| {
            let parts: Vec<Given> = parts.iter().map(|part| part.given(tag)).collect();
            let has = |what: Given| parts.contains(&what);
            match () {
                () if has(decided) => decided,
                () if has(Given::Tags) => Given::Tags,
                () if has(Given::Values) => Given::Values,
                () => other,
            }
        };
        match self {
            Self::Tags(test) => match tag {
                Some((column, tag))
                    if column == test.column && test.is_in && test.hashes.binary_search(&tag).is_ok() =>
                {
                    Given::True
                }
                _ => Given::Tags,
            },
            Self::And(parts) => all(parts, Given::False, Given::True),
            Self::Or(parts) => all(parts, Given::True, Given::False),
            _ => Given::Values,
        }
    }
}

/// `negated` negates each comparison, which is NOT in a logic of three values: comparisons with
/// missing values stay neither true nor false.
fn compile(filter: &Filter, columns: &[Column], negated: bool, depth: usize) -> Result<Test, Error> {
    if depth == 0 {
        return Err(too_deep());
    }
    let all = |parts: &[Filter]| -> Result<Vec<Test>, Error> {
        parts.iter().map(|part| compile(part, columns, negated, depth - 1)).collect()
    };
    let within = |column, ranges: Vec<(u64, u64)>| Test::Within {
        column,
        ranges: if negated { outside(&ranges) } else { ranges },
    };
    Ok(match filter {
        Filter::Compare(name, comparison, value) => {
            let (column, kind) = find(columns, name)?;
            if *value == Value::Null {
                return Ok(Test::Or(Vec::new()));
            }
            within(column, ranges(kind, *comparison, value).map_err(|error| of_column(name, error))?)
        }
        Filter::In(name, values) => {
            let (column, kind) = find(columns, name)?;
            let mut points = Vec::with_capacity(values.len());
            for value in values {
                let equal = ranges(kind, Comparison::Equal, value).map_err(|error| of_column(name, error))?;
                points.extend(equal);
            }
            // x NOT IN (1, NULL) is never true: it is x <> 1 AND x <> NULL. x NOT IN () always is.
            if negated && values.contains(&Value::Null) {
                return Ok(Test::Or(Vec::new()));
            }
            if negated && values.is_empty() {
                return Ok(Test::And(Vec::new()));
            }
            within(column, united(points))
        }
        Filter::IsNull(name) => {
            let (column, _) = find(columns, name)?;
            if negated { Test::Present { column } } else { Test::Missing { column } }
        }
        Filter::ContainsAny(name, tags) => contains_any(tags_test(columns, name, tags, !negated)?),
        Filter::ContainsAll(name, tags) => contains_all(tags_test(columns, name, tags, !negated)?),
        Filter::Ids(ids) => {
            let mut ids = ids.clone();
            ids.sort_unstable();
            ids.dedup();
            Test::Ids { ids, is_in: !negated }
        }
        Filter::TextIds(_) => return Err(Error::argument("text ids of a filter have no numbers yet")),
        Filter::Not(part) => compile(part, columns, !negated, depth - 1)?,
        Filter::And(parts) if negated => any_of(all(parts)?),
        Filter::Or(parts) if negated => all_of(all(parts)?),
        Filter::And(parts) => all_of(all(parts)?),
        Filter::Or(parts) => any_of(all(parts)?),
    })
}

/// Whether all parts are true. Comparisons of one column become one, so that a search looks at the
/// column's postings once.
fn all_of(parts: Vec<Test>) -> Test {
    let parts = parts.into_iter().flat_map(|part| match part {
        Test::And(parts) => parts,
        other => vec![other],
    });
    let (columns, mut joined) = by_column(parts);
    joined.extend(columns.into_iter().map(|(column, lists)| {
        let ranges = lists.into_iter().reduce(|all, more| common(&all, &more)).unwrap_or_default();
        Test::Within { column, ranges }
    }));
    only(joined, Test::And)
}

/// Whether one part is true, likewise.
fn any_of(parts: Vec<Test>) -> Test {
    let parts = parts.into_iter().flat_map(|part| match part {
        Test::Or(parts) => parts,
        other => vec![other],
    });
    let (columns, mut joined) = by_column(parts);
    joined.extend(columns.into_iter().map(|(column, lists)| {
        // All at once: there may be a hundred thousand.
        Test::Within { column, ranges: united(lists.concat()) }
    }));
    only(joined, Test::Or)
}

/// The only part by itself, or all parts.
fn only(mut parts: Vec<Test>, joined: impl FnOnce(Vec<Test>) -> Test) -> Test {
    if parts.len() == 1 { parts.remove(0) } else { joined(parts) }
}

/// Lists of ranges of a column.
type OfColumn = (usize, Vec<Vec<(u64, u64)>>);

/// The lists of ranges of each column that is compared, and the other parts.
fn by_column(parts: impl Iterator<Item = Test>) -> (Vec<OfColumn>, Vec<Test>) {
    let (mut columns, mut others): (Vec<OfColumn>, _) = (Vec::new(), Vec::new());
    for part in parts {
        let Test::Within { column, ranges } = part else {
            others.push(part);
            continue;
        };
        match columns.iter_mut().find(|(known, _)| *known == column) {
            Some((_, lists)) => lists.push(ranges),
            None => columns.push((column, vec![ranges])),
        }
    }
    (columns, others)
}

/// What the answer of a test depends on when a tag of the row is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    True,
    False,
    /// The answer depends on the id and on values that the node has.
    Values,
    /// The answer depends on tags.
    Tags,
}

fn find(columns: &[Column], name: &str) -> Result<(usize, ColumnKind), Error> {
    let at = columns.iter().position(|column| column.name == name).ok_or_else(|| unknown(name, columns))?;
    Ok((at, columns[at].kind))
}

/// Whether a set has one of the tags of `test`, or none of them if `is_in` is false.
fn contains_any(test: TagsTest) -> Test {
    match test.hashes.is_empty() {
        true if test.is_in => Test::Or(Vec::new()),
        true => Test::Present { column: test.column },
        false => Test::Tags(test),
    }
}

/// Whether a set has all tags of `test`, or lacks one if `is_in` is false.
fn contains_all(test: TagsTest) -> Test {
    let TagsTest { column, set, is_in, .. } = test;
    let each = test.hashes.iter().map(|hash| Test::Tags(TagsTest { column, set, hashes: vec![*hash], is_in }));
    match test.hashes.is_empty() {
        true if is_in => Test::Present { column },
        false if is_in => Test::And(each.collect()),
        _ => Test::Or(each.collect()),
    }
}

/// The test of a column's set.
fn tags_test(columns: &[Column], name: &str, tags: &[String], is_in: bool) -> Result<TagsTest, Error> {
    let (column, kind) = find(columns, name)?;
    if kind != ColumnKind::Tags {
        let what = format!("column {name:?} has kind {}: only columns of tags contain something", kind.name());
        return Err(Error::argument(what));
    }
    let hashes = tags::hashes(tags).map_err(|error| of_column(name, error))?;
    let set = tag_columns(&columns[..column]);
    Ok(TagsTest { column, set, hashes, is_in })
}

fn of_column(name: &str, error: Error) -> Error {
    error.about(format_args!("column {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::signatures::Signatures;
    use crate::columns::{ColumnRows, int_key};
    use crate::filter::SignatureTest;
    use crate::random::Random;

    fn columns() -> Vec<Column> {
        let column = |name: &str, kind| Column { name: name.into(), kind };
        vec![
            column("n", ColumnKind::Int),
            column("x", ColumnKind::Float),
            column("t", ColumnKind::Text),
            column("g", ColumnKind::Tags),
            column("h", ColumnKind::Tags),
        ]
    }

    /// The answer of a filter from the values themselves: true, false or unknown (`None`).
    fn oracle(filter: &Filter, id: u64, row: &[Value]) -> Option<bool> {
        let value = |name: &str| &row[columns().iter().position(|c| c.name == name).expect("a column")];
        let order = |a: &Value, b: &Value| match (a, b) {
            (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
            (Value::Int(a), Value::Float(b)) => (*a as f64).partial_cmp(b),
            (Value::Float(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.partial_cmp(b),
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
            Filter::In(name, values) => {
                let equal: Vec<Option<bool>> =
                    values.iter().map(|with| order(value(name), with).map(|order| order.is_eq())).collect();
                if equal.contains(&Some(true)) {
                    Some(true)
                } else if equal.contains(&None) {
                    None
                } else {
                    Some(false)
                }
            }
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
            Filter::TextIds(_) => unreachable!("these filters have numbers"),
            Filter::Not(part) => oracle(part, id, row).map(|truth| !truth),
            Filter::And(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| oracle(part, id, row)).collect();
                if parts.contains(&Some(false)) {
                    Some(false)
                } else if parts.contains(&None) {
                    None
                } else {
                    Some(true)
                }
            }
            Filter::Or(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| oracle(part, id, row)).collect();
                if parts.contains(&Some(true)) {
                    Some(true)
                } else if parts.contains(&None) {
                    None
                } else {
                    Some(false)
                }
            }
        }
    }

    fn value(random: &mut Random, column: usize) -> Value {
        let number = random.below(7) as i64 - 3;
        match (column, random.below(8)) {
            (_, 0) => Value::Null,
            (0, _) => Value::Int(number),
            (1, 1..4) => Value::Int(number),
            (1, _) => Value::Float(number as f64 / 2.0),
            (2, _) => Value::Text(format!("text {number}")),
            _ => Value::Tags(tags(random)),
        }
    }

    fn tags(random: &mut Random) -> Vec<String> {
        (0..random.below(5)).map(|_| format!("tag {}", random.below(7))).collect()
    }

    fn filter(random: &mut Random, depth: u64) -> Filter {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let parts = |random: &mut Random| (0..random.below(4)).map(|_| filter(random, depth - 1)).collect();
        let column = random.below(3) as usize;
        let name = columns()[column].name.clone();
        let of_tags = columns()[3 + random.below(2) as usize].name.clone();
        match random.below(if depth == 0 { 6 } else { 9 }) {
            0 => Filter::IsNull(name),
            1 => Filter::Ids((0..random.below(4)).map(|_| random.below(6)).collect()),
            2 => Filter::In(name, (0..random.below(4)).map(|_| value(random, column)).collect()),
            3 => {
                let comparisons = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
                let comparison = comparisons[random.below(if column == 2 { 2 } else { 6 }) as usize];
                // Integers may be compared with any number.
                let with = if column == 0 { value(random, 1) } else { value(random, column) };
                let with = if matches!((column, &with), (0, Value::Int(_))) { value(random, 0) } else { with };
                Filter::Compare(name, comparison, with)
            }
            4 => Filter::ContainsAny(of_tags, tags(random)),
            5 => Filter::ContainsAll(of_tags, tags(random)),
            6 => Filter::Not(Box::new(filter(random, depth - 1))),
            7 => Filter::And(parts(random)),
            _ => Filter::Or(parts(random)),
        }
    }

    #[test]
    fn a_row_passes_if_the_filter_is_true_of_its_values() {
        let mut random = Random::new(5, 0);
        let (mut known, mut ruled_out, mut unlike) = (0, 0, 0);
        let mut others = ColumnRows::new(columns()).expect("columns");
        (0..50).for_each(|_| others.push(&[0, 1, 2, 3, 4].map(|at| value(&mut random, at))).expect("a row"));
        let signatures = Signatures::train(&others);
        for _ in 0..2000 {
            let filter = filter(&mut random, 3);
            let test = Test::new(&filter, &columns()).expect("a filter over the columns");
            let of_signature = SignatureTest::new(&test, &signatures);
            for _ in 0..20 {
                let row: Vec<Value> = (0..5).map(|column| value(&mut random, column)).collect();
                let id = random.below(6);
                let mut rows = ColumnRows::new(columns()).expect("columns");
                rows.push(&row).expect("a row");
                let expected = oracle(&filter, id, &row) == Some(true);
                let values = RowValues(rows.row(0));
                let found = test.passes_with(id, values, rows.sets(0));
                assert_eq!(found, expected, "{filter:?} of {id} {row:?}");
                // `passes` has no false negatives, and `surely_passes` no false positives.
                assert!(!expected || test.passes(id, values), "{filter:?} of {id} {row:?}");
                assert!(expected || !test.surely_passes(id, values), "{filter:?} of {id} {row:?}");
                let whatever_its_id = (0..6).any(|id| test.passes(id, values));
                assert!(!whatever_its_id || test.may_pass(values), "{filter:?} of {row:?}");
                let may_pass = |test: &SignatureTest| test.may_pass(signatures.of(values));
                let is_unlike = !of_signature.as_ref().is_none_or(may_pass);
                assert!(!expected || !is_unlike, "{filter:?} of {row:?}");
                unlike += usize::from(is_unlike);
                ruled_out += usize::from(!test.may_pass(values));
                known += usize::from(test.surely_passes(id, values) == test.passes(id, values));
                given(&test, id, &row, &rows);
            }
        }
        assert!((20_000..40_000).contains(&known), "words decide {known} of 40,000");
        assert!(ruled_out > 10_000, "values rule out {ruled_out} of 40,000");
        assert!(unlike > ruled_out * 3 / 4, "signatures rule out {unlike}, values {ruled_out}");
    }

    /// `Test::given` for a tag of the row must agree with the answer for the row.
    fn given(test: &Test, id: u64, row: &[Value], rows: &ColumnRows) {
        for column in [3, 4] {
            let Value::Tags(tags) = &row[column] else { continue };
            for hash in tags::hashes(tags).expect("tags") {
                let left = test.given(Some((column, hash)));
                let values = RowValues(rows.row(0));
                let passes = test.passes_with(id, values, rows.sets(0));
                // A row passes if its word says that it may, and it has the tag.
                let expected = match left {
                    Given::True => true,
                    Given::False => false,
                    Given::Values => test.passes(id, values),
                    Given::Tags => continue,
                };
                assert_eq!(passes, expected, "{test:?} of {row:?}");
            }
        }
    }

    #[test]
    fn comparisons_of_a_column_are_one() {
        let compare = |comparison, number| Filter::Compare("n".into(), comparison, Value::Int(number));
        let (low, high) = (Comparison::GreaterOrEqual, Comparison::Less);
        let test = |filter: &Filter| Test::new(filter, &columns()).expect("a filter over the columns");
        let keys = |low: i64, high: i64| (int_key(low), int_key(high));
        let within = |ranges: Vec<(u64, u64)>| Test::Within { column: 0, ranges };
        let some = Filter::In("n".into(), [4, 9, 5, 6].map(Value::Int).to_vec());
        assert_eq!(test(&some), within(vec![keys(4, 6), keys(9, 9)]));
        let any = Filter::Or((0..1000).map(|number| compare(high, number)).collect());
        assert_eq!(test(&any), within(vec![(0, int_key(998))]));
        let between = Filter::And(vec![compare(low, 5), compare(high, 9)]);
        assert_eq!(test(&between), within(vec![keys(5, 8)]));
        assert_eq!(test(&Filter::And(vec![between.clone(), some.clone()])), within(vec![keys(5, 6)]));
        let none = Filter::IsNull("x".into());
        let joined = Filter::Or(vec![between.clone(), none, Filter::Or(vec![some, compare(low, 12)])]);
        let all = within(vec![keys(4, 9), (int_key(12), u64::MAX)]);
        assert_eq!(test(&joined), Test::Or(vec![Test::Missing { column: 1 }, all]));
        let not = within(vec![(0, int_key(4)), (int_key(9), u64::MAX)]);
        assert_eq!(test(&Filter::Not(Box::new(between))), not);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let refused = |filter: Filter| Test::new(&filter, &columns()).expect_err("refused").to_string();
        let compare = |name: &str, comparison, value| Filter::Compare(name.into(), comparison, value);
        assert!(refused(compare("y", Comparison::Equal, Value::Int(1))).contains("n, x, t"));
        let any = |name: &str, tag: &str| Filter::ContainsAny(name.into(), vec![tag.into()]);
        assert!(refused(any("t", "a")).contains("only columns of tags"));
        assert!(refused(any("g", "")).contains("column \"g\": a tag is empty"));
        assert!(refused(compare("g", Comparison::Equal, Value::Text("a".into()))).contains("use contains"));
        assert!(refused(compare("t", Comparison::Less, Value::Text("a".into()))).contains("no order"));
        assert!(refused(compare("n", Comparison::Equal, Value::Bool(true))).contains("int"));
        assert!(refused(compare("x", Comparison::Less, Value::Float(f64::NAN))).contains("NaN"));
        let deep = (0..100).fold(Filter::IsNull("n".into()), |part, _| Filter::Not(Box::new(part)));
        assert!(refused(deep).contains("64 deep"));
    }
}
