//! Kept vectors of nodes that are written.
//!
//! A vector comes before its node: its place belongs to a free slot, where it means nothing. So a
//! node that exists always has its vector.

use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::page::kept_vectors::{KeptShape, Place};
use crate::page::kind::{self, PageKind};
use crate::page::node::free_slot;
use crate::page::{PageId, PagesMut, Reader};

/// Writes the vector of the node that comes next to the first free slot of `page`. Returns the
/// place that a new page must name.
pub(super) fn keep_vector<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    page: PageId,
    is_new: bool,
    bytes: &[u8],
) -> Result<Option<Place>, Error> {
    let Some(shape) = steps.meta().kept() else { return Ok(None) };
    let new = if is_new { new_places(steps)? } else { None };
    let place = match new {
        Some(place) => place,
        None => place_of_free(steps, &shape, page)?,
    };
    let parts: Vec<_> = shape.parts(place).collect();
    let pages: Vec<PageId> = parts.iter().map(|part| part.0).collect();
    if let Some(page) = pages.iter().find(|page| page.0 == 0 || page.0 >= steps.page_count()) {
        return Err(Error::corrupt(*page, "the place of a vector leads to it"));
    }
    steps.step(&pages, &mut |bodies| {
        for ((page, at, within), body) in parts.iter().zip(bodies) {
            KeptShape::write(*page, body, at.clone(), &bytes[within.clone()])?;
        }
        Ok(())
    })?;
    Ok(new)
}

fn place_of_free<W: PagesMut>(steps: &Steps<'_, W>, shape: &KeptShape, page: PageId) -> Result<Place, Error> {
    let reader = steps.reader();
    let body = reader.finish(page)?;
    kind::expect_kind(page, &body, PageKind::Node)?;
    let slot = free_slot(&steps.layout(), &body).ok_or_else(|| Error::corrupt(page, "it has no free slot"))?;
    shape.of_slot(page, &body, slot)
}

/// Places for the vectors of a new page of nodes, from the newest group, or from another one
/// if too few are left. `None` if the index keeps no vectors.
pub(super) fn new_places<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<Option<Place>, Error> {
    let Some(shape) = steps.meta().kept() else { return Ok(None) };
    let (pages, places) = shape.group();
    let slots = steps.layout().nodes_per_page as u32;
    let change = &steps.meta().change;
    let is_full = change.kept_page == 0 || change.kept_used.saturating_add(slots) > places;
    let first = if is_full { steps.allocate(pages)?.0 } else { change.kept_page };
    let used = if is_full { 0 } else { steps.meta().change.kept_used };
    steps.step_meta(&[], &mut |meta, _| {
        (meta.change.kept_page, meta.change.kept_used) = (first, used + slots);
        Ok(())
    })?;
    Ok(Some(shape.place(first, used)))
}

/// The bytes of a node's vector; none if the index keeps no vectors.
pub(in crate::index::change) fn kept_vector<W: PagesMut>(
    steps: &Steps<'_, W>,
    node: NodeId,
) -> Result<Vec<u8>, Error> {
    let (mut bytes, reader) = (Vec::new(), steps.reader());
    if let Some(shape) = steps.meta().kept() {
        shape.read(&reader, shape.place_of(&steps.layout(), &reader, node)?, &mut bytes)?;
    }
    Ok(bytes)
}
