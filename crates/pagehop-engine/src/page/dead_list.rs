//! The list of dead nodes: nodes whose rows were deleted or replaced, for vacuum to find.
//!
//! A stack of pages (`stack.rs`). An entry is the node's id and the commit that took it out of its
//! in-neighbors' edges, 0 while they still have it. The commit that deleted the row is in the node.

use super::Reader;
use super::kind::PageKind;
use super::stack::{self, Stack, StackEntry, StackHead};
use crate::Error;
use crate::ids::{NodeId, PageId};

const STACK: Stack = Stack { kind: PageKind::Dead, name: "the list of dead nodes" };

/// A dead node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) node: NodeId,
    /// Commit that removed the node from its in-neighbors' edges; 0 before.
    pub(crate) unlinked: u64,
}

impl From<StackEntry> for Dead {
    fn from(entry: StackEntry) -> Self {
        Self { node: entry.node, unlinked: entry.number }
    }
}

/// Makes a body an empty page of the list, before `next`.
pub(crate) fn init(body: &mut [u8], next: u32) {
    STACK.init(body, next, 0);
}

/// The head of a page, before its entries.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of the list.
pub(crate) fn head(page: PageId, body: &[u8]) -> Result<StackHead, Error> {
    STACK.head(page, body)
}

/// Entry `at` of a page.
pub(crate) fn entry(body: &[u8], at: usize) -> Dead {
    stack::entry(body, at).into()
}

/// Notes that `commit` takes the node of entry `at` out of its in-neighbors' edges.
///
/// # Errors
///
/// [`Error::Corrupt`] if the entry is not the node's.
pub(crate) fn set_unlinked(
    page: PageId,
    body: &mut [u8],
    at: usize,
    node: NodeId,
    commit: u64,
) -> Result<(), Error> {
    expect(page, body, at, node)?;
    stack::set(body, at, StackEntry { node, number: commit });
    Ok(())
}

/// Adds `node` to a page that has room.
///
/// # Errors
///
/// [`Error::Corrupt`] if it has none.
pub(crate) fn push(page: PageId, body: &mut [u8], node: NodeId) -> Result<(), Error> {
    match STACK.push(page, body, StackEntry { node, number: 0 })? {
        true => Ok(()),
        false => Err(Error::corrupt(page, "the first page of the list of dead nodes has no room")),
    }
}

/// Takes `node` out of entry `at`; the last entry moves there.
///
/// # Errors
///
/// [`Error::Corrupt`] if the entry is not the node's.
pub(crate) fn remove(page: PageId, body: &mut [u8], at: usize, node: NodeId) -> Result<(), Error> {
    expect(page, body, at, node)?;
    STACK.remove(page, body, at)
}

/// Passes every entry to `each`, from the page `first` on, in an index of `page_count` pages.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a list; those of `each`; any error of the reader.
pub(crate) fn scan(
    reader: &mut impl Reader,
    page_count: u32,
    first: u32,
    mut each: impl FnMut(PageId, Dead) -> Result<(), Error>,
) -> Result<(), Error> {
    STACK.scan(reader, first, page_count as usize, |page, _, entries| {
        entries.iter().try_for_each(|entry| each(page, (*entry).into()))?;
        Ok(true)
    })
}

fn expect(page: PageId, body: &[u8], at: usize, node: NodeId) -> Result<(), Error> {
    let count = head(page, body)?.count;
    if at >= count || entry(body, at).node != node {
        return Err(Error::corrupt(page, format!("entry {at} of the list of dead nodes is not node {node}")));
    }
    Ok(())
}
