//! A set of nodes.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use crate::ids::NodeId;

pub(crate) type NodeSet = HashSet<NodeId, BuildHasherDefault<NodeHasher>>;

/// A fast hash for node ids. Ids are not chosen by users, so it need not resist attacks.
#[derive(Debug, Default)]
pub(crate) struct NodeHasher(u64);

impl Hasher for NodeHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        // The hash table uses the lowest and the highest bits.
        self.0 ^ self.0 >> 32
    }
}
