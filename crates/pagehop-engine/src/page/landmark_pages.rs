//! The pages of landmarks: a chain of pages, to which insertions add.
//!
//! ```text
//! 0..1    kind of the page
//! 2..4    landmarks of the page
//! 4..8    next page, 0 on the last
//! 16..    landmarks: node (4 bytes), `add` and `factor` (4 each), generation, centroid, two zeros,
//!         edge code (whole words of 8 bytes)
//! ```
//!
//! Pages never leave the chain as long as the graph is used, and a landmark is a hint. So readers
//! need no snapshot of the chain: every entry was a landmark at some time.

use std::ops::Range;

use super::fields::{Fields, FieldsMut};
use super::kind::{self, PageKind, expect_kind};
use super::meta::Meta;
use super::{BODY_BYTES, PageId, PageSink, Reader};
use crate::Error;
use crate::quantize::edge::EdgeFactors;
use crate::quantize::landmarks::Landmark;

const COUNT_AT: usize = 2;
const ENTRIES_AT: usize = 16;
/// Bytes of a landmark before its code.
const FIXED_BYTES: usize = 16;
/// Pages of the chain that are read ahead.
const AHEAD: u32 = 16;

/// The head of a page, before its landmarks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LandmarkHead {
    /// Landmarks of the page.
    pub(crate) count: usize,
    /// The next page; 0 on the last.
    pub(crate) next: u32,
}

fn landmark_bytes(meta: &Meta) -> usize {
    FIXED_BYTES + meta.layout.edge.code_bytes()
}

/// Most landmarks of a page.
pub(crate) fn page_landmarks(meta: &Meta) -> usize {
    (BODY_BYTES - ENTRIES_AT) / landmark_bytes(meta)
}

/// Pages that `count` landmarks take.
pub(crate) fn pages(meta: &Meta, count: usize) -> u32 {
    count.div_ceil(page_landmarks(meta)) as u32
}

/// Writes the chain of a build, whose pages follow one another. Neighbors in `landmarks` go to
/// different pages, so that no page has all landmarks of a region: insertions overwrite whole
/// pages.
pub(crate) fn write(meta: &Meta, landmarks: &[Landmark], sink: &mut dyn PageSink) -> Result<(), Error> {
    let (first, count) = (meta.change.landmarks_head, pages(meta, landmarks.len()));
    for at in 0..count {
        let mut body = vec![0; BODY_BYTES];
        init(&mut body, if at + 1 < count { first + at + 1 } else { 0 });
        for landmark in landmarks.iter().skip(at as usize).step_by(count as usize) {
            push(meta, PageId(first + at), &mut body, landmark)?;
        }
        sink.write(PageId(first + at), &body)?;
    }
    Ok(())
}

/// Makes a body a page of the chain without landmarks.
pub(crate) fn init(body: &mut [u8], next: u32) {
    kind::clear(body, PageKind::Landmarks);
    FieldsMut::at(body, COUNT_AT + 2).u32(next);
}

/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of landmarks.
pub(crate) fn head(meta: &Meta, page: PageId, body: &[u8]) -> Result<LandmarkHead, Error> {
    expect_kind(page, body, PageKind::Landmarks)?;
    let mut fields = Fields::at(body, COUNT_AT);
    let head = LandmarkHead { count: fields.u16().into(), next: fields.u32() };
    if head.count > page_landmarks(meta) {
        return Err(Error::corrupt(page, format!("a page has room for fewer landmarks than {}", head.count)));
    }
    Ok(head)
}

/// Adds a landmark; says whether there was room.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of landmarks.
pub(crate) fn push(meta: &Meta, page: PageId, body: &mut [u8], new: &Landmark) -> Result<bool, Error> {
    let LandmarkHead { count, .. } = head(meta, page, body)?;
    if count == page_landmarks(meta) {
        return Ok(false);
    }
    let mut fields = FieldsMut::at(body, ENTRIES_AT + count * landmark_bytes(meta));
    fields.u32(new.node);
    fields.f32(new.factors.add);
    fields.f32(new.factors.factor);
    fields.bytes(&[new.generation, new.centroid, 0, 0]);
    new.code.iter().for_each(|word| fields.u64(*word));
    FieldsMut::at(body, COUNT_AT).u16(count as u16 + 1);
    Ok(true)
}

/// Passes each landmark of the chain to `each`, with its page. Pages that a build wrote follow one
/// another, so they are read ahead; behind them, as many pages as insertions have filled are read
/// ahead, too, which is of no use if they are of another kind.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a chain, or a landmark cannot be one; those of `each`; any error
/// of the reader.
pub(crate) fn scan(
    meta: &Meta,
    reader: &mut impl Reader,
    mut each: impl FnMut(PageId, &Landmark) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut landmark = Landmark::default();
    let mut page = PageId(meta.change.landmarks_head);
    let written = pages_of_a_build(meta);
    let mut started = written.start;
    for _ in 0..meta.page_count {
        if page.0 == 0 {
            return Ok(());
        }
        if written.contains(&page.0) {
            let ahead = started.max(page.0 + 1)..written.end.min((page.0 + 1).saturating_add(AHEAD));
            ahead.clone().for_each(|next| reader.start(PageId(next), 0..BODY_BYTES));
            started = started.max(ahead.end);
        }
        let next = {
            let body = reader.finish(page)?;
            let LandmarkHead { count, next } = head(meta, page, &body)?;
            for at in 0..count {
                read(meta, page, &body, at, &mut landmark)?;
                each(page, &landmark)?;
            }
            next
        };
        reader.release();
        page = PageId(next);
    }
    match page.0 {
        0 => Ok(()),
        _ => Err(Error::corrupt(page, "the chain of landmarks goes in circles")),
    }
}

/// The pages on which a build would put the present number of landmarks: those after the page of
/// the entry points.
fn pages_of_a_build(meta: &Meta) -> Range<u32> {
    let first = meta.change.entries_page.saturating_add(1);
    let end = first.saturating_add(pages(meta, meta.change.landmarks as usize));
    first..end.min(meta.page_count)
}

/// Reads the landmark at a place of a page.
fn read(meta: &Meta, page: PageId, body: &[u8], at: usize, landmark: &mut Landmark) -> Result<(), Error> {
    let mut fields = Fields::at(body, ENTRIES_AT + at * landmark_bytes(meta));
    let (node, factors) = (fields.u32(), EdgeFactors { add: fields.f32(), factor: fields.f32() });
    let [generation, centroid, _, _] = fields.bytes();
    if meta.layout.place(node).0 == PageId(0) || usize::from(centroid) >= meta.centroids {
        return Err(Error::corrupt(page, format!("landmark {at} is node {node} near centroid {centroid}")));
    }
    (landmark.node, landmark.factors) = (node, factors);
    (landmark.generation, landmark.centroid) = (generation, centroid);
    landmark.code.clear();
    landmark.code.extend((0..meta.layout.edge.words()).map(|_| fields.u64()));
    Ok(())
}
