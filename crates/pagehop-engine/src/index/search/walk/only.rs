//! Walks that may find only some rows. They also test the page neighbors of each node: the page was
//! read, and most rows of a page are near each other.

use std::sync::Arc;

use crate::Error;
use crate::columns::RowValues;
use crate::filter::Test;
use crate::ids::NodeId;
use crate::index::node_set::NodeSet;
use crate::index::search::filter::plan::FilterPlan;
use crate::index::search::filter::tags::Undecided;
use crate::index::search::nearest::{NearRow, Nearest};
use crate::index::search::observer::Observer;
use crate::index::search::visit::{Probe, Visited};
use crate::index::state::State;
use crate::memory::MakeRoom;
use crate::page::Reader;
use crate::page::layout::NodeLayout;
use crate::page::node::{NodeRef, prefetch_heads};

/// Most pages of a set that is kept for the next walk.
const KEPT_PAGES: usize = 4096;

/// The rows that a walk may find.
pub(crate) struct Only {
    pub(super) test: Arc<Test>,
    /// Whether the walk reads the tags of a row to know whether it passes.
    needs_tags: bool,
    /// The walk ends after this many hops.
    pub(in crate::index::search) hops_max: usize,
    /// Pages whose rows were tested.
    pages: NodeSet,
    /// Whether the page of the current node was not tested before.
    is_new_page: bool,
}

impl Only {
    /// Whether a walk must end after this number of hops.
    pub(crate) fn is_over(&self, hops: usize) -> bool {
        hops >= self.hops_max
    }

    /// The rows that pass a filter, or that may pass without a look at their tags. `spare` is an
    /// empty set.
    pub(crate) fn new(filter: &FilterPlan, hops_max: usize, looks_at_tags: bool, spare: NodeSet) -> Self {
        let (test, needs_tags) = (filter.test.clone(), filter.needs_tags && looks_at_tags);
        Self { test, needs_tags, hops_max, pages: spare, is_new_page: false }
    }

    /// The set of pages, emptied, for the next walk; a new one if it has become large.
    pub(super) fn into_spare(mut self) -> NodeSet {
        if self.pages.capacity() > KEPT_PAGES {
            return NodeSet::default();
        }
        self.pages.clear();
        self.pages
    }

    /// Approximate memory of the set of pages, in bytes.
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

    /// To be called while `node` is visited: prefetches what [`Only::look_around`] tests first.
    /// `body` is that of its page.
    #[inline(never)]
    pub(super) fn prepare(&mut self, node: NodeId, layout: &NodeLayout, body: &[u8]) {
        self.is_new_page = self.pages.insert(layout.place(node).0.0);
        if self.is_new_page && layout.nodes_per_page > 1 {
            prefetch_heads(layout, body);
        }
    }

    /// Whether a row may pass; and the row, if only its tags decide.
    pub(super) fn look(&self, row_id: u64, values: RowValues<'_>) -> (bool, Option<Undecided>) {
        let passes = self.test.passes(row_id, values);
        (passes, Undecided::if_needed(passes && self.needs_tags, &self.test, row_id, values))
    }

    /// Tests the page neighbors of `node`, unless their page was tested before. [`Only::prepare`]
    /// was called for it.
    pub(super) fn look_around<R: Reader>(
        &mut self,
        node: NodeId,
        state: &State,
        reader: &mut R,
        (probe, nearest): (&Probe, &mut Nearest),
        observer: &mut impl Observer,
        pages_read: &mut u64,
    ) -> Result<(), Error> {
        if !self.is_new_page {
            return Ok(());
        }
        let layout = &state.meta.layout;
        let page = layout.place(node).0;
        let mut undecided = Vec::new();
        let body = reader.finish(page)?;
        let Self { test, needs_tags, .. } = self;
        // A page has at most 64 slots.
        let mut passing = 0u64;
        for slot in (0..layout.nodes_per_page).filter(|slot| layout.node_id(page, *slot) != node) {
            let found = NodeRef::new(layout, &body, slot);
            if test.passes(found.header().row_id, found.values()) {
                // Distances are computed once all own codes are on their way.
                found.prefetch_own();
                passing |= 1 << slot;
            }
        }
        while passing != 0 {
            let slot = passing.trailing_zeros() as usize;
            passing &= passing - 1;
            let (found, neighbor) = (NodeRef::new(layout, &body, slot), layout.node_id(page, slot));
            let header = found.header();
            if state.rows(neighbor, &header).next().is_none() {
                continue;
            }
            let visited = Visited { header, distance: probe.distance(&found, &header) };
            match Undecided::if_needed(*needs_tags, test, header.row_id, found.values()) {
                Some(row) => undecided.push((neighbor, visited, row)),
                None => keep(neighbor, &visited, state, nearest, observer)?,
            }
        }
        drop(body);
        reader.release();
        for (neighbor, visited, row) in undecided {
            let is_wanted = observer.wants_rows() || nearest.wants(visited.distance);
            if is_wanted && row.passes(&self.test, neighbor, state, reader, pages_read)? {
                keep(neighbor, &visited, state, nearest, observer)?;
            }
        }
        Ok(())
    }
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
