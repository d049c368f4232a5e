//! Walks that may find only some rows. They also test the page neighbors of each node: the page was
//! read, and most rows of a page are near each other.

use std::sync::Arc;

use crate::Error;
use crate::columns::RowValues;
use crate::filter::Test;
use crate::ids::NodeId;
use crate::index::node_set::NodeSet;
use crate::index::search::filter_plan::FilterPlan;
use crate::index::search::nearest::{NearRow, Nearest};
use crate::index::search::observer::Observer;
use crate::index::search::tags::Undecided;
use crate::index::search::visit::{Probe, Visited};
use crate::index::state::State;
use crate::memory::MakeRoom;
use crate::page::Reader;
use crate::page::node::NodeRef;

/// The rows that a walk may find.
pub(crate) struct Only {
    pub(super) test: Arc<Test>,
    /// Whether the walk reads the tags of a row to know whether it passes.
    needs_tags: bool,
    /// The walk ends after this many hops.
    pub(super) hops_max: usize,
    /// Pages whose rows were tested.
    pages: NodeSet,
}

impl Only {
    /// Whether a walk must end after this number of hops.
    pub(crate) fn is_over(&self, hops: usize) -> bool {
        hops >= self.hops_max
    }

    /// The rows that pass a filter, or that may pass without a look at their tags.
    pub(crate) fn new(filter: &FilterPlan, hops_max: usize, looks_at_tags: bool) -> Self {
        let (test, needs_tags) = (filter.test.clone(), filter.needs_tags && looks_at_tags);
        Self { test, needs_tags, hops_max, pages: NodeSet::default() }
    }

    /// Whether a row may pass; and the row, if only its tags decide.
    pub(super) fn look(&self, row_id: u64, values: RowValues<'_>) -> (bool, Option<Undecided>) {
        let passes = self.test.passes(row_id, values);
        let is_open = passes && self.needs_tags;
        (passes, if is_open { Undecided::new(&self.test, row_id, values) } else { None })
    }

    /// Tests the page neighbors of `node`, unless their page was tested before.
    pub(super) fn look_around<R: Reader>(
        &mut self,
        node: NodeId,
        state: &State,
        reader: &mut R,
        (probe, nearest): (&Probe, &mut Nearest),
        observer: &mut impl Observer,
        pages_read: &mut u64,
    ) -> Result<(), Error> {
        let layout = &state.meta.layout;
        let page = layout.place(node).0;
        self.pages.make_room(1)?;
        if !self.pages.insert(page.0) {
            return Ok(());
        }
        let mut undecided = Vec::new();
        let body = reader.finish(page)?;
        for slot in 0..layout.nodes_per_page {
            let found = NodeRef::new(layout, &body, slot);
            let neighbor = layout.node_id(page, slot);
            let header = found.header();
            let (passes, row) = self.look(header.row_id, found.values());
            if neighbor == node || !passes || state.rows(neighbor, &header).next().is_none() {
                continue;
            }
            let visited = Visited { header, distance: probe.distance(&found, &header) };
            match row {
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
