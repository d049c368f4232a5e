//! The graph of a transaction: its pages, its model, and the walk and the edges of the node at
//! hand.
//!
//! Insertion, postings and the removal of dead nodes are functions over it, written with the
//! operations of this file.
//!
//! | file | subject |
//! |---|---|
//! | `near.rs` | sets of nodes near a point; the choice of neighbors among them |
//! | `explorer.rs` | the walk of a change |
//! | `offer.rs` | whether a full node takes an edge, decided by its page alone |
//! | `edges.rs` | the edges of one node |
//! | `in_edges.rs` | the edges that lead to dead nodes |
//! | `anchors.rs` | edges that are never given up |
//! | `post.rs` | postings of a row |
//! | `landmarks.rs` | landmarks among inserted rows |
//! | `insert.rs` | a row that is put into the graph |
//! | `unlink.rs` | a dead node that is taken out of the edges to it |

pub(crate) mod anchors;
pub(crate) mod edges;
pub(crate) mod explorer;
pub(crate) mod in_edges;
pub(crate) mod insert;
pub(crate) mod landmarks;
pub(crate) mod near;
mod offer;
pub(crate) mod post;
pub(crate) mod unlink;

use std::borrow::Cow;
use std::sync::Arc;

use crate::Error;
use crate::ids::NodeId;
use crate::index::change::encode::{Target, unknown_centroid};
use crate::index::change::graph::edges::{EdgeCount, Edges, Revision};
use crate::index::change::graph::explorer::{Explorer, WalkExtent};
use crate::index::change::graph::near::NearNodes;
use crate::index::change::pages::steps::Steps;
use crate::index::model::Model;
use crate::index::state::State;
use crate::page::columns_page::Columns;
use crate::page::meta::Meta;
use crate::page::model_pages::{self, Entry};
use crate::page::node::{Link, NodeHeader, NodeRef};
use crate::page::{PageId, PagesMut};
use crate::quantize::point::RoundedPoint;

/// Largest number of decisions about the edges of a node that other writers keep changing.
pub(super) const DECISIONS_MAX: usize = 3;

/// The graph of a transaction.
pub(super) struct Graph<'w, W: PagesMut> {
    steps: Steps<'w, W>,
    model: Arc<Model>,
    entries: Vec<Entry>,
    columns: Arc<Columns>,
    explorer: Explorer,
    edges: Edges,
}

impl<'w, W: PagesMut> Graph<'w, W> {
    pub(super) fn new(steps: Steps<'w, W>, model: Arc<Model>, entries: Vec<Entry>, columns: Arc<Columns>) -> Self {
        Self { steps, model, entries, columns, explorer: Explorer::default(), edges: Edges::default() }
    }

    /// Reads model, entry points and columns again, which training has replaced.
    pub(super) fn reload(&mut self) -> Result<(), Error> {
        let mut reader = self.steps.reader();
        self.model = Model::read(self.steps.meta(), &mut reader)?.into();
        self.entries = model_pages::read_entries(self.steps.meta(), &mut reader)?;
        self.columns = Columns::read(&mut reader, self.steps.meta())?.into();
        Ok(())
    }

    /// Reads the entry points again, which another writer may have replaced.
    pub(super) fn reload_entries(&mut self) -> Result<(), Error> {
        self.entries = model_pages::read_entries(self.steps.meta(), &mut self.steps.reader())?;
        Ok(())
    }

