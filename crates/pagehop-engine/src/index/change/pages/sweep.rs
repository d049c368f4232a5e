//! Frees the pages of graphs that are no longer used: replaced by training, or given up.

use super::keep;
use super::record_pages;
use super::steps::Steps;
use crate::Error;
use crate::page::kind::{self, PageKind, kind};
use crate::page::meta::Making;
use crate::page::node::NodeMut;
use crate::page::{PageId, PagesMut, Reader};

/// Pages of a retired graph that one transaction of a file frees.
const SWEPT_PAGES: usize = 1024;
/// Pages of the current graph that are examined for each page that is freed.
const PASSED_PER_FREED: u32 = 8;

/// Whether there is a retired graph that no reader can use.
fn may_sweep_retired<W: PagesMut>(steps: &Steps<'_, W>) -> bool {
    let change = &steps.meta().change;
    change.retired_end != 0 && change.retired_at <= steps.oldest_snapshot()
}

/// Frees pages of a retired graph of a file, once no reader can use it: at most
/// [`SWEPT_PAGES`] in each transaction, from the last to the first. The meta page has the
/// progress.
pub(in crate::index::change) fn sweep_retired<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<(), Error> {
    if !may_sweep_retired(steps) {
        return Ok(());
    }
    let (layout, retired_at) = (steps.layout(), steps.meta().change.retired_at);
    steps.pages_mut().reuse(retired_at)?;
    for _ in 0..SWEPT_PAGES {
        if steps.meta().change.retired_end == 0 {
            break;
        }
        let page = PageId(steps.meta().change.retired_end - 1);
        if page.0 == 0 {
            return steps.step_meta(&[], &mut |meta, _| {
                meta.change.retired_end = 0;
                Ok(())
            });
        }
        let found = kind(&steps.reader().finish(page)?);
        let keeps = steps.meta().kept().is_some();
        let stays = match found {
            // A page of nodes names places on this page, and is freed together with it.
            Some(PageKind::Vectors | PageKind::Empty) => keeps,
            Some(PageKind::Records | PageKind::RecordPart) => true,
            _ => false,
        };
        if stays {
            steps.step_meta(&[], &mut |meta, _| {
                meta.change.retired_end = page.0;
                Ok(())
            })?;
            continue;
        }
        if found == Some(PageKind::Node) {
            record_pages::free_of_dead(steps, page)?;
        }
        let kept_at = if found == Some(PageKind::Node) { None } else { keep::new_places(steps)? };
        steps.step_meta(&[page], &mut |meta, bodies| {
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
pub(in crate::index::change) fn sweep_beside<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    most: usize,
) -> Result<bool, Error> {
    if !may_sweep_retired(steps) {
        return Ok(false);
    }
    let (end, retired_at) = (steps.meta().change.retired_end, steps.meta().change.retired_at);
    // After a crash the last pages may be missing: see `State::node_pages`.
    let end = end.min(steps.page_count());
    let (mut at, mut freed) = (end, 0);
    // Examines at most [`PASSED_PER_FREED`] pages for each that it may free: examining costs less.
    let least = end.saturating_sub(most as u32 * PASSED_PER_FREED);
    while at > least.max(1) && freed < most {
        let page = PageId(at - 1);
        if is_unused(steps, page)? {
            if freed == 0 {
                steps.pages_mut().reuse(retired_at)?;
            }
            freed += 1;
            if !free_page(steps, page, at)? {
                return Ok(false);
            }
        }
        at -= 1;
    }
    let before = steps.meta().change.retired_end;
    if at == before && at > 1 {
        return Ok(true);
    }
    steps.step_meta(&[], &mut |meta, _| {
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
pub(in crate::index::change) fn free_if_lost<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    page: PageId,
) -> Result<(), Error> {
    let (change, slots) = (&steps.meta().change, steps.layout().nodes_per_page);
    let is_reserved = (change.reserved[0]..change.reserved[1]).contains(&page.0);
    if steps.is_shared() || is_reserved || change.making != Making::None {
        return Ok(());
    }
    let is_empty = kind(&steps.reader().finish(page)?) == Some(PageKind::Empty);
    if !is_empty || !steps.pages_mut().is_allocated(page)? {
        return Ok(());
    }
    steps.take_over(page, &mut |meta, bodies| {
        kind::clear(bodies[0], PageKind::Node);
        kind::set_graph(bodies[0], meta.change.numbers.current);
        meta.change.list_free(page, bodies[0], slots);
        Ok(())
    })
}

/// Gives up the new graph. This writer is alone.
pub(in crate::index::change) fn abandon_graph<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<(), Error> {
    let end = steps.page_count();
    steps.step_meta(&[], &mut |meta, _| {
        meta.change.abandon_graph(end);
        Ok(())
    })
}

/// Whether a page is to be freed.
fn is_unused<W: PagesMut>(steps: &Steps<'_, W>, page: PageId) -> Result<bool, Error> {
    let (reader, change) = (steps.reader(), &steps.meta().change);
    let body = reader.finish(page)?;
    Ok(match change.numbers.check(page, &body)? {
        PageKind::Empty => (change.reserved[0]..change.reserved[1]).contains(&page.0),
        _ => kind::graph(&body) != change.numbers.current,
    })
}

/// Makes a page one of free slots, which is the last before `at` that is to be freed. `false`
/// if another writer was faster.
fn free_page<W: PagesMut>(steps: &mut Steps<'_, W>, page: PageId, at: u32) -> Result<bool, Error> {
    let (before, slots) = (steps.meta().change.retired_end, steps.layout().nodes_per_page);
    let mut is_first = false;
    steps.take_over(page, &mut |meta, bodies| {
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
