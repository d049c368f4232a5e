//! Resources that are too costly to make for each reader, and pass from one reader to the next.

use std::sync::Arc;

use crate::cache::frames::Frames;
use crate::cache::uring::Ring;
use crate::disk::base_file::PageBuffer;

/// A ring and page buffers; one reader at a time has them.
#[derive(Default)]
pub(crate) struct Lane {
    /// Made when first needed.
    ring: Option<Ring>,
    pub(crate) spare: Vec<Box<PageBuffer>>,
}

impl Lane {
    /// The ring, if this process has made one. A ring from before a fork is the parent's.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring> {
        if self.ring.as_ref().is_some_and(|ring| !ring.is_ours()) {
            self.ring = None;
        }
        self.ring.as_mut()
    }

    pub(crate) fn ring_or_new(&mut self, frames: &Arc<Frames>) -> std::io::Result<&mut Ring> {
        if self.ring().is_none() {
            self.ring = Some(Ring::new(frames)?);
        }
        Ok(self.ring.as_mut().expect("just made"))
    }
}
