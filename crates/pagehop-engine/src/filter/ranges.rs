//! Ranges of keys: those of a comparison, and lists of them as sets of keys.
//!
//! A list has its ranges in ascending order, and keys between them that are in none, so equal sets
//! are equal lists. Both ends belong to a range.

use super::Comparison;
use crate::Error;
use crate::columns::{ColumnKind, Value, float_key, int_key};

pub(super) fn is_in(ranges: &[(u64, u64)], key: u64) -> bool {
    let after = ranges.partition_point(|range| range.0 <= key);
    after > 0 && key <= ranges[after - 1].1
}

/// The list of the keys in ranges that are in any order.
pub(super) fn united(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1.saturating_add(1);
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    ranges
}

/// The list of the keys that are in both lists.
pub(super) fn common(first: &[(u64, u64)], second: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        let (low, high) = (a.0.max(b.0), a.1.min(b.1));
        if low <= high {
            both.push((low, high));
        }
        _ = if a.1 < b.1 { first.next() } else { second.next() };
    }
    both
}

/// The list of all keys that are not in a list.
pub(super) fn outside(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut next = Some(0);
    for (low, high) in ranges {
        if let Some(from) = next.filter(|from| from < low) {
            gaps.push((from, low - 1));
        }
        next = high.checked_add(1);
    }
    gaps.extend(next.map(|from| (from, u64::MAX)));
    gaps
}

/// The ranges of keys for which the comparison with a value is true. A comparison with a missing
/// value is never true.
pub(super) fn ranges(kind: ColumnKind, comparison: Comparison, value: &Value) -> Result<Vec<(u64, u64)>, Error> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    if kind == ColumnKind::Tags {
        return Err(Error::argument("sets of tags are not compared: use contains, contains any or contains all"));
    }
    if !kind.is_ordered() && !matches!(comparison, Equal | NotEqual) {
        return Err(Error::argument(format!("values of kind {} have no order: compare with = or <>", kind.name())));
    }
    let (low, high) = match (kind, value) {
        (_, Value::Null) => return Ok(Vec::new()),
        (ColumnKind::Int, Value::Float(number)) => around(*number)?,
        (ColumnKind::Timestamp | ColumnKind::Uuid, Value::Text(text)) => {
            let key = Value::parse(kind, text)?.key(kind)?;
            (key, key)
        }
        _ => {
            let key = value.key(kind)?.expect("the value is not missing");
            (Some(key), Some(key))
        }
    };
    // `low` is the smallest key at or above the value, `high` the largest at or below it.
    let up_to = |most: Option<u64>| most.map(|most| (0, most)).into_iter().collect::<Vec<_>>();
    let from = |least: Option<u64>| least.map(|least| (least, u64::MAX)).into_iter().collect::<Vec<_>>();
    let equal = match (low, high) {
        (Some(low), Some(high)) if low == high => vec![(low, high)],
        _ => Vec::new(),
    };
    Ok(match comparison {
        Equal => equal,
        NotEqual => outside(&equal),
        Less => low.map_or_else(|| up_to(Some(u64::MAX)), |low| up_to(low.checked_sub(1))),
        LessOrEqual => up_to(high),
        Greater => high.map_or_else(|| from(Some(0)), |high| from(high.checked_add(1))),
        GreaterOrEqual => from(low),
    })
}

/// The keys of the integers at or above a number, and at or below it; none where it is beyond all.
fn around(number: f64) -> Result<(Option<u64>, Option<u64>), Error> {
    // 2^63 is a float; the largest integer below it is not.
    const END: f64 = 9_223_372_036_854_775_808.0;
    float_key(number)?;
    let above = if number > -END { number.ceil() } else { -END };
    let below = if number < END { number.floor() } else { f64::INFINITY };
    let above = (above < END).then(|| int_key(above as i64));
    let below = (number >= -END).then(|| if below < END { int_key(below as i64) } else { u64::MAX });
    Ok((above, below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn integers_are_compared_with_numbers_beyond_them() {
        let (least, most) = (int_key(i64::MIN), int_key(i64::MAX));
        let compare =
            |comparison, number: f64| ranges(ColumnKind::Int, comparison, &Value::Float(number)).expect("a number");
        assert_eq!(compare(Comparison::Less, 1e300), [(least, most)]);
        assert_eq!(compare(Comparison::Greater, 1e300), []);
        assert_eq!(compare(Comparison::GreaterOrEqual, f64::INFINITY), []);
        assert_eq!(compare(Comparison::Greater, f64::NEG_INFINITY), [(least, most)]);
        assert_eq!(compare(Comparison::Less, -1e300), []);
        assert_eq!(compare(Comparison::Equal, 2.5), []);
        assert_eq!(compare(Comparison::LessOrEqual, 2.5), [(least, int_key(2))]);
        assert_eq!(compare(Comparison::Greater, 2.5), [(int_key(3), most)]);
    }

    #[test]
    fn lists_are_sets_of_keys() {
        let mut random = Random::new(8, 0);
        for _ in 0..2_000 {
            // Keys at both ends of what there is.
            let end = |key: u64| if key < 20 { key } else { u64::MAX - (40 - key) };
            let mut some = || {
                let ranges = (0..random.below(6)).map(|_| {
                    let low = random.below(41);
                    (end(low), end((low + random.below(4)).min(40)))
                });
                ranges.collect::<Vec<_>>()
            };
            let (a, b) = (some(), some());
            let in_any =
                |ranges: &[(u64, u64)], key: u64| ranges.iter().any(|range| range.0 <= key && key <= range.1);
            let (first, second) = (united(a.clone()), united(b.clone()));
            let (both, rest) = (common(&first, &second), outside(&first));
            for list in [&first, &both, &rest] {
                assert!(list.iter().all(|range| range.0 <= range.1), "{list:?}");
                assert!(list.is_sorted_by(|a, b| a.1 < u64::MAX && a.1 + 1 < b.0), "{list:?}");
            }
            for key in (0..=40).map(end) {
                assert_eq!(is_in(&first, key), in_any(&a, key), "{key} of {a:?}");
                assert_eq!(is_in(&both, key), in_any(&a, key) && in_any(&b, key), "{key} of {a:?} and {b:?}");
                assert_eq!(is_in(&rest, key), !in_any(&a, key), "{key} of {a:?}");
            }
        }
    }
}
