//! Vacuum: removes dead nodes from the graph and frees their slots, at a cost in proportion to
//! their number.
//!
//! A dead node first leaves the edges that lead to it (`unlink.rs`), once no reader sees its row.
//! Its slot becomes free in a later transaction, once no reader can be at it.

use super::Change;
use crate::page::dead_list::Dead;
use crate::page::node::FLAGS_DEAD;
use crate::page::stack::Head;
use crate::page::{PageId, PagesMut};
use crate::{Error, OnProgress, Progress, VacuumReport};

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
            let Head { count, next, .. } = self.graph.steps().dead_head(page)?;
            for at in (0..count).rev() {
                if report.steps() == most {
                    return Ok(report);
                }
                if progress(Progress { phase: "vacuum", done: report.freed, total }).is_break() {
                    return Err(Error::Interrupted);
                }
                let dead = self.graph.steps().dead_entry(page, at)?;
                self.take_out(dead, oldest, page, at, &mut report)?;
            }
            self.graph.steps_mut().drop_dead_page(page)?;
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
        // Where the host decides which rows are visible, a reader takes the row that is there now,
        // with its own distance and id. Nothing has to wait for such a reader.
        let waits = |commit: u64, is_hosted: bool| commit > oldest && !is_hosted;
        let is_hosted = self.graph.steps().is_hosted();
        if dead.unlinked > 0 {
            if waits(dead.unlinked, is_hosted) {
                report.waiting += 1;
                return Ok(());
            }
            report.freed += 1;
            return self.graph.steps_mut().free_dead(node, dead_page, at);
        }
        let header = self.graph.look(node, |_, header| *header)?;
        if header.flags != FLAGS_DEAD {
            let (page, slot) = self.graph.meta().layout.place(node);
            let what = format!("slot {slot} is in the list of dead nodes and has flags {:#x}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        if waits(header.deleted, is_hosted) {
            report.waiting += 1;
            return Ok(());
        }
        report.unlinked += 1;
        report.repaired += self.graph.unlink(node, header.generation)?;
        self.graph.unpost(node)?;
        self.graph.steps_mut().mark_unlinked(node, dead_page, at)
    }
}
