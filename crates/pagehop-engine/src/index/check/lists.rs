//! Checks the lists of nodes: dead nodes, nodes with pending row ids, and landmarks.

use std::collections::HashSet;

use super::nodes::{Check, edge_matches, hash};
use crate::Error;
use crate::page::node::{FLAGS_DEAD, FLAGS_FREE, FLAGS_LIVE, FLAGS_UNLINKED, GENERATIONS};
use crate::page::{PageId, Reader, dead_list, landmark_pages, pending_list};
use crate::row_ids;

/// Checks that the dead list names every dead node once.
pub(super) fn dead(check: &mut Check<'_>, reader: &mut impl Reader) -> Result<(), Error> {
    let mut listed = 0;
    let slots = &mut check.slots;
    dead_list::scan(reader, check.report.pages, check.meta.change.dead_head, |page, dead| {
        let expected = if dead.unlinked > 0 { FLAGS_UNLINKED } else { FLAGS_DEAD };
        match slots.get_mut(dead.node as usize) {
            Some(slot) if slot.flags == expected && !slot.listed => {
                slot.listed = true;
                listed += 1;
                Ok(())
            }
            _ => Err(Error::corrupt(page, format!("{dead:?} does not belong in the dead list"))),
        }
    })?;
    if listed == check.report.dead_nodes && listed == check.meta.change.dead_rows {
        return Ok(());
    }
    let (counted, found) = (check.meta.change.dead_rows, check.report.dead_nodes);
    let what = format!("{counted} dead nodes in the meta page, {listed} in their list, {found} in the graph");
    Err(Error::corrupt(PageId(0), what))
}

/// Checks that each pending row id waits for one live node.
pub(super) fn pending_rows(check: &Check<'_>, reader: &mut impl Reader) -> Result<(), Error> {
    let mut seen = HashSet::new();
    pending_list::scan(reader, check.meta.change.pending_head, &mut |page, entries| {
        for entry in entries {
            let is_row_id = row_ids::check_hosted(entry.row_id).is_ok();
            if !is_row_id || check.slot(entry.node).flags != FLAGS_LIVE || !seen.insert(entry.row_id) {
                return Err(Error::corrupt(page, format!("{entry:?} waits for no live node, or is listed twice")));
            }
        }
        Ok(true)
    })
}

/// Checks that the meta page counts the landmarks of the chain and knows its pages, and each
/// landmark whose node is still there. After as many other rows as a slot has generations, a
/// landmark may seem to be of the row that is there now: see `Check::contradicts`.
pub(super) fn landmarks(check: &Check<'_>, reader: &mut impl Reader) -> Result<(), Error> {
    let change = &check.meta.change;
    let (mut found, mut has_page) = (0, change.landmarks_page == 0);
    let (mut gone, mut wrong, mut first) = (0, 0, None);
    landmark_pages::scan(check.meta, reader, |page, landmark| {
        has_page |= page.0 == change.landmarks_page;
        found += 1;
        let slot = check.slot(landmark.node);
        let is_gone = !slot.exists || slot.flags == FLAGS_FREE || slot.generation != landmark.generation;
        let code_hash = hash(landmark.code.iter().copied());
        let stored = (landmark.centroid, landmark.factors, code_hash);
        let is_right = edge_matches(stored, &slot, !check.model.signatures.is_empty()).is_ok();
        gone += usize::from(is_gone);
        if !is_gone && !is_right {
            let what = format!("the landmark of node {} differs from the node", landmark.node);
            wrong += 1;
            first.get_or_insert_with(|| Error::corrupt(page, what));
        }
        Ok(())
    })?;
    let may_be_gone = if change.deleted_rows < GENERATIONS { 0 } else { gone };
    if let Some(error) = first.filter(|_| wrong > may_be_gone) {
        return Err(error);
    }
    if has_page && found == change.landmarks as usize {
        return Ok(());
    }
    let what = format!("{} landmarks, page {} next; found {found}", change.landmarks, change.landmarks_page);
    Err(Error::corrupt(PageId(0), what))
}
