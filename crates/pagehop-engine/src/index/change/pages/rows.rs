//! Which node holds a row: the map from row ids, and the row ids in nodes that the host owns.

use std::ops::Range;

use super::dead;
use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::index::pending::PendingMap;
use crate::page::kind::{PageKind, expect_kind};
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_LIVE, NodeMut, NodeRef};
use crate::page::{PageId, PagesMut, Reader, dead_list, id_map};
use crate::row_ids::{IdKind, NODE_ROWS_MAX};

/// The node of a row, by the map.
pub(in crate::index::change) fn find_row<W: PagesMut>(
    steps: &Steps<'_, W>,
    row_id: u64,
) -> Result<Option<NodeId>, Error> {
    match steps.meta().change.id_root {
        0 => Ok(None),
        root => Ok(id_map::find(&steps.reader(), PageId(root), row_id)?.1),
    }
}

/// Makes `node` the node of a row in the map, or takes the row out of the map. The node `old`
/// that had the row is dead afterwards.
pub(in crate::index::change) fn map_row<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    row_id: u64,
    node: Option<NodeId>,
    old: Option<NodeId>,
) -> Result<(), Error> {
    let leaf = leaf_of(steps, row_id, node.is_some())?;
    let change_leaf = |body: &mut [u8]| {
        let before = match node {
            Some(node) => id_map::put(leaf, body, row_id, node)?,
            None => id_map::remove(leaf, body, row_id)?,
        };
        if before == old {
            return Ok(());
        }
        Err(Error::corrupt(leaf, format!("row {row_id} was in node {old:?} and is in {before:?}")))
    };
    let Some(old) = old else {
        return steps.step(&[leaf], &mut |bodies| change_leaf(bodies[0]));
    };
    let dead_page = dead::page_with_room(steps)?;
    let (layout, commit) = (steps.layout(), steps.commit_number());
    let (page, slot) = layout.place(old);
    steps.step_meta(&[leaf, page, dead_page], &mut |meta, bodies| {
        let [leaf_body, node_body, dead_body] = bodies else { unreachable!("the step has three pages") };
        expect_kind(page, node_body, PageKind::Node)?;
        change_leaf(leaf_body)?;
        let mut node = NodeMut::new(&layout, node_body, slot);
        let header = node.as_ref().header();
        if header.flags != FLAGS_LIVE || header.row_id != row_id {
            let what = format!(
                "slot {slot} must hold row {row_id}; it has flags {:#x} and row {}",
                header.flags, header.row_id
            );
            return Err(Error::corrupt(page, what));
        }
        // A host without commits numbers them 0, which means "not deleted".
        node.bury(commit.max(1));
        dead_list::push(dead_page, dead_body, old)?;
        meta.change.count_dead_row();
        Ok(())
    })
}

fn leaf_of<W: PagesMut>(steps: &mut Steps<'_, W>, row_id: u64, with_room: bool) -> Result<PageId, Error> {
    let root = PageId(steps.meta().change.id_root);
    match with_room {
        true => id_map::make_room(steps.pages_mut(), root, row_id),
        false => Ok(id_map::find(&steps.reader(), root, row_id)?.0),
    }
}

/// The node of any row; `None` if there are no rows.
pub(in crate::index::change) fn any_row<W: PagesMut>(steps: &Steps<'_, W>) -> Result<Option<NodeId>, Error> {
    match steps.meta().id_kind {
        IdKind::HostOwned => any_host_row(steps),
        _ => {
            let root = PageId(steps.meta().change.id_root);
            id_map::any(&mut steps.reader(), steps.page_count(), root)
        }
    }
}

fn any_host_row<W: PagesMut>(steps: &Steps<'_, W>) -> Result<Option<NodeId>, Error> {
    if steps.meta().rows == 0 {
        return Ok(None);
    }
    for page in steps.meta().graph_pages(steps.page_count()).map(PageId) {
        if let Some((slot, _)) = host_rows_on(steps, page)?.first() {
            return Ok(Some(steps.layout().node_id(page, *slot)));
        }
    }
    Ok(None)
}

/// The row ids of the live nodes on a page, by slot.
pub(in crate::index::change) fn host_rows_on<W: PagesMut>(
    steps: &Steps<'_, W>,
    page: PageId,
) -> Result<Vec<(usize, [u64; NODE_ROWS_MAX])>, Error> {
    let layout = &steps.layout();
    let reader = steps.reader();
    let body = reader.finish(page)?;
    if !steps.meta().has_nodes(&body) {
        return Ok(Vec::new());
    }
    let headers = (0..layout.nodes_per_page).map(|slot| (slot, NodeRef::new(layout, &body, slot).header()));
    let live = headers.filter(|(_, header)| header.flags == FLAGS_LIVE);
    Ok(live.map(|(slot, header)| (slot, header.host_rows())).collect())
}

/// Every row id on some pages of the graph with its node, in order, also those that wait for
/// their node.
pub(in crate::index::change) fn host_rows<W: PagesMut>(
    steps: &Steps<'_, W>,
    pending: Option<&PendingMap>,
    pages: Range<u32>,
) -> Result<Vec<(u64, NodeId)>, Error> {
    let mut all = Vec::new();
    for page in pages.map(PageId) {
        for (slot, row_ids) in host_rows_on(steps, page)? {
            let node = steps.layout().node_id(page, slot);
            let waiting = pending.map_or_else(Vec::new, |pending| pending.of(node, &row_ids));
            let row_ids = row_ids.into_iter().filter(|row_id| *row_id > 0).chain(waiting);
            all.extend(row_ids.map(|row_id| (row_id, node)));
        }
    }
    Ok(all)
}

/// Replaces the row ids of a node. Without any the node is dead afterwards.
pub(in crate::index::change) fn set_host_rows<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    node: NodeId,
    row_ids: [u64; NODE_ROWS_MAX],
) -> Result<(), Error> {
    if row_ids != [0; NODE_ROWS_MAX] {
        return steps.change_node(node, |node| node.set_host_rows(row_ids));
    }
    let layout = steps.layout();
    let (page, slot) = layout.place(node);
    let dead_page = dead::page_with_room(steps)?;
    steps.step_meta(&[page, dead_page], &mut |meta: &mut Meta, bodies| {
        NodeMut::new(&layout, bodies[0], slot).set_host_rows(row_ids);
        dead_list::push(dead_page, bodies[1], node)?;
        meta.change.count_dead_row();
        meta.change.deleted_rows = meta.change.deleted_rows.wrapping_add(1);
        let rows = meta.rows.checked_sub(1);
        meta.rows = rows.ok_or_else(|| Error::corrupt(PageId(0), "it counts no row where there is one"))?;
        Ok(())
    })
}
