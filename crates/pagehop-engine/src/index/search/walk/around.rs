//! Page neighbors: a walk compares all rows of a page with the query when it visits one of them
//! that seems to be among the nearest. The page was read, and rows of a page are near each other.
//! So a row is found, too, whose estimates are too large, or to which no edge leads from where the
//! walk has been. `docs/decisions/0036-page-neighbors.md` has what that saves.
//!
//! A walk for the few rows that pass a filter also scores the edges of all nodes of a page. Of the
//! neighbors of one node, too few pass to lead to the others: `docs/decisions/0015-filters.md`,
//! *Whole pages*.

use crate::ids::NodeId;
use crate::index::node_set::NodeSet;
use crate::index::search::filter::tags::Undecided;
use crate::index::search::nearest::{NearRow, Nearest};
use crate::index::search::observer::Observer;
use crate::index::search::visit::{Probe, Scored, Visited};
use crate::index::search::walk::absent::Absent;
use crate::index::search::walk::only::Only;
use crate::index::state::State;
use crate::memory::MakeRoom;
use crate::page::layout::NodeLayout;
use crate::page::node::{FLAGS_FREE, NodeRef, prefetch_heads};
use crate::page::{PageId, Reader};
use crate::{Error, Stats};

/// Most nodes of a page whose rows a walk without a filter compares. With nine nodes it takes a
/// tenth more time for the same recall, and reads 5% fewer pages.
const NODES_MAX: usize = 5;
/// Most pages of a set that is kept for the next walk.
const KEPT_PAGES: usize = 4096;

/// Whether walks compare page neighbors.
#[inline]
pub(crate) fn looks(layout: &NodeLayout, has_filter: bool) -> bool {
    layout.nodes_per_page > 1 && (has_filter || layout.nodes_per_page <= NODES_MAX)
}

/// The pages whose rows were compared.
#[derive(Debug, Default)]
pub(super) struct Around {
    pages: NodeSet,
}

impl Around {
    /// Begins a walk.
    pub(super) fn begin(&mut self) {
        if self.pages.capacity() > KEPT_PAGES {
            self.pages = NodeSet::default();
        }
        self.pages.clear();
    }

    /// Approximate memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        // The hash table has one control byte per entry.
        self.pages.len() * (size_of::<u32>() + 1)
    }

    /// Makes room for the page of one more node.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    #[inline]
    pub(super) fn make_room(&mut self) -> Result<(), Error> {
        self.pages.make_room(1)
    }

    /// Whether the edges of all nodes of a page were scored.
    #[inline]
    pub(super) fn is_expanded(&self, page: PageId, only: Option<&Only>) -> bool {
        only.is_some_and(|only| only.expands_pages) && self.pages.contains(&page.0)
    }

    /// Whether the rows of a page were not compared yet. Notes the page if they will be.
    #[inline]
    pub(super) fn is_new(&mut self, page: PageId, looks: bool) -> bool {
        if looks { self.pages.insert(page.0) } else { self.pages.is_empty() || !self.pages.contains(&page.0) }
    }
}

/// Prefetches what [`look_around`] and [`expand_around`] read of the page neighbors of a node: all
/// own codes, what decides whether they pass, or everything.
#[inline]
pub(super) fn prefetch_around(layout: &NodeLayout, body: &[u8], slot: usize, only: Option<&Only>) {
    prefetch_heads(layout, body);
    let others = (0..layout.nodes_per_page).filter(|other| *other != slot);
    match only {
        None => others.for_each(|other| NodeRef::new(layout, body, other).prefetch_own()),
        Some(only) if only.expands_pages => {
            others.for_each(|other| NodeRef::new(layout, body, other).prefetch());
        }
        Some(_) => {}
    }
}

/// What a walk searches for.
pub(super) struct Sought<'w> {
    pub(super) probe: &'w Probe,
    pub(super) only: Option<&'w Only>,
    pub(super) absent: &'w Absent,
}

/// A row that was compared, if only its tags decide whether it passes.
pub(super) type ByTags = (NodeId, Visited, Undecided);

