//! Walks that may find only some rows. They look at the page neighbors of each node, too: the page
//! was read, and most rows of a page are near each other.

use std::sync::Arc;

use crate::Error;
use crate::filter::Test;
use crate::ids::NodeId;
use crate::index::node_set::NodeSet;
use crate::index::search::nearest::{Near, Nearest};
use crate::index::search::observer::Observer;
use crate::index::search::visit::{Probe, Visited};
use crate::index::state::State;
use crate::page::Reader;
use crate::page::node::NodeRef;

/// Which rows a walk may find.
pub(crate) struct Only {
    pub(super) test: Arc<Test>,
    /// The walk ends after this many hops.
    hops_max: usize,
    /// Pages whose rows were looked at.
    pages: NodeSet,
}

impl Only {
    /// Whether a walk of this many hops was ended.
    pub(crate) fn is_over(&self, hops: usize) -> bool {
        hops >= self.hops_max
    }

    pub(crate) fn new(test: Arc<Test>, hops_max: usize) -> Self {
        Self { test, hops_max, pages: NodeSet::default() }
    }

    /// Looks for rows that may be found among the page neighbors of `node`, unless their page was
    /// looked at before.
    pub(super) fn look_around<R: Reader>(
        &mut self,
        node: NodeId,
        state: &State,
        reader: &R,
        probe: &Probe,
        nearest: &mut Nearest,
        observer: &mut impl Observer,
    ) -> Result<(), Error> {
        let layout = &state.meta.layout;
        let page = layout.place(node).0;
        if !self.pages.insert(page.0) {
            return Ok(());
        }
        let body = reader.finish(page)?;
        for slot in 0..layout.nodes_per_page {
            let found = NodeRef::new(layout, &body, slot);
            let neighbor = layout.node_id(page, slot);
            let header = found.header();
            if neighbor == node || !self.test.passes(header.row_id, found.values()) {
                continue;
            }
            let mut rows = state.rows(neighbor, &header).enumerate().peekable();
            if rows.peek().is_none() {
                continue;
            }
            let visited = Visited { header, distance: probe.distance(&found, &header) };
            for (at, row_id) in rows {
                let row = Near { distance: visited.distance, row_id, node: neighbor, is_first: at == 0 };
                nearest.keep(row);
                observer.visit_row(neighbor, row, &visited);
            }
        }
        Ok(())
    }
}