    /// Reads what other writers have changed.
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        self.steps.reload()?;
        self.reload_entries()?;
        self.renew_landmarks()
    }

    /// Reads the landmarks again if many were added.
    pub(super) fn renew_landmarks(&mut self) -> Result<(), Error> {
        if self.model.lacks_landmarks(self.meta()) {
            let renewed = self.model.with_new_landmarks(self.steps.meta(), &mut self.steps.reader())?;
            self.model = renewed.into();
        }
        Ok(())
    }

    /// Calls `work` while no other writer is in its section.
    pub(super) fn in_section<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.steps.begin_section()?;
        let done = work(self);
        self.steps.end_section();
        done
    }

    pub(super) fn steps(&self) -> &Steps<'w, W> {
        &self.steps
    }

    pub(super) fn steps_mut(&mut self) -> &mut Steps<'w, W> {
        &mut self.steps
    }

    pub(super) fn meta(&self) -> &Meta {
        self.steps.meta()
    }

    pub(super) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// This graph as a search state, in which every row is visible.
    pub(super) fn state(&self) -> State {
        let (meta, model, entries) = (self.meta().clone(), self.model.clone(), self.entries.clone());
        let columns = self.columns.clone();
        State { meta, model, entries, columns, pending: None, snapshot: u64::MAX }
    }

    /// Walks to a point of the inner space.
    pub(super) fn walk(&mut self, point: &[f32], extent: WalkExtent) -> Result<(), Error> {
        let Self { steps, model, entries, explorer, .. } = self;
        explorer.walk(steps.meta(), model, entries, &mut steps.reader(), point, extent)
    }

    /// Continues with an earlier walk; `false` if the index has changed too much since.
    pub(super) fn resume(&mut self, explorer: Explorer) -> Result<bool, Error> {
        self.explorer = explorer;
        let Self { steps, model, explorer, .. } = self;
        explorer.catch_up(steps.meta(), model, &mut steps.reader())
    }

    /// The live nodes that the walk visited.
    pub(super) fn near(&self) -> &NearNodes {
        self.explorer.near()
    }

    pub(super) fn near_mut(&mut self) -> &mut NearNodes {
        self.explorer.near_mut()
    }

    /// Every slot that the walk visited.
    pub(super) fn visited(&self) -> &[NodeId] {
        self.explorer.visited()
    }

    /// Passes one node to `look`.
    pub(super) fn look<T>(
        &self,
        node: NodeId,
        look: impl FnOnce(&NodeRef<'_>, &NodeHeader) -> T,
    ) -> Result<T, Error> {
        self.steps.look(node, look)
    }

    /// The vector that a node's own code decodes to.
    pub(super) fn point_of(&self, node: NodeId) -> Result<Vec<f32>, Error> {
        let mut point = Vec::new();
        self.look(node, |found, header| found.decode(header, &mut point))?;
        Ok(point)
    }

    /// The content of an edge to a visited node.
    pub(super) fn target(&self, id: NodeId, generation: u8) -> Result<Target, Error> {
        let Self { steps, model, explorer, .. } = self;
        let target = explorer.target(steps.meta(), model, &mut steps.reader(), id, generation)?;
        target.ok_or_else(|| unknown_centroid(steps.meta(), id))
    }

    /// Gives `node` an anchor to `target`, and offers each of `others` an edge to it as
    /// [`Graph::link_back`] does. The anchor is made in the step of the first of these edges, and
    /// none is made without it. `false` if the node is gone, or all its edges are anchors: then no
    /// other node has changed.
    pub(super) fn link_anchor(&mut self, node: NodeId, others: &[NodeId], target: &Target) -> Result<bool, Error> {
        let Self { steps, model, explorer, edges, .. } = self;
        let mut left = Cow::Borrowed(others);
        for _ in 0..DECISIONS_MAX {
            if !edges.link(steps, model, explorer, node, target, true)? {
                return Ok(false);
            }
            for other in left.iter().filter(|other| **other != node) {
                edges.link(steps, model, explorer, *other, target, false)?;
            }
            left = steps.make_waiting()?.into();
            if !left.contains(&node) {
                self.link_back(&left, target)?;
                return Ok(true);
            }
        }
        // Other writers kept changing this node.
        let last = |_: &NodeRef<'_>, links: &[Link]| links.iter().rposition(|link| !link.anchor);
        let is_anchored = edges::anchor_in_place(steps, node, target, last)?;
        if is_anchored {
            self.link_back(&left, target)?;
        }
        Ok(is_anchored)
    }

    /// Gives `node`, which is equal to the row that the walk went to, an anchor to `target`. In a
    /// full node the anchor replaces the edge whose estimate is farthest. `false` if the node is
    /// gone, or all its edges are anchors.
    pub(super) fn anchor_in_place_of_farthest(&mut self, node: NodeId, target: &Target) -> Result<bool, Error> {
        let Self { steps, model, explorer, .. } = self;
        edges::anchor_in_place(steps, node, target, |found, links| explorer.farthest(model, found, links))
    }

    /// Offers each of `nodes`, which must be distinct, an edge to `target`. Each is decided on its
    /// own, so several of them change in one step. A node that other writers keep changing gets no
    /// edge: only anchors are needed.
    pub(super) fn link_back(&mut self, nodes: &[NodeId], target: &Target) -> Result<(), Error> {
        let Self { steps, model, explorer, edges, .. } = self;
        let mut nodes = Cow::Borrowed(nodes);
        for _ in 0..DECISIONS_MAX {
            for node in &*nodes {
                edges.link(steps, model, explorer, *node, target, false)?;
            }
            nodes = steps.make_waiting()?.into();
            if nodes.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Chooses the edges of `node` again. A node that other writers keep changing keeps its present
    /// edges: an edge to a dead node costs searches a hop.
    fn revise(&mut self, node: NodeId, revision: &Revision<'_>) -> Result<EdgeCount, Error> {
        let Self { steps, model, explorer, edges, .. } = self;
        let mut count = EdgeCount::default();
        for _ in 0..DECISIONS_MAX {
            count = edges.revise(steps, model, explorer.near_mut(), node, revision)?;
            if steps.make_waiting()?.is_empty() {
                break;
            }
        }
        Ok(count)
    }

    /// Makes `node`, which lies at `point`, the entry point of a centroid.
    pub(super) fn set_entry(&mut self, centroid: usize, node: NodeId, point: &[f32]) -> Result<(), Error> {
        let from_centroid_sq = self.model.centroids.distance(centroid, &RoundedPoint::new(point));
        let entry = Entry { node, from_centroid_sq };
        self.entries[centroid] = entry;
        self.steps.step_meta(&[PageId(self.meta().change.entries_page)], &mut |_, bodies| {
            model_pages::set_entry(bodies[0], centroid, &entry);
            Ok(())
        })
    }
}
