//! Takes dead nodes out of the graph, at a cost in proportion to how many there are.
//!
//! A dead node's in-neighbors are near it, so a walk to it finds nearly all of them. Each chooses its edges anew,
//! among those it has and edges to the dead node's neighbors: the in-place repair of IP-DiskANN (Xu et al.
//! 2025). Edges that the walk missed stay behind. Their generation tells them from edges to the slot's next row;
//! they cost a search a hop now and then, and go when their node next chooses.

use std::collections::{HashSet, VecDeque};

use super::change::Change;
use super::dead::{self, Dead};
use super::encode::Target;
use super::link::{Edges, Extras, Gone};
use super::near::{Extent, with_node};
use super::{OnProgress, Progress, encode, ids};
use crate::page::layout::{FLAGS_DEAD, FLAGS_FREE, FLAGS_LIVE, FreeLink, Link, NodeId, NodeMut, NodeRef, PageKind};
use crate::page::{self, PageId, PagesMut, Reader};
use crate::{Error, RowIds};

/// Candidates expanded on the way to a dead node's in-neighbors; and where hardly any of those live, at most.
const REPAIR_LIST: usize = 64;
const REPAIR_LIST_MAX: usize = 4 * REPAIR_LIST;
/// A node with fewer edges to living ones looks for others, however far it has to go.
const EDGES_MIN: usize = 4;
/// Neighbors of the dead node, nearest first, that are offered to each of its in-neighbors.
const HEIRS: usize = 12;

/// Nearest nodes that are asked to give an edge that stays.
const GUARDIANS: usize = 8;
/// Nodes looked at to learn who is found through some.
const BELOW_MAX: usize = 1 << 12;

/// What vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// Dead nodes taken out of their slots, which are free.
    pub freed: u64,
    /// Dead nodes taken out of their in-neighbors' edges.
    pub unlinked: u64,
    /// Dead nodes left because some reader may still see their rows, or be at them.
    pub waiting: u64,
    /// Nodes that chose their edges anew.
    pub repaired: u64,
}

impl VacuumReport {
    /// What was done: nodes unlinked and nodes freed.
    pub fn steps(&self) -> u64 {
        self.unlinked + self.freed
    }

