//! Prefetch through the operating system (`PrefetchBuffer`). PostgreSQL 17 has no other way.
//! Writers use it on every version: they may fail between the prefetch and the read, and a prefetch
//! leaves no pin to release.

use std::cell::Cell;

use pgrx::pg_sys;

/// Blocks that are remembered as prefetched, so that they are not prefetched twice.
const BLOCKS_MAX: usize = 32;

/// Outcome of beginning to read a block before it is needed.
pub(super) enum Begun {
    /// The server is reading it.
    #[cfg(feature = "pg18")]
    Reading,
    /// The operating system was told to read it.
    Advised,
    /// The block is in this buffer.
    Present(pg_sys::Buffer),
    /// No read was begun: it was begun before, or there is no room.
    Not,
}

/// Prefetches blocks of one relation.
pub(super) struct Prefetch {
    /// Prefetched blocks, the newest first.
    blocks: Cell<[u32; BLOCKS_MAX]>,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self { blocks: Cell::new([u32::MAX; BLOCKS_MAX]) }
    }
}

impl Prefetch {
    /// Starts the operating system's read of a block that is in no buffer, unless it was prefetched
    /// recently.
    ///
    /// # Safety
    ///
    /// `relation` is open and has the block.
    pub(super) unsafe fn begin(&self, relation: pg_sys::Relation, block: u32) -> Begun {
        let mut blocks = self.blocks.get();
        if blocks.contains(&block) {
            return Begun::Not;
        }
        // SAFETY: the caller says that the relation is open and has the block.
        let begun = unsafe { pg_sys::PrefetchBuffer(relation, pg_sys::ForkNumber::MAIN_FORKNUM, block) };
        if begun.recent_buffer != pg_sys::InvalidBuffer as pg_sys::Buffer {
            return Begun::Present(begun.recent_buffer);
        }
        if !begun.initiated_io {
            return Begun::Not;
        }
        blocks.rotate_right(1);
        blocks[0] = block;
        self.blocks.set(blocks);
        Begun::Advised
    }

    /// Whether `block` was prefetched recently.
    pub(super) fn has_begun(&self, block: u32) -> bool {
        self.blocks.get().contains(&block)
    }
}
