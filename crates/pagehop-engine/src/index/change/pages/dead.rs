//! Dead nodes, from the list of dead nodes to free slots.

use super::record_pages;
use super::spare;
use super::steps::{Seen, Steps};
use crate::Error;
use crate::ids::NodeId;
use crate::page::dead_list::{self, Dead};
use crate::page::kind::{PageKind, expect_kind};
use crate::page::layout::FreeLink;
use crate::page::node::NodeMut;
use crate::page::stack::StackHead;
use crate::page::{PageId, PagesMut, Reader};

/// The first page of the list of dead nodes, with room for another.
pub(super) fn page_with_room<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<PageId, Error> {
    let first = PageId(steps.meta().change.dead_head);
    if first.0 != 0 && head(steps, first)?.has_room() {
        return Ok(first);
    }
    let page = spare::take(steps)?;
    steps.step_meta(&[page], &mut |meta, bodies| {
        dead_list::init(bodies[0], meta.change.dead_head);
        meta.change.dead_head = page.0;
        Ok(())
    })?;
    Ok(page)
}

/// The head of a page of the list, before its entries.
pub(in crate::index::change) fn head<W: PagesMut>(steps: &Steps<'_, W>, page: PageId) -> Result<StackHead, Error> {
    dead_list::head(page, &steps.reader().finish(page)?)
}

/// Entry `at` of a page of the list.
pub(in crate::index::change) fn entry<W: PagesMut>(
    steps: &Steps<'_, W>,
    page: PageId,
    at: usize,
) -> Result<Dead, Error> {
    Ok(dead_list::entry(&steps.reader().finish(page)?, at))
}

/// Marks the node of entry `at` as unlinked: no edge leads to it any more. Does not mark it, and
/// returns `false`, if its edges are not those that were `seen`.
pub(in crate::index::change) fn mark_unlinked<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    node: NodeId,
    seen: &Seen,
    (dead_page, at): (PageId, usize),
) -> Result<bool, Error> {
    // A host without commits numbers them 0, which means "not unlinked".
    let commit = steps.commit_number().max(1);
    let layout = steps.layout();
    let (page, slot) = layout.place(node);
    let mut is_marked = false;
    steps.step(&[dead_page, page], &mut |bodies| {
        let mut found = NodeMut::new(&layout, bodies[1], slot);
        is_marked = seen.is_still(&found.as_ref());
        if is_marked {
            found.unlink();
            dead_list::set_unlinked(dead_page, bodies[0], at, node, commit)?;
        }
        Ok(())
    })?;
    Ok(is_marked)
}

/// Frees the slot of a dead node and takes its entry off the list.
pub(in crate::index::change) fn free<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    node: NodeId,
    dead_page: PageId,
    at: usize,
) -> Result<(), Error> {
    let layout = steps.layout();
    let (page, slot) = layout.place(node);
    if let Some(place) = record_pages::place_of(steps, node)? {
        record_pages::free(steps, place)?;
    }
    steps.step_meta(&[page, dead_page], &mut |meta, bodies| {
        let [node_body, dead_body] = bodies else { unreachable!("the step has two pages") };
        expect_kind(page, node_body, PageKind::Node)?;
        dead_list::remove(dead_page, dead_body, at, node)?;
        NodeMut::new(&layout, node_body, slot).free();
        match FreeLink::read(node_body).listed {
            true => meta.change.add_free_slots(1),
            false => meta.change.list_free(page, node_body, 1),
        }
        meta.change.take_dead_row()
    })
}

/// Takes the first page off the list if it is empty, unless it is the only page.
pub(in crate::index::change) fn drop_empty_page<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    page: PageId,
) -> Result<(), Error> {
    let StackHead { count, next, .. } = head(steps, page)?;
    if count > 0 || next == 0 || steps.meta().change.dead_head != page.0 {
        return Ok(());
    }
    steps.step_meta(&[page], &mut |meta, bodies| {
        spare::give(meta, page, bodies[0]);
        meta.change.dead_head = next;
        Ok(())
    })
}
