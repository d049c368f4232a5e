//! Row ids that wait for their nodes: how the pending list grows, and how vacuum empties it.

use std::sync::Arc;

use super::spare;
use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::index::pending::PendingMap;
use crate::page::node::FLAGS_LIVE;
use crate::page::pending_list::{self, Pending};
use crate::page::{PageId, PagesMut};

/// A place in the pending list: after the entries of a page that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingPlace {
    page: PageId,
    kept: usize,
}

/// The pending list during a change.
pub(in crate::index::change) struct PendingRows {
    /// The entries when the change began; `None` if there were none, or when vacuum has freed pages
    /// of the list.
    map: Option<Arc<PendingMap>>,
}

impl PendingRows {
    pub(in crate::index::change) fn new(map: Option<Arc<PendingMap>>) -> Self {
        Self { map }
    }

    pub(in crate::index::change) fn map(&self) -> Option<&PendingMap> {
        self.map.as_deref()
    }

    /// The row ids that wait for `node`, except those in `held`, which the node has.
    pub(in crate::index::change) fn of(&self, node: NodeId, held: &[u64]) -> Vec<u64> {
        self.map.as_ref().map_or_else(Vec::new, |map| map.of(node, held))
    }

    /// Removes dead row ids from the list; returns how many.
    pub(in crate::index::change) fn drop_dead<W: PagesMut>(
        &mut self,
        steps: &mut Steps<'_, W>,
        is_dead: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64, Error> {
        let mut removed = 0;
        for (page, all) in pending_pages(steps)? {
            let left: Vec<Pending> = all.iter().copied().filter(|entry| !is_dead(entry.row_id)).collect();
            removed += (all.len() - left.len()) as u64;
            leave_pending(steps, page, &all, &left)?;
        }
        self.free_empty_pages(steps)?;
        Ok(removed)
    }

    /// Removes row ids that their nodes now have from the list, from `from` on, until the end of a
    /// page or until `goes_on`, which is asked after each entry, says no. Returns the place where
    /// to go on; `None` at the end of the list.
    pub(in crate::index::change) fn settle<W: PagesMut>(
        &mut self,
        steps: &mut Steps<'_, W>,
        from: Option<PendingPlace>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<PendingPlace>, Error> {
        let pages = pending_pages(steps)?;
        // New entries come last on the first page, and new pages before it. If the page is not in
        // the list, the list is a new one, and no node has taken anything from it yet.
        let place = match from {
            None => Some((0, 0)),
            Some(PendingPlace { page: from, kept }) => {
                let at = pages.iter().position(|(page, _)| *page == from);
                at.map(|at| if kept < pages[at].1.len() { (at, kept) } else { (at + 1, 0) })
            }
        };
        let Some((page, all, kept)) =
            place.and_then(|(at, kept)| pages.get(at).map(|(page, all)| (page, all, kept)))
        else {
            self.free_empty_pages(steps)?;
            return Ok(None);
        };
        let (mut left, mut seen) = (all[..kept].to_vec(), kept);
        for entry in &all[kept..] {
            let is_held = steps.look(entry.node, |_, header| {
                header.flags == FLAGS_LIVE && header.host_rows().contains(&entry.row_id)
            })?;
            left.extend((!is_held).then_some(*entry));
            seen += 1;
            if !goes_on() {
                break;
            }
        }
        let kept = left.len();
        left.extend_from_slice(&all[seen..]);
        leave_pending(steps, *page, all, &left)?;
        Ok(Some(PendingPlace { page: *page, kept }))
    }

    /// Frees empty pages at the front of the list.
    fn free_empty_pages<W: PagesMut>(&mut self, steps: &mut Steps<'_, W>) -> Result<(), Error> {
        while steps.meta().change.pending_head != 0 {
            let page = PageId(steps.meta().change.pending_head);
            let head = pending_list::head(&steps.reader(), page)?;
            if head.count > 0 {
                break;
            }
            steps.step_meta(&[page], &mut |meta, bodies| {
                spare::give(meta, page, bodies[0]);
                meta.change.pending_head = head.next;
                meta.change.pending_since = meta.change.commit + 1;
                Ok(())
            })?;
        }
        self.map = None;
        Ok(())
    }
}

/// Adds a row id that waits for `node`; `false` if the list is as long as it may be.
pub(in crate::index::change) fn wait_for<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    node: NodeId,
    row_id: u64,
) -> Result<bool, Error> {
    let new = Pending { node, row_id };
    let first = PageId(steps.meta().change.pending_head);
    let mut depth = 0;
    if first.0 != 0 {
        let head = pending_list::head(&steps.reader(), first)?;
        if head.has_room() {
            let mut has_room = false;
            steps.step(&[first], &mut |bodies| {
                has_room = pending_list::push(first, bodies[0], new)?;
                Ok(())
            })?;
            return Ok(has_room);
        }
        depth = head.depth;
    }
    if depth >= pending_list::pages_max(steps.meta().rows) {
        return Ok(false);
    }
    let page = spare::take(steps)?;
    steps.step_meta(&[page], &mut |meta, bodies| {
        pending_list::init(bodies[0], first.0, depth);
        pending_list::push(page, bodies[0], new)?;
        if first.0 == 0 {
            meta.change.pending_since = meta.change.commit + 1;
        }
        meta.change.pending_head = page.0;
        Ok(())
    })?;
    Ok(true)
}

/// The pages of the list with their entries.
fn pending_pages<W: PagesMut>(steps: &Steps<'_, W>) -> Result<Vec<(PageId, Vec<Pending>)>, Error> {
    let mut pages = Vec::new();
    pending_list::scan(&mut steps.reader(), steps.meta().change.pending_head, &mut |page, all| {
        pages.push((page, all.to_vec()));
        Ok(true)
    })?;
    Ok(pages)
}

/// Replaces the entries `all` of a page by those `left` of them.
fn leave_pending<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    page: PageId,
    all: &[Pending],
    left: &[Pending],
) -> Result<(), Error> {
    if left.len() == all.len() {
        return Ok(());
    }
    steps.step_meta(&[page], &mut |meta, bodies| {
        pending_list::replace(page, bodies[0], left)?;
        meta.change.pending_since = meta.change.commit + 1;
        Ok(())
    })
}
