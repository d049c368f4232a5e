//! The list of the dead: nodes whose rows were deleted or replaced, for vacuum to find.
//!
//! A stack of pages; the first takes the next entry. Entry: the node's id, and the commit that took it out of its
//! in-neighbors' edges, 0 while they still have it. The commit that deleted the row is in the node.

use crate::Error;
use crate::page::layout::{NodeId, PageKind};
use crate::page::{BODY_BYTES, PageId, Reader};

const COUNT_AT: usize = 2;
const NEXT_AT: usize = 4;
const NODES_AT: usize = 40;
const ENTRY_BYTES: usize = 12;
/// Entries of a page.
pub(crate) const ENTRIES_MAX: usize = (BODY_BYTES - NODES_AT) / ENTRY_BYTES;

/// A dead node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) node: NodeId,
    /// Commit that took it out of its in-neighbors' edges; 0 before.
    pub(crate) unlinked: u64,
}

/// Makes a body an empty page of the list, before `next`.
pub(crate) fn init(body: &mut [u8], next: u32) {
    body.fill(0);
    body[0] = PageKind::Dead as u8;
    body[NEXT_AT..NEXT_AT + 4].copy_from_slice(&next.to_le_bytes());
}

/// The number of entries of a page and the page after it.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is no page of the list.
pub(crate) fn header(page: PageId, body: &[u8]) -> Result<(usize, u32), Error> {
    let count = usize::from(u16::from_le_bytes([body[COUNT_AT], body[COUNT_AT + 1]]));
    if body[0] != PageKind::Dead as u8 || count > ENTRIES_MAX {
        let what = format!("kind {} with {count} entries is no page of the list of the dead", body[0]);
        return Err(Error::corrupt(page, what));
    }
    Ok((count, u32::from_le_bytes(body[NEXT_AT..NEXT_AT + 4].try_into().expect("four bytes"))))
}

/// Entry `at` of a page.
pub(crate) fn entry(body: &[u8], at: usize) -> Dead {
    let bytes = &body[NODES_AT + ENTRY_BYTES * at..][..ENTRY_BYTES];
    let (node, unlinked) = bytes.split_at(4);
    Dead {
        node: NodeId::from_le_bytes(node.try_into().expect("four bytes")),
        unlinked: u64::from_le_bytes(unlinked.try_into().expect("eight bytes")),
    }
}

fn set(body: &mut [u8], at: usize, dead: Dead) {
    let bytes = &mut body[NODES_AT + ENTRY_BYTES * at..][..ENTRY_BYTES];
    bytes[..4].copy_from_slice(&dead.node.to_le_bytes());
    bytes[4..].copy_from_slice(&dead.unlinked.to_le_bytes());
}

/// Notes that `commit` takes the node of entry `at` out of its in-neighbors' edges.
pub(crate) fn set_unlinked(
    page: PageId,
    body: &mut [u8],
    at: usize,
    node: NodeId,
    commit: u64,
) -> Result<(), Error> {
    expect(page, body, at, node)?;
    set(body, at, Dead { node, unlinked: commit });
    Ok(())
}

fn expect(page: PageId, body: &[u8], at: usize, node: NodeId) -> Result<usize, Error> {
    let (count, _) = header(page, body)?;
    if at >= count || entry(body, at).node != node {
        return Err(Error::corrupt(page, format!("entry {at} of the list of the dead is not node {node}")));
    }
    Ok(count)
}

fn set_count(body: &mut [u8], count: usize) {
    body[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(count as u16).to_le_bytes());
}

/// Adds `node` to a page that has room.
pub(crate) fn push(page: PageId, body: &mut [u8], node: NodeId) -> Result<(), Error> {
    let (count, _) = header(page, body)?;
    if count == ENTRIES_MAX {
        return Err(Error::corrupt(page, "the first page of the list of the dead has no room"));
    }
    set(body, count, Dead { node, unlinked: 0 });
    set_count(body, count + 1);
    Ok(())
}

/// Takes `node` out of entry `at`; the last entry moves there.
pub(crate) fn remove(page: PageId, body: &mut [u8], at: usize, node: NodeId) -> Result<(), Error> {
    let count = expect(page, body, at, node)?;
    let last = entry(body, count - 1);
    set(body, at, last);
    set(body, count - 1, Dead { node: 0, unlinked: 0 });
    set_count(body, count - 1);
    Ok(())
}

/// Passes every entry to `each`, from the page `head` on, in an index of `page_count` pages.
pub(crate) fn scan(
    reader: &mut impl Reader,
    page_count: u32,
    head: u32,
    mut each: impl FnMut(PageId, Dead) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut page = PageId(head);
    for _ in 0..page_count {
        if page.0 == 0 {
            return Ok(());
        }
        let next = {
            let body = reader.finish(page)?;
            let (count, next) = header(page, &body)?;
            for at in 0..count {
                each(page, entry(&body, at))?;
            }
            next
        };
        reader.release();
        page = PageId(next);
    }
    Err(Error::corrupt(page, "the list of the dead goes in circles"))
}
