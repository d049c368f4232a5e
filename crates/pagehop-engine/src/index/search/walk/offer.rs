//! What a hop does with the neighbors that it scored: it offers them to the list, and prefetches
//! the pages of those that come next.

use crate::filter::SignatureTest;
use crate::graph::list::CandidateList;
use crate::ids::NodeId;
use crate::index::search::observer::Observer;
use crate::index::search::visit::Scored;
use crate::index::search::walk::absent::Absent;
use crate::index::search::walk::only::Only;
use crate::page::Reader;
use crate::page::meta::Meta;
use pagehop_kernels as kernels;

/// Candidates whose pages are prefetched as long as all pages were in memory, and whose bytes are
/// prefetched into the CPU's caches. With the bytes of one a search takes 10 to 20% longer, with
/// those of three as long as with two (`docs/decisions/0013-cost-of-a-hop.md`).
const WIDTH_IN_MEMORY: usize = 2;
/// Estimates of up to this many times the reach are made again by row codes. One that is beyond
/// the reach may then be within it.
const REFINED_REACH: f32 = 1.15;
/// Hops that approach the query, with at most one page read ahead. Landmarks are near the query
/// already: of the pages that are read ahead from the third hop on, one in a hundred is not used.
const APPROACH_HOPS: usize = 2;
/// Pages that are read at the same time: this many, and one more for every two hops, up to the beam
/// width. A candidate of the first hops is often displaced before its turn. With the full
/// width from the third hop on, one page in seven is not used, and searches are not faster.
const WIDTH_AT_FIRST: usize = 2;

/// The largest estimate that is made again by row codes, if these are used.
#[inline]
pub(super) fn limit(uses_row_codes: bool, list: &CandidateList, reach: f32) -> Option<f32> {
    uses_row_codes.then(|| REFINED_REACH * reach.min(list.bound()))
}

/// Neighbors that do not pass, by their signatures, count as farther than they are by the slack, at
/// most by this share: a walk visits them later, as they only lead to others. A larger share saves
/// pages where few rows pass, and costs pages where .98 is found of half of the rows
/// (`docs/decisions/0015-filters.md`, *Signatures*).
const DEFERRED_MAX: f32 = 0.07;
/// Beside the slack they count as farther by this share, and by the other in a walk that scores the
/// edges of all nodes of a page, which is less in need of them (*Whole pages*).
const DEFERRED: f32 = 0.02;
const DEFERRED_OF_WHOLE_PAGES: f32 = 0.07;

/// Offers the scored neighbors of `node` that are within `reach` to the list; the others are
/// rejected. With a filter, those that do not pass count as farther than they are. Of absent ones
/// the substitute is offered.
#[inline]
pub(super) fn offer(
    (node, scored): (NodeId, &mut Scored<'_>),
    (only, slack): (Option<&Only>, f32),
    (list, offered): (&mut CandidateList, &[NodeId]),
    absent: &Absent,
    reach: f32,
    observer: &mut impl Observer,
) {
    let substitute = absent.substitute_in(node, scored);
    if let Some(only) = only
        && let Some(signature) = &only.signature
    {
        let more = if only.expands_pages { DEFERRED_OF_WHOLE_PAGES } else { DEFERRED };
        defer(scored, signature, reach.min(list.bound()), 1.0 + more + slack.min(DEFERRED_MAX));
    }
    // One comparison for eight estimates. Three of four are too far, in no order that a CPU could
    // predict.
    let mut near = kernels::at_most(scored.estimates, reach, list.bound());
    let mut rejected = !near;
    if !absent.is_empty() {
        for (at, _) in scored.neighbors().enumerate().filter(|(_, (_, neighbor))| absent.has(*neighbor)) {
            (near, rejected) = (near & !(1 << at), rejected & !(1 << at));
        }
    }
    observer.reject_some(scored, rejected);
    let candidate = |at| {
        let node = scored.node.neighbor(at);
        // The entry point is in the list with its own estimate.
        (!offered.contains(&node)).then_some((scored.estimates[at], node))
    };
    list.insert_all(near, candidate, |estimate, node| observer.reject(estimate, node));
    if let Some((estimate, substitute)) = substitute {
        take(estimate, substitute, list, offered, reach, observer);
    }
}

/// Defers the neighbors within `reach` that do not pass: they count as `farther` times as far.
// Apart, so that the hop of a walk without a filter stays short.
#[inline(never)]
fn defer(scored: &mut Scored<'_>, signature: &SignatureTest, reach: f32, farther: f32) {
    let mut near = kernels::at_most(scored.estimates, reach, f32::INFINITY);
    while near != 0 {
        let at = near.trailing_zeros() as usize;
        near &= near - 1;
        if !signature.may_pass(scored.node.signature(at)) {
            scored.estimates[at] *= farther;
        }
    }
}

/// Offers one candidate to the list. An entry point is in the list with its own estimate and must
/// not enter twice.
#[inline]
fn take(
    estimate: f32,
    node: NodeId,
    list: &mut CandidateList,
    offered: &[NodeId],
    reach: f32,
    observer: &mut impl Observer,
) {
    if (estimate <= reach) & (estimate < list.bound()) && !offered.contains(&node) {
        list.insert_or(estimate, node, |estimate, node| observer.reject(estimate, node));
    } else {
        observer.reject(estimate, node);
    }
}

/// Prefetches the pages of the nearest `width` unexpanded candidates within `reach`, and the bytes
/// of the first [`WIDTH_IN_MEMORY`] of them, except of `near`, whose bytes were prefetched before.
/// Returns the first.
pub(super) fn look_ahead(
    list: &CandidateList,
    meta: &Meta,
    reader: &impl Reader,
    near: Option<NodeId>,
    width: usize,
    reach: f32,
) -> Option<NodeId> {
    let mut first = None;
    let within = list.open().take(width).take_while(|(estimate, _)| *estimate <= reach);
    for (at, (_, node)) in within.enumerate() {
        let (page, slot) = meta.layout.place(node);
        let fetch = at < WIDTH_IN_MEMORY && near != Some(node);
        reader.start(page, if fetch { meta.layout.slot_bytes(slot) } else { 0..0 });
        first = first.or(Some(node));
    }
    first
}

/// The number of pages to read ahead after some hops.
#[inline]
pub(super) fn pages_ahead(hops: usize, all_in_memory: bool, beam_width: usize) -> usize {
    match hops {
        // While the search approaches the query, its best candidates are soon displaced.
        ..APPROACH_HOPS => 1,
        // If all pages are in memory, prefetching more pages gains nothing.
        _ if all_in_memory => beam_width.min(WIDTH_IN_MEMORY),
        hops => beam_width.min(WIDTH_AT_FIRST + hops / 2),
    }
}
