//! Rows that a host names and decides about: PostgreSQL's tids. A node holds the tids of all versions of a row whose
//! vector did not change, as far as there is room.

use std::sync::Arc;

use super::bound::{code_error, is_within};
use super::change::{Change, INSERT_LIST};
use super::encode::{self, Encoded};
use super::model::Model;
use super::near::{Explorer, Extent, with_node};
use super::search::{Near, Rest, Walk};
use super::state::State;
use super::visit::Visited;
use super::{Index, OnProgress, SearchOptions, Stats, dead};
use crate::page::layout::{FLAGS_LIVE, NodeHeader, NodeId, NodeMut, NodeRef, PageKind};
use crate::page::{self, PageId, Pages, PagesMut, Reader};
use crate::row_ids::{RowIds, TIDS_MAX};
use crate::{AddReport, Error, Metric};

/// Candidates expanded on the way to a node that is known to be there.
const KNOWN_LIST: usize = 8;
/// Nearest nodes that are asked whether they have the row's code.
const ASKED: usize = 8;

/// Nodes that a search for a known row met.
struct Met {
    /// A squared distance within which a node lies where the row does.
    here: f32,
    /// Whether one was met.
    is_here: bool,
    nodes: Vec<(f32, NodeId)>,
}

impl Rest for Met {
    fn turn_away(&mut self, _: f32, _: NodeId) {}

    fn meet(&mut self, node: NodeId, _: Near, visited: &Visited) {
        self.is_here |= visited.distance <= self.here;
        self.nodes.push((visited.distance, node));
    }

    fn is_enough(&self) -> bool {
        self.is_here
    }
}

/// What a removal of tids did, or saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoveReport {
    /// Tids that are left.
    pub left: u64,
    /// Tids removed.
    pub removed: u64,
}

/// A row that was encoded, and walked to, before the index may be changed for it: others go on meanwhile.
pub struct Prepared {
    model: Arc<Model>,
    encoded: Encoded,
    /// The neighborhood as it was.
    explorer: Option<Explorer>,
}

impl<P: Pages> Index<P> {
    /// Encodes a row for [`Change::insert_prepared`] and meets its neighborhood; only brings it into the inner space if it `is_known`. `None` if
    /// that cannot be done, which the change will judge.
    pub fn prepare(&self, vector: &[f32], is_known: bool) -> Option<Prepared> {
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader).ok()?;
        let State { meta, model, entries, .. } = &*state;
        if meta.centroids == 0 {
            return None;
        }
        let mut encoded = Encoded::uncoded(meta, model, vector).ok()?;
        let mut explorer = None;
        if !is_known {
            encoded.complete(meta, model);
            let mut met = Explorer::default();
            let walked = met.walk(meta, model, entries, &mut reader, &encoded.point, Extent::of(INSERT_LIST));
            reader.pause();
            explorer = walked.is_ok().then_some(met);
        }
        Some(Prepared { model: model.clone(), encoded, explorer })
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Adds a row. `is_known` says that an older version of it, with the same vector, is likely in the index: then
    /// the node is looked for before anything else, which is several times cheaper than an insertion.
    ///
    /// An index that has grown eightfold since its model was trained is built anew within this call, as by
    /// [`Change::add`], on one thread.
    ///
    /// # Errors
    ///
    /// As [`Change::add`]; [`Error::Argument`] if the tid is out of range or the index has row ids of another kind.
    pub fn insert_tid(
        &mut self,
        tid: u64,
        vector: &[f32],
        is_known: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        self.insert_prepared(tid, vector, None, is_known, progress)
    }

    /// As [`Change::insert_tid`], of a row that was encoded before.
    ///
    /// # Errors
    ///
    /// As [`Change::insert_tid`].
    pub fn insert_prepared(
        &mut self,
        tid: u64,
        vector: &[f32],
        prepared: Option<Prepared>,
        is_known: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        self.expect(RowIds::Tids)?;
        super::build::check_tid(tid)?;
        if vector.len() != self.meta.dim {
            return Err(Error::Dimension { expected: self.meta.dim, got: vector.len() });
        }
        crate::quantize::prepare::validate(self.meta.metric, vector)?;
        if self.wants_training(1, vector) {
            return self.train_with(&[tid], vector, &mut AddReport::default(), progress);
        }
        self.refuse_too_long(&[tid], vector)?;
        let prepared = prepared.filter(|prepared| Arc::ptr_eq(&prepared.model, &self.model));
        let (mut encoded, explorer) = match prepared {
            Some(Prepared { encoded, explorer, .. }) => (encoded, explorer),
            None => (Encoded::uncoded(&self.meta, &self.model, vector)?, None),
        };
        if is_known {
            if self.meta.metric == Metric::InnerProduct {
                // There a row is known by its code alone: `is_within` cannot tell.
                encoded.encode_own();
            }
            let met = self.search_known(&encoded)?;
            if self.join_one(tid, &encoded, true, met)? {
                return Ok(());
            }
        }
        if encoded.code.is_empty() {
            encoded.complete(&self.meta, &self.model);
        }
        if !self.catch_up(explorer)? {
            self.walk_to(&encoded, INSERT_LIST)?;
        }
        if !self.join(tid, &encoded, is_known)? {
            self.insert_here(tid, &encoded)?;
        }
        Ok(())
    }

