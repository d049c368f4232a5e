//! Takes dead nodes out of the graph, at a cost in proportion to how many there are.
//!
//! A dead node's in-neighbors are near it, so a walk to it finds nearly all of them. Each chooses its edges anew,
//! among those it has and edges to the dead node's neighbors: the in-place repair of IP-DiskANN (Xu et al.
//! 2025). Edges that the walk missed stay behind. Their generation tells them from edges to the slot's next row;
//! they cost a search a hop now and then, and go when their node next chooses.

use super::change::Change;
use super::link::Extras;
use super::near::with_node;
use super::{OnProgress, Progress, dead, encode};
use crate::Error;
use crate::page::layout::{FLAGS_DEAD, FLAGS_LIVE, FreeLink, Link, NodeHeader, NodeId, NodeMut, PageKind};
use crate::page::{PageId, PagesMut, Reader};

/// Candidates expanded on the way to a dead node's in-neighbors.
const REPAIR_LIST: usize = 64;
/// Neighbors of the dead node, nearest first, that are offered to each of its in-neighbors.
const HEIRS: usize = 12;

/// Nearest nodes that are asked to give an edge that stays.
const GUARDIANS: usize = 8;

/// What vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// Dead nodes taken out; their slots are free.
    pub freed: u64,
    /// Dead nodes left because some reader may still see their rows.
    pub waiting: u64,
    /// Nodes that chose their edges anew.
    pub repaired: u64,
}

