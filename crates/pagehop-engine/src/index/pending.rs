//! Tids that wait: new versions of rows whose vector did not change, until their nodes take them in.
//!
//! To name a version in its node would write a page for each. In this list hundreds share a page, and however many versions a row has
//! had since, its node is written once, by the vacuum that takes the dead ones out. A search adds the tids that wait for a node
//! which it visits: it looks them up in a map of the list, which each process keeps and brings up to date as it does what it knows
//! of the meta page. The idea is that of GIN's pending list, but here nothing waits to be sorted in: the node is known.
//!
//! A stack of pages; the first takes the next entry: a node and a tid.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, PoisonError, RwLock};

use super::change::Change;
use super::meta::{Meta, PENDING_VERSION};
use super::near::with_node;
use super::node_set::NodeHasher;
use crate::Error;
use crate::page::layout::{FLAGS_LIVE, NodeId, PageKind};
use crate::page::{self, BODY_BYTES, PageId, PagesMut, Reader};

const COUNT_AT: usize = 2;
const NEXT_AT: usize = 4;
const DEPTH_AT: usize = 8;
const ENTRIES_AT: usize = 40;
const ENTRY_BYTES: usize = 12;
/// Entries of a page.
const ENTRIES_MAX: usize = (BODY_BYTES - ENTRIES_AT) / ENTRY_BYTES;
/// Pages of the list at most: a new process reads them all. Nor has it room for more tids than there are rows, but for a page.
const PAGES_MAX: usize = 64;

/// A tid and the node that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) node: NodeId,
    pub(super) tid: u64,
}

/// What is in front of a page's entries.
#[derive(Clone, Copy, Debug)]
struct Head {
    count: usize,
    next: u32,
    /// Pages of the list from this one on.
    depth: usize,
}

impl Head {
    fn read(page: PageId, body: &[u8]) -> Result<Self, Error> {
        let number = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let count = usize::from(u16::from_le_bytes([body[COUNT_AT], body[COUNT_AT + 1]]));
        let (next, depth) = (number(NEXT_AT), number(DEPTH_AT) as usize);
        if body[0] != PageKind::Pending as u8 || count > ENTRIES_MAX || !(1..=PAGES_MAX).contains(&depth) {
            let what = format!("kind {} with {count} entries is no page {depth} of the pending tids", body[0]);
            return Err(Error::corrupt(page, what));
        }
        Ok(Self { count, next, depth })
    }

    fn write(self, body: &mut [u8]) {
        body[0] = PageKind::Pending as u8;
        body[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(self.count as u16).to_le_bytes());
        body[NEXT_AT..NEXT_AT + 4].copy_from_slice(&self.next.to_le_bytes());
        body[DEPTH_AT..DEPTH_AT + 4].copy_from_slice(&(self.depth as u32).to_le_bytes());
    }
}

fn entry(body: &[u8], at: usize) -> Entry {
    let (node, tid) = body[ENTRIES_AT + ENTRY_BYTES * at..][..ENTRY_BYTES].split_at(4);
    Entry {
        node: NodeId::from_le_bytes(node.try_into().expect("four bytes")),
        tid: u64::from_le_bytes(tid.try_into().expect("eight bytes")),
    }
}

fn set(body: &mut [u8], at: usize, entry: Entry) {
    let bytes = &mut body[ENTRIES_AT + ENTRY_BYTES * at..][..ENTRY_BYTES];
    bytes[..4].copy_from_slice(&entry.node.to_le_bytes());
    bytes[4..].copy_from_slice(&entry.tid.to_le_bytes());
}

/// Adds an entry to a page; says whether there was room.
fn push(page: PageId, body: &mut [u8], new: Entry) -> Result<bool, Error> {
    let head = Head::read(page, body)?;
    if head.count == ENTRIES_MAX {
        return Ok(false);
    }
    set(body, head.count, new);
    Head { count: head.count + 1, ..head }.write(body);
    Ok(true)
}

/// The entries of a page, and what is in front of them.
fn entries(reader: &impl Reader, page: PageId) -> Result<(Head, Vec<Entry>), Error> {
    let body = reader.finish(page)?;
    let head = Head::read(page, &body)?;
    Ok((head, (0..head.count).map(|at| entry(&body, at)).collect()))
}

