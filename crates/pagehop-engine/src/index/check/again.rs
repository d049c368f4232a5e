//! What a check found of each page of nodes, for the next check of the same index.
//!
//! Tests check an index after every step of a change. A step changes few pages, and what a check
//! says of a page of nodes follows from its bytes, from the model, and from the nodes that its
//! edges lead to. So the next check looks again at the pages that changed, and at those with an
//! edge to a node that changed. Everything else of an index is checked as always.

use super::nodes::{COUNTS, Check, Slot};
use crate::Error;
use crate::columns::signatures::Signatures;
use crate::ids::NodeId;
use crate::index::state::State;
use crate::page::PageId;
use crate::page::node::NodeRef;
use crate::row_ids::IdKind;

/// The pages of nodes that the last check of an index accepted.
#[derive(Clone, Debug, Default)]
pub struct CheckedPages {
    /// The centroids and the signatures of the model that the pages were checked with.
    centroids: Vec<f32>,
    signatures: Signatures,
    /// The commit as of which they were checked, where that decides which rows are visible.
    commit: Option<u64>,
    pages: Vec<Option<CheckedPage>>,
    /// Whether a node is not as it was in the last check, by its number.
    changed: Vec<bool>,
}

/// A page, and what the check found of it.
#[derive(Clone, Debug)]
struct CheckedPage {
    body: Vec<u8>,
    /// The slots after the first pass, and how much it added to the counts.
    slots: Vec<Slot>,
    counts: [u64; COUNTS],
    /// What the second pass found, if all edges agree with their targets.
    edges: Option<CheckedEdges>,
}

/// The targets and anchors of a page's edges, and how much the second pass added to the counts.
#[derive(Clone, Debug)]
struct CheckedEdges {
    neighbors: Vec<NodeId>,
    anchors: Vec<u64>,
    counts: [u64; COUNTS],
}

impl CheckedPages {
    /// Prepares for a check of `pages` pages in this state. Forgets everything if the model is
    /// another, or if a commit came since and decides which rows are visible.
    pub(super) fn begin(&mut self, state: &State, pages: u32) {
        let commit = (state.meta.id_kind != IdKind::HostOwned).then_some(state.meta.change.commit);
        let (centroids, signatures) = (state.model.centroids.decode(), Signatures::clone(&state.model.signatures));
        if self.centroids != centroids || self.signatures != signatures || self.commit != commit {
            *self = Self { centroids, signatures, commit, ..Self::default() };
        }
        let nodes = pages as usize * state.meta.layout.nodes_per_page;
        self.pages.resize_with(pages as usize, || None);
        self.changed.clear();
        self.changed.resize(nodes, false);
    }

    /// The first pass over a page of nodes: as [`Check::nodes`].
    pub(super) fn nodes(&mut self, check: &mut Check<'_>, page: PageId, body: &[u8]) -> Result<(), Error> {
        let nodes = check.nodes_of(page);
        let known = &mut self.pages[page.0 as usize];
        if let Some(known) = known.as_ref().filter(|known| known.body == body) {
            check.slots[nodes].copy_from_slice(&known.slots);
            check.add_counts(&known.counts);
            check.link(page, body);
            return Ok(());
        }
        let before = check.counts();
        check.nodes(page, body)?;
        let slots = check.slots[nodes.clone()].to_vec();
        for (at, node) in nodes.enumerate() {
            let was = known.as_ref().map(|known| known.slots[at]);
            self.changed[node] = was != Some(slots[at]);
        }
        let counts = check.counts_since(&before);
        *known = Some(CheckedPage { body: body.to_vec(), slots, counts, edges: None });
        Ok(())
    }

    /// The first pass over a page that has no nodes.
    pub(super) fn no_nodes(&mut self, check: &Check<'_>, page: PageId) {
        if self.pages[page.0 as usize].take().is_some() {
            self.changed[check.nodes_of(page)].fill(true);
        }
    }

    /// The second pass over a page of nodes: as [`Check::edges`].
    pub(super) fn edges(&mut self, check: &mut Check<'_>, page: PageId, body: &[u8]) -> Result<(), Error> {
        let layout = check.meta.layout;
        let nodes = check.nodes_of(page);
        let neighbors = nodes.start * layout.degree..nodes.end * layout.degree;
        let known = self.pages[page.0 as usize].as_mut().expect("the first pass keeps every page of nodes");
        let changed = |target: NodeId| self.changed.get(target as usize).is_none_or(|changed| *changed);
        let is_same = |slot| !NodeRef::new(&layout, body, slot).neighbors().any(changed);
        if let Some(edges) = known.edges.as_ref().filter(|_| (0..layout.nodes_per_page).all(is_same)) {
            check.neighbors[neighbors].copy_from_slice(&edges.neighbors);
            nodes.zip(&edges.anchors).for_each(|(node, anchors)| check.slots[node].anchors = *anchors);
            check.add_counts(&edges.counts);
            return Ok(());
        }
        let (before, contradicting) = (check.counts(), check.contradicting);
        check.edges(page, body)?;
        known.edges = (check.contradicting == contradicting).then(|| CheckedEdges {
            neighbors: check.neighbors[neighbors].to_vec(),
            anchors: check.slots[nodes].iter().map(|slot| slot.anchors).collect(),
            counts: check.counts_since(&before),
        });
        Ok(())
    }
}
