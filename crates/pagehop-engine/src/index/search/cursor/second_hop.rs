//! A hop of the second phase of a cursor.

use std::cmp::Reverse;

use super::parts::CursorParts;
use super::second_phase::SecondPhase;
use crate::Error;
use crate::graph::{key, key_id};
use crate::ids::NodeId;
use crate::index::search::filter::tags::Undecided;
use crate::index::search::nearest::NearRow;
use crate::index::search::observer::Observer;
use crate::memory::MakeRoom;
use crate::page::{Pages, Reader};
use crate::quantize::estimate::DEGREE_MAX;

/// Visits a node: its neighbors that were not seen come into the frontier, its rows wait.
///
/// # Errors
///
/// [`Error::Corrupt`]; [`Error::Memory`] if the system does not give the memory; any error of the
/// host.
pub(super) fn expand<P: Pages>(parts: &mut CursorParts<'_, P>, node: NodeId) -> Result<(), Error> {
    let CursorParts { second: SecondPhase { frontier, seen, waiting, found, .. }, state, met, reader, .. } = parts;
    let (meta, model) = (&state.meta, &*state.model);
    // The nearest other candidate is probably expanded next: prefetch its bytes while this node
    // is scored.
    if let Some(Reverse(likely)) = frontier.peek() {
        let (page, slot) = meta.layout.place(key_id(*likely));
        reader.start(page, meta.layout.slot_bytes(slot));
    }
    let filter = parts.filter.as_ref();
    let (mut passes, mut undecided) = (true, None);
    frontier.make_room(DEGREE_MAX)?;
    seen.make_room(DEGREE_MAX)?;
    parts.walk.visited.make_room(1)?;
    let visited = parts.walk.probe.visit(meta, model, reader, node, |scored| {
        if let Some(filter) = filter {
            let (row_id, values) = (scored.header.row_id, scored.node.values());
            passes = filter.test.passes(row_id, values);
            let is_open = passes && filter.needs_tags;
            undecided = if is_open { Undecided::new(&filter.test, row_id, values) } else { None };
        }
        let new = scored.neighbors().filter(|(_, neighbor)| seen.insert(*neighbor));
        frontier.extend(new.map(|(estimate, neighbor)| Reverse(key(estimate, neighbor))));
        passes
    })?;
    passes &= !found.contains(&node) && state.rows(node, &visited.header).next().is_some();
    if let (true, Some(row), Some(filter)) = (passes, undecided, filter) {
        passes = row.passes(&filter.test, node, state, reader, &mut parts.stats.pages_read)?;
    }
    for (at, row_id) in state.rows(node, &visited.header).filter(|_| passes).enumerate() {
        waiting.make_room(1)?;
        met.make_room(0)?;
        waiting.push(Reverse(key(visited.distance, met.rows.len() as u32)));
        met.visit_row(node, NearRow { distance: visited.distance, row_id, node, is_first: at == 0 }, &visited);
    }
    parts.walk.visited.push(node);
    parts.stats.hops += 1;
    parts.stats.distances += u64::from(visited.distance.is_finite());
    parts.stats.estimates += visited.degree() as u64;
    // Prefetch the next candidates. A heap does not list its best elements without removing
    // them, but its first levels hold most of them.
    for Reverse(open) in frontier.iter().take(parts.options.beam_width) {
        reader.start(meta.layout.place(key_id(*open)).0, 0..0);
    }
    reader.release();
    Ok(())
}