fn head(reader: &impl Reader, page: PageId) -> Result<Head, Error> {
    Head::read(page, &reader.finish(page)?)
}

/// Takes a page of the list with its entries; says whether it wants the next.
type EachPage<'a> = &'a mut dyn FnMut(PageId, &[Entry]) -> Result<bool, Error>;

/// Passes the pages of the list that begins at `first` to `each`.
pub(super) fn scan(reader: &mut impl Reader, first: u32, each: EachPage<'_>) -> Result<(), Error> {
    let mut page = PageId(first);
    let mut before = None;
    while page.0 != 0 {
        let (head, all) = entries(reader, page)?;
        reader.release();
        if before.is_some_and(|depth| head.depth + 1 != depth) {
            let what = format!("it is page {} of the pending tids and follows page {before:?}", head.depth);
            return Err(Error::corrupt(page, what));
        }
        if !each(page, &all)? {
            break;
        }
        (page, before) = (PageId(head.next), Some(head.depth));
    }
    Ok(())
}

/// The list as a map, as far as this process has read it. It only grows: once entries leave the list, another takes its place.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The meta page's number of the time that entries left the list last.
    since: u64,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The page read last, the first of the list then, and how many of its entries were.
    first: u32,
    count: usize,
    tids: HashMap<NodeId, Vec<u64>, BuildHasherDefault<NodeHasher>>,
}

impl Pending {
    /// The list that `meta` names: `known`, brought up to date, unless entries left it since. `None` if there is none.
    pub(super) fn read(
        reader: &mut impl Reader,
        meta: &Meta,
        known: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>, Error> {
        let (first, since) = (meta.change.pending_head, meta.change.pending_since);
        if first == 0 {
            return Ok(None);
        }
        let fresh = || Arc::new(Self { since, known: RwLock::default() });
        let pending = known.filter(|known| known.since == since).cloned().unwrap_or_else(fresh);
        pending.catch_up(reader, first)?;
        Ok(Some(pending))
    }

    /// Reads what came since, in the list that begins at page `first`.
    pub(super) fn catch_up(&self, reader: &mut impl Reader, first: u32) -> Result<(), Error> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let known = &mut *known;
        if first == known.first && head(reader, PageId(first))?.count == known.count {
            return Ok(());
        }
        let (mut came, mut count) = (Vec::new(), None);
        scan(reader, first, &mut |page: PageId, all: &[Entry]| {
            let is_known = page.0 == known.first;
            let from = if is_known { known.count.min(all.len()) } else { 0 };
            came.extend_from_slice(&all[from..]);
            count = count.or(Some(all.len()));
            Ok(!is_known)
        })?;
        for Entry { node, tid } in came {
            known.tids.entry(node).or_default().push(tid);
        }
        known.first = first;
        known.count = count.unwrap_or(0);
        Ok(())
    }

    /// The tids that wait for `node`, but for those that it has.
    pub(super) fn of(&self, node: NodeId, named: &[u64]) -> Vec<u64> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let tids = known.tids.get(&node).map_or(&[][..], Vec::as_slice);
        tids.iter().copied().filter(|tid| !named.contains(tid)).collect()
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Lets `tid` wait for `node`. Says no if the list is as long as it may be.
    pub(super) fn wait_for(&mut self, node: NodeId, tid: u64) -> Result<bool, Error> {
        let new = Entry { node, tid };
        let first = PageId(self.meta.change.pending_head);
        let mut depth = 0;
        if first.0 != 0 {
            let head = head(&self.pages.reader(), first)?;
            if head.count < ENTRIES_MAX {
                let mut has_room = false;
                page::step(self.pages, &[first], &mut |bodies| {
                    has_room = push(first, bodies[0], new)?;
                    Ok(())
                })?;
                return Ok(has_room);
            }
            depth = head.depth;
        }
        let most = (self.meta.rows as usize).div_ceil(ENTRIES_MAX).clamp(1, PAGES_MAX);
        if depth >= most {
            return Ok(false);
        }
        let page = self.pages.allocate(1)?;
        self.step_meta(&[page], &mut |meta, bodies| {
            bodies[0].fill(0);
            Head { count: 0, next: first.0, depth: depth + 1 }.write(bodies[0]);
            push(page, bodies[0], new)?;
            meta.version = PENDING_VERSION;
            if first.0 == 0 {
                meta.change.pending_since = meta.change.commit + 1;
            }
            meta.change.pending_head = page.0;
            Ok(())
        })?;
        Ok(true)
    }

