//! Rows that come and go.
//!
//! ```text
//! add     encode -> walk to it -> prune whom it met
//!         step: the node, in a slot near its neighbors          (node page, meta page)
//!         step: the map names it; the row it replaces is dead    (leaf, old node's page, dead list, meta page)
//!         one step for each neighbor that takes an edge back     (its page)
//! delete  step: as above, without a new node
//! ```
//!
//! A step decides on what its pages hold when it runs. Rows are stamped with the commit's number, so a reader of
//! an older snapshot sees none of it, whichever steps it meets. The insertion is FreshDiskANN's (Singh et al.
//! 2021): search, robust prune, back-links with prune on overflow.

use std::sync::Arc;

use super::encode::{self, Encoded, Target};
use super::meta::Meta;
use super::model::{self, Entry, Model};
use super::near::{Explorer, Extent, Neighborhood, with_node};
use super::pending::Pending;
use super::state::State;
use super::visit::Probe;
use super::{OnProgress, Progress, build, dead, ids};
use crate::page::layout::{FLAGS_LIVE, FreeLink, NodeHeader, NodeId, NodeMut, NodeRef, PageKind};
use crate::page::{self, PageId, PagesMut, Reader};
use crate::{Error, RowIds};

/// Candidates that an added row's walk expands.
pub(super) const INSERT_LIST: usize = 48;
/// Nearest candidates beside which a row would like to be, when slots are scarce.
const MATES: usize = 4;
/// A page is begun for a row, though slots are free elsewhere, while slots that are free or will be are fewer than one
/// for so many rows: page mates are worth that much space.
const ROWS_PER_FREE_SLOT: u64 = 8;

/// What an addition did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddReport {
    /// Rows with ids that the index did not have.
    pub added: u64,
    /// Rows that replaced one of the same id.
    pub replaced: u64,
    /// Rows that the index had with the same vector: nothing was done for them.
    pub unchanged: u64,
}

/// What a deletion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport {
    /// Rows deleted.
    pub deleted: u64,
    /// Ids that the index did not have.
    pub unknown: Vec<u64>,
}

/// Changes the meta page, decoded, and the bodies of a step's other pages.
type ChangeWithMeta<'a> = &'a mut dyn FnMut(&mut Meta, &mut [&mut [u8]]) -> Result<(), Error>;

/// A transaction in progress. Nothing of it counts until [`Change::finish`] and the host's commit.
pub struct Change<'w, W: PagesMut> {
    pub(super) pages: &'w mut W,
    /// As of the last step that changed it.
    pub(super) meta: Meta,
    pub(super) model: Arc<Model>,
    pub(super) entries: Vec<Entry>,
    /// Tids that waited for their nodes when it began.
    pub(super) pending: Option<Arc<Pending>>,
    pub(super) explorer: Explorer,
    pub(super) around: Neighborhood,
    /// From the node that is offered an edge.
    pub(super) probe: Probe,
    pub(super) point: Vec<f32>,
    added: u64,
    deleted: u64,
    mark: Option<[u64; 2]>,
    /// Rows before the change, and where the model was.
    pub(super) rows_before: u64,
    pub(super) model_before: u32,
}

impl<'w, W: PagesMut> Change<'w, W> {
    pub(super) fn begin(pages: &'w mut W, known: Option<&State>) -> Result<Self, Error> {
        let State { meta, model, entries, pending, .. } = State::read(&mut pages.reader(), known)?;
        let mut change = Self {
            pages,
            rows_before: meta.rows,
            model_before: meta.change.model_start,
            meta,
            model,
            entries,
            pending,
            explorer: Explorer::default(),
            around: Neighborhood::default(),
            probe: Probe::default(),
            point: Vec::new(),
            added: 0,
            deleted: 0,
            mark: None,
        };
        change.upgrade()?;
        change.sweep_unfinished()?;
        change.sweep_retired()?;
        Ok(change)
    }

