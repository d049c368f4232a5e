//! Insertions make landmarks, more often than a build does while the index is small.
//!
//! A new landmark goes to the current page of the chain. When that page is full, another is added,
//! as long as the index has fewer landmarks than its number of slots requires. Then the oldest
//! pages are used again, one after the other, so landmarks of removed rows do not stay.
//!
//! If another writer changes the chain first, the landmark is dropped: landmarks are hints, and
//! there are enough of them.

use crate::Error;
use crate::ids::NodeId;
use crate::index::change::encode::Target;
use crate::index::change::graph::Graph;
use crate::page::landmark_pages;
use crate::page::meta::Meta;
use crate::page::{PageId, PagesMut, Reader};
use crate::quantize::landmarks::{Landmark, inserted_every, inserted_landmarks};

/// Pages that the chain may have in any case.
const PAGES_MIN: usize = 4;

/// The outcome for a landmark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Yes,
    /// The page is full.
    Full,
    /// Another writer changed the chain.
    No,
}

/// Makes a node that was inserted and has its anchor a landmark, if its id is chosen.
pub(super) fn make<W: PagesMut>(graph: &mut Graph<'_, W>, target: &Target) -> Result<(), Error> {
    let meta = graph.meta();
    let slots = meta.page_count as usize * meta.layout.nodes_per_page;
    if meta.change.landmarks_head == 0 || !is_chosen(target.node, inserted_every(slots)) {
        return Ok(());
    }
    let Target { node, generation, centroid, factors, ref code } = *target;
    let landmark = Landmark { node, generation, centroid, factors, code: code.clone() };
    let page = PageId(meta.change.landmarks_page);
    if push(graph, page, &landmark)? == Made::Full {
        let most = inserted_landmarks(slots).max(PAGES_MIN * landmark_pages::page_landmarks(graph.meta()));
        match (graph.meta().change.landmarks as usize) < most {
            true => add_page(graph, page, &landmark)?,
            false => graph.in_section(|graph| use_again(graph, page, &landmark))?,
        }
    }
    graph.renew_landmarks()
}

/// Adds a landmark to the current page.
fn push<W: PagesMut>(graph: &mut Graph<'_, W>, page: PageId, landmark: &Landmark) -> Result<Made, Error> {
    let mut made = Made::No;
    graph.steps_mut().step_meta(&[page], &mut |meta, bodies| {
        if meta.change.landmarks_page != page.0 {
            return Ok(());
        }
        made = match landmark_pages::push(meta, page, bodies[0], landmark)? {
            true => Made::Yes,
            false => Made::Full,
        };
        if made == Made::Yes {
            count(meta);
        }
        Ok(())
    })?;
    Ok(made)
}

/// Adds a page with the landmark to the chain, after the one that is `full`.
fn add_page<W: PagesMut>(graph: &mut Graph<'_, W>, full: PageId, landmark: &Landmark) -> Result<(), Error> {
    graph.in_section(|graph| {
        if graph.meta().change.landmarks_page != full.0 {
            // Another writer has added one.
            return Ok(());
        }
        let page = graph.steps_mut().allocate(1)?;
        graph.steps_mut().step_meta(&[page], &mut |meta, bodies| {
            landmark_pages::init(bodies[0], meta.change.landmarks_head);
            landmark_pages::push(meta, page, bodies[0], landmark)?;
            (meta.change.landmarks_head, meta.change.landmarks_page) = (page.0, page.0);
            count(meta);
            Ok(())
        })
    })
}

/// Clears the page after the one that is `full`, and adds the landmark there.
fn use_again<W: PagesMut>(graph: &mut Graph<'_, W>, full: PageId, landmark: &Landmark) -> Result<(), Error> {
    let next = {
        let reader = graph.steps().reader();
        let body = reader.finish(full)?;
        landmark_pages::head(graph.meta(), full, &body)?.next
    };
    let page = PageId(if next == 0 { graph.meta().change.landmarks_head } else { next });
    graph.steps_mut().step_meta(&[page], &mut |meta, bodies| {
        if meta.change.landmarks_page != full.0 {
            return Ok(());
        }
        let head = landmark_pages::head(meta, page, bodies[0])?;
        let left = meta.change.landmarks.checked_sub(head.count as u32);
        meta.change.landmarks =
            left.ok_or_else(|| Error::corrupt(PageId(0), "it counts fewer landmarks than there are"))?;
        landmark_pages::init(bodies[0], head.next);
        landmark_pages::push(meta, page, bodies[0], landmark)?;
        meta.change.landmarks_page = page.0;
        count(meta);
        Ok(())
    })
}

/// Counts a landmark that was written.
fn count(meta: &mut Meta) {
    meta.change.landmarks += 1;
    meta.change.landmarks_made = meta.change.landmarks_made.wrapping_add(1);
}

/// Whether a node becomes a landmark: a hash of its id chooses one in `every`.
fn is_chosen(node: NodeId, every: usize) -> bool {
    let spread = u64::from(node).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    spread.is_multiple_of(every as u64)
}
