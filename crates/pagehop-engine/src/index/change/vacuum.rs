//! Vacuum: removes dead nodes from the graph and frees their slots, at a cost in proportion to
//! their number.
//!
//! A dead node first leaves the edges that lead to it (`unlink.rs`), once no reader sees its row.
//! Its slot becomes free in a later transaction, once no reader can be at it. If a host has several
//! writers, edges are changed beside them, which is nearly all of the work.

use super::Change;
use crate::index::change::graph::in_edges::InEdges;
use crate::index::change::graph::unlink;
use crate::index::change::pages::dead;
use crate::page::dead_list::Dead;
use crate::page::node::FLAGS_DEAD;
use crate::page::stack::StackHead;
use crate::page::{PageId, PagesMut};
use crate::{Error, OnProgress, Progress, VacuumReport};

/// The part of the work on dead nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VacuumPart {
    /// Dead nodes leave the graph, if that is possible beside other writers.
    Unlink,
    /// Slots of unlinked nodes become free.
    Free,
    /// Both parts.
    All,
}

impl<W: PagesMut> Change<'_, W> {
    /// Takes up to `most` steps toward an index without dead nodes. A step takes a node whose row
    /// no reader sees out of the edges that lead to it, or frees the slot of a node that no reader
    /// can be at. The second comes in a later transaction than the first. A call that does neither
    /// leaves nothing to do.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` says so; [`Error::Corrupt`]; any error of the host.
    pub fn vacuum(&mut self, most: u64, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
        self.vacuum_part(VacuumPart::All, most, progress)
    }

    /// Tells this change of edges that lead to dead nodes
    /// ([`Index::in_edges_of_dead`](crate::Index::in_edges_of_dead)), so that vacuum takes nodes
    /// out of these, too. Without them it finds the edges near each node.
    pub fn use_in_edges(&mut self, known: &InEdges) {
        self.in_edges = known.clone();
    }

    /// Takes up to `most` nodes whose rows no reader sees out of the edges that lead to them, while
    /// other writers insert rows ([`PagesMut::is_shared`]). There is one vacuum at a time. Entry
    /// points are left to [`Change::vacuum`], and all nodes if most are dead
    /// ([`Change::has_most_dead`]): then this reads nothing.
    ///
    /// # Errors
    ///
    /// As [`Change::vacuum`].
    pub fn unlink_dead(&mut self, most: u64, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
        if self.has_most_dead() {
            return Ok(VacuumReport::default());
        }
        self.vacuum_part(VacuumPart::Unlink, most, progress)
    }

    /// Whether most nodes are dead, so that none can leave the graph beside other writers.
    pub fn has_most_dead(&self) -> bool {
        unlink::are_most_dead(self.graph.meta())
    }

    /// Frees up to `most` slots of nodes that an earlier transaction took out of the graph.
    ///
    /// # Errors
    ///
    /// As [`Change::vacuum`].
    pub fn free_unlinked(&mut self, most: u64, progress: OnProgress<'_>) -> Result<VacuumReport, Error> {
        self.vacuum_part(VacuumPart::Free, most, progress)
    }

    fn vacuum_part(
        &mut self,
        part: VacuumPart,
        most: u64,
        progress: OnProgress<'_>,
    ) -> Result<VacuumReport, Error> {
        let mut report = VacuumReport::default();
        let steps = self.graph.steps();
        let mut page = PageId(steps.meta().change.dead_head);
        let (oldest, total) = (steps.oldest_snapshot(), steps.meta().change.dead_rows);
        let mut pages_seen = 0;
        while page.0 != 0 {
            pages_seen += 1;
            if pages_seen > self.graph.steps().page_count() {
                return Err(Error::corrupt(page, "the list of dead nodes goes in circles"));
            }
            let StackHead { count, next, .. } = dead::head(self.graph.steps(), page)?;
            for at in (0..count).rev() {
                if report.steps() == most {
                    return Ok(report);
                }
                if progress(Progress { phase: "vacuum", done: report.freed, total }).is_break() {
                    return Err(Error::Interrupted);
                }
                let dead = dead::entry(self.graph.steps(), page, at)?;
                match dead.unlinked {
                    0 if part != VacuumPart::Free => self.unlink(part, dead, oldest, (page, at), &mut report)?,
                    1.. if part != VacuumPart::Unlink => self.free(dead, oldest, (page, at), &mut report)?,
                    _ => {}
                }
            }
            if part != VacuumPart::Unlink {
                dead::drop_empty_page(self.graph.steps_mut(), page)?;
            }
            page = PageId(next);
        }
        Ok(report)
    }

    /// Frees the slot of an unlinked node.
    fn free(
        &mut self,
        dead: Dead,
        oldest: u64,
        (page, at): (PageId, usize),
        report: &mut VacuumReport,
    ) -> Result<(), Error> {
        if self.waits(dead.unlinked, oldest) {
            report.waiting += 1;
            return Ok(());
        }
        report.freed += 1;
        dead::free(self.graph.steps_mut(), dead.node, page, at)
    }

    /// Takes a dead node out of the graph.
    fn unlink(
        &mut self,
        part: VacuumPart,
        dead: Dead,
        oldest: u64,
        place: (PageId, usize),
        report: &mut VacuumReport,
    ) -> Result<(), Error> {
        let node = dead.node;
        let header = self.graph.look(node, |_, header| *header)?;
        if header.flags != FLAGS_DEAD {
            let (page, slot) = self.graph.meta().layout.place(node);
            let what = format!("slot {slot} is in the list of dead nodes and has flags {:#x}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        if self.waits(header.deleted, oldest)
            || part == VacuumPart::Unlink && !unlink::can_unlink_beside_others(&self.graph, node)
        {
            report.waiting += 1;
            return Ok(());
        }
        match unlink::unlink(&mut self.graph, &self.in_edges, node, place)? {
            Some(repaired) => {
                report.unlinked += 1;
                report.repaired += repaired;
            }
            None => report.waiting += 1,
        }
        Ok(())
    }

    /// Whether a reader may still need what `commit` removed. If the host decides which rows are
    /// visible, a reader takes the row that is now in the slot, with its own distance and id.
    /// Nothing needs to wait for such a reader.
    fn waits(&self, commit: u64, oldest: u64) -> bool {
        commit > oldest && !self.graph.steps().is_hosted()
    }
}