    /// Adds rows, `vectors` holding their components one row after the other. A row whose id the index has
    /// replaces that one; of rows with the same id the last counts.
    ///
    /// The first rows of an index train its model, and so do later ones each time it has grown eightfold, up to
    /// about 100,000 rows: then the whole is built anew, within this call.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] or [`Error::Argument`] for a row that the index cannot place, named by its position and id;
    /// under the inner product also for one much longer than those it was built for. [`Error::Interrupted`] if `progress` says
    /// so. Whatever the host reports. The change must then be dropped.
    pub fn add(&mut self, ids: &[u64], vectors: &[f32], progress: OnProgress<'_>) -> Result<AddReport, Error> {
        let dim = self.meta.dim;
        if ids.len() * dim != vectors.len() {
            let what = format!("{} ids and {} numbers are not rows of {dim} dimensions", ids.len(), vectors.len());
            return Err(Error::argument(what));
        }
        self.expect(RowIds::Mapped)?;
        self.validate(ids, vectors)?;
        let mut report = AddReport::default();
        if self.wants_training(ids.len(), vectors) {
            self.train_with(ids, vectors, &mut report, progress)?;
        } else {
            self.refuse_too_long(ids, vectors)?;
            for (i, (id, row)) in ids.iter().zip(vectors.chunks_exact(dim)).enumerate() {
                let step = Progress { phase: "add", done: i as u64, total: ids.len() as u64 };
                if i % 64 == 0 && progress(step).is_break() {
                    return Err(Error::Interrupted);
                }
                self.add_row(*id, row, &mut report)?;
            }
        }
        self.added += report.added + report.replaced;
        self.deleted += report.replaced;
        Ok(report)
    }

    /// Deletes rows. An id that the index does not have is reported, and no error.
    ///
    /// # Errors
    ///
    /// Whatever the host reports, and [`Error::Corrupt`]. The change must then be dropped.
    pub fn delete(&mut self, ids: &[u64]) -> Result<DeleteReport, Error> {
        self.expect(RowIds::Mapped)?;
        let mut report = DeleteReport::default();
        for id in ids {
            let found = match self.meta.change.id_root {
                0 => None,
                root => ids::find(&self.pages.reader(), PageId(root), *id)?.1,
            };
            match found {
                Some(node) => self.map_row(*id, None, Some(node))?,
                None => report.unknown.push(*id),
            }
            report.deleted += u64::from(found.is_some());
        }
        self.deleted += report.deleted;
        Ok(report)
    }

    /// Sets the caller's mark, which [`Info`](super::Info) shows: how far an import has come, say. It changes if
    /// and only if the commit takes place.
    pub fn set_mark(&mut self, mark: [u64; 2]) {
        self.mark = Some(mark);
    }

    /// Rows there are once it has taken place.
    pub(super) fn rows(&self) -> u64 {
        // Those that a host which decides visibility itself added are counted already; nothing else is.
        (self.meta.rows + self.added).saturating_sub(self.deleted)
    }

