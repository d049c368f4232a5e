//! Conditions on tags: what the word of a set says of them, and what its tags say.

use crate::columns::tags::{may_have, says_all};

/// Whether a set has one of some tags, or none of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TagsTest {
    pub(crate) column: usize,
    /// Which of the sets of a row it is.
    pub(crate) set: usize,
    /// The hashes of the tags, ascending.
    pub(crate) hashes: Vec<u64>,
    pub(crate) is_in: bool,
}

/// How much is known of the sets of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sets<'a> {
    /// Their words: a set may pass.
    MayPass,
    /// Their words: a set passes for certain.
    Passes,
    /// Their tags, where a word does not say them.
    Known(&'a [Vec<u64>]),
}

impl TagsTest {
    /// Whether the set with this word passes.
    pub(super) fn passes(&self, word: u64, sets: Sets<'_>) -> bool {
        if says_all(word) {
            return self.hashes.binary_search(&word).is_ok() == self.is_in;
        }
        let may_be_in = || self.hashes.iter().any(|hash| may_have(word, *hash));
        match sets {
            Sets::MayPass => !self.is_in || may_be_in(),
            Sets::Passes => !self.is_in && !may_be_in(),
            Sets::Known(sets) => {
                let set = sets.get(self.set).map_or(&[][..], Vec::as_slice);
                // The shorter list is walked, the longer one searched.
                let (few, many) =
                    if set.len() < self.hashes.len() { (set, &*self.hashes) } else { (&*self.hashes, set) };
                few.iter().any(|hash| many.binary_search(hash).is_ok()) == self.is_in
            }
        }
    }
}
