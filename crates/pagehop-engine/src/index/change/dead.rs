//! Dead nodes, from the list of dead nodes to free slots.

use super::steps::{Seen, Steps};
use crate::Error;
use crate::ids::NodeId;
use crate::page::dead_list::{self, Dead};
use crate::page::kind::{self, PageKind, expect_kind};
use crate::page::layout::FreeLink;
use crate::page::node::NodeMut;
use crate::page::stack::Head;
use crate::page::{PageId, PagesMut, Reader};

impl<W: PagesMut> Steps<'_, W> {
    /// The first page of the list of dead nodes, with room for another.
    pub(super) fn dead_page(&mut self) -> Result<PageId, Error> {
        let first = PageId(self.meta().change.dead_head);
        if first.0 != 0 && self.dead_head(first)?.has_room() {
            return Ok(first);
        }
        let page = self.allocate(1)?;
        self.step_meta(&[page], &mut |meta, bodies| {
            dead_list::init(bodies[0], meta.change.dead_head);
            meta.change.dead_head = page.0;
            Ok(())
        })?;
        Ok(page)
    }

    /// What is in front of the entries of a page of the list.
    pub(super) fn dead_head(&self, page: PageId) -> Result<Head, Error> {
        dead_list::head(page, &self.reader().finish(page)?)
    }

    /// Entry `at` of a page of the list.
    pub(super) fn dead_entry(&self, page: PageId, at: usize) -> Result<Dead, Error> {
        Ok(dead_list::entry(&self.reader().finish(page)?, at))
    }

    /// Marks the node of entry `at` as one that no edge leads to any more, if its edges are as they
    /// were `seen`; `false` if they are not.
    pub(super) fn mark_unlinked(
        &mut self,
        node: NodeId,
        seen: &Seen,
        (dead_page, at): (PageId, usize),
    ) -> Result<bool, Error> {
        // A host without commits numbers them 0, which means "not unlinked".
        let commit = self.commit_number().max(1);
        let layout = self.layout();
        let (page, slot) = layout.place(node);
        let mut is_marked = false;
        self.step(&[dead_page, page], &mut |bodies| {
            let mut found = NodeMut::new(&layout, bodies[1], slot);
            is_marked = seen.is_still(&found.as_ref());
            if is_marked {
                found.unlink();
                dead_list::set_unlinked(dead_page, bodies[0], at, node, commit)?;
            }
            Ok(())
        })?;
        Ok(is_marked)
    }

    /// Frees the slot of a dead node and takes its entry off the list.
    pub(super) fn free_dead(&mut self, node: NodeId, dead_page: PageId, at: usize) -> Result<(), Error> {
        let layout = self.layout();
        let (page, slot) = layout.place(node);
        if let Some(place) = self.payload_of(node)? {
            self.free_payload(place)?;
        }
        self.step_meta(&[page, dead_page], &mut |meta, bodies| {
            let [node_body, dead_body] = bodies else { unreachable!("the step has two pages") };
            expect_kind(page, node_body, PageKind::Node)?;
            dead_list::remove(dead_page, dead_body, at, node)?;
            NodeMut::new(&layout, node_body, slot).free();
            match FreeLink::read(node_body).listed {
                true => meta.change.add_free_slots(1),
                false => meta.change.list_free(page, node_body, 1),
            }
            meta.change.take_dead_row()
        })
    }

    /// Makes the first page of the list a page of free slots if it is empty, unless it is the only
    /// page.
    pub(super) fn drop_dead_page(&mut self, page: PageId) -> Result<(), Error> {
        let slots = self.layout().nodes_per_page;
        let Head { count, next, .. } = self.dead_head(page)?;
        if count > 0 || next == 0 || self.meta().change.dead_head != page.0 {
            return Ok(());
        }
        let kept_at = self.new_places()?;
        self.step_meta(&[page], &mut |meta, bodies| {
            kind::clear(bodies[0], PageKind::Node);
            kept_at.into_iter().for_each(|place| place.write(bodies[0]));
            meta.change.list_free(page, bodies[0], slots);
            meta.change.dead_head = next;
            Ok(())
        })
    }
}
