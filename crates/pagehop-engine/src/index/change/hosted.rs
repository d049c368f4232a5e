//! Rows that the host owns: the host gives them ids, and decides which of them a reader sees.
//!
//! A node holds the ids of all versions of a row whose vector and values did not change, as far as
//! there is room.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::Change;
use super::encode::EncodedRow;
use super::training;
use crate::columns::{Column, ColumnRows, Value};
use crate::ids::NodeId;
use crate::index::change::graph::explorer::{Explorer, WalkExtent};
use crate::index::change::graph::insert::{self, INSERT_LIST};
use crate::index::change::graph::post;
use crate::index::change::pages::graph_pages::GraphReader;
use crate::index::change::pages::pending;
use crate::index::change::pages::pending::PendingPlace;
use crate::index::change::pages::rows;
use crate::index::change::pages::spare;
use crate::index::change::pages::sweep;
use crate::index::model::Model;
use crate::index::open::Index;
use crate::index::search::bound::{code_error, is_within};
use crate::index::search::nearest::NearRow;
use crate::index::search::observer::Observer;
use crate::index::search::visit::Visited;
use crate::index::search::walk::Walk;
use crate::index::state::{ShadowState, State};
use crate::page::meta::{Making, Meta};
use crate::page::node::{FLAGS_LIVE, NodeHeader, NodeMut, NodeRef};
use crate::page::{PageId, Pages, PagesMut, Reader};
use crate::quantize::prepare;
use crate::row_ids::{self, IdKind, NODE_ROWS_MAX};
use crate::{AddReport, Error, OnProgress, RemoveReport, SearchOptions, Stats};

/// Candidates of the search for the node of a known row.
const KNOWN_LIST: usize = 8;
/// Nearest nodes whose code is compared with the row's.
const NEAREST_TRIED: usize = 8;

/// Nodes that a search for a known row visited.
struct KnownNodes {
    /// Squared distance up to which a node may hold the row.
    here: f32,
    /// Whether such a node was visited.
    is_here: bool,
    nodes: Vec<(f32, NodeId)>,
}

impl Observer for KnownNodes {
    fn reject(&mut self, _: f32, _: NodeId) {}

    fn visit_row(&mut self, node: NodeId, _: NearRow, visited: &Visited) {
        self.is_here |= visited.distance <= self.here;
        self.nodes.push((visited.distance, node));
    }

    fn is_enough(&self) -> bool {
        self.is_here
    }
}

/// A row that was encoded, and whose neighborhood was visited, before the host allows the change of
/// the index.
pub struct Prepared {
    model: Arc<Model>,
    encoded: EncodedRow,
    /// The neighborhood at that time.
    explorer: Option<Explorer>,
}

impl<P: Pages> Index<P> {
    /// Encodes a row for [`Change::insert_prepared`] and visits its neighborhood; if it `is_known`,
    /// only maps it into the inner space. `None` if that fails: the change then reports why.
    pub fn prepare(&self, vector: &[f32], is_known: bool) -> Option<Prepared> {
        let mut reader = self.pages().reader();
        let state = self.newest().renew(&mut reader).ok()?;
        let State { meta, model, entries, .. } = &*state;
        if meta.centroids == 0 {
            return None;
        }
        let mut encoded = EncodedRow::uncoded(meta, model, vector).ok()?;
        let mut explorer = None;
        if !is_known {
            encoded.complete(meta, model);
            let mut new = Explorer::default();
            let walked = new.walk(
                meta,
                model,
                entries,
                &mut reader,
                &encoded.point,
                WalkExtent::to_equal(INSERT_LIST, &encoded),
            );
            reader.pause();
            explorer = walked.is_ok().then_some(new);
        }
        Some(Prepared { model: model.clone(), encoded, explorer })
    }
}

/// Refuses a row that [`Change::insert_hosted`] would refuse, before it is to be inserted. Reads no
/// page.
///
/// # Errors
///
/// [`Error::Dimension`] or [`Error::Argument`] for a row that the index cannot place, or whose
/// values are not those of its columns.
pub fn check_row<P: Pages>(index: &Index<P>, vector: &[f32], values: &[Value]) -> Result<(), Error> {
    let state = index.newest().known();
    values_of(&state.meta, &state.columns.columns, vector, values).map(drop)
}

/// The values of a row that an index can place.
fn values_of(meta: &Meta, columns: &[Column], vector: &[f32], values: &[Value]) -> Result<ColumnRows, Error> {
    if vector.len() != meta.dim {
        return Err(Error::Dimension { expected: meta.dim, got: vector.len() });
    }
    prepare::validate(meta.metric, vector)?;
    let mut rows = ColumnRows::new(columns.to_vec())?;
    rows.push(values)?;
    Ok(rows)
}

