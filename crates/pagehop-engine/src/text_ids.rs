//! The numbers of rows whose ids are texts.
//!
//! A row's number is the hash of its text, or one of the few numbers after it, if a row with
//! another text has that. A row keeps its number as long as it exists. A lookup compares the texts
//! of the rows at all of these numbers, so two texts with one hash are never taken for each other,
//! and a deleted row needs no mark.

use std::collections::HashMap;

use siphasher::sip::SipHasher24;

use crate::Error;
use crate::row_ids::TEXT_ID_BYTES_MAX;

/// Numbers that a text may have: its hash, and those after it. Of 10^9 rows, two have the same hash
/// with a probability of 3%, and five have hashes so close together practically never.
pub(crate) const NUMBERS: u64 = 4;

/// The hash of a text in an index with `seed`: SipHash-2-4 (Aumasson, Bernstein 2012) with the keys
/// `seed` and 0.
pub(crate) fn hash(seed: u64, text: &str) -> u64 {
    SipHasher24::new_with_keys(seed, 0).hash(text.as_bytes())
}

/// The numbers that a text with this hash may have.
pub(crate) fn numbers(hash: u64) -> impl Iterator<Item = u64> {
    (0..NUMBERS).map(move |more| hash.wrapping_add(more))
}

/// Refuses a text that is not an id.
///
/// # Errors
///
/// [`Error::Argument`] if it is empty or too long, which names its position.
pub(crate) fn check(position: usize, text: &str) -> Result<(), Error> {
    let bytes = text.len();
    if (1..=TEXT_ID_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    let what = format!("its id has {bytes} bytes of UTF-8, 1 to {TEXT_ID_BYTES_MAX} are allowed");
    Err(Error::argument(what).of_row(position, None))
}

/// The outcome for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// The row with this number has the text.
    Known(u64),
    /// An earlier text of the same call is equal, and has this number.
    Repeated(u64),
    /// The text gets this number.
    New(u64),
}

impl Numbered {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Known(number) | Self::Repeated(number) | Self::New(number) => number,
        }
    }
}

/// The numbers that texts of one call get.
#[derive(Default)]
pub(crate) struct NewNumbers<'t> {
    taken: HashMap<u64, &'t str>,
}

impl<'t> NewNumbers<'t> {
    /// The number of the text at `position`. `known` returns whether a row of the index has a
    /// number and, if so, whether that row has this text.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if rows with other texts have all numbers that it may have; those of
    /// `known`.
    pub(crate) fn number(
        &mut self,
        position: usize,
        text: &'t str,
        hash: u64,
        mut known: impl FnMut(u64) -> Result<Option<bool>, Error>,
    ) -> Result<Numbered, Error> {
        let mut free = None;
        for number in numbers(hash) {
            match (known(number)?, self.taken.get(&number)) {
                (Some(true), _) => return Ok(Numbered::Known(number)),
                (Some(false), _) => {}
                // The number of an earlier text of this call is not in the index, so this equal
                // text is not either.
                (None, Some(earlier)) if *earlier == text => return Ok(Numbered::Repeated(number)),
                (None, Some(_)) => {}
                (None, None) => free = free.or(Some(number)),
            }
        }
        let Some(number) = free else {
            let what = format!("{NUMBERS} other ids have the hash of its id {text:?}: choose another id");
            return Err(Error::argument(what).of_row(position, None));
        };
        self.taken.insert(number, text);
        Ok(Numbered::New(number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::Random;

    /// The rows of an index: the number and the text of each.
    type Rows = BTreeMap<u64, String>;

    fn find(rows: &Rows, text: &str, hash: u64) -> Option<u64> {
        numbers(hash).find(|number| rows.get(number).is_some_and(|row| row == text))
    }

    /// With a hash of eight values, nearly all texts have the hash of another.
    #[test]
    fn texts_with_the_same_hash_are_kept_apart() {
        let mut random = Random::new(3, 0);
        let (mut rows, mut oracle) = (Rows::new(), BTreeMap::<String, u64>::new());
        let (mut refused, mut moved) = (0, 0);
        for step in 0..20_000 {
            let texts: Vec<String> = (0..1 + random.below(4)).map(|_| random.below(40).to_string()).collect();
            let short = |text: &str| (u64::MAX - 3).wrapping_add((hash(7, text) & 7) * 2);
            if random.below(3) == 0 {
                for text in &texts {
                    let found = find(&rows, text, short(text));
                    assert_eq!(found, oracle.remove(text), "step {step}, {text}");
                    found.map(|number| rows.remove(&number));
                }
                continue;
            }
            let mut new = NewNumbers::default();
            let mut all = Vec::new();
            for text in &texts {
                let known = |number: u64| Ok(rows.get(&number).map(|row| row == text));
                match new.number(0, text, short(text), known) {
                    Ok(numbered) => all.push((text, numbered)),
                    Err(_) => {
                        let is_there = |number: &u64| {
                            rows.contains_key(number) || all.iter().any(|(_, other)| other.number() == *number)
                        };
                        assert!(numbers(short(text)).all(|number| is_there(&number)), "step {step}, {text}");
                        refused += 1;
                    }
                }
            }
            for (text, numbered) in all {
                let before = oracle.insert(text.clone(), numbered.number());
                assert!(before.is_none_or(|before| before == numbered.number()), "step {step}, {text}");
                assert_eq!(matches!(numbered, Numbered::New(_)), before.is_none());
                moved += u64::from(numbered.number() != short(text));
                rows.insert(numbered.number(), text.clone());
            }
            let of_rows: BTreeMap<String, u64> =
                rows.iter().map(|(number, text)| (text.clone(), *number)).collect();
            assert_eq!(of_rows, oracle, "step {step}");
        }
        assert!(refused > 100 && moved > 1000, "{refused} refused, {moved} moved");
    }

    #[test]
    fn ids_have_one_to_1024_bytes() {
        assert!(check(3, "").is_err_and(|error| error.to_string().contains("row 3")));
        assert!(check(0, "\0").is_ok() && check(0, &"\u{e9}".repeat(512)).is_ok());
        assert!(check(0, &"\u{e9}".repeat(513)).is_err());
    }
}
