//! The pages that have records in the log, and the length of each page's chain.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::log::record::Kind;

/// For each page with records in the log, the number of records since the last image.
pub(crate) type Dirty = HashMap<u32, u8, BuildHasherDefault<PageHasher>>;

/// A fast hash of page numbers.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, page: u32) {
        self.0 = (self.0 ^ u64::from(page)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Counts the records of a page since its last image.
pub(crate) fn note(dirty: &mut Dirty, page: u32, kind: Kind) {
    let records = dirty.entry(page).or_insert(0);
    *records = if kind == Kind::Delta { records.saturating_add(1) } else { 1 };
}
