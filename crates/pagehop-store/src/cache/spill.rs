//! Pages that a reader holds in its own memory, because the cache has no frame for them.

use std::cell::OnceCell;

use pagehop_engine::{PAGE_BYTES, PageId};

use crate::disk::base_file::PageBuffer;

/// Pages that a reader passes on to the next reader.
const SPARE_MAX: usize = 16;

/// A page with its header.
pub(crate) type Page = [u8; PAGE_BYTES];

/// Pages of a reader's own: a list that grows while its pages are borrowed.
#[derive(Default)]
pub(crate) struct Spill {
    first: OnceCell<Box<Spilled>>,
}

pub(crate) struct Spilled {
    page: PageId,
    buffer: Box<PageBuffer>,
    next: OnceCell<Box<Spilled>>,
}

impl Spill {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = &Spilled> {
        let first = self.first.get().map(Box::as_ref);
        std::iter::successors(first, |spilled| spilled.next.get().map(Box::as_ref))
    }

    pub(crate) fn get(&self, page: PageId) -> Option<&Page> {
        let spilled = self.pages().find(|spilled| spilled.page == page)?;
        Some(&spilled.buffer.0)
    }

    /// The bytes of `page`, which `buffer` holds.
    pub(crate) fn add(&self, page: PageId, buffer: Box<PageBuffer>) -> &Page {
        let mut end = &self.first;
        while let Some(spilled) = end.get() {
            end = &spilled.next;
        }
        let spilled = end.get_or_init(|| Box::new(Spilled { page, buffer, next: OnceCell::new() }));
        &spilled.buffer.0
    }

    pub(crate) fn empty_into(&mut self, spare: &mut Vec<Box<PageBuffer>>) {
        let mut next = self.first.take();
        while let Some(mut spilled) = next {
            next = spilled.next.take();
            if spare.len() < SPARE_MAX {
                spare.push(spilled.buffer);
            }
        }
    }
}
