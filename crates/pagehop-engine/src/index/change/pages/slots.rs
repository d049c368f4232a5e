//! Free slots: which page a new node goes to.
//!
//! A node goes to a page of nodes near it if one has a free slot, to any page if many slots are
//! free, and to a new page otherwise. Pages with free slots form a list; a page that was filled
//! leaves it once it is the first.

use super::keep;
use super::spare;
use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::index::change::encode::{EncodedRow, Target};
use crate::page::column_tree::Tree;
use crate::page::kind::{self, PageKind};
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_LIVE, NodeHeader, NodeMut, free_slot};
use crate::page::postings::Posting;
use crate::page::{PageId, PagesMut, Reader};

/// Nearest nodes whose pages are tried for a new node when few slots are free.
const NEAREST_TRIED: usize = 4;
/// Rows per free slot. While fewer slots than `rows / ROWS_PER_FREE_SLOT` are free, or will be
/// after vacuum, a node that finds no free slot near it gets a new page: page neighbors are worth
/// that much space.
const ROWS_PER_FREE_SLOT: u64 = 8;

/// A node to be written.
pub(in crate::index::change) struct NewNode<'a> {
    pub(in crate::index::change) row_id: u64,
    pub(in crate::index::change) encoded: &'a EncodedRow,
    /// Its neighbors.
    pub(in crate::index::change) targets: &'a [Target],
    /// Whether it is a duplicate of a node that was there first.
    pub(in crate::index::change) is_duplicate: bool,
}

/// A posting, and the tree that it belongs to.
pub(in crate::index::change) type TreePosting = (Tree, Posting);

/// Writes postings to the `bodies` of their `leaves`.
pub(in crate::index::change) fn put_all(
    leaves: &[PageId],
    bodies: &mut [&mut [u8]],
    postings: &[TreePosting],
) -> Result<(), Error> {
    for ((leaf, body), (tree, posting)) in leaves.iter().zip(bodies).zip(postings) {
        tree.shape.put(*leaf, body, posting)?;
    }
    Ok(())
}

/// Postings that come with a node in its step.
pub(in crate::index::change) struct Posted<'a> {
    pub(in crate::index::change) leaves: &'a [PageId],
    pub(in crate::index::change) postings: &'a [TreePosting],
    /// Whether these are all postings of the node.
    pub(in crate::index::change) is_all: bool,
}

/// Number of nearest nodes, at most `most`, whose pages are tried for a new node. It grows with the
/// share of free slots.
pub(in crate::index::change) fn nodes_tried(meta: &Meta, most: usize) -> usize {
    let free = spare_slots(meta) * ROWS_PER_FREE_SLOT;
    let more = (most - NEAREST_TRIED) as u64 * free.min(meta.rows) / meta.rows.max(1);
    NEAREST_TRIED + more as usize
}

/// The number of slots that are free, and of those that vacuum will free.
fn spare_slots(meta: &Meta) -> u64 {
    u64::from(meta.change.free_slots).saturating_add(meta.change.dead_rows.min(meta.rows))
}

/// Writes a node to a free slot: on the page of one of `near` if one of these has a free slot.
/// Returns the node and its generation. Where another writer takes the slot first, it is tried
/// again.
pub(in crate::index::change) fn place<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    new: &NewNode<'_>,
    near: &[NodeId],
) -> Result<(NodeId, u8), Error> {
    let posted = Posted { leaves: &[], postings: &[], is_all: true };
    loop {
        let (page, is_new) = page_for(steps, near)?;
        if let Some(placed) = place_on(steps, page, is_new, new, &posted)? {
            return Ok(placed);
        }
    }
}

/// The page that a new node goes to, and whether that is a new page.
pub(in crate::index::change) fn page_for<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    near: &[NodeId],
) -> Result<(PageId, bool), Error> {
    match page_with_slot(steps, near)? {
        Some(page) => Ok((page, false)),
        None => Ok((new_page(steps)?, true)),
    }
}

/// The node in the next free slot of `page`.
pub(in crate::index::change) fn next_on<W: PagesMut>(
    steps: &Steps<'_, W>,
    page: PageId,
    is_new: bool,
) -> Result<Option<NodeId>, Error> {
    let layout = steps.layout();
    let slot = if is_new { Some(0) } else { free_slot(&layout, &steps.reader().finish(page)?) };
    Ok(slot.map(|slot| layout.node_id(page, slot)))
}

