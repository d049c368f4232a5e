//! Signatures: what an edge says of the values of the row that it leads to, in 16 bits.
//!
//! The columns of an index share the bits. A column of values has a *bucket*: values are divided
//! into ranges that about as many rows have each, and a value that many rows have gets a range of
//! its own. The last bucket is for missing values. A column of tags has the bits of a Bloom filter
//! (Bloom 1970). Where the ranges end is part of the model of an index: it is decided when the
//! index is built or trained, and does not change until it is trained again.
//!
//! | columns | bits of each, without tags |
//! |--:|--:|
//! | 1, 2 | 6 |
//! | 3, 4, 5 | 5, 4, 3 |
//! | 6, 7 | 2 |
//!
//! Columns of tags share the bits that are left: of `n` columns, `t` are of tags and have
//! `(16 - (n - t) * bits) / t` each.

use super::tags::{filter_bits, tag_bits};
use super::{ColumnKind, ColumnRows, RowValues};

/// Bits of a signature.
const SIGNATURE_BITS: usize = 16;
/// Most bits of a bucket.
const BUCKET_BITS_MAX: usize = 6;
/// Words of a column in the model: the number of ends, then the ends.
pub(crate) const COLUMN_WORDS: usize = 1 << BUCKET_BITS_MAX;
/// The first word of a column of tags.
const OF_TAGS: u64 = u64::MAX;
/// Rows of which the ranges of a column are decided.
const SAMPLE_ROWS: usize = 1 << 16;

/// How the signatures of an index are made. Without columns they have no bits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Signatures {
    parts: Vec<Part>,
    fields: Vec<Field>,
}

/// What signatures say of a column.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    /// The last keys of all buckets but the last two: the last of values, and that of no value.
    Buckets(Vec<u64>),
    /// A Bloom filter of its tags.
    Tags,
}

/// The bits of a column in a signature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Field {
    shift: usize,
    bits: usize,
}

impl Field {
    /// What a signature has in these bits.
    #[inline]
    pub(crate) fn of(self, signature: u16) -> u16 {
        signature >> self.shift & self.mask()
    }

    /// The largest number of these bits.
    fn mask(self) -> u16 {
        ((1u32 << self.bits) - 1) as u16
    }
}

impl Signatures {
    /// Decides the ranges of each column from its values.
    pub(crate) fn train(rows: &ColumnRows) -> Self {
        let kinds: Vec<ColumnKind> = rows.columns().iter().map(|column| column.kind).collect();
        let fields = fields(kinds.iter().map(|kind| *kind == ColumnKind::Tags));
        let part = |(column, field): (usize, &Field)| match kinds[column] {
            ColumnKind::Tags => Part::Tags,
            _ => {
                let every = rows.len().div_ceil(SAMPLE_ROWS).max(1);
                let some = (0..rows.len()).step_by(every);
                let mut keys: Vec<u64> = some.filter_map(|row| RowValues(rows.row(row)).key(column)).collect();
                keys.sort_unstable();
                Part::Buckets(ends(&keys, usize::from(field.mask())))
            }
        };
        Self { parts: fields.iter().enumerate().map(part).collect(), fields }
    }

    /// Whether there are no columns.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The signature of a row.
    pub(crate) fn of(&self, values: RowValues<'_>) -> u16 {
        let parts = self.parts.iter().zip(&self.fields).enumerate();
        let part = |(column, (part, field)): (usize, (&Part, &Field))| {
            let key = values.key(column);
            let bits = match (part, key) {
                (Part::Buckets(ends), Some(key)) => ends.partition_point(|end| *end < key) as u16,
                (Part::Buckets(_), None) => field.mask(),
                (Part::Tags, key) => folded(filter_bits(key.unwrap_or(0)), *field),
            };
            bits << field.shift
        };
        parts.map(part).fold(0, |all, bits| all | bits)
    }

    /// The bits of a column, and for each bucket, whether a row of it may have a key in one of
    /// `ranges`, one bit each. `None` for a column of tags, and in an index without rows.
    pub(crate) fn buckets(&self, column: usize, ranges: &[(u64, u64)]) -> Option<(Field, u64)> {
        let Some(Part::Buckets(ends)) = self.parts.get(column) else { return None };
        let mut allowed = 0;
        for bucket in 0..=ends.len() {
            let low = if bucket == 0 { 0 } else { ends[bucket - 1].saturating_add(1) };
            let high = ends.get(bucket).copied().unwrap_or(u64::MAX);
            let first = ranges.partition_point(|range| range.1 < low);
            allowed |= u64::from(ranges.get(first).is_some_and(|range| range.0 <= high)) << bucket;
        }
        Some((self.fields[column], allowed))
    }

    /// The bits of a column, and the bucket of rows without a value. `None` likewise.
    pub(crate) fn missing(&self, column: usize) -> Option<(Field, u64)> {
        let field = *self.fields.get(column)?;
        matches!(self.parts[column], Part::Buckets(_)).then(|| (field, 1 << field.mask()))
    }

    /// The bits of a signature that a row has if it has this tag. `None` for a column that is not
    /// of tags, and in an index without rows.
    pub(crate) fn tag(&self, column: usize, hash: u64) -> Option<u16> {
        let field = *self.fields.get(column)?;
        matches!(self.parts[column], Part::Tags).then(|| folded(tag_bits(hash), field) << field.shift)
    }

