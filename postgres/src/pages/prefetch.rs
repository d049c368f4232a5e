//! Prefetch through the operating system (`PrefetchBuffer`): the only way on PostgreSQL 17, and on
//! every version the way of writers, which may fail between the prefetch and the read and then have
//! nothing to give back.

use std::cell::Cell;

use pgrx::pg_sys;

/// Blocks that are remembered as prefetched, so that they are not prefetched twice.
const BLOCKS_MAX: usize = 16;

/// Prefetches blocks of one relation.
pub(super) struct Prefetch {
    /// The newest first.
    blocks: Cell<[u32; BLOCKS_MAX]>,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self { blocks: Cell::new([u32::MAX; BLOCKS_MAX]) }
    }
}

impl Prefetch {
    /// Starts the operating system's read of a block that is in no buffer, unless that was done
    /// lately; else returns the buffer that the block is in, or 0.
    ///
    /// # Safety
    ///
    /// `relation` is open and has the block.
    pub(super) unsafe fn begin(&self, relation: pg_sys::Relation, block: u32) -> Option<pg_sys::Buffer> {
        let mut blocks = self.blocks.get();
        if blocks.contains(&block) {
            return None;
        }
        blocks.rotate_right(1);
        blocks[0] = block;
        self.blocks.set(blocks);
        // SAFETY: the caller says that the relation is open and has the block.
        Some(unsafe { pg_sys::PrefetchBuffer(relation, pg_sys::ForkNumber::MAIN_FORKNUM, block).recent_buffer })
    }
}