/// Writes a node to the first free slot of `page`, and postings; `None` if another writer has
/// taken the last slot, or the one that the postings name.
pub(in crate::index::change) fn place_on<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    page: PageId,
    is_new: bool,
    new: &NewNode<'_>,
    posted: &Posted<'_>,
) -> Result<Option<(NodeId, u8)>, Error> {
    let layout = steps.layout();
    let kept_at = keep::keep_vector(steps, page, is_new, &new.encoded.kept)?;
    let (hosted, shared) = (steps.is_hosted(), steps.is_shared());
    let added = if hosted { 0 } else { steps.commit_number() };
    let mut placed = None;
    let pages: Vec<PageId> = [page].into_iter().chain(posted.leaves.iter().copied()).collect();
    steps.step_meta(&pages, &mut |meta, bodies| {
        let (body, leaves) = bodies.split_first_mut().expect("the node's page is in the step");
        if is_new {
            kind::clear(body, PageKind::Node);
            kept_at.into_iter().for_each(|place| place.write(body));
            if layout.nodes_per_page > 1 {
                meta.change.list_free(page, body, layout.nodes_per_page);
            }
        }
        let slot = match free_slot(&layout, body) {
            Some(slot) => slot,
            None if shared => return Ok(()),
            None => return Err(Error::corrupt(page, "its free slot is taken")),
        };
        let id = layout.node_id(page, slot);
        match posted.postings.first() {
            Some((_, posting)) if posting.node != id => return Ok(()),
            _ => put_all(posted.leaves, leaves, posted.postings)?,
        }
        if layout.nodes_per_page > 1 || !is_new {
            meta.change.take_free_slot()?;
        }
        let mut node = NodeMut::new(&layout, body, slot);
        let generation = node.as_ref().header().generation;
        // A stale edge that was copied may lead to the slot.
        let targets: Vec<&Target> = new.targets.iter().filter(|target| target.node != id).collect();
        write(&mut node, new, &targets, NodeHeader { generation, added, ..NodeHeader::default() });
        meta.change.equal_rows = meta.change.equal_rows.wrapping_add(new.is_duplicate.into());
        placed = Some((id, generation));
        if hosted {
            if !posted.is_all {
                meta.change.unposted = id;
            }
            meta.rows += 1;
            meta.change.added_rows = meta.change.added_rows.wrapping_add(1);
        }
        Ok(())
    })?;
    Ok(placed)
}

fn page_with_slot<W: PagesMut>(steps: &mut Steps<'_, W>, near: &[NodeId]) -> Result<Option<PageId>, Error> {
    let layout = steps.layout();
    if steps.meta().change.free_slots > 0 {
        let reader = steps.reader();
        for node in near {
            let page = layout.place(*node).0;
            if free_slot(&layout, &reader.finish(page)?).is_some() {
                return Ok(Some(page));
            }
        }
    }
    if spare_slots(steps.meta()) * ROWS_PER_FREE_SLOT > steps.meta().rows {
        return first_free(steps);
    }
    Ok(None)
}

fn new_page<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<PageId, Error> {
    let page = spare::take(steps)?;
    if u64::from(page.0 + 1) * steps.layout().nodes_per_page as u64 > u64::from(u32::MAX) {
        return Err(Error::full("the index is full: node ids have 32 bits"));
    }
    Ok(page)
}

/// The first page of the list that has a free slot. Full pages before it leave the list.
fn first_free<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<Option<PageId>, Error> {
    let layout = steps.layout();
    while steps.meta().change.free_head != 0 {
        let page = PageId(steps.meta().change.free_head);
        if free_slot(&layout, &steps.reader().finish(page)?).is_some() {
            return Ok(Some(page));
        }
        let shared = steps.is_shared();
        steps.step_meta(&[page], &mut |meta, bodies| {
            let link = FreeLink::read(bodies[0]);
            if shared && meta.change.free_head != page.0 {
                return Ok(());
            }
            if !link.listed || free_slot(&layout, bodies[0]).is_some() {
                return Err(Error::corrupt(page, "the list of free slots names it, but it is not marked"));
            }
            meta.change.free_head = link.next;
            FreeLink::default().write(bodies[0]);
            Ok(())
        })?;
    }
    Ok(None)
}

fn write(node: &mut NodeMut<'_>, new: &NewNode<'_>, targets: &[&Target], stamp: NodeHeader) {
    node.set_header(&NodeHeader {
        row_id: new.row_id,
        norm_sq: new.encoded.own.norm_sq,
        step: new.encoded.own.step,
        flags: FLAGS_LIVE,
        degree: targets.len() as u8,
        centroid: new.encoded.centroid,
        ..stamp
    });
    node.set_values(&new.encoded.values);
    node.set_own(&new.encoded.hi, &new.encoded.lo);
    targets.iter().enumerate().for_each(|(at, target)| node.set_edge(at, &target.edge(false)));
}