    /// Takes up a walk of before, if there was one and it still holds.
    fn catch_up(&mut self, explorer: Option<Explorer>) -> Result<bool, Error> {
        let Some(explorer) = explorer else { return Ok(false) };
        self.explorer = explorer;
        let Self { meta, model, explorer, pages, .. } = self;
        explorer.catch_up(meta, model, &mut pages.reader())
    }

    /// Searches for the node of an older version of a row, as for any query: it ends at a node that lies where the row does.
    /// Returns the nearest nodes.
    fn search_known(&mut self, encoded: &Encoded) -> Result<Vec<NodeId>, Error> {
        let (meta, model, entries) = (self.meta.clone(), self.model.clone(), self.entries.clone());
        let state = State { meta, model, entries, pending: None, snapshot: u64::MAX };
        let mut walk = Walk::default();
        walk.probe.prepare_inner(&state.meta, &encoded.exact);
        walk.begin(&state, KNOWN_LIST, 1, false);
        let norms_sq = f64::from(walk.probe.query_norm_sq()) + f64::from(encoded.own.norm_sq);
        let here = 4.0 * code_error(encoded.own.step.into(), encoded.exact.len() as f64).powi(2) + 1e-5 * norms_sq;
        let mut met = Met { here: here as f32, is_here: false, nodes: Vec::new() };
        let options = SearchOptions { search_list: KNOWN_LIST, slack: f32::INFINITY, beam_width: 1 };
        walk.run(&state, &mut self.pages.reader(), &options, &mut met, &mut Stats::default())?;
        met.nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        met.nodes.dedup();
        Ok(met.nodes.into_iter().take(ASKED).map(|(_, node)| node).collect())
    }

    /// Gives `tid` to a node that the walk met.
    fn join(&mut self, tid: u64, encoded: &Encoded, is_known: bool) -> Result<bool, Error> {
        let mut asked: Vec<NodeId> = self.explorer.near.nearest().take(ASKED).map(|near| near.0).collect();
        let way = self.way_to_equals(tid, encoded)?;
        if let Some(last) = way.last() {
            asked.extend(self.equals_below(*last, &encoded.target(NodeId::MAX, 0))?);
        }
        asked.extend(way);
        self.join_one(tid, encoded, is_known, asked)
    }

