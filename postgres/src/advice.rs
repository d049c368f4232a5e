//! Reads that the system is told of (`PrefetchBuffer`), so that they take less time when they come: PostgreSQL 17's way, and
//! everywhere that of writers, who may fail between asking and reading.

use std::cell::Cell;

use pgrx::pg_sys;

/// Blocks lately asked for, not to be asked for again.
const ASKED_MAX: usize = 16;

/// Blocks of one relation that were asked for.
pub(crate) struct Advice {
    asked: Cell<[u32; ASKED_MAX]>,
}

impl Default for Advice {
    fn default() -> Self {
        Self { asked: Cell::new([u32::MAX; ASKED_MAX]) }
    }
}

impl Advice {
    /// Has the system read a block that is in no buffer, if it was not asked to lately; else the buffer it is in, or 0.
    ///
    /// # Safety
    ///
    /// `relation` is open and has the block.
    pub(crate) unsafe fn ask_for(&self, relation: pg_sys::Relation, block: u32) -> Option<pg_sys::Buffer> {
        let mut asked = self.asked.get();
        if asked.contains(&block) {
            return None;
        }
        asked.rotate_right(1);
        asked[0] = block;
        self.asked.set(asked);
        // SAFETY: the caller's promise.
        Some(unsafe { pg_sys::PrefetchBuffer(relation, pg_sys::ForkNumber::MAIN_FORKNUM, block).recent_buffer })
    }
}
