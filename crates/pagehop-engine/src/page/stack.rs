//! A stack of pages that hold entries of 12 bytes: a node and a number.
//!
//! The list of dead nodes and the list of pending row ids are such stacks. The first page takes the
//! next entry; when it is full, another page goes before it.
//!
//! ```text
//! 0..1    kind of the page
//! 2..4    entries
//! 4..8    next page, 0 on the last
//! 8..12   pages from this one to the last; 0 in a list that does not count them
//! 40..    entries: node (4 bytes), number (8 bytes)
//! ```

use super::fields::{Fields, FieldsMut};
use super::kind::{self, PageKind, kind};
use super::{BODY_BYTES, Reader};
use crate::Error;
use crate::ids::{NodeId, PageId};

const COUNT_AT: usize = 2;
const ENTRIES_AT: usize = 40;
const ENTRY_BYTES: usize = 12;
/// Most entries of a page.
pub(super) const ENTRIES_MAX: usize = (BODY_BYTES - ENTRIES_AT) / ENTRY_BYTES;

/// One list's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) kind: PageKind,
    /// Name of the list in errors.
    pub(super) name: &'static str,
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StackEntry {
    pub(super) node: NodeId,
    pub(super) number: u64,
}

/// The head of a page, before its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackHead {
    /// Entries of the page.
    pub(crate) count: usize,
    /// The next page; 0 on the last.
    pub(crate) next: u32,
    /// Pages from this one to the last; 0 in a list that does not count them.
    pub(crate) depth: usize,
}

impl StackHead {
    /// Whether the page takes another entry.
    pub(crate) fn has_room(&self) -> bool {
        self.count < ENTRIES_MAX
    }
}

impl Stack {
    /// Makes a body a page of the list without entries.
    pub(super) fn init(self, body: &mut [u8], next: u32, depth: usize) {
        kind::clear(body, self.kind);
        self.write_head(body, StackHead { count: 0, next, depth });
    }

    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is not a page of the list.
    pub(super) fn head(self, page: PageId, body: &[u8]) -> Result<StackHead, Error> {
        let mut fields = Fields::at(body, COUNT_AT);
        let (count, next, depth) = (usize::from(fields.u16()), fields.u32(), fields.u32() as usize);
        if kind(body) != Some(self.kind) || count > ENTRIES_MAX {
            let what = format!("kind {} with {count} entries is not a page of {}", body[0], self.name);
            return Err(Error::corrupt(page, what));
        }
        Ok(StackHead { count, next, depth })
    }

    fn write_head(self, body: &mut [u8], head: StackHead) {
        let mut fields = FieldsMut::at(body, COUNT_AT);
        fields.u16(head.count as u16);
        fields.u32(head.next);
        fields.u32(head.depth as u32);
    }

    /// Adds an entry; says whether there was room.
    pub(super) fn push(self, page: PageId, body: &mut [u8], new: StackEntry) -> Result<bool, Error> {
        let head = self.head(page, body)?;
        if head.has_room() {
            set(body, head.count, new);
            self.write_head(body, StackHead { count: head.count + 1, ..head });
        }
        Ok(head.has_room())
    }

    /// Replaces the entries of a page by as many or fewer.
    pub(super) fn replace(
        self,
        page: PageId,
        body: &mut [u8],
        entries: impl Iterator<Item = StackEntry>,
    ) -> Result<(), Error> {
        let head = self.head(page, body)?;
        body[ENTRIES_AT..].fill(0);
        let mut count = 0;
        for entry in entries {
            set(body, count, entry);
            count += 1;
        }
        self.write_head(body, StackHead { count, ..head });
        Ok(())
    }

    /// Takes entry `at` off a page; the last entry moves there.
    pub(super) fn remove(self, page: PageId, body: &mut [u8], at: usize) -> Result<(), Error> {
        let head = self.head(page, body)?;
        let last = head.count - 1;
        set(body, at, entry(body, last));
        set(body, last, StackEntry::default());
        self.write_head(body, StackHead { count: last, ..head });
        Ok(())
    }

    /// Passes each page with its entries to `each`, from page `first` on, until it says `false`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if there are more than `pages_max`, or one is not a page of the list;
    /// those of `each`.
    pub(super) fn scan(
        self,
        reader: &mut impl Reader,
        first: u32,
        pages_max: usize,
        mut each: impl FnMut(PageId, StackHead, &[StackEntry]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut page = PageId(first);
        for _ in 0..pages_max {
            if page.0 == 0 {
                return Ok(());
            }
            let (head, entries) = {
                let body = reader.finish(page)?;
                let head = self.head(page, &body)?;
                (head, (0..head.count).map(|at| entry(&body, at)).collect::<Vec<_>>())
            };
            reader.release();
            if !each(page, head, &entries)? {
                return Ok(());
            }
            page = PageId(head.next);
        }
        match page.0 {
            0 => Ok(()),
            _ => Err(Error::corrupt(page, format!("{} goes in circles", self.name))),
        }
    }
}

/// Entry `at` of a page.
pub(super) fn entry(body: &[u8], at: usize) -> StackEntry {
    let mut fields = Fields::at(body, ENTRIES_AT + ENTRY_BYTES * at);
    StackEntry { node: fields.u32(), number: fields.u64() }
}

pub(super) fn set(body: &mut [u8], at: usize, entry: StackEntry) {
    let mut fields = FieldsMut::at(body, ENTRIES_AT + ENTRY_BYTES * at);
    fields.u32(entry.node);
    fields.u64(entry.number);
}