    /// The last step: counts the rows and names the commit. The host's commit comes next. Hosts that decide
    /// visibility themselves have counted with every step, and nothing is left to do.
    ///
    /// # Errors
    ///
    /// Whatever the host reports.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.meta.row_ids == RowIds::Tids {
            return Ok(());
        }
        let (commit, mark) = (self.pages.commit_number(), self.mark);
        let (added, deleted) = (self.added, self.deleted);
        self.step_meta(&[], &mut |meta, _| {
            let rows = (meta.rows + added).checked_sub(deleted);
            meta.rows = rows.ok_or_else(|| Error::corrupt(PageId(0), "it counts fewer rows than were deleted"))?;
            meta.change.added_rows = meta.change.added_rows.wrapping_add(added);
            meta.change.deleted_rows = meta.change.deleted_rows.wrapping_add(deleted);
            meta.change.commit = commit;
            meta.change.mark = mark.unwrap_or(meta.change.mark);
            Ok(())
        })
    }

    /// A step over `pages` and the meta page, which `change` gets decoded.
    pub(super) fn step_meta(&mut self, pages: &[PageId], change: ChangeWithMeta<'_>) -> Result<(), Error> {
        let mut all = pages.to_vec();
        all.push(PageId(0));
        let page_count = self.pages.page_count();
        let mut newest = None;
        page::step(self.pages, &all, &mut |bodies| {
            let (meta_body, others) = bodies.split_last_mut().expect("the meta page was asked for");
            let mut meta = Meta::decode(meta_body)?;
            meta.page_count = page_count;
            change(&mut meta, others)?;
            // Readers look at this number to learn whether what they know still holds.
            meta.change.commit += u64::from(meta.row_ids == RowIds::Tids);
            meta.write(meta_body);
            newest = Some(meta);
            Ok(())
        })?;
        self.meta = newest.expect("the step ran");
        Ok(())
    }

    pub(super) fn expect(&self, row_ids: RowIds) -> Result<(), Error> {
        if self.meta.row_ids == row_ids {
            return Ok(());
        }
        Err(Error::argument(format!("the row ids of this index are {:?}, not {row_ids:?}", self.meta.row_ids)))
    }

    fn validate(&self, ids: &[u64], vectors: &[f32]) -> Result<(), Error> {
        for (i, (id, row)) in ids.iter().zip(vectors.chunks_exact(self.meta.dim)).enumerate() {
            crate::quantize::prepare::validate(self.meta.metric, row).map_err(|e| match e {
                Error::Argument { what } => Error::argument(format!("row {i} (id {id}): {what}")),
                other => other,
            })?;
        }
        Ok(())
    }

    pub(super) fn refuse_too_long(&self, ids: &[u64], vectors: &[f32]) -> Result<(), Error> {
        let Some((row, norm_sq)) = self.first_too_long(vectors) else { return Ok(()) };
        let (length, most) = (norm_sq.sqrt(), self.meta.norm_sq_max.sqrt());
        let what = format!(
            "row {row} (id {}) has length {length}; under the inner product this index takes rows up to {most}: build it \
             anew with such rows in it",
            ids[row]
        );
        Err(Error::argument(what))
    }

    fn add_row(&mut self, id: u64, row: &[f32], report: &mut AddReport) -> Result<(), Error> {
        let encoded = Encoded::new(&self.meta, &self.model, row)?;
        let (_, old) = ids::find(&self.pages.reader(), PageId(self.meta.change.id_root), id)?;
        if let Some(old) = old {
            let same = with_node(&self.meta, &self.pages.reader(), old, |node, header| {
                header.step == encoded.own.step && node.hi() == encoded.hi && node.lo() == encoded.lo
            })?;
            if same {
                report.unchanged += 1;
                return Ok(());
            }
        }
        let node = self.insert(id, &encoded)?;
        self.map_row(id, Some(node), old)?;
        report.added += u64::from(old.is_none());
        report.replaced += u64::from(old.is_some());
        Ok(())
    }

    /// Writes the node and its edges, then those that lead back.
    pub(super) fn insert(&mut self, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        self.walk_to(encoded, INSERT_LIST)?;
        self.insert_here(row_id, encoded)
    }

    /// Meets the neighborhood of a row.
    pub(super) fn walk_to(&mut self, encoded: &Encoded, capacity: usize) -> Result<(), Error> {
        let Self { meta, model, entries, explorer, pages, .. } = self;
        explorer.walk(meta, model, entries, &mut pages.reader(), &encoded.point, Extent::of(capacity))
    }

    /// [`Change::insert`], when the walk has met the neighborhood.
    pub(super) fn insert_here(&mut self, row_id: u64, encoded: &Encoded) -> Result<NodeId, Error> {
        if let Some(host) = self.way_to_equals(row_id, encoded)?.last() {
            return self.insert_below(*host, row_id, encoded);
        }
        let targets = self.chosen(self.meta.layout.degree)?;
        let mates = self.mates();
        let (node, generation) = self.place(row_id, encoded, &targets, &mates, false)?;
        let target = encoded.target(node, generation);
        let header = self.node_header(node)?;
        self.explorer.near.push(node, header, &encoded.hi);
        let neighbors: Vec<NodeId> = targets.iter().map(|target| target.node).collect();
        self.anchor_or_below(&neighbors, &target)?;
        for neighbor in neighbors {
            self.link(neighbor, &target, false)?;
        }
        if targets.is_empty() {
            self.enter_at(&target, encoded)?;
        }
        Ok(node)
    }

    /// The edges, at most `most`, that a row deserves of those to whom the walk met.
    pub(super) fn chosen(&self, most: usize) -> Result<Vec<Target>, Error> {
        let near = &self.explorer.near;
        let chosen = near.choose(most, build::ALPHA_SQ).into_iter().map(|at| near.nodes[at as usize]);
        chosen.map(|(id, header)| self.target(id, header.generation)).collect()
    }

    pub(super) fn target(&self, id: NodeId, generation: u8) -> Result<Target, Error> {
        let Self { meta, model, explorer, pages, .. } = self;
        let target = explorer.target(meta, model, &mut pages.reader(), id, generation)?;
        target.ok_or_else(|| unknown_centroid(meta, id))
    }

    /// Nodes beside which a row would like to be. The more slots are free, the farther from its neighbors it may go for one.
    pub(super) fn mates(&self) -> Vec<NodeId> {
        let free = spare_slots(&self.meta) * ROWS_PER_FREE_SLOT;
        let farther = (INSERT_LIST - MATES) as u64 * free.min(self.meta.rows) / self.meta.rows.max(1);
        self.explorer.near.nearest().take(MATES + farther as usize).map(|near| near.0).collect()
    }

    /// Puts a node into a free slot: beside one of `mates` if there is one, in any page if many are free, else
    /// in a new page. Returns it and its generation.
    pub(super) fn place(
        &mut self,
        row_id: u64,
        encoded: &Encoded,
        targets: &[Target],
        mates: &[NodeId],
        is_equal: bool,
    ) -> Result<(NodeId, u8), Error> {
        let (mut page, mut is_new) = (None, false);
        let layout = self.meta.layout;
        if self.meta.change.free_slots > 0 {
            let reader = self.pages.reader();
            for mate in mates {
                let candidate = layout.place(*mate).0;
                if layout.free_slot(&reader.finish(candidate)?).is_some() {
                    page = Some(candidate);
                    break;
                }
            }
        }
        if page.is_none() && spare_slots(&self.meta) * ROWS_PER_FREE_SLOT > self.meta.rows {
            page = self.first_free()?;
        }
        let page = match page {
            Some(page) => page,
            None => {
                is_new = true;
                let page = self.pages.allocate(1)?;
                if u64::from(page.0 + 1) * layout.nodes_per_page as u64 > u64::from(u32::MAX) {
                    return Err(Error::argument("the index has as many nodes as ids can name"));
                }
                page
            }
        };
        let hosted = self.meta.row_ids == RowIds::Tids;
        let added = if hosted { 0 } else { self.pages.commit_number() };
        let mut placed = None;
        self.step_meta(&[page], &mut |meta, bodies| {
            let body = &mut *bodies[0];
            if is_new {
                body[0] = PageKind::Node as u8;
                if layout.nodes_per_page > 1 {
                    meta.change.list_free(page, body, layout.nodes_per_page);
                }
            }
            let slot = layout.free_slot(body).ok_or_else(|| Error::corrupt(page, "its free slot is taken"))?;
            if layout.nodes_per_page > 1 || !is_new {
                meta.change.take_free_slot()?;
            }
            let mut node = NodeMut::new(&layout, body, slot);
            let generation = node.as_ref().header().generation;
            write_node(
                &mut node,
                row_id,
                encoded,
                targets,
                NodeHeader { generation, added, ..NodeHeader::default() },
            );
            meta.change.equal_rows = meta.change.equal_rows.wrapping_add(is_equal.into());
            placed = Some((layout.node_id(page, slot), generation));
            if hosted {
                meta.rows += 1;
                meta.change.added_rows = meta.change.added_rows.wrapping_add(1);
            }
            Ok(())
        })?;
        Ok(placed.expect("the step ran"))
    }

    /// The first page of the list that has a free slot; pages before it, which are full, leave the list.
    fn first_free(&mut self) -> Result<Option<PageId>, Error> {
        let layout = self.meta.layout;
        while self.meta.change.free_head != 0 {
            let page = PageId(self.meta.change.free_head);
            if layout.free_slot(&self.pages.reader().finish(page)?).is_some() {
                return Ok(Some(page));
            }
            self.step_meta(&[page], &mut |meta, bodies| {
                let link = FreeLink::read(bodies[0]);
                if !link.listed || layout.free_slot(bodies[0]).is_some() {
                    return Err(Error::corrupt(page, "it is in the list of free slots and does not say so"));
                }
                meta.change.free_head = link.next;
                FreeLink::default().write(bodies[0]);
                Ok(())
            })?;
        }
        Ok(None)
    }

    /// Names `node` in the map, or takes `row_id` out of it; the node that had it is dead.
    fn map_row(&mut self, row_id: u64, node: Option<NodeId>, old: Option<NodeId>) -> Result<(), Error> {
        let root = PageId(self.meta.change.id_root);
        let leaf = match node {
            Some(_) => ids::make_room(self.pages, root, row_id)?,
            None => ids::find(&self.pages.reader(), root, row_id)?.0,
        };
        let change_leaf = |body: &mut [u8]| {
            let before = match node {
                Some(node) => ids::put(leaf, body, row_id, node)?,
                None => ids::remove(leaf, body, row_id)?,
            };
            if before == old {
                return Ok(());
            }
            Err(Error::corrupt(leaf, format!("id {row_id} was in node {old:?} and is in {before:?}")))
        };
        let Some(old) = old else {
            return self.pages.step(&[leaf], &mut |bodies| change_leaf(bodies[0]));
        };
        let dead_page = self.dead_page()?;
        let (layout, commit) = (self.meta.layout, self.pages.commit_number());
        let (page, slot) = layout.place(old);
        self.step_meta(&[leaf, page, dead_page], &mut |meta, bodies| {
            if node_page_is_none(bodies[1]) {
                return Err(Error::corrupt(page, "the row id map names it, and it is no page of nodes"));
            }
            let [leaf_body, node_body, dead_body] = bodies else { unreachable!("three pages were asked for") };
            change_leaf(leaf_body)?;
            let mut node = NodeMut::new(&layout, node_body, slot);
            let header = node.as_ref().header();
            if header.flags != FLAGS_LIVE || header.row_id != row_id {
                let what =
                    format!("slot {slot} should hold id {row_id}, has {} {:#x}", header.row_id, header.flags);
                return Err(Error::corrupt(page, what));
            }
            // Hosts without commits need a mark all the same that it is not alive.
            node.bury(commit.max(1));
            dead::push(dead_page, dead_body, old)?;
            meta.change.dead_rows = meta.change.dead_rows.wrapping_add(1);
            Ok(())
        })
    }

    /// The first page of the list of the dead, with room.
    pub(super) fn dead_page(&mut self) -> Result<PageId, Error> {
        let head = self.meta.change.dead_head;
        if head != 0
            && dead::header(PageId(head), &self.pages.reader().finish(PageId(head))?)?.0 < dead::ENTRIES_MAX
        {
            return Ok(PageId(head));
        }
        let page = self.pages.allocate(1)?;
        self.step_meta(&[page], &mut |meta, bodies| {
            dead::init(bodies[0], meta.change.dead_head);
            meta.change.dead_head = page.0;
            Ok(())
        })?;
        Ok(page)
    }

    /// Makes a row that met nobody an entry point, in place of all that lead nowhere.
    fn enter_at(&mut self, target: &Target, encoded: &Encoded) -> Result<(), Error> {
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            let leads = with_node(&self.meta, &self.pages.reader(), entry.node, |_, header| {
                header.flags == FLAGS_LIVE && entry.node != target.node
            })?;
            if !leads {
                self.set_entry(index, target.node, &encoded.point, encoded.own.norm_sq)?;
            }
        }
        Ok(())
    }

    /// Makes `node`, which lies at `point`, an entry point.
    pub(super) fn set_entry(
        &mut self,
        index: usize,
        node: NodeId,
        point: &[f32],
        norm_sq: f32,
    ) -> Result<(), Error> {
        let entry = Entry { node, from_centroid_sq: self.model.centroids.distance(index, point, norm_sq) };
        self.entries[index] = entry;
        self.step_meta(&[PageId(self.meta.change.entries_page)], &mut |_, bodies| {
            model::set_entry(bodies[0], index, &entry);
            Ok(())
        })
    }
}