    /// The form in the model: [`COLUMN_WORDS`] for each column.
    pub(crate) fn words(&self) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.parts.len() * COLUMN_WORDS);
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Buckets(ends) => {
                    words.push(ends.len() as u64);
                    words.extend_from_slice(ends);
                }
                Part::Tags => words.push(OF_TAGS),
            }
            words.resize((at + 1) * COLUMN_WORDS, 0);
        }
        words
    }

    /// Reads the form in the model. `None` if it is not one.
    pub(crate) fn of_words(words: &[u64]) -> Option<Self> {
        let part = |words: &[u64]| match words.split_first()? {
            (&OF_TAGS, _) => Some(Part::Tags),
            (count, ends) => Some(Part::Buckets(ends.get(..usize::try_from(*count).ok()?)?.to_vec())),
        };
        let parts = words.chunks_exact(COLUMN_WORDS).map(part).collect::<Option<Vec<Part>>>()?;
        let fields = fields(parts.iter().map(|part| *part == Part::Tags));
        let fits = |(part, field): (&Part, &Field)| match part {
            Part::Buckets(ends) => ends.len() < usize::from(field.mask()) && ends.is_sorted_by(|a, b| a < b),
            Part::Tags => true,
        };
        parts.iter().zip(&fields).all(fits).then_some(Self { parts, fields })
    }
}

/// The bits of each column, by whether it is one of tags.
fn fields(are_tags: impl ExactSizeIterator<Item = bool>) -> Vec<Field> {
    let are_tags: Vec<bool> = are_tags.collect();
    let tags = are_tags.iter().filter(|is_of_tags| **is_of_tags).count();
    let of_bucket = BUCKET_BITS_MAX.min(SIGNATURE_BITS / are_tags.len().max(1));
    let of_tags = (SIGNATURE_BITS - (are_tags.len() - tags) * of_bucket) / tags.max(1);
    let mut shift = 0;
    let field = |is_of_tags: bool| {
        let bits = if is_of_tags { of_tags } else { of_bucket };
        shift += bits;
        Field { shift: shift - bits, bits }
    };
    are_tags.into_iter().map(field).collect()
}

/// The last keys of all buckets of values but the last, for up to `most` buckets that about as many
/// of the keys, ascending, have each.
fn ends(keys: &[u64], most: usize) -> Vec<u64> {
    let (mut ends, mut open, mut left) = (Vec::new(), 0, keys.len());
    let mut runs = keys.chunk_by(|a, b| a == b).peekable();
    while let (Some(run), Some(next)) = (runs.next(), runs.peek()) {
        open += run.len();
        let buckets = most - ends.len();
        // The next value would make the bucket larger than what is left for each.
        if buckets > 1 && (open + next.len()) * buckets > left {
            ends.push(run[0]);
            left -= open;
            open = 0;
        }
    }
    ends
}

/// The bits of a Bloom filter of 63 bits in a field.
fn folded(bits: u64, field: Field) -> u16 {
    let places = (0..63).filter(|place| bits >> place & 1 == 1);
    places.fold(0, |all, place| all | 1 << (place % field.bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Column, Value};
    use crate::random::Random;

    fn rows(kinds: &[ColumnKind]) -> ColumnRows {
        let column = |(at, kind): (usize, &ColumnKind)| Column { name: format!("c{at}"), kind: *kind };
        ColumnRows::new(kinds.iter().enumerate().map(column).collect()).expect("columns")
    }

    #[test]
    fn columns_share_all_bits() {
        let widths = |tags: &[bool]| -> Vec<usize> {
            let fields = fields(tags.iter().copied());
            let mut shift = 0;
            fields.iter().for_each(|field| {
                assert_eq!(field.shift, shift);
                shift += field.bits;
            });
            assert!(shift <= SIGNATURE_BITS);
            fields.iter().map(|field| field.bits).collect()
        };
        assert_eq!(widths(&[false]), [6]);
        assert_eq!(widths(&[true]), [16]);
        assert_eq!(widths(&[false, true]), [6, 10]);
        assert_eq!(widths(&[false; 3]), [5, 5, 5]);
        assert_eq!(widths(&[false; 7]), [2; 7]);
        assert_eq!(widths(&[true; 7]), [2; 7]);
        assert_eq!(widths(&[true, false, false, true]), [4, 4, 4, 4]);
    }

    #[test]
    fn frequent_values_have_buckets_of_their_own() {
        let mut keys: Vec<u64> = (0..1000).chain(std::iter::repeat_n(500, 3000)).collect();
        keys.sort_unstable();
        let found = ends(&keys, 16);
        assert!(found.len() < 16 && found.contains(&499) && found.contains(&500), "{found:?}");
        assert_eq!(ends(&[1, 1, 2, 3, 3], 63), [1, 2]);
        assert!(ends(&[], 63).is_empty() && ends(&[7; 9], 63).is_empty());
        let found = ends(&(0..6300).collect::<Vec<_>>(), 63);
        assert!((60..63).contains(&found.len()), "{found:?}");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut random = Random::new(3, 0);
        let mut some = rows(&[ColumnKind::Int, ColumnKind::Tags, ColumnKind::Bool]);
        for _ in 0..500 {
            let int = Value::Int(random.below(1000) as i64);
            some.push(&[int, Value::Tags(vec!["a".into()]), Value::Null]).expect("a row");
        }
        let trained = Signatures::train(&some);
        let words = trained.words();
        assert_eq!(words.len(), 3 * COLUMN_WORDS);
        assert_eq!(Signatures::of_words(&words).as_ref(), Some(&trained));
        assert!(Signatures::of_words(&[]).is_some_and(|none| none.is_empty()));
        // More ends than a field of five bits has buckets, and ends that are not ascending.
        for (at, word) in [(0, 31), (0, 200), (2, 0)] {
            let mut words = words.clone();
            words[at] = word;
            assert!(Signatures::of_words(&words).is_none(), "word {at} is {word}");
        }
    }
}
