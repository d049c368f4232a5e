//! Conditions on tags, tested with the word of a set or with its tags.

use crate::columns::tags::{may_have, says_all};

/// Whether a set has one of some tags, or none of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TagsTest {
    pub(crate) column: usize,
    /// Index of the set among the sets of a row.
    pub(crate) set: usize,
    /// The hashes of the tags, ascending.
    pub(crate) hashes: Vec<u64>,
    pub(crate) is_in: bool,
}

/// What is known of the sets of a row, and what is tested.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sets<'a> {
    /// Only words are known: tests whether a set may pass.
    MayPass,
    /// Only words are known: tests whether a set passes for certain.
    Passes,
    /// The tags are known that words do not have.
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
                // Walks the shorter list, searches the longer one.
                let (few, many) =
                    if set.len() < self.hashes.len() { (set, &*self.hashes) } else { (&*self.hashes, set) };
                few.iter().any(|hash| many.binary_search(hash).is_ok()) == self.is_in
            }
        }
    }
}
