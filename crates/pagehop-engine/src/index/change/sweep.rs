//! Frees the pages of graphs that are no longer used: replaced by training, or given up.

use super::steps::Steps;
use crate::Error;
use crate::page::kind::{self, PageKind, kind};
use crate::page::meta::Making;
use crate::page::node::NodeMut;
use crate::page::{PageId, PagesMut, Reader};

/// Pages of a retired graph that one transaction of a file frees.
const SWEPT_PAGES: usize = 1024;
/// Pages of the graph of the index that are looked at for each page that is freed.
const PASSED_PER_FREED: u32 = 8;

impl<W: PagesMut> Steps<'_, W> {
    /// Whether there is a retired graph that no reader can use.
    fn may_sweep_retired(&self) -> bool {
        let change = &self.meta().change;
        change.retired_end != 0 && change.retired_at <= self.oldest_snapshot()
    }

    /// Frees pages of a retired graph of a file, once no reader can use it: at most
    /// [`SWEPT_PAGES`] in each transaction, from the last to the first. The meta page has the
    /// progress.
    pub(super) fn sweep_retired(&mut self) -> Result<(), Error> {
        if !self.may_sweep_retired() {
            return Ok(());
        }
        let (layout, retired_at) = (self.layout(), self.meta().change.retired_at);
        self.pages_mut().reuse(retired_at)?;
        for _ in 0..SWEPT_PAGES {
            if self.meta().change.retired_end == 0 {
                break;
            }
            let page = PageId(self.meta().change.retired_end - 1);
            if page.0 == 0 {
                return self.step_meta(&[], &mut |meta, _| {
                    meta.change.retired_end = 0;
                    Ok(())
                });
            }
            let found = kind(&self.reader().finish(page)?);
            let keeps = self.meta().kept().is_some();
            let stays = match found {
                // A page of nodes has a place on it, and takes it along.
                Some(PageKind::Vectors | PageKind::Empty) => keeps,
                Some(PageKind::Payload | PageKind::PayloadPart) => true,
                _ => false,
            };
            if stays {
                self.step_meta(&[], &mut |meta, _| {
                    meta.change.retired_end = page.0;
                    Ok(())
                })?;
                continue;
            }
            if found == Some(PageKind::Node) {
                self.free_payloads_of_dead(page)?;
            }
            let kept_at = if found == Some(PageKind::Node) { None } else { self.new_places()? };
            self.step_meta(&[page], &mut |meta, bodies| {
                let body = &mut *bodies[0];
                if kind(body) == Some(PageKind::Node) {
                    (0..layout.nodes_per_page).for_each(|slot| NodeMut::new(&layout, body, slot).free());
                } else {
                    kind::clear(body, PageKind::Node);
                    kept_at.into_iter().for_each(|place| place.write(body));
                }
                meta.change.list_free(page, body, layout.nodes_per_page);
                meta.change.retired_end = page.0;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Frees up to `most` pages below the end of retired graphs that are of another graph than that
    /// of the index, or were reserved and never written, once no reader can use them; other writers
    /// may insert rows at the same time. Returns whether there may be more.
    ///
    /// All graphs that were replaced or given up have their pages there, and no graph that is being
    /// made has: the end was noted while no other writer was at the index.
    pub(super) fn sweep_beside(&mut self, most: usize) -> Result<bool, Error> {
        if !self.may_sweep_retired() {
            return Ok(false);
        }
        let (end, retired_at) = (self.meta().change.retired_end, self.meta().change.retired_at);
        // After a crash the last pages may be missing: see `State::node_pages`.
        let end = end.min(self.page_count());
        let (mut at, mut freed) = (end, 0);
        // Pages of the graph are passed by for less than others are freed.
        let least = end.saturating_sub(most as u32 * PASSED_PER_FREED);
        while at > least.max(1) && freed < most {
            let page = PageId(at - 1);
            if self.is_unused(page)? {
                if freed == 0 {
                    self.pages_mut().reuse(retired_at)?;
                }
                freed += 1;
                if !self.free_page(page, at)? {
                    return Ok(false);
                }
            }
            at -= 1;
        }
        let before = self.meta().change.retired_end;
        if at == before && at > 1 {
            return Ok(true);
        }
        self.step_meta(&[], &mut |meta, _| {
            if meta.change.retired_end == before {
                meta.change.retired_end = at;
                if at <= 1 {
                    meta.change.end_sweep();
                }
            }
            Ok(())
        })?;
        Ok(at > 1)
    }

    /// Makes a page that was allocated and never written one of free slots: a writer failed, or a
    /// crash came, before a step used it. This writer is alone, so no other is about to use it.
    pub(super) fn free_if_lost(&mut self, page: PageId) -> Result<(), Error> {
        let (change, slots) = (&self.meta().change, self.layout().nodes_per_page);
        let is_reserved = (change.reserved[0]..change.reserved[1]).contains(&page.0);
        if self.is_shared() || is_reserved || change.making != Making::None {
            return Ok(());
        }
        let is_empty = kind(&self.reader().finish(page)?) == Some(PageKind::Empty);
        if !is_empty || !self.pages_mut().is_allocated(page)? {
            return Ok(());
        }
        self.take_over(page, &mut |meta, bodies| {
            kind::clear(bodies[0], PageKind::Node);
            kind::set_graph(bodies[0], meta.change.numbers.current);
            meta.change.list_free(page, bodies[0], slots);
            Ok(())
        })
    }

    /// Gives up the graph that is being made. This writer is alone.
    pub(super) fn abandon_graph(&mut self) -> Result<(), Error> {
        let end = self.page_count();
        self.step_meta(&[], &mut |meta, _| {
            meta.change.abandon_graph(end);
            Ok(())
        })
    }

    /// Whether a page is to be freed.
    fn is_unused(&self, page: PageId) -> Result<bool, Error> {
        let (reader, change) = (self.reader(), &self.meta().change);
        let body = reader.finish(page)?;
        Ok(match change.numbers.check(page, &body)? {
            PageKind::Empty => (change.reserved[0]..change.reserved[1]).contains(&page.0),
            _ => kind::graph(&body) != change.numbers.current,
        })
    }

    /// Makes a page one of free slots, which is the last before `at` that is to be freed. `false`
    /// if another writer was faster.
    fn free_page(&mut self, page: PageId, at: u32) -> Result<bool, Error> {
        let (before, slots) = (self.meta().change.retired_end, self.layout().nodes_per_page);
        let mut is_first = false;
        self.take_over(page, &mut |meta, bodies| {
            is_first = meta.change.retired_end == before;
            if is_first {
                kind::clear(bodies[0], PageKind::Node);
                kind::set_graph(bodies[0], meta.change.numbers.current);
                meta.change.list_free(page, bodies[0], slots);
                meta.change.retired_end = at - 1;
            }
            Ok(())
        })?;
        Ok(is_first)
    }
}