    /// Gives `tid` to the first of the nodes that has room and the row's code, or a code as near to the row as to its own. That of a row
    /// that is known waits for its node, room or not, while the list has room.
    fn join_one(&mut self, tid: u64, encoded: &Encoded, is_known: bool, asked: Vec<NodeId>) -> Result<bool, Error> {
        let meta = self.meta.clone();
        let layout = meta.layout;
        let mut point = Vec::new();
        let mut may_share = |node: &NodeRef<'_>| {
            let header = node.header();
            if header.flags != FLAGS_LIVE {
                return false;
            }
            let is_same = header.step == encoded.own.step && node.hi() == encoded.hi && node.lo() == encoded.lo;
            is_same
                || is_known && {
                    encode::decode(node, &header, &mut point);
                    is_within(&meta, pagehop_kernels::l2sq_f32(&encoded.exact, &point), header.step)
                }
        };
        for node in asked {
            let look = |found: &NodeRef<'_>, header: &NodeHeader| (may_share(found), header.tids().contains(&0));
            let (may, has_room) = with_node(&self.meta, &self.pages.reader(), node, look)?;
            if may && is_known && self.wait_for(node, tid)? {
                return Ok(true);
            }
            if !may || !has_room {
                continue;
            }
            let (page, slot) = layout.place(node);
            let mut joined = false;
            page::step(self.pages, &[page], &mut |bodies| {
                let mut node = NodeMut::new(&layout, bodies[0], slot);
                let mut tids = node.as_ref().header().tids();
                let room = tids.iter_mut().find(|there| **there == 0);
                if let Some(room) = room.filter(|_| may_share(&node.as_ref())) {
                    *room = tid;
                    node.set_tids(tids);
                    joined = true;
                }
                Ok(())
            })?;
            if joined {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Asks about every tid of the nodes on `pages`, and removes those that are dead; a node without tids waits for
    /// [`Change::vacuum`]. Tids that wait for a node come into it, as far as there is room. Pages beyond the end are passed over. When all
    /// pages are through, [`Change::settle_tids`] takes those out of the list that have come in.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; whatever the host reports.
    pub fn remove_tids(
        &mut self,
        pages: std::ops::Range<u32>,
        is_dead: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RemoveReport, Error> {
        self.expect(RowIds::Tids)?;
        let mut report = RemoveReport::default();
        let first = self.meta.change.retired_end.max(1).max(pages.start);
        for page in (first..pages.end.min(self.pages.page_count())).map(PageId) {
            for (slot, before) in self.tids_on(page)? {
                let waiting = self.waiting_for(self.meta.layout.node_id(page, slot), &before);
                let there: Vec<u64> = before.into_iter().filter(|tid| *tid > 0).chain(waiting).collect();
                let left: Vec<u64> = there.iter().copied().filter(|tid| !is_dead(*tid)).collect();
                report.left += left.len() as u64;
                report.removed += (there.len() - left.len()) as u64;
                let mut after = [0; TIDS_MAX];
                after.iter_mut().zip(&left).for_each(|(after, tid)| *after = *tid);
                if after != before {
                    self.set_tids(page, slot, after)?;
                }
            }
        }
        Ok(report)
    }

    fn tids_on(&self, page: PageId) -> Result<Vec<(usize, [u64; TIDS_MAX])>, Error> {
        let layout = &self.meta.layout;
        let reader = self.pages.reader();
        let body = reader.finish(page)?;
        if body[0] != PageKind::Node as u8 {
            return Ok(Vec::new());
        }
        let headers = (0..layout.nodes_per_page).map(|slot| (slot, NodeRef::new(layout, &body, slot).header()));
        Ok(headers
            .filter(|(_, header)| header.flags == FLAGS_LIVE)
            .map(|(slot, header)| (slot, header.tids()))
            .collect())
    }

    /// Gives a node the tids that it has from now on; without any it is dead.
    fn set_tids(&mut self, page: PageId, slot: usize, tids: [u64; TIDS_MAX]) -> Result<(), Error> {
        let layout = self.meta.layout;
        if tids != [0; TIDS_MAX] {
            return self.pages.step(&[page], &mut |bodies| {
                NodeMut::new(&layout, bodies[0], slot).set_tids(tids);
                Ok(())
            });
        }
        let dead_page = self.dead_page()?;
        self.step_meta(&[page, dead_page], &mut |meta, bodies| {
            NodeMut::new(&layout, bodies[0], slot).set_tids(tids);
            dead::push(dead_page, bodies[1], layout.node_id(page, slot))?;
            meta.change.dead_rows = meta.change.dead_rows.wrapping_add(1);
            meta.change.deleted_rows = meta.change.deleted_rows.wrapping_add(1);
            let rows = meta.rows.checked_sub(1);
            meta.rows = rows.ok_or_else(|| Error::corrupt(PageId(0), "it counts no row where there is one"))?;
            Ok(())
        })
    }

    /// The first node that has a tid, if one has.
    pub(super) fn any_tid(&self) -> Result<Option<NodeId>, Error> {
        let first = self.meta.change.retired_end.max(1);
        let pages = if self.meta.rows == 0 { 0 } else { self.pages.page_count() };
        for page in (first..pages).map(PageId) {
            if let Some((slot, _)) = self.tids_on(page)?.first() {
                return Ok(Some(self.meta.layout.node_id(page, *slot)));
            }
        }
        Ok(None)
    }

    /// Every tid of the graph with its node, those included that wait for it.
    pub(super) fn tids(&self) -> Result<Vec<(u64, NodeId)>, Error> {
        let mut all = Vec::new();
        let first = self.meta.change.retired_end.max(1);
        for page in (first..self.pages.page_count()).map(PageId) {
            for (slot, tids) in self.tids_on(page)? {
                let node = self.meta.layout.node_id(page, slot);
                let waiting = self.waiting_for(node, &tids);
                all.extend(tids.into_iter().filter(|tid| *tid > 0).chain(waiting).map(|tid| (tid, node)));
            }
        }
        Ok(all)
    }
}
