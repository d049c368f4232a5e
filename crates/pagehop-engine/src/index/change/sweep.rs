//! Frees the pages of graphs that are no longer used: replaced by training, or never finished.

use super::steps::Steps;
use crate::Error;
use crate::page::kind::{self, PageKind, kind};
use crate::page::node::NodeMut;
use crate::page::{PageId, PagesMut, Reader};

/// Pages of a retired graph that one transaction frees.
const SWEPT_PAGES: usize = 1024;

impl<W: PagesMut> Steps<'_, W> {
    /// Whether there are pages to be freed.
    pub(super) fn wants_sweep(&self) -> bool {
        self.meta().change.unfinished != 0 || self.may_sweep_retired()
    }

    /// Whether there is a retired graph that no reader can use.
    fn may_sweep_retired(&self) -> bool {
        let change = &self.meta().change;
        change.retired_end != 0 && change.retired_at <= self.oldest_snapshot()
    }

    /// Frees pages of a retired graph, once no reader can use it: at most [`SWEPT_PAGES`] in each
    /// transaction, from the last to the first. The meta page has the progress.
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

    /// Frees the pages of a graph whose build did not finish. No reader has used them.
    pub(super) fn sweep_unfinished(&mut self) -> Result<(), Error> {
        let slots = self.layout().nodes_per_page;
        while self.meta().change.unfinished != 0 {
            let page = PageId(self.meta().change.unfinished);
            if page.0 >= self.page_count() {
                return self.step_meta(&[], &mut |meta, _| {
                    meta.change.unfinished = 0;
                    Ok(())
                });
            }
            self.step_meta(&[page], &mut |meta, bodies| {
                kind::clear(bodies[0], PageKind::Node);
                meta.change.list_free(page, bodies[0], slots);
                meta.change.unfinished = page.0 + 1;
                Ok(())
            })?;
        }
        Ok(())
    }
}
