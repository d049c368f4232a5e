//! The pending list: new versions of rows whose vector did not change, until their nodes take them
//! in.
//!
//! Writing each version into its node would change a page for each. In this list hundreds share a
//! page, and vacuum writes a node once for all new versions of its row. GIN's pending list is the
//! model, but entries need no sorting: the node is known.
//!
//! A stack of pages (`stack.rs`) that count how many there are. An entry is a node and a row id.

use super::Reader;
use super::kind::PageKind;
use super::stack::{ENTRIES_MAX, Stack, StackEntry, StackHead};
use crate::Error;
use crate::ids::{NodeId, PageId};

const STACK: Stack = Stack { kind: PageKind::Pending, name: "the pending list" };
/// Most pages of the list: a new process reads them all.
const PAGES_MAX: usize = 64;

/// A row id and the node that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) node: NodeId,
    pub(crate) row_id: u64,
}

impl From<StackEntry> for Pending {
    fn from(entry: StackEntry) -> Self {
        Self { node: entry.node, row_id: entry.number }
    }
}

impl From<Pending> for StackEntry {
    fn from(pending: Pending) -> Self {
        Self { node: pending.node, number: pending.row_id }
    }
}

/// Most pages of the list in an index of `rows` rows: also no more than one entry for each row,
/// rounded up to a page.
pub(crate) fn pages_max(rows: u64) -> usize {
    (rows as usize).div_ceil(ENTRIES_MAX).clamp(1, PAGES_MAX)
}

/// Makes a body the first page of the list, before one with `next` as its number and `depth` as its
/// depth.
pub(crate) fn init(body: &mut [u8], next: u32, depth: usize) {
    STACK.init(body, next, depth + 1);
}

/// The head of a page, before its entries.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of the list; any error of the reader.
pub(crate) fn head(reader: &impl Reader, page: PageId) -> Result<StackHead, Error> {
    let head = STACK.head(page, &reader.finish(page)?)?;
    check_depth(page, head)?;
    Ok(head)
}

/// Adds an entry to a page; says whether there was room.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of the list.
pub(crate) fn push(page: PageId, body: &mut [u8], new: Pending) -> Result<bool, Error> {
    STACK.push(page, body, new.into())
}

/// Leaves only these entries on a page.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of the list.
pub(crate) fn replace(page: PageId, body: &mut [u8], left: &[Pending]) -> Result<(), Error> {
    STACK.replace(page, body, left.iter().map(|entry| (*entry).into()))
}

/// Takes a page of the list with its entries; returns whether to continue with the next page.
pub(crate) type EachPage<'a> = &'a mut dyn FnMut(PageId, &[Pending]) -> Result<bool, Error>;

/// Passes the pages of the list that begins at `first` to `each`, with their entries, until it says
/// `false`.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a list; those of `each`; any error of the reader.
pub(crate) fn scan(reader: &mut impl Reader, first: u32, each: EachPage<'_>) -> Result<(), Error> {
    let mut before = None;
    STACK.scan(reader, first, PAGES_MAX, |page, head, entries| {
        check_depth(page, head)?;
        if before.is_some_and(|depth| head.depth + 1 != depth) {
            let what = format!("it is page {} of the pending list and follows page {before:?}", head.depth);
            return Err(Error::corrupt(page, what));
        }
        before = Some(head.depth);
        let entries: Vec<Pending> = entries.iter().map(|entry| (*entry).into()).collect();
        each(page, &entries)
    })
}

fn check_depth(page: PageId, head: StackHead) -> Result<(), Error> {
    if (1..=PAGES_MAX).contains(&head.depth) {
        return Ok(());
    }
    Err(Error::corrupt(page, format!("it is page {} of the pending list, which has 1 to {PAGES_MAX}", head.depth)))
}
