//! A cursor that reads every page of nodes, in order, once for each pass.

use std::ops::Range;

use super::parts::CursorParts;
use super::second_phase::SecondPhase;
use crate::Error;
use crate::index::search::filter::tags::Undecided;
use crate::index::search::met::{Met, Row};
use crate::index::search::nearest::NearRow;
use crate::index::search::shortlist::Shortlist;
use crate::page::node::NodeRef;
use crate::page::{PageId, Pages, Reader};

/// Pages that are prefetched.
const PAGES_AHEAD: u32 = 16;

/// Drops the state of the walk. Rows that were returned do not come again.
pub(super) fn begin<P: Pages>(parts: &mut CursorParts<'_, P>) -> Result<(), Error> {
    parts.sequential.begin(parts.memory_max, parts.second.returned(&parts.met)?);
    parts.met = Met::default();
    let out = parts.second.out;
    parts.second = SecondPhase::default();
    parts.second.out = out;
    parts.walk.shortlist = Shortlist::default();
    Ok(())
}

/// The next row of this phase.
pub(super) fn next<P: Pages>(parts: &mut CursorParts<'_, P>) -> Result<Option<Row>, Error> {
    loop {
        if let Some(row) = parts.sequential.rows.pop() {
            parts.second.out += 1;
            return Ok(Some(row));
        }
        if parts.sequential.is_last || parts.ends_by_reads() {
            return Ok(None);
        }
        pass(parts)?;
    }
}

/// Reads every page of nodes, or ends at the limit of reads.
fn pass<P: Pages>(parts: &mut CursorParts<'_, P>) -> Result<(), Error> {
    let Range { start, end } = parts.state.node_pages(parts.pages);
    let mut farthest = None;
    (start..end.min(start + PAGES_AHEAD)).for_each(|page| parts.reader.start(PageId(page), 0..0));
    for page in start..end {
        if page + PAGES_AHEAD < end {
            parts.reader.start(PageId(page + PAGES_AHEAD), 0..0);
        }
        if parts.ends_by_reads() {
            // Other pages may have rows that come before those of the pages that were read.
            parts.sequential.rows.clear();
            return Ok(());
        }
        keep_page(parts, PageId(page), &mut farthest)?;
    }
    parts.sequential.arrange(farthest);
    Ok(())
}

/// Keeps the rows of one page that pass the filter.
fn keep_page<P: Pages>(
    parts: &mut CursorParts<'_, P>,
    page: PageId,
    farthest: &mut Option<NearRow>,
) -> Result<(), Error> {
    let CursorParts { state, reader, walk, sequential, stats, .. } = parts;
    let (layout, filter) = (&state.meta.layout, parts.filter.as_ref());
    // Tags lie on other pages, which are read once this one is released.
    let mut undecided = Vec::new();
    let body = reader.finish(page)?;
    stats.pages_read += 1;
    for slot in 0..layout.nodes_per_page * usize::from(state.meta.has_nodes(&body)) {
        let (node, id) = (NodeRef::new(layout, &body, slot), layout.node_id(page, slot));
        let header = node.header();
        let mut rows = state.rows(id, &header).peekable();
        if rows.peek().is_none() {
            continue;
        }
        let passes = filter.is_none_or(|filter| filter.test.passes(header.row_id, node.values()));
        if !passes {
            continue;
        }
        let needs_tags = filter.filter(|filter| filter.needs_tags);
        let open = needs_tags.and_then(|filter| Undecided::new(&filter.test, header.row_id, node.values()));
        let distance = walk.probe.distance(&node, &header);
        let row = |(at, row_id): (usize, u64)| Row {
            near: NearRow { distance, row_id, node: id, is_first: at == 0 },
            node: id,
            step: header.step,
            norm_sq: header.norm_sq,
            is_returned: false,
        };
        let rows = rows.enumerate().map(row);
        match open {
            Some(open) => undecided.push((open, rows.collect::<Vec<_>>())),
            None => rows.into_iter().try_for_each(|row| sequential.keep(row, farthest))?,
        }
    }
    drop(body);
    for (open, rows) in undecided {
        let filter = parts.filter.as_ref().expect("rows are open for a filter alone");
        if open.passes(&filter.test, rows[0].node, state, reader, &mut stats.pages_read)? {
            rows.into_iter().try_for_each(|row| sequential.keep(row, farthest))?;
        }
    }
    reader.release();
    Ok(())
}
