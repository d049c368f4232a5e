//! How far a cursor goes: limits of its memory and of the pages that it reads.

use super::cursor::{Cursor, Phase};
use crate::ids::NodeId;
use crate::page::Pages;

/// Most memory of a cursor that is kept for the next search after it has read postings.
const SMALL_BYTES: usize = 256 << 10;

impl<P: Pages> Cursor<'_, P> {
    /// Sets the memory that the buffers may take, about, for this search and those that follow.
    /// Where they grow beyond it, all rows that were not returned come from scans of the index, in
    /// order of distance. Each scan finds as many rows as there is room for.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.memory_max = bytes;
    }

    /// Sets the number of reads of pages, as [`Cursor::page_reads`] counts them, after which this
    /// search and those that follow end as if no row were left. It is looked at before each node,
    /// leaf of postings and page, but not within the search for the first rows.
    pub fn limit_reads(&mut self, reads: u64) {
        self.reads_max = reads;
    }

    /// Whether the search has ended at its limit of reads, so that rows may be left.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Ends the search if it has come to its limit of reads.
    pub(super) fn ends_by_reads(&mut self) -> bool {
        self.is_cut |= self.page_reads() >= self.reads_max;
        self.is_cut
    }

    /// The number of reads of pages so far: of nodes visited and of leaves of postings. A page that
    /// is read twice counts twice.
    pub fn page_reads(&self) -> u64 {
        self.stats.hops + self.stats.pages_read
    }

    /// The memory of what this search has seen, in bytes, about. Buffers may be larger.
    pub fn memory_bytes(&self) -> usize {
        self.walk.visited.len() * size_of::<NodeId>()
            + self.met.memory_bytes()
            + self.second.memory_bytes()
            + self.sequential.memory_bytes()
            + self.walk.shortlist.memory_bytes()
    }

    /// Whether the buffers are as small as those of a search: the second phase has not started, and
    /// few postings were kept.
    pub fn is_small(&self) -> bool {
        match self.phase {
            Phase::Postings => self.memory_bytes() <= SMALL_BYTES,
            Phase::Second | Phase::Sequential => false,
            Phase::Begin | Phase::First(_) => true,
        }
    }
}