/// Compares the page neighbors of `node` with the query, and keeps those that are wanted. Adds
/// those to `undecided` of which only their tags decide.
///
/// # Errors
///
/// [`Error::Corrupt`] if a slot is invalid; [`Error::Memory`] if the system does not give the
/// memory.
#[inline]
pub(super) fn look_around(
    node: NodeId,
    body: &[u8],
    state: &State,
    sought: &Sought<'_>,
    (nearest, observer): (&mut Nearest, &mut impl Observer),
    (undecided, stats): (&mut Vec<ByTags>, &mut Stats),
) -> Result<(), Error> {
    let layout = &state.meta.layout;
    let (page, slot) = layout.place(node);
    // A page has at most 64 slots.
    let mut passing = !(1u64 << slot) & (u64::MAX >> (64 - layout.nodes_per_page));
    if let Some(only) = sought.only {
        for other in (0..layout.nodes_per_page).filter(|other| *other != slot) {
            let found = NodeRef::new(layout, body, other);
            match only.may_pass(found.header().row_id, found.values()) {
                // Distances are computed once all own codes are on their way.
                true => found.prefetch_own(),
                false => passing &= !(1 << other),
            }
        }
    }
    while passing != 0 {
        let other = passing.trailing_zeros() as usize;
        passing &= passing - 1;
        let (found, neighbor) = (NodeRef::new(layout, body, other), layout.node_id(page, other));
        let header = found.header();
        if header.flags == FLAGS_FREE || sought.absent.has(neighbor) {
            continue;
        }
        if !header.is_valid(layout) {
            return Err(Error::corrupt(page, format!("slot {other} has flags {:#x}", header.flags)));
        }
        stats.distances += 1;
        let visited = Visited { header, distance: sought.probe.distance(&found, &header) };
        if !observer.wants_rows() && !nearest.wants(visited.distance) {
            continue;
        }
        match sought.only.and_then(|only| only.undecided(header.row_id, found.values())) {
            Some(row) => undecided.push((neighbor, visited, row)),
            None => keep(neighbor, &visited, state, nearest, observer)?,
        }
    }
    Ok(())
}

/// Scores the edges of the page neighbors of `node`, each with one call of `take`, if the walk
/// expands pages. Returns the number of edges.
///
/// # Errors
///
/// [`Error::Corrupt`] if a slot is invalid or an edge is impossible.
#[inline]
pub(super) fn expand_around(
    node: NodeId,
    body: &[u8],
    state: &State,
    (probe, only): (&mut Probe, Option<&Only>),
    mut take: impl FnMut(NodeId, &mut Scored<'_>),
) -> Result<u64, Error> {
    let (meta, model) = (&state.meta, &*state.model);
    let (page, slot) = meta.layout.place(node);
    let expands = only.is_some_and(|only| only.expands_pages);
    let nodes = if expands { 0..meta.layout.nodes_per_page } else { 0..0 };
    let mut edges = 0;
    for other in nodes.filter(|other| *other != slot) {
        if NodeRef::new(&meta.layout, body, other).header().flags != FLAGS_FREE {
            let visited = probe.visit_in(meta, model, body, (page, other), None, |scored| {
                take(meta.layout.node_id(page, other), scored);
                false
            })?;
            edges += visited.degree() as u64;
        }
    }
    Ok(edges)
}

/// Keeps those of some rows that pass by their tags. Counts the pages of the tags.
///
/// # Errors
///
/// [`Error::Corrupt`] if tags are not those of their row; [`Error::Memory`]; any error of the
/// reader.
#[inline]
pub(super) fn decide<R: Reader>(
    rows: Vec<ByTags>,
    only: &Only,
    (state, reader): (&State, &mut R),
    (nearest, observer): (&mut Nearest, &mut impl Observer),
    pages_read: &mut u64,
) -> Result<(), Error> {
    for (node, visited, row) in rows {
        let is_wanted = observer.wants_rows() || nearest.wants(visited.distance);
        let is_there = state.rows(node, &visited.header).next().is_some();
        if is_wanted && is_there && row.passes(&only.test, node, state, reader, pages_read)? {
            keep(node, &visited, state, nearest, observer)?;
        }
    }
    Ok(())
}

/// Gives the visible rows of a visited node to `nearest` and to `observer`.
///
/// # Errors
///
/// [`Error::Memory`] if the system does not give the memory.
pub(super) fn keep(
    node: NodeId,
    visited: &Visited,
    state: &State,
    nearest: &mut Nearest,
    observer: &mut impl Observer,
) -> Result<(), Error> {
    for (at, row_id) in state.rows(node, &visited.header).enumerate() {
        let row = NearRow { distance: visited.distance, row_id, node, is_first: at == 0 };
        nearest.found.make_room(1)?;
        observer.make_room(0)?;
        nearest.keep(row);
        observer.visit_row(node, row, visited);
    }
    Ok(())
}
