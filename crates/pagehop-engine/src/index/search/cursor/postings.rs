//! A cursor over the rows that postings name: the second phase, with other candidates.
//!
//! The frontier has the best candidates by estimate, of the leaves that may have the nearest
//! expected rows. When it is used up, or when more rows are taken than were expected, the postings
//! are read again for several times as many. Until then a row is certain only if no candidate that
//! was not kept may be nearer.

use std::cmp::Reverse;

use super::parts::CursorParts;
use crate::Error;
use crate::graph::{key, key_id};
use crate::ids::NodeId;
use crate::index::search::filter::gather::{Gather, GatherExtent};
use crate::index::search::filter::slack;
use crate::index::search::filter::tags::Undecided;
use crate::index::search::filtered::{SHORTLIST_MIN, SHORTLIST_PER_ROW};
use crate::index::search::nearest::NearRow;
use crate::index::search::observer::Observer;
use crate::index::search::visit::Visited;
use crate::index::search::walk::{EVIDENCE_ROWS, Walk};
use crate::memory::MakeRoom;
use crate::page::meta::Meta;
use crate::page::node::with_node;
use crate::page::{Pages, Reader};

/// Growth of the number of candidates that are kept, each time the postings are read again.
const GROWTH: usize = 8;
/// Growth of the number of rows that leaves are chosen for, each time more are taken.
const ROWS_GROWTH: usize = 4;
const MOVED: &str = "another commit moved postings during the search; try again";
const REPLACED: &str = "it was trained again during the search; try again";
/// Candidates whose pages are read ahead.
const AHEAD: usize = 8;
/// Bytes of a candidate that is gathered: its key in the list, then in the frontier, and the node
/// and a control byte in the set of those that were seen.
const CANDIDATE_BYTES: usize = 2 * size_of::<u64>() + size_of::<NodeId>() + 1;
/// Bytes that may be gathered even beyond the limit of memory: some 3,000 candidates.
const GATHERED_BYTES_MIN: usize = 64 << 10;

/// The outcome of gathering candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gathering {
    More,
    /// Candidates may take more memory than the limit: every page must be read instead.
    NoRoom,
    /// No candidate is left.
    Over,
}

/// Gathers candidates. Rows that were found and not returned wait for their turn; those that
/// were returned do not come again.
pub(super) fn begin<P: Pages>(parts: &mut CursorParts<'_, P>) -> Result<Gathering, Error> {
    parts.second.reset(&parts.met)?;
    parts.second.seen.make_room(parts.walk.visited.len() + parts.met.rows.len())?;
    parts.second.seen.extend(&parts.walk.visited);
    parts.second.seen.extend(parts.met.rows.iter().map(|row| row.node));
    let slack = parts.asked.slack;
    let keep = match slack.is_finite() {
        true => SHORTLIST_MIN.max(SHORTLIST_PER_ROW * parts.expected),
        false => parts.expected.max(parts.asked.search_list),
    };
    if slack.is_infinite() {
        parts.second.visits_min = keep;
    }
    parts.second.covered = parts.second.out + parts.expected.max(EVIDENCE_ROWS);
    gather(parts, keep)
}

/// Reads the postings again if more rows were taken than leaves were chosen for.
pub(super) fn cover_more<P: Pages>(parts: &mut CursorParts<'_, P>) -> Result<Gathering, Error> {
    if parts.second.is_partial && parts.second.out >= parts.second.covered {
        parts.second.covered *= ROWS_GROWTH;
        return gather(parts, parts.second.kept);
    }
    Ok(Gathering::More)
}

