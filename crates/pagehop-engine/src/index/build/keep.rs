//! Kept vectors of a bulk build, in the order of nodes.
//!
//! The source gives vectors in the order of rows. So a window of pages is filled in a scan of the
//! whole source, then the next: as many scans as windows, which are as large as memory allows.

use std::borrow::Cow;

use super::job::Job;
use super::memory::kept_bytes_min;
use super::survey::{Rescan, Survey};
use crate::columns::ColumnRows;
use crate::page::kept_vectors::{KeptShape, rounded};
use crate::page::kind::{self, PageKind};
use crate::page::layout::NodeLayout;
use crate::page::{BODY_BYTES, PageId, PageSink};
use crate::{EachChunk, Error, IdKind, VectorSource, Vectors};

/// A source whose vectors are as the index has them.
pub(super) struct Rounded<'s> {
    pub(super) source: &'s mut dyn VectorSource,
    pub(super) vectors: Vectors,
    pub(super) id_kind: IdKind,
}

impl VectorSource for Rounded<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn row_count(&self) -> Option<u64> {
        self.source.row_count()
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let (vectors, id_kind, mut first) = (self.vectors, self.id_kind, 0);
        self.source.scan(&mut |ids, components| {
            let given: Cow<'_, [f32]> = rounded(vectors, (id_kind, ids), components, first)?;
            first += ids.len();
            each(ids, &given)
        })
    }

    fn columns(&self) -> Option<&ColumnRows> {
        self.source.columns()
    }
}

/// Refuses to keep vectors that the host has.
pub(super) fn check(id_kind: IdKind, vectors: Vectors, payload: bool) -> Result<(), Error> {
    if id_kind == IdKind::HostOwned && payload {
        return Err(Error::argument("the host of this index owns its rows, so the index keeps no payloads"));
    }
    if vectors == Vectors::Codes || id_kind != IdKind::HostOwned {
        return Ok(());
    }
    Err(Error::argument(format!("the host of this index has its vectors: they are {}, not codes", vectors.name())))
}

/// Writes the vectors of all rows to pages from `first` on; returns the page after them. The place
/// of a row is that of its node, counted from `node_first`.
pub(super) fn write_vectors(
    job: &mut Job<'_>,
    source: &mut dyn VectorSource,
    survey: &Survey,
    (shape, layout): (&KeptShape, &NodeLayout),
    (node_of, node_pages): (&[u32], std::ops::Range<u32>),
    sink: &mut dyn PageSink,
) -> Result<u32, Error> {
    let (first, slots) =
        (node_pages.end, u64::from(node_pages.end - node_pages.start) * layout.nodes_per_page as u64);
    let pages = shape.pages(slots) as u32;
    let node_first = node_pages.start * layout.nodes_per_page as u32;
    let (dim, total) = (source.dim(), survey.row_ids.len());
    let least = kept_bytes_min(job.options.vectors, total, dim);
    let spare = job.options.memory_bytes.saturating_sub(survey.needed_bytes).max(least);
    let each = shape.pages_each();
    let window = (spare / BODY_BYTES as u64 / u64::from(each)).clamp(1, pages.into()) as u32 * each;
    for start in (0..pages).step_by(window as usize) {
        let end = (start + window).min(pages);
        let mut bodies = vec![0; (end - start) as usize * BODY_BYTES];
        bodies.chunks_exact_mut(BODY_BYTES).for_each(|body| kind::clear(body, PageKind::Vectors));
        let mut scan = Rescan::of(survey);
        source.scan(&mut |ids, chunk| {
            for (row, vector) in (scan.take(ids, chunk)?..).zip(chunk.chunks_exact(dim)) {
                let place = shape.place(0, node_of[row] - node_first);
                if (start..end).contains(&place.page) {
                    let bytes = shape.encode(vector);
                    for (page, at, within) in shape.parts(place) {
                        let body = &mut bodies[(page.0 - start) as usize * BODY_BYTES..][..BODY_BYTES];
                        KeptShape::write(page, body, at, &bytes[within])?;
                    }
                }
            }
            Ok(())
        })?;
        scan.end()?;
        for (page, body) in (first + start..).zip(bodies.chunks_exact(BODY_BYTES)) {
            sink.write(PageId(page), body)?;
        }
        job.step("vectors", end.into(), pages.into())?;
    }
    Ok(first + pages)
}
