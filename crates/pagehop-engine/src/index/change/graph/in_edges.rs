//! The edges that lead to dead nodes, found by one pass over all pages.
//!
//! A walk to a dead node finds the nodes near it, which are most of those with an edge to it. An
//! edge from far away stays, and is stale once the slot has another row. Where the lengths of
//! vectors differ, such edges are many: a tenth of all, after ten rounds in which a tenth of the
//! rows was deleted and added again (0034). The pass finds all.
//!
//! It costs 0.5 us a row of the index in the cache and 20 us where pages are read, and a repair
//! costs 1 to 2 ms a dead row (100,000 rows of 384 dimensions, beside other work). So the pass is
//! made where at least one row in [`SHARE`] is dead: then it costs as much as the repairs at most.
//! FreshDiskANN (Singh et al. 2021) consolidates deletions by such a pass.

use std::sync::Arc;

use crate::ids::NodeId;
use crate::index::node_set::NodeSet;
use crate::index::open::Index;
use crate::memory::MakeRoom;
use crate::page::node::{FLAGS_FREE, NodeRef};
use crate::page::{PageId, Pages, Reader, dead_list, read_ahead, with_reader};
use crate::{Error, OnProgress, Progress};

/// A pass over all pages is made if at least one row in this number is dead.
const SHARE: u64 = 100;
/// Pages between two calls of the progress callback.
const LOOK_PAGES: u32 = 64;
/// Bytes of a dead node and of its edges, as most nodes have them: about 32, of 8 bytes each, and
/// room for them to double.
const NODE_BYTES: u64 = 512;

/// Edges that lead to dead nodes, as they were when they were read. A copy costs nothing.
#[derive(Clone, Debug, Default)]
pub struct InEdges {
    /// Dead nodes that were looked for.
    nodes: u64,
    /// The dead node, and a node with an edge to its slot; sorted.
    edges: Arc<Vec<(NodeId, NodeId)>>,
}

impl InEdges {
    /// The number of dead nodes whose edges were looked for; 0 if there was no pass.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Nodes with an edge to the slot of `dead`.
    pub(super) fn of(&self, dead: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.edges.partition_point(|edge| edge.0 < dead);
        self.edges[first..].iter().take_while(move |edge| edge.0 == dead).map(|edge| edge.1)
    }
}

impl<P: Pages> Index<P> {
    /// The edges that lead to dead nodes, for [`Change::use_in_edges`](crate::Change::use_in_edges)
    /// before a vacuum. If these would take more than `memory_bytes`, those to the nodes that
    /// vacuum comes to first: ask again when [`InEdges::nodes`] of them have left the graph. None,
    /// and no page of the graph is read, where few rows are dead.
    ///
    /// Reads each page of the graph once, in order, beside writers. Calls `progress` with no page
    /// held.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` breaks; [`Error::Corrupt`] if pages contradict each
    /// other; any error of the host.
    pub fn in_edges_of_dead(&self, memory_bytes: u64, progress: OnProgress<'_>) -> Result<InEdges, Error> {
        with_reader(self.pages(), |reader| in_edges(self, reader, memory_bytes, progress))
    }
}

fn in_edges<P: Pages>(
    index: &Index<P>,
    reader: &mut P::Reader<'_>,
    memory_bytes: u64,
    progress: OnProgress<'_>,
) -> Result<InEdges, Error> {
    let state = index.newest().renew(reader)?;
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let total = meta.change.dead_rows;
    let is_worth = |dead: u64| dead > 0 && dead.saturating_mul(SHARE) >= meta.rows;
    if !is_worth(total) {
        return Ok(InEdges::default());
    }
    let most = (memory_bytes / NODE_BYTES).clamp(1, u64::from(u32::MAX)) as usize;
    let mut nodes = NodeSet::default();
    let listed = dead_list::scan(reader, index.pages().page_count(), meta.change.dead_head, |_, dead| {
        // Without memory for more, vacuum finds what it can without these edges.
        if dead.unlinked == 0 && nodes.len() < most && nodes.make_room(1).is_ok() {
            nodes.insert(dead.node);
        }
        Ok(())
    });
    // Another writer may have trained a small index again since its meta page was read. If the
    // list is damaged, vacuum says so, which reads it again. Other nodes of the list have left
    // the graph, and their slots wait.
    if listed.is_err() || nodes.len() < most && !is_worth(nodes.len() as u64) {
        return Ok(InEdges::default());
    }
    // A vector that grows may have room for twice as many.
    let edges_max = (memory_bytes / 2 / size_of::<(NodeId, NodeId)>() as u64) as usize;
    let (mut edges, pages) = (Vec::new(), state.node_pages(index.pages()));
    for page in pages.clone() {
        if (page - pages.start).is_multiple_of(LOOK_PAGES)
            && progress(Progress { phase: "vacuum", done: 0, total }).is_break()
        {
            return Err(Error::Interrupted);
        }
        read_ahead(reader, page, &pages);
        let body = reader.finish(PageId(page))?;
        for slot in 0..layout.nodes_per_page * usize::from(meta.has_nodes(&body)) {
            let node = NodeRef::new(layout, &body, slot);
            if node.header().flags == FLAGS_FREE {
                continue;
            }
            let from = layout.node_id(PageId(page), slot);
            edges.extend(node.links().filter(|link| nodes.contains(&link.node)).map(|link| (link.node, from)));
        }
        drop(body);
        reader.release();
        if edges.len() >= edges_max || edges.make_room(layout.nodes_per_page * layout.degree).is_err() {
            break;
        }
    }
    edges.sort_unstable();
    Ok(InEdges { nodes: nodes.len() as u64, edges: Arc::new(edges) })
}