    /// The tids that wait for `node`, but for those that it has.
    pub(super) fn waiting_for(&self, node: NodeId, named: &[u64]) -> Vec<u64> {
        self.pending.as_ref().map_or_else(Vec::new, |pending| pending.of(node, named))
    }

    /// Takes dead tids out of the list; returns how many. It comes before [`Change::remove_tids`], so that no tid waits for a node that dies.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; whatever the host reports.
    pub fn drop_dead_tids(&mut self, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<u64, Error> {
        let mut removed = 0;
        for (page, all) in self.pending_pages()? {
            let left: Vec<Entry> = all.iter().copied().filter(|entry| !is_dead(entry.tid)).collect();
            removed += (all.len() - left.len()) as u64;
            self.leave(page, &all, &left)?;
        }
        self.free_settled()?;
        Ok(removed)
    }

    /// Takes the tids of one page of the list out of it that [`Change::remove_tids`] let into their nodes: of the page after `before`, or of the
    /// first. Returns which it was; `None` if there is none any more.
    ///
    /// It looks at the node of every tid on the page, so that a host may let others go on between pages.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; whatever the host reports.
    pub fn settle_tids(&mut self, before: Option<PageId>) -> Result<Option<PageId>, Error> {
        let pages = self.pending_pages()?;
        // Pages come before the first, and none elsewhere. If the list is another by now, nothing of it was let in.
        let next = match before {
            None => Some(0),
            Some(before) => pages.iter().position(|(page, _)| *page == before).map(|at| at + 1),
        };
        let Some((page, all)) = next.and_then(|next| pages.get(next)) else {
            self.free_settled()?;
            return Ok(None);
        };
        let mut left = Vec::with_capacity(all.len());
        for entry in all {
            let is_named = with_node(&self.meta, &self.pages.reader(), entry.node, |_, header| {
                header.flags == FLAGS_LIVE && header.tids().contains(&entry.tid)
            })?;
            left.extend((!is_named).then_some(*entry));
        }
        self.leave(*page, all, &left)?;
        Ok(Some(*page))
    }

    /// The pages of the list with their entries.
    fn pending_pages(&self) -> Result<Vec<(PageId, Vec<Entry>)>, Error> {
        let mut pages = Vec::new();
        scan(&mut self.pages.reader(), self.meta.change.pending_head, &mut |page, all| {
            pages.push((page, all.to_vec()));
            Ok(true)
        })?;
        Ok(pages)
    }

    /// Leaves these of all entries on a page of the list.
    fn leave(&mut self, page: PageId, all: &[Entry], left: &[Entry]) -> Result<(), Error> {
        if left.len() == all.len() {
            return Ok(());
        }
        self.step_meta(&[page], &mut |meta, bodies| {
            let head = Head::read(page, bodies[0])?;
            bodies[0][ENTRIES_AT..].fill(0);
            left.iter().enumerate().for_each(|(at, entry)| set(bodies[0], at, *entry));
            Head { count: left.len(), ..head }.write(bodies[0]);
            meta.change.pending_since = meta.change.commit + 1;
            Ok(())
        })
    }

    /// Frees pages without entries, as long as no other is before them.
    fn free_settled(&mut self) -> Result<(), Error> {
        let slots = self.meta.layout.nodes_per_page;
        while self.meta.change.pending_head != 0 {
            let page = PageId(self.meta.change.pending_head);
            let head = head(&self.pages.reader(), page)?;
            if head.count > 0 {
                break;
            }
            self.step_meta(&[page], &mut |meta, bodies| {
                bodies[0].fill(0);
                bodies[0][0] = PageKind::Node as u8;
                meta.change.list_free(page, bodies[0], slots);
                meta.change.pending_head = head.next;
                meta.change.pending_since = meta.change.commit + 1;
                Ok(())
            })?;
        }
        self.pending = None;
        Ok(())
    }
}