/// Adds the nearest `keep` candidates that were not seen to the frontier, and perhaps some more.
fn gather<P: Pages>(parts: &mut CursorParts<'_, P>, keep: usize) -> Result<Gathering, Error> {
    let Some(filter) = &parts.filter else { return Ok(Gathering::More) };
    let keep = keep.max(2 * parts.second.covered);
    // The list keeps up to twice as many.
    let room = parts.memory_max.saturating_sub(parts.memory_bytes()).max(GATHERED_BYTES_MIN);
    let most = room / (2 * CANDIDATE_BYTES);
    if filter.candidates(keep) > most {
        return Ok(Gathering::NoRoom);
    }
    let mut list = std::mem::take(&mut parts.walk.shortlist);
    let k = parts.second.covered;
    let width = slack::width(parts.asked.slack, k, &parts.state.meta);
    let extent = GatherExtent { k, width, reach_min: 0.0, reads_max: parts.reads_max };
    let CursorParts { pages, state, reader, walk, stats, .. } = parts;
    let Walk { probe, walls, .. } = walk;
    let mut gather = Gather { state, reader, probe, walls, filter, stats, newest: state.snapshot };
    let mut gathered = gather.run(keep.min(most), extent, &mut list);
    if matches!(gathered, Err(Error::Corrupt { .. })) && pages.is_newest(state.snapshot) {
        // A commit that a crash cut short may have moved postings, and is whole in its steps.
        gather.newest = u64::MAX;
        gathered = gather.run(keep.min(most), extent, &mut list);
    }
    let gathered = match gathered {
        Ok(gathered) => gathered,
        Err(error) => {
            // The pages of a graph that was replaced become free while searches may still use
            // it. In a file, a later commit may have moved postings.
            let is_replaced = Meta::read(reader)?.change.model_start != state.meta.change.model_start;
            let has_moved = matches!(error, Error::Corrupt { .. }) && !pages.is_newest(state.snapshot);
            return Err(match (is_replaced, has_moved) {
                (true, _) => Error::busy(REPLACED),
                (_, true) => Error::busy(MOVED),
                _ => error,
            });
        }
    };
    let is_cut = list.is_cut();
    if is_cut && keep > most {
        // There were more candidates than was estimated.
        return Ok(Gathering::NoRoom);
    }
    let mut frontier = std::mem::take(&mut parts.second.frontier).into_vec();
    let keys = list.sorted();
    parts.second.seen.make_room(keys.len())?;
    frontier.make_room(keys.len())?;
    let new = keys.iter().copied().filter(|open| parts.second.seen.insert(key_id(*open)));
    frontier.extend(new.map(Reverse));
    parts.second.is_partial = gathered.reach.is_some();
    parts.options.slack = slack::of_visits(parts.asked.slack, k, parts.second.is_partial, &parts.state.meta);
    parts.second.beyond = keys.last().copied().filter(|_| is_cut || parts.second.is_partial);
    parts.second.frontier = frontier.into();
    parts.second.kept = keep;
    list.clear();
    parts.walk.shortlist = list;
    Ok(Gathering::More)
}

/// Visits the nearest candidate, or gathers more.
pub(super) fn visit<P: Pages>(parts: &mut CursorParts<'_, P>) -> Result<Gathering, Error> {
    let Some(Reverse(open)) = parts.second.frontier.pop() else {
        if parts.second.beyond.is_none() {
            return Ok(Gathering::Over);
        }
        parts.second.visits_min = 0;
        parts.second.covered = parts.second.covered.saturating_mul(ROWS_GROWTH);
        return gather(parts, parts.second.kept.saturating_mul(GROWTH));
    };
    let layout = parts.state.meta.layout;
    for Reverse(next) in parts.second.frontier.iter().take(AHEAD) {
        let (page, slot) = layout.place(key_id(*next));
        parts.reader.start(page, layout.place_bytes(slot)[1].clone());
    }
    let CursorParts { state, reader, walk, met, second, filter, stats, .. } = parts;
    let node = key_id(open);
    let filter = filter.as_ref();
    let seen = with_node(&layout, &*reader, node, |found, header| {
        let (row_id, values) = (header.row_id, found.values());
        let passes = filter.is_none_or(|filter| filter.test.passes(row_id, values));
        if !passes || state.rows(node, header).next().is_none() {
            return None;
        }
        let undecided = filter.filter(|filter| filter.needs_tags_in_runs);
        let undecided = undecided.and_then(|filter| Undecided::new(&filter.test, row_id, values));
        Some((Visited { header: *header, distance: walk.probe.distance(found, header) }, undecided))
    })?;
    reader.release();
    if let Some((visited, undecided)) = seen {
        stats.distances += 1;
        let passes = match (undecided, filter) {
            (Some(row), Some(filter)) => row.passes(&filter.test, node, state, reader, &mut stats.pages_read)?,
            _ => true,
        };
        for (at, row_id) in state.rows(node, &visited.header).filter(|_| passes).enumerate() {
            second.waiting.make_room(1)?;
            met.make_room(0)?;
            second.waiting.push(Reverse(key(visited.distance, met.rows.len() as u32)));
            met.visit_row(node, NearRow { distance: visited.distance, row_id, node, is_first: at == 0 }, &visited);
        }
    }
    walk.visited.make_room(1)?;
    walk.visited.push(node);
    second.visits_min = second.visits_min.saturating_sub(1);
    parts.stats.hops += 1;
    Ok(Gathering::More)
}