impl VacuumReport {
    /// Adds up the parts of one vacuum; what waits is what waited last.
    pub fn add(&mut self, part: &Self) {
        self.freed += part.freed;
        self.waiting = part.waiting;
        self.repaired += part.repaired;
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Takes out up to `most` dead nodes that no reader can see any more. Fewer are freed only if no more can be:
    /// call it in transactions of a few hundred until then.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` says so; [`Error::Corrupt`]; whatever the host reports.
    pub fn vacuum(&mut self, most: u64, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
        let oldest = self.pages.oldest_snapshot();
        let mut report = VacuumReport::default();
        let mut page = PageId(self.meta.change.dead_head);
        let total = self.meta.change.dead_rows.min(most);
        let mut seen = 0;
        while page.0 != 0 {
            seen += 1;
            if seen > self.pages.page_count() {
                return Err(Error::corrupt(page, "the list of the dead goes in circles"));
            }
            let (mut at, next) = dead::header(page, &self.pages.reader().finish(page)?)?;
            while at > 0 {
                at -= 1;
                if report.freed == most {
                    return Ok(report);
                }
                if progress(Progress { phase: "vacuum", done: report.freed, total }).is_break() {
                    return Err(Error::Interrupted);
                }
                let node = dead::entry(&self.pages.reader().finish(page)?, at);
                let header = with_node(&self.meta, &mut self.pages.reader(), node, |_, header| *header)?;
                if header.deleted > oldest {
                    report.waiting += 1;
                    continue;
                }
                self.free(node, &header, page, at, &mut report)?;
            }
            self.drop_if_empty(page, next)?;
            page = PageId(next);
        }
        Ok(report)
    }

    fn free(
        &mut self,
        node: NodeId,
        header: &NodeHeader,
        dead_page: PageId,
        at: usize,
        report: &mut VacuumReport,
    ) -> Result<(), Error> {
        let layout = self.meta.layout;
        let (page, slot) = layout.place(node);
        if header.flags != FLAGS_DEAD {
            let what = format!("slot {slot} is in the list of the dead and has flags {:#x}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        let (_, point) = self.point_of(node)?;
        let Self { meta, model, entries, explorer, pages, .. } = self;
        explorer.walk(meta, model, entries, &mut pages.reader(), &point, REPAIR_LIST)?;
        let (heirs, wards) = self.heirs(node)?;
        for neighbor in self.in_neighbors(node, header.generation, &heirs)? {
            self.reconsider_without(neighbor, node, &heirs)?;
            report.repaired += 1;
        }
        self.replace_entries(node)?;
        for ward in wards {
            self.anchor_anew(ward, node)?;
        }
        self.step_meta(&[page, dead_page], &mut |meta, bodies| {
            let [node_body, dead_body] = bodies else { unreachable!("two pages were asked for") };
            dead::remove(dead_page, dead_body, at, node)?;
            NodeMut::new(&layout, node_body, slot).free();
            if !FreeLink::read(node_body).listed {
                FreeLink { listed: true, next: meta.change.free_head }.write(node_body);
                meta.change.free_head = page.0;
            }
            meta.change.add_free_slots(1);
            meta.change.take_dead_row()?;
            Ok(())
        })?;
        report.freed += 1;
        Ok(())
    }

    /// Living neighbors of a dead node, those that the walk to it met first, nearest first; and those of them that
    /// rely on its edge to be found.
    fn heirs(&mut self, node: NodeId) -> Result<(Vec<NodeId>, Vec<NodeId>), Error> {
        let meta = &self.meta;
        let mut reader = self.pages.reader();
        let links: Vec<Link> = with_node(meta, &mut reader, node, |found, _| found.links().collect())?;
        let (mut heirs, mut wards) = (Vec::with_capacity(links.len()), Vec::new());
        for link in links {
            let lives = with_node(meta, &mut reader, link.node, |_, header| {
                header.flags == FLAGS_LIVE && header.generation == link.generation
            })?;
            reader.release();
            heirs.extend(lives.then_some(link.node));
            wards.extend((lives && link.anchor).then_some(link.node));
        }
        let rank = |id: &NodeId| self.explorer.near.nearest().position(|near| near.0 == *id).unwrap_or(usize::MAX);
        heirs.sort_by_cached_key(rank);
        Ok((heirs, wards))
    }

    /// Living nodes with an edge to `node`, of those that the walk met and those that it leads to.
    fn in_neighbors(&mut self, node: NodeId, generation: u8, heirs: &[NodeId]) -> Result<Vec<NodeId>, Error> {
        let met = self.explorer.near.nodes.iter().map(|near| near.0);
        let mut candidates: Vec<NodeId> = met.chain(heirs.iter().copied()).filter(|id| *id != node).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let meta = &self.meta;
        let mut reader = self.pages.reader();
        let mut found = Vec::new();
        for candidate in candidates {
            let points = with_node(meta, &mut reader, candidate, |other, header| {
                let mut links = other.links();
                header.flags == FLAGS_LIVE && links.any(|l| l.node == node && l.generation == generation)
            })?;
            reader.release();
            found.extend(points.then_some(candidate));
        }
        Ok(found)
    }

    /// Gives a node that relied on a dead one's edge another to rely on: of the nodes met the nearest to it that
    /// may take it.
    fn anchor_anew(&mut self, ward: NodeId, gone: NodeId) -> Result<(), Error> {
        let Self { meta, model, explorer, pages, .. } = self;
        let near = &mut explorer.near;
        let target = with_node(meta, &mut pages.reader(), ward, |node, header| {
            let at = near.nodes.iter().position(|(id, _)| *id == ward);
            let at = at.unwrap_or_else(|| near.push(ward, *header, node.hi()));
            near.measure_from(at, Some(gone));
            encode::target(meta, model, ward, node)
        })?;
        let Some(target) = target else { return Ok(()) };
        let living = near.nearest().filter(|(_, header)| header.flags == FLAGS_LIVE);
        let guardians: Vec<NodeId> = living.take(GUARDIANS).map(|near| near.0).collect();
        self.anchor(&guardians, &target)
    }

    /// Puts living nodes in the place of a dead one where searches begin. If none is near, the slot may be
    /// taken all the same: an entry point that leads nowhere is passed over.
    fn replace_entries(&mut self, node: NodeId) -> Result<(), Error> {
        let Some((heir, _)) = self.explorer.near.nearest().next() else { return Ok(()) };
        for index in 0..self.entries.len() {
            if self.entries[index].node == node {
                let (header, point) = self.point_of(heir)?;
                self.set_entry(index, heir, &point, header.norm_sq)?;
            }
        }
        Ok(())
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
            FreeLink { listed: true, next: meta.change.free_head }.write(body);
            meta.change.free_head = page.0;
            meta.change.add_free_slots(layout.nodes_per_page);
            meta.change.dead_head = next;
            Ok(())
        })
    }

    /// [`Change::reconsider`], when the edge to `gone` is to be replaced by one of `heirs`: those nearest to the
    /// dead node come first, and a dozen are enough to choose from.
    fn reconsider_without(&mut self, node: NodeId, gone: NodeId, heirs: &[NodeId]) -> Result<(), Error> {
        let extras: Vec<NodeId> = heirs.iter().copied().filter(|heir| *heir != node).take(HEIRS).collect();
        self.reconsider(node, Extras::Some(&extras), None, Some(gone))
    }
}