/// Slots that are free, and those that vacuum will free.
fn spare_slots(meta: &Meta) -> u64 {
    u64::from(meta.change.free_slots).saturating_add(meta.change.dead_rows.min(meta.rows))
}

fn node_page_is_none(body: &[u8]) -> bool {
    body[0] != PageKind::Node as u8
}

pub(super) fn unknown_centroid(meta: &Meta, node: NodeId) -> Error {
    let (page, slot) = meta.layout.place(node);
    Error::corrupt(page, format!("slot {slot} names an unknown centroid"))
}

fn write_node(node: &mut NodeMut<'_>, row_id: u64, encoded: &Encoded, targets: &[Target], stamp: NodeHeader) {
    node.set_header(&NodeHeader {
        row_id,
        norm_sq: encoded.own.norm_sq,
        step: encoded.own.step,
        flags: FLAGS_LIVE,
        degree: targets.len() as u8,
        centroid: encoded.centroid,
        ..stamp
    });
    node.set_own(&encoded.hi, &encoded.lo);
    targets.iter().enumerate().for_each(|(slot, target)| node.set_edge(slot, &target.edge(false)));
}

impl<W: PagesMut> Change<'_, W> {
    fn node_header(&self, node: NodeId) -> Result<NodeHeader, Error> {
        with_node(&self.meta, &self.pages.reader(), node, |_, header| *header)
    }

    /// Reads a node into its codes.
    pub(super) fn point_of(&self, node: NodeId) -> Result<(NodeHeader, Vec<f32>), Error> {
        let mut point = Vec::new();
        let header = with_node(&self.meta, &self.pages.reader(), node, |found: &NodeRef<'_>, header| {
            encode::decode(found, header, &mut point);
            *header
        })?;
        Ok((header, point))
    }
}
