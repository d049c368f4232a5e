//! Sets of tags: the word that a node has of a set, and the hashes of its tags.
//!
//! ```text
//! 0                    the empty set
//! upper bit 0, else    the hash of the only tag: the word says all
//! upper bit 1          two tags or more: a Bloom filter (Bloom 1970) of 63 bits, three for each
//! ```
//!
//! A filter of several tags can say "no" and "perhaps". Their hashes are in the record of the row
//! (`page/row_record.rs`), which a search reads only if the word says "perhaps".

use super::key::hash;
use crate::Error;

/// Most tags of a row, in all its columns together.
pub const TAGS_MAX: usize = 512;
/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 1024;

const MANY: u64 = 1 << 63;
/// Bits of the filter, and how many of them a tag sets. Three give the fewest wrong answers for
/// sets of five to twenty tags.
const BITS: u64 = 63;
const BITS_OF_TAG: usize = 3;

/// The hashes of the tags of a row, ascending: one list for each column of tags. A list is empty if
/// the word of the set has all of its tags.
pub(crate) type TagSets = Vec<Vec<u64>>;

/// The hash of a tag: 63 bits, and not 0.
///
/// # Errors
///
/// [`Error::Argument`] if it is empty or too long.
pub(crate) fn tag_hash(tag: &str) -> Result<u64, Error> {
    if (1..=TAG_BYTES_MAX).contains(&tag.len()) {
        return Ok((hash(tag.as_bytes()) >> 1).max(1));
    }
    Err(Error::argument(match tag.len() {
        0 => "a tag is empty: a tag has 1 to 1024 bytes".to_owned(),
        bytes => format!("a tag has {bytes} bytes, up to {TAG_BYTES_MAX} are allowed"),
    }))
}

/// The hashes of tags, ascending, each once.
///
/// # Errors
///
/// Those of [`tag_hash`].
pub(crate) fn hashes(tags: &[String]) -> Result<Vec<u64>, Error> {
    let mut hashes = tags.iter().map(|tag| tag_hash(tag)).collect::<Result<Vec<u64>, Error>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes)
}

/// The hashes of the tags of a row.
///
/// # Errors
///
/// Those of [`tag_hash`]; [`Error::Argument`] if there are too many.
pub(crate) fn set_of(tags: &[String]) -> Result<Vec<u64>, Error> {
    let set = hashes(tags)?;
    check_count(set.len())?;
    Ok(set)
}

/// Refuses more tags than a row can have.
///
/// # Errors
///
/// [`Error::Argument`].
pub(crate) fn check_count(tags: usize) -> Result<(), Error> {
    if tags <= TAGS_MAX {
        return Ok(());
    }
    Err(Error::argument(format!("a row has {tags} tags, up to {TAGS_MAX} are allowed in all its columns together")))
}

/// The word of a set.
pub(crate) fn word(set: &[u64]) -> u64 {
    match set {
        [] => 0,
        [only] => *only,
        _ => set.iter().fold(MANY, |word, hash| word | tag_bits(*hash)),
    }
}

/// Whether a word has all tags of its set, so that nothing else need be read.
#[inline]
pub(crate) fn says_all(word: u64) -> bool {
    word & MANY == 0
}

/// Whether the set of a word may have a tag.
#[inline]
pub(crate) fn may_have(word: u64, hash: u64) -> bool {
    if says_all(word) { word == hash } else { word & tag_bits(hash) == tag_bits(hash) }
}

/// The bits of a tag in a Bloom filter.
pub(super) fn tag_bits(mut hash: u64) -> u64 {
    let mut bits = 0;
    for _ in 0..BITS_OF_TAG {
        bits |= 1 << (hash % BITS);
        hash /= BITS;
    }
    bits
}

/// The Bloom filter of a set, by its word.
pub(super) fn filter_bits(word: u64) -> u64 {
    match word {
        0 => 0,
        word if says_all(word) => tag_bits(word),
        word => word & !MANY,
    }
}

/// The two tags that a posting in the tree of a column of tags stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostingTag {
    /// The tag of the posting: 0 for the empty set, the word of the set at the head of a chain;
    /// `None` if the row has no set.
    pub(crate) tag: Option<u64>,
    /// The tag of the next posting in a chain; 0 at its end, and without chains.
    pub(crate) next: u64,
}

impl PostingTag {
    /// The two fields of a posting.
    pub(crate) fn of_posting(self) -> (Option<u64>, u64) {
        (Some(self.tag.unwrap_or(0)), self.next)
    }
}

/// The postings of a row in the tree of a column of tags: one for each tag, and one for an empty or
/// missing set. `set` has the tags that the word does not have. With `chains`, the postings of
/// several tags form a chain, which begins at that of the word.
pub(crate) fn posting_keys(word: Option<u64>, set: &[u64], chains: bool) -> Vec<PostingTag> {
    let one = |tag| PostingTag { tag, next: 0 };
    match word {
        Some(word) if !says_all(word) && chains => {
            let tags = std::iter::once(word).chain(set.iter().copied());
            let next = set.iter().copied().chain([0]);
            tags.zip(next).map(|(tag, next)| PostingTag { tag: Some(tag), next }).collect()
        }
        Some(word) if !says_all(word) => set.iter().copied().map(|tag| one(Some(tag))).collect(),
        word => vec![one(word)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_word_never_denies_a_tag_of_its_set() {
        let mut random = Random::new(11, 0);
        let (mut wrong, mut asked) = (0, 0);
        for round in 0..2000u64 {
            let count = (round % 9) as usize;
            let tags: Vec<String> = (0..count).map(|_| format!("tag {}", random.below(1000))).collect();
            let set = set_of(&tags).expect("tags");
            let word = word(&set);
            assert_eq!(says_all(word), set.len() < 2);
            for tag in &tags {
                assert!(may_have(word, tag_hash(tag).expect("a tag")), "{tag} of {tags:?}");
            }
            for other in 0..20 {
                let other = tag_hash(&format!("other {other}")).expect("a tag");
                assert!(!says_all(word) || !may_have(word, other));
                (asked, wrong) = (asked + 1, wrong + u64::from(may_have(word, other)));
            }
        }
        // Eight tags set about 20 of the 63 bits. Most sets are smaller.
        assert!(wrong * 50 < asked, "{wrong} of {asked} are wrong");
    }

    #[test]
    fn tags_that_cannot_be_are_refused() {
        let refused = |tags: &[String]| set_of(tags).expect_err("refused").to_string();
        assert!(refused(&[String::new()]).contains("empty"));
        assert!(refused(&["x".repeat(1 << 20)]).contains("1048576 bytes"));
        let many: Vec<String> = (0..5000).map(|tag| tag.to_string()).collect();
        assert!(refused(&many).contains("5000 tags"));
        let same = vec!["a".to_owned(); 5000];
        assert_eq!(set_of(&same).expect("one tag").len(), 1);
    }
}
