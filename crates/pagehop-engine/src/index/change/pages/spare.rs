//! Empty pages, kept for reuse by trees, lists, records or nodes.
//!
//! They are stored as pages of records without a record, in the list of these pages. A page of
//! nodes never becomes one: a stale edge may lead there.

use super::steps::Steps;
use crate::Error;
use crate::page::kind::{self, PageKind};
use crate::page::layout::FreeLink;
use crate::page::meta::Meta;
use crate::page::{PageId, PagesMut, Reader, record_pages};

/// A page for anything: the first of the list, or else a new one. What is on it means nothing. If
/// the change ends before a step writes it, a vacuum that is alone finds it ([`give_if_lost`]).
pub(super) fn take<W: PagesMut>(steps: &mut Steps<'_, W>) -> Result<PageId, Error> {
    loop {
        let (first, change) = (PageId(steps.meta().change.spare_head), &steps.meta().change);
        // In a file, pages below the end of a retired graph become pages of nodes, whatever is on
        // them but records.
        let is_retired = !steps.is_hosted() && first.0 < change.retired_end;
        if first.0 == 0 || is_retired {
            return steps.allocate(1);
        }
        if take_first(steps, first)? {
            return Ok(first);
        }
    }
}

/// Takes a page off the list, which it begins. `false` if another writer was faster.
pub(super) fn take_first<W: PagesMut>(steps: &mut Steps<'_, W>, first: PageId) -> Result<bool, Error> {
    let shared = steps.is_shared();
    let mut is_taken = false;
    steps.step_meta(&[first], &mut |meta, bodies| {
        is_taken = !shared || meta.change.spare_head == first.0;
        if !is_taken {
            return Ok(());
        }
        let link = FreeLink::read(bodies[0]);
        if !record_pages::entries(first, bodies[0])?.is_empty() || !link.listed {
            return Err(Error::corrupt(
                first,
                "it is in the list of empty pages, but it is not marked or not empty",
            ));
        }
        meta.change.spare_head = link.next;
        FreeLink::default().write(bodies[0]);
        Ok(())
    })?;
    Ok(is_taken)
}

/// Makes a page an empty one, at the front of the list.
pub(super) fn give(meta: &mut Meta, page: PageId, body: &mut [u8]) {
    record_pages::init(body);
    FreeLink { listed: true, next: meta.change.spare_head }.write(body);
    meta.change.spare_head = page.0;
}

/// Puts a page back into the list that a writer took off and did not use, if this writer is alone,
/// and the index has no records.
pub(in crate::index::change) fn give_if_lost<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    page: PageId,
) -> Result<(), Error> {
    if steps.is_shared() || steps.meta().has_places() {
        return Ok(());
    }
    let is_lost = {
        let reader = steps.reader();
        let body = reader.finish(page)?;
        let is_current = kind::graph(&body) == steps.meta().change.numbers.current;
        kind::kind(&body) == Some(PageKind::Records) && is_current && !FreeLink::read(&body).listed
    };
    if is_lost {
        steps.step_meta(&[page], &mut |meta, bodies| {
            give(meta, page, bodies[0]);
            Ok(())
        })?;
    }
    Ok(())
}