impl<W: PagesMut> Change<'_, W> {
    /// Adds a row with a value for each column of the index. `is_known` says that an older version
    /// of it, with the same vector and values, is likely in the index. Then its node is searched
    /// for first, which is several times cheaper than an insertion. If it is not found, as where
    /// the vector has changed after all, the row is inserted.
    ///
    /// A small index that has grown eightfold since its model was trained is rebuilt within this
    /// call, on one thread; a larger one by [`Index::train_beside`].
    ///
    /// # Errors
    ///
    /// As [`Change::add`]; [`Error::Argument`] if the row id is out of range, the index has row ids
    /// of another kind, or the values are not those of its columns.
    pub fn insert_hosted(
        &mut self,
        row_id: u64,
        vector: &[f32],
        values: &[Value],
        is_known: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        self.insert_prepared(row_id, vector, values, None, is_known, progress)
    }

    /// As [`Change::insert_hosted`], for a row that was prepared before.
    ///
    /// # Errors
    ///
    /// As [`Change::insert_hosted`].
    pub fn insert_prepared(
        &mut self,
        row_id: u64,
        vector: &[f32],
        values: &[Value],
        prepared: Option<Prepared>,
        is_known: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        self.expect(IdKind::HostOwned)?;
        row_ids::check_hosted(row_id)?;
        let columns = values_of(self.graph.meta(), &self.graph.columns().columns, vector, values)?;
        if training::trains_at_once(&self.graph, 1) && !self.graph.steps().is_shared() {
            return training::rebuild(
                &mut self.graph,
                self.pending.map(),
                &[row_id],
                vector,
                &columns,
                &mut AddReport::default(),
                progress,
            );
        }
        if self.graph.meta().change.making == Making::Joined {
            self.insert_into_shadow(row_id, vector, values, is_known)?;
        }
        training::note_length(&mut self.graph, vector)?;
        let prepared = prepared.filter(|prepared| prepared.model.encodes_as(self.graph.model()));
        let (mut encoded, explorer) = match prepared {
            Some(Prepared { encoded, explorer, .. }) => (encoded, explorer),
            None => (EncodedRow::uncoded(self.graph.meta(), self.graph.model(), vector)?, None),
        };
        encoded.set_values(self.graph.model(), columns.row(0));
        encoded.sets = columns.sets(0).to_vec();
        if is_known {
            let near = self.search_known(&encoded)?;
            if self.join_one(row_id, &encoded, true, near)? {
                return Ok(());
            }
        }
        if encoded.code.is_empty() {
            encoded.complete(self.graph.meta(), self.graph.model());
        }
        let resumed = explorer.map(|explorer| self.graph.resume(explorer)).transpose()?;
        if resumed != Some(true) {
            insert::walk_to(&mut self.graph, &encoded)?;
        }
        if !self.join(row_id, &encoded, is_known)? {
            insert::insert_here(&mut self.graph, row_id, &encoded)?;
        }
        Ok(())
    }

    /// Inserts a row into the new graph. This comes before the insertion into the graph of the
    /// index, so that the new graph has every row of the old one (`beside.rs`).
    fn insert_into_shadow(
        &mut self,
        row_id: u64,
        vector: &[f32],
        values: &[Value],
        is_known: bool,
    ) -> Result<(), Error> {
        let (root, known) = (PageId(self.graph.meta().change.shadow), self.shadow.clone());
        let host = self.graph.steps_mut().host_mut();
        let state = known.read(&mut GraphReader::new(host.reader(), root))?;
        let mut change = Change::begin(host, root, state, ShadowState::default())?;
        change.insert_hosted(row_id, vector, values, is_known, &mut |_| ControlFlow::Continue(()))?;
        change.finish()
    }

    /// Searches for the node of an older version of a row, like a query: the search ends at a node
    /// that is as near as the row's own node must be. Returns the nearest nodes.
    fn search_known(&self, encoded: &EncodedRow) -> Result<Vec<NodeId>, Error> {
        let state = self.graph.state();
        let mut walk = Walk::default();
        walk.probe.prepare_euclidean(&state.meta, &encoded.exact);
        walk.begin(&state, KNOWN_LIST, 1, false);
        let norms_sq = f64::from(walk.probe.point().norm_sq()) + f64::from(encoded.own.norm_sq);
        let here = 4.0 * code_error(encoded.own.step.into(), encoded.exact.len() as f64).powi(2) + 1e-5 * norms_sq;
        let mut found = KnownNodes { here: here as f32, is_here: false, nodes: Vec::new() };
        let options = SearchOptions { search_list: KNOWN_LIST, slack: f32::INFINITY, beam_width: 1 };
        let mut reader = self.graph.steps().reader();
        walk.run(&state, &mut reader, &options, &mut found, &mut Stats::default())?;
        found.nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        found.nodes.dedup();
        Ok(found.nodes.into_iter().take(NEAREST_TRIED).map(|(_, node)| node).collect())
    }

    /// Gives `row_id` to a node that the walk visited, or to a duplicate of it: of the tree of
    /// duplicates, those on one way down and beside it are tried.
    fn join(&mut self, row_id: u64, encoded: &EncodedRow, is_known: bool) -> Result<bool, Error> {
        let mut tried: Vec<NodeId> = self.graph.near().nearest().take(NEAREST_TRIED).collect();
        tried.extend(insert::way_to_duplicates(&self.graph, row_id, encoded)?.seen);
        self.join_one(row_id, encoded, is_known, tried)
    }

    /// Gives `row_id` to the first of `nodes` that has room, the row's values, and the row's code.
    /// For a known row that may also be a code that was made of an older one and is as near to the
    /// row: the vector may still be another than that of the older version. The id of a known row
    /// waits for its node in the pending list, while that has room.
    fn join_one(
        &mut self,
        row_id: u64,
        encoded: &EncodedRow,
        is_known: bool,
        nodes: Vec<NodeId>,
    ) -> Result<bool, Error> {
        let meta = self.graph.meta().clone();
        let mut point = Vec::new();
        let mut may_share = |node: &NodeRef<'_>| {
            let header = node.header();
            if header.flags != FLAGS_LIVE || node.values().0 != encoded.values {
                return false;
            }
            let is_same = header.step == encoded.own.step && node.hi() == encoded.hi && node.lo() == encoded.lo;
            is_same
                || is_known && {
                    node.decode(&header, &mut point);
                    is_within(&meta, pagehop_kernels::l2sq_f32(&encoded.exact, &point), header.step)
                }
        };
        for node in nodes {
            let look =
                |found: &NodeRef<'_>, header: &NodeHeader| (may_share(found), header.host_rows().contains(&0));
            let (mut may, has_room) = self.graph.look(node, look)?;
            if may && encoded.sets.iter().any(|set| !set.is_empty()) {
                // Different sets may have the same word.
                may = self.graph.in_section(|graph| post::sets_of(graph, node, &encoded.values))? == encoded.sets;
            }
            if may
                && is_known
                && self.graph.in_section(|graph| pending::wait_for(graph.steps_mut(), node, row_id))?
            {
                return Ok(true);
            }
            if !may || !has_room {
                continue;
            }
            let mut joined = false;
            self.graph.steps_mut().change_node(node, |node: &mut NodeMut<'_>| {
                let mut row_ids = node.as_ref().header().host_rows();
                let room = row_ids.iter_mut().find(|there| **there == 0);
                if let Some(room) = room.filter(|_| may_share(&node.as_ref())) {
                    *room = row_id;
                    node.set_host_rows(row_ids);
                    joined = true;
                }
            })?;
            if joined {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the dead row ids from the nodes on `pages`; `is_dead` is called with each. A node
    /// without row ids then waits for [`Change::vacuum`]. Row ids that wait for a node are moved
    /// into it, as far as there is room. Pages that were allocated and never used become free.
    /// Pages that do not exist are skipped. When all pages are done, [`Change::settle_pending`]
    /// removes the moved ids from the pending list.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn remove_dead_rows(
        &mut self,
        pages: Range<u32>,
        is_dead: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RemoveReport, Error> {
        self.expect(IdKind::HostOwned)?;
        let mut report = RemoveReport::default();
        let steps = self.graph.steps_mut();
        let all = steps.meta().graph_pages(steps.page_count());
        for page in (pages.start.max(all.start)..pages.end.min(all.end)).map(PageId) {
            let rows = rows::host_rows_on(steps, page)?;
            if rows.is_empty() {
                sweep::free_if_lost(steps, page)?;
                spare::give_if_lost(steps, page)?;
            }
            for (slot, before) in rows {
                let node = steps.layout().node_id(page, slot);
                let waiting = self.pending.of(node, &before);
                let there: Vec<u64> = before.into_iter().filter(|row_id| *row_id > 0).chain(waiting).collect();
                let left: Vec<u64> = there.iter().copied().filter(|row_id| !is_dead(*row_id)).collect();
                report.left += left.len() as u64;
                report.removed += (there.len() - left.len()) as u64;
                let mut after = [0; NODE_ROWS_MAX];
                after.iter_mut().zip(&left).for_each(|(after, row_id)| *after = *row_id);
                if after != before {
                    rows::set_host_rows(steps, node, after)?;
                }
            }
        }
        Ok(report)
    }

    /// Takes dead row ids out of the pending list; returns how many. It comes before
    /// [`Change::remove_dead_rows`], so that no row id waits for a node that dies.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn drop_dead_rows(&mut self, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<u64, Error> {
        self.pending.drop_dead(self.graph.steps_mut(), is_dead)
    }

    /// Takes the row ids that [`Change::remove_dead_rows`] has moved into their nodes off the
    /// pending list, from `from` on, or from its begin. Returns where to go on; `None` at the end
    /// of the list.
    ///
    /// It looks at the node of each row id, which may be on any page. So it ends with a page of the
    /// list, or earlier, once `goes_on` says no, and a host may let others go on before the next.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn settle_pending(
        &mut self,
        from: Option<PendingPlace>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<PendingPlace>, Error> {
        self.pending.settle(self.graph.steps_mut(), from, goes_on)
    }
}
