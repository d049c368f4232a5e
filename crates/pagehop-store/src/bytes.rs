//! Sizes as users write them: `256MiB`, `1.5GB`, `4096`.

use pagehop_engine::Error;

/// Bytes meant by `text`: a number, whole or with a decimal point, and an optional unit.
///
/// `KiB MiB GiB TiB` count in 1,024s; `kB MB GB TB` in 1,000s; a single letter `K M G T` means the
/// first kind; `B` or nothing means bytes. Case and spaces around the number do not matter. A part
/// of a byte is dropped.
///
/// # Errors
///
/// [`Error::Argument`] that quotes `text`.
pub fn parse_bytes(text: &str) -> Result<u64, Error> {
    let refuse = |why: &str| Error::argument(format!("size {text:?}: {why}; write it like 256MiB, 1.5GB or 4096"));
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1_u64 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ if number.is_empty() => return Err(refuse("expected a positive number")),
        _ => return Err(refuse("unknown unit")),
    };

    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(refuse("expected a positive number"));
    }
    let too_large = || refuse("too large");
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
    // 15 digits are exact to well under a byte of a tebibyte; further digits are ignored.
    let fraction = &fraction[..fraction.len().min(15)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).expect("at most 15"));
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_large())? };
    whole
        .checked_mul(u128::from(unit))
        .and_then(|bytes| bytes.checked_add(fraction * u128::from(unit) / scale))
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_mean_what_people_write() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0", 0),
            ("256MiB", 256 << 20),
            ("256mib", 256 << 20),
            (" 2 GiB ", 2 << 30),
            ("2G", 2 << 30),
            ("1.5GB", 1_500_000_000),
            ("1.5gib", 3 << 29),
            ("10_000kB", 10_000_000),
            (".5k", 512),
            ("7.B", 7),
            ("0.1KiB", 102),
            ("16TiB", 16 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_quoted() {
        for text in [
            "",
            " ",
            "-1",
            "-1MiB",
            "MiB",
            "12QB",
            "1e9",
            "1.2.3",
            ".",
            "nan",
            "inf",
            "16 EiB",
            "18446744073709551616",
            "17000000TiB",
            "99999999999999999999999999999999999999999999",
            "1,5GB",
            "5 MiB MiB",
            "०",
        ] {
            let error = parse_bytes(text).unwrap_err();
            assert!(matches!(error, Error::Argument { .. }), "{text}");
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
