//! Values that are written as text.

use super::{ColumnKind, Value};
use crate::Error;

const DAY_US: i64 = 86_400_000_000;

impl Value {
    /// The value that a text stands for in a column of `kind`: `true` or `false`, a number, or
    /// `YYYY-MM-DD` with or without `HH:MM`, `HH:MM:SS` and parts of a second. It is in UTC, which
    /// `Z` may say, or the offset from UTC follows the time: `+HH`, `+HHMM` or `+HH:MM`, or with
    /// `-`. A UUID is 32 hexadecimal digits, with hyphens after 8, 12, 16 and 20 of them or without
    /// any. No text stands for a set of tags.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the text is not a value of the kind.
    pub fn parse(kind: ColumnKind, text: &str) -> Result<Self, Error> {
        let value = match kind {
            ColumnKind::Bool => match text {
                "true" | "True" | "TRUE" | "t" | "1" => Some(Self::Bool(true)),
                "false" | "False" | "FALSE" | "f" | "0" => Some(Self::Bool(false)),
                _ => None,
            },
            ColumnKind::Int => text.parse().ok().map(Self::Int),
            ColumnKind::Float => text.parse().ok().filter(|number: &f64| !number.is_nan()).map(Self::Float),
            ColumnKind::Text => Some(Self::Text(text.to_owned())),
            ColumnKind::Timestamp => timestamp(text).map(Self::Timestamp),
            ColumnKind::Tags => None,
            ColumnKind::Uuid => uuid(text).map(Self::Uuid),
        };
        value.ok_or_else(|| {
            let text = Self::Text(text.to_owned());
            Error::argument(format!("{text} is not a value of kind {}", kind.name()))
        })
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let is_uuid = matches!(*lengths, [32] | [8, 4, 4, 4, 12]);
    let digits = text.chars().filter(|digit| *digit != '-').map(|digit| digit.to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>().filter(|_| is_uuid)?;
    let (pairs, _) = digits.as_chunks();
    Some(std::array::from_fn(|at| {
        let [upper, lower] = pairs[at];
        (upper << 4 | lower) as u8
    }))
}

/// Microseconds since 1970.
fn timestamp(text: &str) -> Option<i64> {
    let utc = text.strip_suffix('Z');
    let text = utc.unwrap_or(text);
    let (date, time) = match text.find(['T', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || !(1..=month_days(year, month)).contains(&day) {
        return None;
    }
    let read = if utc.is_some() { time_of_day } else { time_in_utc };
    Some(days(year, month, day) * DAY_US + time.map_or(Some(0), read)?)
}

/// Microseconds since midnight in UTC of a time with or without an offset.
fn time_in_utc(text: &str) -> Option<i64> {
    let Some(at) = text.find(['+', '-']) else { return time_of_day(text) };
    let (time, offset) = text.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None if offset.len() == 2 => (offset, "00"),
        None => offset.split_at_checked(2)?,
    };
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let ahead = (hours * 60 + minutes) * 60_000_000;
    Some(time_of_day(time)? + if sign == "-" { ahead } else { -ahead })
}

/// Microseconds since midnight.
fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (second, part) = match parts.next() {
        Some(second) => second.split_once('.').map_or((second, ""), |(second, part)| (second, part)),
        None => ("00", ""),
    };
    let second = number(second, 2)?;
    if hour > 23 || minute > 59 || second > 59 || part.len() > 6 {
        return None;
    }
    let part = if part.is_empty() { 0 } else { number(part, part.len())? * 10_i64.pow(6 - part.len() as u32) };
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + part)
}

/// A number of exactly this many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years begin in March, so that the leap day is the last (Hinnant,
/// "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_microseconds_since_1970() {
        let of = |text: &str| timestamp(text);
        assert_eq!(of("1970-01-01"), Some(0));
        assert_eq!(of("1969-12-31T23:59:59.999999"), Some(-1));
        assert_eq!(of("2000-03-01 00:00"), Some(951_868_800_000_000));
        assert_eq!(of("2024-02-29T12:30:15.5Z"), Some(1_709_209_815_500_000));
        for (text, utc) in [
            ("2024-02-29T12:30+02", "2024-02-29T10:30"),
            ("2024-02-29 23:30:15.5-0330", "2024-03-01T03:00:15.5"),
            ("2024-01-01T01:00+05:45", "2023-12-31T19:15"),
            ("2024-01-01T01:00-00:00", "2024-01-01T01:00Z"),
        ] {
            assert!(of(utc).is_some() && of(text) == of(utc), "{text}");
        }
        for bad in [
            "",
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "2024-01-01T24:00",
            "2024-01-01T1",
            "12:00",
            "é-1-1",
            "2024-01-01+02",
            "2024-01-01T12:00+2",
            "2024-01-01T12:00+24:00",
            "2024-01-01T12:00+01:60",
            "2024-01-01T12:00+é1",
            "2024-01-01T12:00+01:00Z",
            "2024-01-01T12:00+",
            "2024-01-01T12:00+01:0000",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        // Each day of 400 years must follow the day before it.
        let mut last = days(1900, 1, 1) - 1;
        for year in 1900..2300 {
            for (month, day) in
                (1..=12).flat_map(|month| (1..=month_days(year, month)).map(move |day| (month, day)))
            {
                assert_eq!(days(year, month, day), last + 1);
                last += 1;
            }
        }
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let parse = |kind, text| Value::parse(kind, text).ok();
        assert_eq!(parse(ColumnKind::Bool, "true"), Some(Value::Bool(true)));
        assert_eq!(parse(ColumnKind::Int, "-7"), Some(Value::Int(-7)));
        assert_eq!(parse(ColumnKind::Int, "7.0"), None);
        assert_eq!(parse(ColumnKind::Float, "1e3"), Some(Value::Float(1000.0)));
        assert_eq!(parse(ColumnKind::Float, "nan"), None);
        assert_eq!(parse(ColumnKind::Text, ""), Some(Value::Text(String::new())));
        let uuid = Value::Uuid([
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
        ]);
        assert_eq!(uuid.to_string(), "the UUID 0123456789abcdef0011223344556677");
        for text in ["01234567-89ab-cdef-0011-223344556677", "0123456789ABCDEF0011223344556677"] {
            assert_eq!(parse(ColumnKind::Uuid, text), Some(uuid.clone()));
        }
        for bad in [
            "",
            "01234567-89ab-cdef-0011-22334455667",
            "0123456789ab-cdef-0011-223344556677",
            "+1234567-89ab-cdef-0011-223344556677",
            "01234567-89ab-cdef-0011-22334455667g",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(parse(ColumnKind::Uuid, bad), None, "{bad}");
        }
    }
}