    /// Adds up the parts of one vacuum; what waits is what waited last.
    pub fn add(&mut self, part: &Self) {
        self.freed += part.freed;
        self.unlinked += part.unlinked;
        self.waiting = part.waiting;
        self.repaired += part.repaired;
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Takes up to `most` steps towards an index without dead nodes: out of their in-neighbors' edges those whose
    /// rows no reader can see, out of their slots those that no reader can be at. The second comes in a later
    /// transaction than the first. When a call does neither, no more can be done.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` says so; [`Error::Corrupt`]; whatever the host reports.
    pub fn vacuum(&mut self, most: u64, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
        let oldest = self.pages.oldest_snapshot();
        let mut report = VacuumReport::default();
        let mut page = PageId(self.meta.change.dead_head);
        let total = self.meta.change.dead_rows;
        let mut seen = 0;
        while page.0 != 0 {
            seen += 1;
            if seen > self.pages.page_count() {
                return Err(Error::corrupt(page, "the list of the dead goes in circles"));
            }
            let (mut at, next) = dead::header(page, &self.pages.reader().finish(page)?)?;
            while at > 0 {
                at -= 1;
                if report.steps() == most {
                    return Ok(report);
                }
                if progress(Progress { phase: "vacuum", done: report.freed, total }).is_break() {
                    return Err(Error::Interrupted);
                }
                let dead = dead::entry(&self.pages.reader().finish(page)?, at);
                self.take_out(dead, oldest, page, at, &mut report)?;
            }
            self.drop_if_empty(page, next)?;
            page = PageId(next);
        }
        Ok(report)
    }

    fn take_out(
        &mut self,
        dead: Dead,
        oldest: u64,
        dead_page: PageId,
        at: usize,
        report: &mut VacuumReport,
    ) -> Result<(), Error> {
        let node = dead.node;
        if dead.unlinked > 0 {
            // Where the host decides what is seen, readers take whatever row is there now: its place and id are right.
            if dead.unlinked > oldest && self.meta.row_ids == RowIds::Mapped {
                report.waiting += 1;
                return Ok(());
            }
            report.freed += 1;
            return self.free(node, dead_page, at);
        }
        let header = with_node(&self.meta, &self.pages.reader(), node, |_, header| *header)?;
        if header.flags != FLAGS_DEAD {
            let (page, slot) = self.meta.layout.place(node);
            let what = format!("slot {slot} is in the list of the dead and has flags {:#x}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        if header.deleted > oldest && self.meta.row_ids == RowIds::Mapped {
            report.waiting += 1;
            return Ok(());
        }
        report.unlinked += 1;
        report.repaired += self.unlink(node, header.generation)?;
        // Hosts without commits need a mark all the same that it is done.
        let commit = self.pages.commit_number().max(1);
        let layout = self.meta.layout;
        let (page, slot) = layout.place(node);
        page::step(self.pages, &[dead_page, page], &mut |bodies| {
            dead::set_unlinked(dead_page, bodies[0], at, node, commit)?;
            NodeMut::new(&layout, bodies[1], slot).unlink();
            Ok(())
        })
    }

    /// Lets every in-neighbor that is found choose its edges anew. The node keeps its own edges: a search may be
    /// on its way over it. Returns how many chose.
    fn unlink(&mut self, node: NodeId, generation: u8) -> Result<u64, Error> {
        let (_, point) = self.point_of(node)?;
        let Self { meta, model, entries, explorer, pages, .. } = self;
        let extent = Extent { list_max: REPAIR_LIST_MAX, ..Extent::of(REPAIR_LIST) };
        explorer.walk(meta, model, entries, &mut pages.reader(), &point, extent)?;
        let (heirs, wards) = (self.heirs(node)?, self.wards_of(node)?);
        let (in_neighbors, guardian) = self.in_neighbors(node, generation, &heirs)?;
        let repaired = in_neighbors.len() as u64;
        let mut lonely = Vec::new();
        for neighbor in in_neighbors {
            let edges = self.reconsider_without(neighbor, node, &heirs)?;
            lonely.extend(self.is_lonely(edges).then_some(neighbor));
        }
        let entry = self.replace_entries(node)?;
        // What leads to an entry point may itself be found through it alone.
        self.anchor_anew(&wards, entry.or(guardian), node)?;
        lonely.extend(self.lonely_of(&wards)?);
        lonely.into_iter().try_for_each(|node| self.look_around(node))?;
        Ok(repaired)
    }

    /// Whether a node with so many edges to the living should have more.
    fn is_lonely(&self, edges: Edges) -> bool {
        let room = self.meta.layout.degree.saturating_sub(edges.promised);
        let others = self.meta.rows.saturating_sub(1);
        edges.living < EDGES_MIN.min(room).min(others.try_into().unwrap_or(EDGES_MIN))
    }

    /// The lonely ones of nodes whose guardian died: where most die, walks miss many of those that lose an edge.
    fn lonely_of(&self, wards: &[NodeId]) -> Result<Vec<NodeId>, Error> {
        let mut lonely = Vec::new();
        if self.meta.change.dead_rows < self.meta.rows {
            return Ok(lonely);
        }
        for ward in wards {
            let mut reader = self.pages.reader();
            let links: Vec<Link> = with_node(&self.meta, &reader, *ward, |found, header| {
                found.links().filter(|_| header.flags == FLAGS_LIVE).collect()
            })?;
            let mut edges = Edges::default();
            for link in &links {
                let lives = with_node(&self.meta, &reader, link.node, |_, header| {
                    header.flags == FLAGS_LIVE && header.generation == link.generation
                })?;
                reader.release();
                edges.count(lives, link.anchor);
            }
            lonely.extend((!links.is_empty() && self.is_lonely(edges)).then_some(*ward));
        }
        Ok(lonely)
    }

    /// Walks from a node until enough living ones are met, and gives it edges to these alone. It then loses no more
    /// edges to the dead, so it does this once, whatever it costs.
    fn look_around(&mut self, node: NodeId) -> Result<(), Error> {
        let (_, point) = self.point_of(node)?;
        let Self { meta, model, entries, explorer, pages, .. } = self;
        let extent = Extent { everywhere: true, ..Extent::of(REPAIR_LIST) };
        explorer.walk(meta, model, entries, &mut pages.reader(), &point, extent)?;
        let met = explorer.near.nearest().map(|near| near.0).filter(|id| *id != node);
        let met: Vec<NodeId> = met.take(REPAIR_LIST).collect();
        self.reconsider(node, Extras::Some(&met), None, Gone::TheDead)?;
        Ok(())
    }

    fn free(&mut self, node: NodeId, dead_page: PageId, at: usize) -> Result<(), Error> {
        let layout = self.meta.layout;
        let (page, slot) = layout.place(node);
        self.step_meta(&[page, dead_page], &mut |meta, bodies| {
            let [node_body, dead_body] = bodies else { unreachable!("two pages were asked for") };
            if node_body[0] != PageKind::Node as u8 {
                return Err(Error::corrupt(page, "the list of the dead names it, and it is no page of nodes"));
            }
            dead::remove(dead_page, dead_body, at, node)?;
            NodeMut::new(&layout, node_body, slot).free();
            match FreeLink::read(node_body).listed {
                true => meta.change.add_free_slots(1),
                false => meta.change.list_free(page, node_body, 1),
            }
            meta.change.take_dead_row()
        })
    }

    /// Living neighbors of a dead node, those that the walk to it met first, nearest first.
    fn heirs(&mut self, node: NodeId) -> Result<Vec<NodeId>, Error> {
        let meta = &self.meta;
        let mut reader = self.pages.reader();
        let links: Vec<Link> = with_node(meta, &reader, node, |found, _| found.links().collect())?;
        let mut heirs = Vec::with_capacity(links.len());
        for link in links {
            let flags = with_node(meta, &reader, link.node, |_, header| {
                if header.generation == link.generation { header.flags } else { FLAGS_FREE }
            })?;
            reader.release();
            heirs.extend((flags == FLAGS_LIVE).then_some(link.node));
        }
        let rank = |id: &NodeId| self.explorer.near.nearest().position(|near| near.0 == *id).unwrap_or(usize::MAX);
        heirs.sort_by_cached_key(rank);
        // Where whole neighborhoods died, the nearest that live stand in for them.
        let met = self.explorer.near.nearest().map(|near| near.0).filter(|id| *id != node).take(HEIRS);
        for id in met {
            if heirs.len() < HEIRS && !heirs.contains(&id) {
                heirs.push(id);
            }
        }
        Ok(heirs)
    }

    /// Living nodes with an edge to `node`, of those that the walk met and those that it leads to; and the node,
    /// living or dead, whose edge to it is an anchor.
    fn in_neighbors(
        &mut self,
        node: NodeId,
        generation: u8,
        heirs: &[NodeId],
    ) -> Result<(Vec<NodeId>, Option<NodeId>), Error> {
        let led_to =
            with_node(&self.meta, &self.pages.reader(), node, |found, _| found.links().collect::<Vec<_>>())?;
        let met = self.explorer.visited.iter().chain(heirs).copied().chain(led_to.iter().map(|link| link.node));
        let mut candidates: Vec<NodeId> = met.filter(|id| *id != node).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let meta = &self.meta;
        let mut reader = self.pages.reader();
        let (mut living, mut guardian) = (Vec::new(), None);
        for candidate in candidates {
            let link = with_node(meta, &reader, candidate, |other, header| {
                let link = other.links().find(|l| l.node == node && l.generation == generation);
                link.filter(|_| header.flags != FLAGS_FREE).map(|link| (header.flags == FLAGS_LIVE, link.anchor))
            })?;
            reader.release();
            if let Some((lives, anchor)) = link {
                living.extend(lives.then_some(candidate));
                guardian = guardian.or(anchor.then_some(candidate));
            }
        }
        Ok((living, guardian))
    }

    /// Gives nodes that relied on the edges of `gone` others to rely on: `guardian`, the node on which it relied itself
    /// or the entry point that took its place, and one another. If that one is not known or has no edge left, the
    /// nearest living node that is not itself found through them. So anchors go on leading from the entry points
    /// to every node.
    fn anchor_anew(&mut self, wards: &[NodeId], guardian: Option<NodeId>, gone: NodeId) -> Result<(), Error> {
        if self.meta.row_ids == RowIds::Tids && self.meta.rows == 0 {
            // Nobody is left to be found.
            return Ok(());
        }
        let is_found =
            |ward: &NodeId| Some(*ward) == guardian || self.entries.iter().any(|entry| entry.node == *ward);
        let wards: Vec<NodeId> = wards.iter().copied().filter(|ward| !is_found(ward)).collect();
        let mut guardians: Vec<NodeId> = guardian.into_iter().collect();
        for (at, ward) in wards.iter().enumerate() {
            let Self { meta, model, pages, .. } = self;
            let target =
                with_node(meta, &pages.reader(), *ward, |node, _| encode::target(meta, model, *ward, node))?;
            let Some(target) = target else { continue };
            if !self.anchor(&guardians, &target)? && !self.anchor_below(guardian, &target, &wards[at..], gone)? {
                self.anchor_to_any(&wards[at..], &target, gone)?;
            }
            guardians.push(*ward);
        }
        Ok(())
    }

    /// Anchors `target`, the first of `wards`, below `guardian`, which leads to them through `gone` only.
    fn anchor_below(
        &mut self,
        guardian: Option<NodeId>,
        target: &Target,
        wards: &[NodeId],
        gone: NodeId,
    ) -> Result<bool, Error> {
        let avoid: Vec<NodeId> = wards.iter().copied().chain([gone]).collect();
        match guardian {
            Some(guardian) => self.anchor_down(guardian, target, &avoid),
            None => Ok(false),
        }
    }

    /// Anchors `target`, the first of `wards`, to a node that is not found through `gone` or `wards`: the nearest of
    /// the living that the walk met, or else the first with an edge left that anchors lead to from the entry points.
    pub(super) fn anchor_to_any(&mut self, wards: &[NodeId], target: &Target, gone: NodeId) -> Result<(), Error> {
        let mut known: HashSet<NodeId> = wards.iter().copied().chain([gone]).collect();
        let mut below: VecDeque<NodeId> = wards.iter().copied().collect();
        while let Some(node) = below.pop_front()
            && known.len() < BELOW_MAX
        {
            below.extend(self.wards_of(node)?.into_iter().filter(|ward| known.insert(*ward)));
        }
        if known.len() < BELOW_MAX {
            let met = self.explorer.near.nearest().map(|near| near.0).filter(|id| !known.contains(id));
            let met: Vec<NodeId> = met.take(GUARDIANS).collect();
            if self.anchor(&met, target)? {
                return Ok(());
            }
        }
        // Down from the entry points, but not past the wards: some way, then every way.
        for at in 0..self.entries.len().min(GUARDIANS) {
            let entry = self.entries[at].node;
            if entry != gone && !wards.contains(&entry) && self.anchor_below(Some(entry), target, wards, gone)? {
                return Ok(());
            }
        }
        let mut known: HashSet<NodeId> = wards.iter().copied().chain([gone]).collect();
        let entries: Vec<NodeId> = self.entries.iter().map(|entry| entry.node).collect();
        let mut others: VecDeque<NodeId> = entries.into_iter().filter(|entry| known.insert(*entry)).collect();
        while let Some(node) = others.pop_front() {
            let wards = self.wards_of(node)?;
            if self.relies_on_anchors(node)? {
                self.forget_spent(node, &wards)?;
                if self.anchor(&[node], target)? {
                    return Ok(());
                }
            }
            others.extend(wards.into_iter().filter(|ward| known.insert(*ward)));
        }
        Ok(())
    }

    /// Makes anchors of `node` that lead to none of `wards`, its only ones, edges like others.
    pub(super) fn forget_spent(&mut self, node: NodeId, wards: &[NodeId]) -> Result<(), Error> {
        let layout = self.meta.layout;
        let spent = |found: &NodeRef<'_>| -> Vec<usize> {
            let links = found.links().enumerate();
            links.filter(|(_, link)| link.anchor && !wards.contains(&link.node)).map(|(at, _)| at).collect()
        };
        if with_node(&self.meta, &self.pages.reader(), node, |found, _| spent(found).is_empty())? {
            return Ok(());
        }
        let (page, slot) = layout.place(node);
        self.pages.step(&[page], &mut |bodies| {
            let mut node = NodeMut::new(&layout, bodies[0], slot);
            spent(&node.as_ref()).into_iter().for_each(|at| node.clear_anchor(at));
            Ok(())
        })
    }

    /// Whether a slot holds a node that is to be found: one that lives, or is dead and not unlinked.
    pub(super) fn relies_on_anchors(&self, node: NodeId) -> Result<bool, Error> {
        with_node(&self.meta, &self.pages.reader(), node, |_, header| {
            matches!(header.flags, FLAGS_LIVE | FLAGS_DEAD)
        })
    }

    /// The nodes, living or not yet unlinked, to which anchors of `node` lead.
    pub(super) fn wards_of(&self, node: NodeId) -> Result<Vec<NodeId>, Error> {
        let reader = self.pages.reader();
        let anchors: Vec<Link> = with_node(&self.meta, &reader, node, |found, header| {
            found.links().filter(|link| link.anchor && header.flags != FLAGS_FREE).collect()
        })?;
        let mut wards = Vec::with_capacity(anchors.len());
        for link in anchors {
            let relies = with_node(&self.meta, &reader, link.node, |_, header| {
                header.generation == link.generation && matches!(header.flags, FLAGS_LIVE | FLAGS_DEAD)
            })?;
            wards.extend(relies.then_some(link.node));
        }
        Ok(wards)
    }

    /// Puts a living node in the place of a dead one where searches begin: the nearest, or any. If no row is left,
    /// the slot may be taken all the same: an entry point that leads nowhere is passed over.
    fn replace_entries(&mut self, node: NodeId) -> Result<Option<NodeId>, Error> {
        if self.entries.iter().all(|entry| entry.node != node) {
            return Ok(None);
        }
        let heir = match self.explorer.near.nearest().next() {
            Some((heir, _)) => Some(heir),
            None => self.any_entry()?.map_or_else(|| self.any_row(), |entry| Ok(Some(entry)))?,
        };
        let Some(heir) = heir else { return Ok(None) };
        for index in 0..self.entries.len() {
            if self.entries[index].node == node {
                let (header, point) = self.point_of(heir)?;
                self.set_entry(index, heir, &point, header.norm_sq)?;
            }
        }
        Ok(Some(heir))
    }

    /// An entry point that lives, if one does.
    fn any_entry(&self) -> Result<Option<NodeId>, Error> {
        for entry in &self.entries {
            if with_node(&self.meta, &self.pages.reader(), entry.node, |_, header| header.flags == FLAGS_LIVE)? {
                return Ok(Some(entry.node));
            }
        }
        Ok(None)
    }

    /// The node of some row, if there is one.
    fn any_row(&self) -> Result<Option<NodeId>, Error> {
        match self.meta.row_ids {
            RowIds::Mapped => {
                let (pages, root) = (self.pages.page_count(), PageId(self.meta.change.id_root));
                ids::any(&mut self.pages.reader(), pages, root)
            }
            RowIds::Tids => self.any_tid(),
        }
    }

    /// Makes an empty page of the list of the dead a page of nodes, unless it is the only one.
    fn drop_if_empty(&mut self, page: PageId, next: u32) -> Result<(), Error> {
        let layout = self.meta.layout;
        let is_head = self.meta.change.dead_head == page.0;
        let empty = dead::header(page, &self.pages.reader().finish(page)?)?.0 == 0;
        if !empty || !is_head || next == 0 {
            return Ok(());
        }
        self.step_meta(&[page], &mut |meta, bodies| {
            let body = &mut *bodies[0];
            body.fill(0);
            body[0] = PageKind::Node as u8;
            meta.change.list_free(page, body, layout.nodes_per_page);
            meta.change.dead_head = next;
            Ok(())
        })
    }

    /// [`Change::reconsider`], when the edge to `gone` is to be replaced by one of `heirs`: those nearest to the
    /// dead node come first, and a dozen are enough to choose from.
    fn reconsider_without(&mut self, node: NodeId, gone: NodeId, heirs: &[NodeId]) -> Result<Edges, Error> {
        let extras: Vec<NodeId> = heirs.iter().copied().filter(|heir| *heir != node).take(HEIRS).collect();
        self.reconsider(node, Extras::Some(&extras), None, Gone::One(gone))
    }
}
